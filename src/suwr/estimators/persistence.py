"""Model files: what a fitted model consists of, as JSON and tensors. Data only, never code.

The container with its digest is `suwr.estimators.model_file`. Here the parts are put together
again, and nothing that a file says is believed before it was checked: a digest stops accidents, not
somebody who forges one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

import suwr
from suwr._utils.files import write_atomic
from suwr.data.encoding import TableEncoder
from suwr.data.units import Patches, Units, resolve_units
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.model_file import Tensors, join, read_bounded, split
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.weight_range import WeightRange
from suwr.exceptions import ModelFileError
from suwr.nn.networks import Architecture, Network, build

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["load", "save"]

# Raised when an older suwr would misread a file. Files of every earlier number load for ever:
# a field that they lack must have a default that means what the older version did.
FORMAT = 1
KINDS: dict[str, type[BaseSUWR]] = {
    "SUWRClassifier": SUWRClassifier,
    "SUWRRegressor": SUWRRegressor,
}
# Numbers learned by ``fit`` that a regressor has beyond a classifier.
_REGRESSION = ("target_mean_", "target_scale_")
# Units times columns of a model that is worth loading: a gigabyte of booleans.
_MAX_MEMBERSHIP = 2**30
_CLASS_DTYPES: dict[str, Any] = {
    "b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": str,
}  # fmt: skip


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
        state["classes"] = _encode_classes(model.classes_)
    else:
        state["target"] = [getattr(model, name) for name in _REGRESSION]
    return join(json.dumps(state, sort_keys=True, ensure_ascii=False), tensors)


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
    return from_bytes(read_bounded(path), str(path))


def from_bytes(data: bytes, name: str = "the model") -> Any:
    """Undo `to_bytes`; ``name`` is for errors."""
    text, tensors = split(data, name)
    try:
        state = json.loads(text)
        found = state.get("format") if isinstance(state, dict) else None
        if type(found) is not int or found < 1:
            raise ModelFileError("It is not a model of suwr.")
        if found > FORMAT:
            raise ModelFileError(
                f"It has format {found}, written by suwr {str(state.get('version'))[:20]}; this is "
                f"suwr {suwr.__version__}, which reads up to format {FORMAT}. Upgrade suwr."
            )
        return _restore(state, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{name} cannot be loaded. {error}") from error
    except Exception as error:  # whatever goes wrong from here on, the file is to blame
        reason = f"{type(error).__name__}: {error}"[:300]
        raise ModelFileError(f"{name} is damaged: {reason}") from error


def _restore(state: dict[str, Any], tensors: Tensors) -> BaseSUWR:
    version = str(state.get("version"))[:20]
    model = _make_model(KINDS[state["kind"]], state["params"], version)
    names, encoder = state["names"], TableEncoder.from_dict(state["encoder"])
    _check_encoder(encoder)
    model.n_features_in_ = len(encoder.names)
    if names is not None:
        if names != encoder.names:
            raise ModelFileError("Its column names do not agree with each other.")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.constant_loss_ = float(state["constant_loss"])
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
        raise ModelFileError("Its parts do not fit each other.")
    declared = (len(encoder.column_of), len(encoder.names), len(units), model._n_outputs())
    if declared != (a.n_values, a.n_columns, a.n_units, a.n_outputs) or (
        state["n_features"] != len(encoder.names)
    ):
        raise ModelFileError("Its parts do not fit each other.")
    network = _make_network(a, tensors)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model._install(encoder, units, device, network.to(device))
    return model


def _make_model(kind: type[BaseSUWR], params: dict[str, Any], version: str) -> BaseSUWR:
    _check_known(params, kind._get_param_names(), "parameter", version)
    model = kind(**{k: _decode_param(v) for k, v in params.items()})
    model._validate_params()
    model._check_sparsity()
    model._training_config()
    return model


def _make_units(model: BaseSUWR, columns: list[str]) -> Units:
    """The units of a table, unless they would fill the memory."""
    grid = model.groups.n_columns if isinstance(model.groups, Patches) else 0
    if max(len(columns), grid) * len(columns) > _MAX_MEMBERSHIP:
        raise ModelFileError(f"It has {len(columns)} columns, which are too many.")
    return resolve_units(model.groups, model.costs, columns, type(model).__name__)


def _make_architecture(stored: dict[str, Any], tensors: Tensors, version: str) -> Architecture:
    """The architecture, as long as no number in it exceeds what the tensors could need."""
    _check_known(stored, [f.name for f in fields(Architecture)], "architecture field", version)
    n_weights = sum(t.size for t in tensors.values())
    numbers = [v for v in stored.values() if isinstance(v, int | float)]
    numbers += stored.get("image_shape") or []
    if not all(0 <= v <= n_weights for v in numbers) or stored["n_layers"] > len(tensors):
        raise ModelFileError("Its architecture does not fit its tensors.")
    return Architecture.from_dict(stored)


def _make_network(architecture: Architecture, tensors: Tensors) -> Network:
    """The network, after a trial on a device that allocates nothing."""
    with torch.device("meta"):
        shapes = {k: (v.dtype, tuple(v.shape)) for k, v in build(architecture).state_dict().items()}
    loaded = {k: torch.from_numpy(v.copy()) for k, v in tensors.items()}
    if {k: (v.dtype, tuple(v.shape)) for k, v in loaded.items()} != shapes:
        raise ModelFileError("Its architecture does not fit its tensors.")
    # New weights are drawn, only to be replaced: the caller's random numbers stay as they were.
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
    """Refuse column codes that would fail, or warn, in the middle of a prediction."""
    if len(encoder.names) != len(encoder.codes) or len(set(encoder.names)) != len(encoder.names):
        raise ModelFileError("Its column names and codes do not fit each other.")
    for name, code in zip(encoder.names, encoder.codes, strict=True):
        if not (np.isfinite([code.center, code.scale]).all() and code.scale > 0):
            raise ModelFileError(f"The scale of its column {name[:40]!r} is not usable.")
        if code.categories is not None:
            _check_scalars(code.categories, f"The categories of its column {name[:40]!r}")


def _check_scalars(values: Any, what: str) -> None:
    """Plain values, each of them once."""
    if not all(isinstance(v, bool | int | float | str) for v in values):
        raise ModelFileError(f"{what} are not plain values.")
    if len(set(values)) != len(values):
        raise ModelFileError(f"{what} are not all different.")


def _names(model: BaseSUWR) -> list[str] | None:
    return model.feature_names_in_.tolist() if hasattr(model, "feature_names_in_") else None


def _encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    if not all(isinstance(v, bool | int | float | str) for v in values):
        raise ValueError(
            "Classes must be numbers, text or booleans to be saved. "
            f"Got the class {values[0]!r} instead."
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
            raise ModelFileError("Its classes have a type that is not theirs.")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values:
        raise ModelFileError("Its classes are not of the type that it says.")
    return classes


def _encode_param(value: Any) -> Any:
    """A constructor argument as plain values; Patches are marked."""
    if isinstance(value, Patches):
        return {"__patches__": [list(value.shape), value.size, value.stride]}
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
    # A RandomState has no plain form; it only mattered to the fit that is over.
    return None


def _decode_param(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"__patches__"}:
        shape, size, stride = value["__patches__"]
        pairs = [tuple(v) if isinstance(v, list) else v for v in (size, stride)]
        return Patches(tuple(shape), *pairs)
    return value
