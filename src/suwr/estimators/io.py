"""Model files: a fitted model as JSON and tensors in one safetensors file, never code.

The JSON text and a SHA-256 digest are in the header of the file. The digest detects accidental
damage, not forgery: every value is validated before use, reading runs no code, and the memory it
takes is proportional to the size of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

import suwr
from suwr._utils.files import write_atomic
from suwr.data.encoding import TableEncoder
from suwr.data.units import Patches, Units, resolve_units
from suwr.estimators.base import BaseSUWR
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.weight_range import WeightRange
from suwr.exceptions import ModelFileError
from suwr.nn.networks import Architecture, Network, build
from suwr.training.config import TrainingConfig, current_names

__all__ = ["digest", "from_bytes", "load", "save", "to_bytes"]

Tensors = dict[str, NDArray[Any]]

# Incremented when an older suwr would misread a file. Files of all earlier formats must load: a
# field that they lack needs a default with the meaning it had in the older version.
FORMAT = 1
KINDS: dict[str, type[BaseSUWR]] = {
    "SUWRClassifier": SUWRClassifier,
    "SUWRRegressor": SUWRRegressor,
}
# Parsed JSON takes up to 25 times its length in memory; real models need far less than this.
MAX_HEADER = 16 * 2**20
MAX_FILE = 4 * 2**30
# Largest units × columns matrix to allocate: one gigabyte of booleans.
_MAX_MEMBERSHIP = 2**30
# Fitted attributes of a regressor that a classifier does not have.
_REGRESSION = ("target_mean_", "target_scale_")
_HISTORY_KEYS = {"epoch", "phase", "training_loss", "validation_objective", "mean_cost"}
_CLASS_DTYPES: dict[str, Any] = {
    "b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": str,
}  # fmt: skip


def save(model: BaseSUWR, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; an existing file is replaced atomically."""
    write_atomic(path, to_bytes(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that ``save`` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    SUWRClassifier or SUWRRegressor

    Raises
    ------
    ModelFileError
        The file is truncated or altered, is not a suwr model, or requires a newer version of suwr.

    Examples
    --------
    >>> import tempfile, os
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, load
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.suwr")
    >>> clf.save(path)
    >>> bool((load(path).predict(X) == clf.predict(X)).all())
    True
    """
    return from_bytes(_read_bounded(path), str(path))


def to_bytes(model: BaseSUWR) -> bytes:
    """Return a fitted model as the bytes of a model file."""
    network = model.policy_.network
    tensors = {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()}
    named = hasattr(model, "feature_names_in_")
    state: dict[str, Any] = {
        "format": FORMAT,
        "version": suwr.__version__,
        "kind": type(model).__name__,
        "params": {k: _encode_param(v) for k, v in model.get_params(deep=False).items()},
        "names": model.feature_names_in_.tolist() if named else None,
        "n_features": int(model.n_features_in_),
        "encoder": model.encoder_.to_dict(),
        "architecture": network.architecture.to_dict(),
        "constant_loss": model.constant_loss_,
        "history": model.history_,
        "choices": model.choices_,
        "validation": model.validation_,
    }
    if not model.selectable_units_.all():
        state["selectable_units"] = np.flatnonzero(model.selectable_units_).tolist()
    if model.weight_range_ is not None:
        state["weight_range"] = model.weight_range_.to_dict()
    if isinstance(model, SUWRClassifier):
        state["classes"] = _encode_classes(model.classes_)
    else:
        state["target"] = [getattr(model, name) for name in _REGRESSION]
    return _pack(json.dumps(state, sort_keys=True, ensure_ascii=False), tensors)


def from_bytes(data: bytes, name: str = "the model") -> Any:
    """Restore a model from the bytes of a model file; ``name`` appears in error messages."""
    text, tensors = _unpack(data, name)
    try:
        state = json.loads(text)
        found = state.get("format") if isinstance(state, dict) else None
        if type(found) is not int or found < 1:
            raise ModelFileError("It is not a suwr model.")
        if found > FORMAT:
            raise ModelFileError(
                f"It has format {found}, written by suwr {str(state.get('version'))[:20]}; this is "
                f"suwr {suwr.__version__}, which reads up to format {FORMAT}. Upgrade suwr."
            )
        return _restore(state, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{name} cannot be loaded. {error}") from error
    except Exception as error:  # any failure from here on is caused by the content of the file
        reason = f"{type(error).__name__}: {error}"[:300]
        raise ModelFileError(f"{name} is damaged: {reason}") from error


def digest(text: str, tensors: Tensors) -> str:
    """Return the SHA-256 digest of the text and the tensors."""
    sha = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        sha.update(f"\0{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


# The container.


def _pack(text: str, tensors: Tensors) -> bytes:
    data = tensor_bytes(tensors, {"suwr": text, "sha256": digest(text, tensors)})
    start = 8 + _header_size(data)
    # safetensors does not fix the order of its header; sorted, equal models give equal files.
    header = json.dumps(json.loads(data[8:start]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"Names, categories and history of a model must fit into {MAX_HEADER:,} bytes of "
            f"JSON. Got {len(header):,} bytes instead."
        )
    return len(header).to_bytes(8, "little") + header + data[start:]


def _unpack(data: bytes, name: str) -> tuple[str, Tensors]:
    """Return the text and the tensors of a file, after verifying the digest."""
    _check_header(data[:8], len(data), name)
    try:
        metadata = json.loads(data[8 : 8 + _header_size(data)])["__metadata__"]
        text, stored = metadata["suwr"], metadata["sha256"]
        tensors = read_tensors(data)
        found = digest(text, tensors)
    except Exception as error:  # arbitrary bytes can raise any exception
        raise _not_a_model(name) from error
    if found != stored:
        raise ModelFileError(f"{name} was altered or damaged: the digest does not match.")
    return text, tensors


def _read_bounded(path: str | os.PathLike[str]) -> bytes:
    """Read a file of plausible size; pipes and devices, which may never end, are refused."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ModelFileError(f"{path} is not a suwr model file: it is not a regular file.")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        _check_header(start, size, str(path))
        return start + file.read(size - len(start))


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _check_header(start: bytes, size: int, name: str) -> None:
    if len(start) < 8 or _header_size(start) > min(MAX_HEADER, size - 8) or size > MAX_FILE:
        raise _not_a_model(name)


def _not_a_model(name: str) -> ModelFileError:
    return ModelFileError(f"{name} is not a suwr model file, or it is truncated.")


# The parts of a model.


def _restore(state: dict[str, Any], tensors: Tensors) -> BaseSUWR:
    version = str(state.get("version"))[:20]
    model = _make_model(KINDS[state["kind"]], state["params"], version)
    names, encoder = state["names"], TableEncoder.from_dict(state["encoder"])
    _check_encoder(encoder)
    model.n_features_in_ = len(encoder.names)
    if names is not None:
        if names != encoder.names:
            raise ModelFileError("Its column names are inconsistent.")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.constant_loss_ = float(state["constant_loss"])
    model.history_ = _check_history(state.get("history", []))
    model.validation_ = {str(k): float(v) for k, v in dict(state.get("validation", {})).items()}
    model.choices_ = {str(k): str(v) for k, v in dict(state.get("choices", {})).items()}
    if isinstance(model, SUWRClassifier):
        model.classes_ = _decode_classes(state["classes"])
    else:
        for attribute, value in zip(_REGRESSION, state["target"], strict=True):
            setattr(model, attribute, float(value))
    stored = state.get("weight_range")
    model.weight_range_ = None if stored is None else WeightRange.from_dict(stored)
    units = _make_units(model, encoder.names)
    a = _make_architecture(state["architecture"], tensors, version)
    if a.conditioned != (model.weight_range_ is not None) or (a.informed and a.n_outputs < 2):
        raise ModelFileError("Its parts are inconsistent.")
    declared = (len(encoder.column_of), len(encoder.names), len(units), model._n_outputs())
    if declared != (a.n_values, a.n_columns, a.n_units, a.n_outputs) or (
        state["n_features"] != len(encoder.names)
    ):
        raise ModelFileError("Its parts are inconsistent.")
    network = _make_network(a, tensors)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    selectable = _selectable_units(state.get("selectable_units"), len(units))
    model._install(encoder, units, device, network.to(device), selectable)
    return model


def _selectable_units(stored: Any, n_units: int) -> NDArray[np.bool_] | None:
    if stored is None:
        return None
    numbers = np.array(stored)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
        raise ModelFileError("Its selectable units are not numbers of units.")
    if numbers.min() < 0 or numbers.max() >= n_units:
        raise ModelFileError("Its selectable units do not exist.")
    return np.isin(np.arange(n_units), numbers)


def _make_model(kind: type[BaseSUWR], params: dict[str, Any], version: str) -> BaseSUWR:
    _check_known(params, kind._get_param_names(), "parameter", version)
    decoded = {k: _decode_param(v) for k, v in params.items()}
    if isinstance(decoded.get("training"), dict):
        # Files of earlier versions may have settings that were renamed or removed since.
        decoded["training"] = current_names(decoded["training"])
    model = kind(**decoded)
    model._check_parameters()
    return model


def _make_units(model: BaseSUWR, columns: list[str]) -> Units:
    """Resolve the units, unless their matrix would exhaust the memory."""
    grid = model.groups.n_columns if isinstance(model.groups, Patches) else 0
    if max(len(columns), grid) * len(columns) > _MAX_MEMBERSHIP:
        raise ModelFileError(f"It has too many columns: {len(columns)}.")
    return resolve_units(model.groups, model.costs, columns, type(model).__name__)


def _make_architecture(stored: dict[str, Any], tensors: Tensors, version: str) -> Architecture:
    """Restore the architecture, after checking its numbers against the size of the tensors."""
    _check_known(stored, [f.name for f in fields(Architecture)], "architecture field", version)
    n_weights = sum(t.size for t in tensors.values())
    numbers = [v for v in stored.values() if isinstance(v, int | float)]
    numbers += stored.get("image_shape") or []
    if not all(0 <= v <= n_weights for v in numbers) or stored["n_layers"] > len(tensors):
        raise ModelFileError("Its architecture does not match its tensors.")
    return Architecture.from_dict(stored)


def _make_network(architecture: Architecture, tensors: Tensors) -> Network:
    # The meta device gives the expected shapes without allocating memory.
    with torch.device("meta"):
        shapes = {k: (v.dtype, tuple(v.shape)) for k, v in build(architecture).state_dict().items()}
    loaded = {k: torch.from_numpy(v.copy()) for k, v in tensors.items()}
    if {k: (v.dtype, tuple(v.shape)) for k, v in loaded.items()} != shapes:
        raise ModelFileError("Its architecture does not match its tensors.")
    # Building draws initial weights: restore torch's global generator afterwards.
    with torch.random.fork_rng(devices=[]):
        network = build(architecture)
    network.load_state_dict(loaded)
    return network


def _check_known(given: dict[str, Any], known: list[str], what: str, version: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ModelFileError(
            f"It has the {what} {unknown[0][:40]!r}, which suwr {suwr.__version__} does not know; "
            f"suwr {version} wrote it."
        )


def _check_encoder(encoder: TableEncoder) -> None:
    """Refuse column codes that would fail, or warn, during prediction."""
    if len(encoder.names) != len(encoder.codes) or len(set(encoder.names)) != len(encoder.names):
        raise ModelFileError("Its column names and codes are inconsistent.")
    for name, code in zip(encoder.names, encoder.codes, strict=True):
        if not (np.isfinite([code.center, code.scale]).all() and code.scale > 0):
            raise ModelFileError(f"The scale of its column {name[:40]!r} is invalid.")
        if code.categories is not None:
            _check_scalars(code.categories, f"The categories of its column {name[:40]!r}")


def _check_scalars(values: Any, what: str) -> None:
    if not all(isinstance(v, bool | int | float | str) for v in values):
        raise ModelFileError(f"{what} are not scalars.")
    if len(set(values)) != len(values):
        raise ModelFileError(f"{what} are not unique.")


def _check_history(stored: Any) -> list[dict[str, Any]]:
    for record in stored:
        if set(record) != _HISTORY_KEYS or not all(
            value is None or isinstance(value, int | float | str) for value in record.values()
        ):
            raise ModelFileError("Its training history is invalid.")
    return list(stored)


# Parameters and classes.


def _encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    if not all(isinstance(v, bool | int | float | str) for v in values):
        raise ValueError(
            "Class labels must be numbers, strings or booleans to be saved. "
            f"Got {values[0]!r} instead."
        )
    return {"kind": classes.dtype.kind, "dtype": classes.dtype.name, "values": values}


def _decode_classes(stored: dict[str, Any]) -> NDArray[Any]:
    values, kind = stored["values"], stored["kind"]
    if not isinstance(values, list) or len(values) < 2:
        raise ModelFileError("It has fewer than two classes.")
    _check_scalars(values, "Its classes")
    dtype = _CLASS_DTYPES.get(kind, object)
    if kind in ("i", "u", "f") and "dtype" in stored:
        dtype = np.dtype(stored["dtype"])
        if dtype.kind != kind:
            raise ModelFileError("The type of its classes is inconsistent.")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values:
        raise ModelFileError("The type of its classes is inconsistent.")
    return classes


def _encode_param(value: Any) -> Any:
    """Convert a constructor parameter to JSON types; objects of suwr are marked."""
    if isinstance(value, Patches):
        return {"__patches__": [list(value.shape), value.size, value.stride]}
    if isinstance(value, TrainingConfig):
        return {"__training__": value.to_dict()}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Mapping):
        return {str(k): _encode_param(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_encode_param(v) for v in value]
    # A RandomState has no JSON form, and a fitted model no longer needs it.
    return None


def _decode_param(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"__patches__"}:
        shape, size, stride = value["__patches__"]
        pairs = [tuple(v) if isinstance(v, list) else v for v in (size, stride)]
        return Patches(tuple(shape), *pairs)
    if isinstance(value, dict) and set(value) == {"__training__"}:
        return TrainingConfig(**value["__training__"])
    return value
