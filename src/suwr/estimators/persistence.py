"""Model files: one safetensors file whose header carries JSON. Data only, never code.

A digest over everything makes an altered file fail as a whole instead of predicting something
else.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

import suwr
from suwr._files import write_atomic
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.encoding import TableEncoder
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.weight_range import WeightRange
from suwr.exceptions import ModelFileError
from suwr.masking import Patches, resolve_units
from suwr.nn.networks import Architecture, build

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["load", "save"]

FORMAT = 1
KINDS: dict[str, type[BaseSUWR]] = {
    "SUWRClassifier": SUWRClassifier,
    "SUWRRegressor": SUWRRegressor,
}
# Numbers learned by ``fit`` that a regressor has beyond a classifier.
_REGRESSION = ("target_mean_", "target_scale_")
# A model of a billion parameters is not a table model; a header this long is not ours.
_MAX_HEADER = 64 * 2**20


def save(model: BaseSUWR, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; an existing file is replaced in one step or not at all."""
    write_atomic(path, to_bytes(model))


def to_bytes(model: BaseSUWR) -> bytes:
    """A fitted model as the bytes of a model file."""
    network = model.policy_.network
    tensors = {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()}
    state: dict[str, Any] = {
        "format": FORMAT,
        "version": suwr.__version__,
        "kind": type(model).__name__,
        "params": {k: _encode_param(v) for k, v in model.get_params(deep=False).items()},
        "names": _names(model),
        "n_features": int(model.n_features_in_),
        "encoder": model.encoder_.to_dict(),
        "architecture": network.architecture.to_dict(),
        "constant_loss": model.constant_loss_,
    }
    if model.weight_range_ is not None:
        state["weight_range"] = model.weight_range_.to_dict()
    if isinstance(model, SUWRClassifier):
        state["classes"] = {"kind": model.classes_.dtype.kind, "values": model.classes_.tolist()}
    else:
        state["target"] = [getattr(model, name) for name in _REGRESSION]
    text = json.dumps(state, sort_keys=True, ensure_ascii=False)
    metadata = {"suwr": text, "sha256": _digest(text, tensors)}
    return tensor_bytes(tensors, metadata)


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
        The file is truncated, altered, not a model of suwr, or from a newer version of it.

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
    return from_bytes(Path(path).read_bytes(), str(path))


def from_bytes(data: bytes, name: str = "the model") -> Any:
    """Undo `to_bytes`; ``name`` is for errors."""
    text, tensors = _open(data, name)
    try:
        state = json.loads(text)
        if not isinstance(state, dict) or not isinstance(state.get("format"), int):
            raise ModelFileError(f"{name} is not a model file of suwr.")
        if state["format"] > FORMAT:
            raise ModelFileError(
                f"{name} has format {state['format']}, written by suwr {state.get('version')}; "
                f"this is suwr {suwr.__version__}, which reads up to format {FORMAT}. Upgrade suwr."
            )
        return _restore(state, tensors)
    except ModelFileError:
        raise
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, RuntimeError,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ModelFileError(f"{name} is damaged: {type(error).__name__}: {error}") from error


def _open(data: bytes, name: str) -> tuple[str, dict[str, NDArray[Any]]]:
    """Header text and tensors, once the digest agrees."""
    foreign = ModelFileError(f"{name} is not a model file of suwr, or it is truncated.")
    header_size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header_size > min(_MAX_HEADER, len(data) - 8):
        raise foreign
    try:
        header = json.loads(data[8 : 8 + header_size])
        metadata = header["__metadata__"]
        text, digest = metadata["suwr"], metadata["sha256"]
        tensors = read_tensors(data)
    except (SafetensorError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise foreign from error
    if not isinstance(text, str) or _digest(text, tensors) != digest:
        raise ModelFileError(f"{name} was altered or damaged: its digest does not agree.")
    return text, tensors


def _digest(text: str, tensors: dict[str, NDArray[Any]]) -> str:
    sha = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        sha.update(f"\0{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def _restore(state: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> BaseSUWR:
    kind = KINDS[state["kind"]]
    model = kind(**{k: _decode_param(v) for k, v in state["params"].items()})
    model.n_features_in_ = int(state["n_features"])
    if state["names"] is not None:
        model.feature_names_in_ = np.array(state["names"], dtype=object)
    model.constant_loss_ = float(state["constant_loss"])
    if isinstance(model, SUWRClassifier):
        model.classes_ = _decode_classes(state["classes"])
    else:
        for attribute, value in zip(_REGRESSION, state["target"], strict=True):
            setattr(model, attribute, float(value))
    encoder = TableEncoder.from_dict(state["encoder"])
    units = resolve_units(model.groups, model.costs, encoder.names, state["kind"])
    stored = state.get("weight_range")
    model.weight_range_ = None if stored is None else WeightRange.from_dict(stored)
    architecture = Architecture.from_dict(state["architecture"])
    if architecture.conditioned != (model.weight_range_ is not None):
        raise ModelFileError("The parts of the file do not fit each other.")
    _check_architecture(architecture, tensors)
    declared = (len(encoder.column_of), len(encoder.names), len(units), model._n_outputs())
    a = architecture
    if declared != (a.n_values, a.n_columns, a.n_units, a.n_outputs) or (
        len(encoder.names) != len(encoder.codes) or len(encoder.names) != model.n_features_in_
    ):
        raise ModelFileError("The parts of the file do not fit each other.")
    network = build(architecture)
    network.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in tensors.items()})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model._install(encoder, units, device, network.to(device))
    return model


def _check_architecture(a: Architecture, tensors: dict[str, NDArray[Any]]) -> None:
    """Refuse shapes that the tensors in the file do not have, before anything is allocated."""
    n_values = sum(t.size for t in tensors.values())
    declared = (a.n_values + a.n_columns) * a.hidden_size + a.hidden_size**2 * (a.n_layers - 1)
    if declared > n_values or a.n_layers > len(tensors):
        raise ModelFileError("The architecture in the file does not fit its tensors.")


def _names(model: BaseSUWR) -> list[str] | None:
    return model.feature_names_in_.tolist() if hasattr(model, "feature_names_in_") else None


def _decode_classes(stored: dict[str, Any]) -> NDArray[Any]:
    dtypes: dict[str, Any] = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": str}
    return np.array(stored["values"], dtype=dtypes.get(stored["kind"], object))


def _encode_param(value: Any) -> Any:
    """A constructor argument as plain values; Patches are marked."""
    if isinstance(value, Patches):
        return {"__patches__": [list(value.shape), value.size, value.stride]}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): _encode_param(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encode_param(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # A RandomState has no plain form; it only mattered to the fit that is over.
    return None


def _decode_param(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"__patches__"}:
        shape, size, stride = value["__patches__"]
        pairs = [tuple(v) if isinstance(v, list) else v for v in (size, stride)]
        return Patches(tuple(shape), *pairs)
    return value
