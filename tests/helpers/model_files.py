"""Model files as accidents and attackers make them, and a watch over what loading them does."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from suwr.estimators.container import digest

# Values that no field expects.
NASTY = (
    None, True, False, 0, -1, 1, 2, 3, 7, 10**6, 10**9, 10**30, -(10**30), 2**62 + 1, 0.5, -0.0,
    1e308, float("nan"), float("inf"), "", "x", "auto", "../../etc/passwd", "os.system",
    "__import__('os').system('true')", "\x00", "ü" * 50, "9" * 5000, [], [[]], [None], [0], ["a"],
    [1, "a", None], {}, {"a": 1}, {"__patches__": [[10**6, 10**6], 3, 1]}, [10**6, 10**6],
    {"__patches__": [[2**62 + 1, 4], 1, 1]}, {"__patches__": [[1, 5], 10**9, 10**9]},
    {"__reduce__": ["os.system", ["true"]]}, list(range(2000)), "{}", {"": {"": {"": []}}},
)  # fmt: skip


def take_apart(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    size = int.from_bytes(data[:8], "little")
    state = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["suwr"])
    return state, read_tensors(data)


def forged(state: Any, tensors: dict[str, np.ndarray]) -> bytes:
    """A file with a right digest, whatever it says."""
    text = state if isinstance(state, str) else json.dumps(state, sort_keys=True)
    return tensor_bytes(tensors, {"suwr": text, "sha256": digest(text, tensors)})


def resized(
    data: bytes, n_columns: int, *, n_classes: int = 1, hidden_size: int = 1, groups: Any = None,
    max_steps: int | None = None, reveals: bool = False,
) -> bytes:  # fmt: skip
    """A consistent model of another size, of weights zero, that reveals nothing or everything."""
    state, _ = take_apart(data)
    code = {"center": 0.0, "scale": 1.0, "categories": None, "has_missing": False}
    names = [f"x{i}" for i in range(n_columns)]
    n_units = n_columns - sum(len(g) - 1 for g in groups or [])
    state |= {
        "names": None,
        "n_features": n_columns,
        "encoder": {"names": names, "codes": [code] * n_columns},
        "params": state["params"] | {"groups": groups, "costs": None, "max_steps": max_steps},
        "architecture": {
            "n_values": n_columns, "n_columns": n_columns, "n_units": n_units,
            "n_outputs": n_classes, "hidden_size": hidden_size, "n_layers": 1, "n_members": 2,
        },
    }  # fmt: skip
    if n_classes > 1:
        state["classes"] = {"kind": "i", "dtype": "int64", "values": list(range(n_classes))}
    tensors = {"stop_temperature": np.ones((), np.float32)}
    for network, members, n_out in (("policy", 1, n_units + 1), ("predictor", 2, n_classes)):
        widths = [2 * n_columns, hidden_size, n_out]
        for layer in range(2):
            shape = members, widths[layer], widths[layer + 1]
            tensors[f"{network}.weights.{layer}"] = np.zeros(shape, np.float32)
            tensors[f"{network}.biases.{layer}"] = np.zeros((members, 1, shape[2]), np.float32)
    tensors["policy.biases.1"][..., 0] = 5.0 if reveals else -5.0
    return forged(state, tensors)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of every value inside a JSON value."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def flipped(data: bytes, rng: Random) -> bytes:
    altered = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        altered[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(altered)


def cut(data: bytes, rng: Random) -> bytes:
    start, stop = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice(
        (
            data[:start],
            data[start:],
            data[:start] + data[stop:],
            data[:stop] + data[start:],
            data + rng.randbytes(rng.randrange(1, 100)),
            data[:start] + rng.randbytes(stop - start) + data[stop:],
        )
    )


def rewritten_header(data: bytes, rng: Random) -> bytes:
    """Another length, or tensors that claim other types, shapes and places."""
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.1:
        return (
            rng.choice((0, 1, size - 1, size + 1, 2**40, 2**64 - 1)).to_bytes(8, "little")
            + (data[8:])
        )
    header = json.loads(data[8 : 8 + size])
    key = rng.choice([k for k in header if k != "__metadata__"] + ["__metadata__"])
    if key == "__metadata__":
        header[key][rng.choice(["suwr", "sha256", "more"])] = rng.choice(NASTY)
    else:
        field = rng.choice(["dtype", "shape", "data_offsets"])
        header[key][field] = rng.choice(
            (
                rng.choice(["F64", "I64", "BF16", "F8_E4M3", "BOOL", "U8", "C64", "x"]),
                [10**12, 10**12],
                [2**63, 2],
                [-1, -1],
                [0, 10**15],
                [rng.randrange(9999), rng.randrange(9999)],
                rng.choice(NASTY),
            )
        )
        if rng.random() < 0.3:
            header[rng.choice(["../" + key, "", "\x00"])] = header.pop(key)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def rewritten_state(data: bytes, rng: Random) -> bytes:
    """One to three values replaced, removed or copied elsewhere, under a right digest."""
    state, tensors = take_apart(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *path, last = rng.choice(list(places(state)))
        node = state
        for key in path:
            node = node[key]
        kind = rng.random()
        if kind < 0.1:
            del node[last]
        elif kind < 0.2:
            other = state
            for key in rng.choice(list(places(state))):
                other = other[key]
            node[last] = copy.deepcopy(other)
        else:
            added = kind < 0.3 and isinstance(node, dict)
            node["more" if added else last] = copy.deepcopy(rng.choice(NASTY))
    return forged(state, tensors)


def rewritten_tensors(data: bytes, rng: Random) -> bytes:
    """Tensors of other types and shapes, too many or too few, under a right digest."""
    state, tensors = take_apart(data)
    key = rng.choice(sorted(tensors))
    array = tensors[key]
    kind = rng.randrange(6)
    if kind == 0:
        tensors[key] = array.astype(rng.choice([np.float64, np.float16, np.int32, bool]))
    elif kind == 1:
        tensors[key] = array.reshape(-1)
    elif kind == 2:
        del tensors[key]
    elif kind == 3:
        tensors[rng.choice(["../../more", "", "predictor.weights.99"])] = array
    elif kind == 4:
        tensors[key] = np.zeros((*array.shape, 0), dtype=array.dtype)
    else:
        # Still a model, of other numbers.
        with np.errstate(invalid="ignore"):
            tensors[key] = np.full_like(array, rng.choice([np.nan, np.inf, 1e38, 0.0, -1.0]))
    return forged(state, tensors)


def rewritten_sizes(data: bytes, rng: Random) -> bytes:
    """A consistent model of any size, or one whose declared sizes are not those of its tensors."""
    if rng.random() < 0.5:
        state, tensors = take_apart(data)
        for _ in range(rng.choice((1, 1, 2, 3))):
            field = rng.choice(sorted(state["architecture"]))
            number = round(10 ** rng.uniform(0, 6))
            state["architecture"][field] = (
                [rng.randrange(1, 999), rng.randrange(1, 999)] if field == "image_shape" else number
            )
        if rng.random() < 0.5:
            # Enough bytes for the numbers, in tensors of other names.
            extra = np.zeros(rng.randrange(1, 200_000), rng.choice([np.float32, np.uint8]))
            tensors |= {f"more.{i}": extra[i::7] for i in range(7)}
        return forged(state, tensors)
    n_columns = round(10 ** rng.uniform(0, 4.5))
    classifier = "classes" in take_apart(data)[0]
    return resized(
        data, n_columns,
        n_classes=round(10 ** rng.uniform(0.31, 5)) if classifier else 1,
        hidden_size=rng.choice((1, 2, 8, 128 if n_columns < 1000 else 8)),
        groups=[[0, n_columns - 1]] if n_columns > 1 and rng.random() < 0.3 else None,
        max_steps=rng.choice((None, None, 1, 40, 200, n_columns)),
        reveals=rng.random() < 0.5,
    )  # fmt: skip


def deep(data: bytes, rng: Random) -> bytes:
    """JSON that is nested too deeply, in the header or in the text."""
    state, tensors = take_apart(data)
    depth = rng.choice((100, 900, 5000, 100_000))
    left, right = rng.choice((("[", "]"), ('{"a":', "}")))
    nested = left * depth + ("1" if left != "[" else "") + right * depth
    if rng.random() < 0.5:
        text = f'{{"__metadata__":{nested}}}'.encode()
        return len(text).to_bytes(8, "little") + text
    return forged(
        json.dumps(state)[:-1] + f',"{rng.choice(["params", "more"])}":{nested}}}', tensors
    )


# Without a right digest, a file is refused or carries the very same model.
ACCIDENTS = {"bit flips": flipped, "cuts and splices": cut, "headers": rewritten_header}
# With one it may be another model, but a working one.
FORGERIES = {
    "states": rewritten_state,
    "tensors": rewritten_tensors,
    "sizes": rewritten_sizes,
    "deep JSON": deep,
}

_FORBIDDEN = (
    "compile", "exec", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
    "socket.connect", "pickle.find_class", "ctypes.dlopen", "os.remove", "os.rename",
    "marshal.loads",
)  # fmt: skip
_seen: list[str] | None = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if event in _FORBIDDEN or writes:
        _seen.append(f"{event} {args!r:.80}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect what Python reports of code that is run, processes, sockets and written files."""
    global _seen
    if not getattr(sys, "_hostile_hook", False):
        sys.addaudithook(_hook)
        sys._hostile_hook = True  # a hook stays for ever: one is enough
    _seen = []
    try:
        yield _seen
    finally:
        _seen = None


def rows_for(model, X):
    """Return the rows of the original model in a form that a forged model accepts."""
    if model.n_features_in_ != X.shape[1]:
        return np.zeros((2, model.n_features_in_))
    # A model fitted without column names warns about a data frame.
    return X if hasattr(model, "feature_names_in_") else np.asarray(X)
