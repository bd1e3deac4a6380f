"""Model files: a fitted model as JSON and tensors in one safetensors file, never code.

A forged file can have a valid digest: every value is validated before use, and sizes
are compared with the bytes of the file before anything is allocated. Loading and predicting a row
take at most four times the size of the file plus 200 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import suwr
from suwr._utils.validation import parameter_error
from suwr.data.costs import Costs, resolve_costs
from suwr.data.descriptions import resolve_columns
from suwr.data.encode import MAX_CATEGORIES, TableEncoder
from suwr.data.units import Patches
from suwr.estimators.base import (
    MAX_TENSORS,
    SUWRModel,
    check_reference,
    restore_predictor,
    restore_range,
)
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.container import Tensors, read_file, unpack
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.targets import check_scalars
from suwr.exceptions import ModelFileError
from suwr.nn.ensembles import ExternalPredictor
from suwr.nn.networks import Architecture, Network, SeparateNetwork, build
from suwr.training.config import TrainingConfig


def decode_parameter(value: Any) -> Any:
    """Inverse of `encode_parameter`."""
    if isinstance(value, dict) and set(value) == {"__patches__"}:
        shape, size, stride = value["__patches__"]
        pairs = [tuple(v) if isinstance(v, list) else v for v in (size, stride)]
        return Patches(tuple(shape), *pairs)
    if isinstance(value, dict) and set(value) == {"__training__"}:
        return TrainingConfig(**value["__training__"])
    if isinstance(value, dict) and set(value) == {"__costs__"}:
        return Costs(**decode_parameter(value["__costs__"]))
    if isinstance(value, dict) and set(value) == {"__items__"}:
        keys = [key for key, _ in value["__items__"]]
        # Large integers can be chosen to have equal hashes, which takes quadratic time.
        if not all(isinstance(k, str | float) or -(2**63) <= k < 2**64 for k in keys):
            raise ValueError("The keys of a parameter must be scalars of at most 64 bits.")
        return {key: decode_parameter(item) for key, item in value["__items__"]}
    if isinstance(value, dict):
        return {k: decode_parameter(v) for k, v in value.items()}
    return value


# Incremented when an older suwr would misread a file. Files of all earlier formats must load: a
# field that they lack needs a default with the meaning it had in the older version.
FORMAT = 2
KINDS: dict[str, type[SUWRModel]] = {k.__name__: k for k in (SUWRClassifier, SUWRRegressor)}
_HISTORY_KEYS = {"epoch", "phase", "training_loss", "validation_objective", "mean_cost"}


def load(path: str | os.PathLike[str], *, predictor: Any = None) -> Any:
    """Read a model that ``save`` wrote.

    Parameters
    ----------
    path : path
    predictor : object or None, default=None
        The ``predictor`` of a model that was fitted with one of your own, which the file does not
        contain. It must give the same predictions for reference rows as the one of ``fit``.

    Returns
    -------
    SUWRClassifier or SUWRRegressor

    Raises
    ------
    ModelFileError
        The file is truncated or altered, is not a suwr model, or requires a newer version of suwr
        or another ``predictor``.

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
    if predictor is not None and not callable(getattr(predictor, "predict_masked", None)):
        expected = "None or an object with a predict_masked(X, masks) method"
        raise parameter_error("predictor", "load", expected, predictor)
    return from_bytes(read_file(path), str(path), predictor)


def to_bytes(model: SUWRModel) -> bytes:
    """Return a fitted model as the bytes of a model file."""
    return model._to_bytes()


def from_bytes(data: bytes, name: str = "the model", predictor: Any = None) -> Any:
    """Restore a model from the bytes of a model file; ``name`` appears in error messages."""
    text, tensors = unpack(data, name)
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
        model = _restore(state, tensors, predictor)
        # A later version of suwr writes another file for the same model, so the digest cannot be
        # computed from the model.
        sha256 = hashlib.sha256(data).hexdigest()
        model._loaded_from_ = (sha256, model.policy_, model._certificate())
        return model
    except ModelFileError as error:
        raise ModelFileError(f"{name} cannot be loaded. {error}") from error
    except MemoryError:
        raise
    # Any other failure from here on is caused by the content of the file.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        raise ModelFileError(f"{name} is damaged: {reason}") from error


# The parts of a model.


def _restore(state: dict[str, Any], tensors: Tensors, predictor: Any) -> SUWRModel:
    version = str(state.get("version"))[:20]
    model = _make_model(KINDS[state["kind"]], state["params"], version)
    external = state.get("predictor")
    if (external is None) != (predictor is None):
        raise ModelFileError(
            "It has a predictor of its own: load it without 'predictor'."
            if external is None
            else "It was fitted with a 'predictor', which the file does not contain: pass the same "
            "one to suwr.load(path, predictor=...)."
        )
    model.predictor = predictor
    names, encoder = state["names"], TableEncoder.from_dict(state["encoder"])
    _check_encoder(encoder)
    model.n_features_in_ = len(encoder.names)
    if names is not None:
        if names != encoder.names:
            raise ModelFileError("Its column names are inconsistent.")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.history_ = _check_history(state.get("history", []))
    model.validation_ = {str(k): float(v) for k, v in dict(state.get("validation", {})).items()}
    model.choices_ = {str(k): str(v) for k, v in dict(state.get("choices", {})).items()}
    model._restore_target(state)
    model._restore_held_out(state)
    known = model.target_name_, model.target_.labels
    resolve_columns(model.columns, encoder, type(model).__name__, *known)
    model.weight_range_ = restore_range(
        state.get("weight_range"), model.sparsity_weight, type(model).__name__
    )
    a = _make_architecture(state["architecture"], tensors, version)
    declared = (len(encoder.column_of), len(encoder.names), model.target_.n_outputs)
    if (
        declared != (a.n_values, a.n_columns, a.n_outputs)
        or state["n_features"] != len(encoder.names)
        or a.conditioned != model._has_range
        or (a.informed and a.n_outputs < 2)
        # Before the patches are enumerated: a forged shape may have 10¹² of them.
        or (isinstance(model.groups, Patches) and model.groups.n_columns != a.n_columns)
        or encoder.unrecorded != (model.missing == "unrecorded")
    ):
        raise ModelFileError("Its parts are inconsistent.")
    own = None if external is None else restore_predictor(model, encoder, external)
    network = _make_network(a, tensors, own)
    if (problem := model._size_problem(a)) is not None:
        raise ModelFileError(problem)
    units = model._resolve_units(encoder.names)
    if state.get("mean_costs") is not None:
        if Costs.read(model.costs).units is not None:
            raise ModelFileError("Its costs are given per unit and per row.")
        mean = resolve_costs(state["mean_costs"], units.names, type(model).__name__)
        units = replace(units, costs=mean, per_row=True)
    if len(units) != a.n_units:
        raise ModelFileError("Its parts are inconsistent.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    selectable = _selectable_units(state.get("selectable_units"), len(units))
    model._install(encoder, units, device, network.to(device), selectable)
    if external is not None:
        check_reference(model, external)
    model._restore_guarantees(state)
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


def _make_model(kind: type[SUWRModel], params: dict[str, Any], version: str) -> SUWRModel:
    decoded = _translated({k: decode_parameter(v) for k, v in params.items()})
    _check_known(decoded, kind._get_param_names(), "parameter", version)
    model = kind(**decoded)
    model._check_parameters()
    return model


# Former parameters that are fields of `Costs`.
_COSTS = {"setup_costs": "setup", "visit_cost": "visit", "units_per_step": "of"}


def _translated(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a file of any version by their present names."""
    moved = {new: params.pop(old) for old, new in _COSTS.items() if old in params}
    costs = Costs(params.get("costs"), **moved) if moved else None
    if costs is not None and costs != Costs(costs.units):
        params["costs"] = costs
    known = {field.name for field in fields(TrainingConfig)}
    former = {name: params.pop(name) for name in known & params.keys()}
    training, given = TrainingConfig(**former).to_dict(), params.get("training")
    if isinstance(given, dict):
        # Files of earlier versions may have settings that were removed since.
        params["training"] = training | {k: v for k, v in given.items() if k in known}
    elif training:
        params["training"] = training if given is None else replace(given, **training)
    # A path, which is an argument of `fit` now.
    params.pop("checkpoint", None)
    return params


def _make_architecture(stored: dict[str, Any], tensors: Tensors, version: str) -> Architecture:
    """Restore the architecture, after checking its numbers against the size of the tensors."""
    _check_known(stored, [f.name for f in fields(Architecture)], "architecture field", version)
    n_weights = sum(t.size for t in tensors.values() if t.dtype == np.float32)
    numbers = [v for v in stored.values() if isinstance(v, int | float)]
    numbers += stored.get("image_shape") or []
    # Every layer has tensors of its own, and so has every member of a convolutional ensemble.
    modules = [stored["n_layers"]]
    if stored.get("image_shape") is not None:
        modules.append(stored.get("n_members", 0))
    if len(tensors) > MAX_TENSORS:
        raise ModelFileError(f"It has too many tensors: {len(tensors):,}.")
    if not all(0 <= v <= n_weights for v in numbers) or max(modules) > len(tensors):
        raise ModelFileError("Its architecture does not match its tensors.")
    return Architecture.from_dict(stored)


def _make_network(
    architecture: Architecture, tensors: Tensors, predictor: ExternalPredictor | None
) -> Network:
    """Build the network of the tensors, which are removed from the dict."""
    # On the meta device, building allocates no memory and draws no initial weights.
    with torch.device("meta"):
        network = build(architecture)
    if predictor is not None:
        assert isinstance(network, SeparateNetwork)
        network.predictor = predictor
    shapes = {k: (str(v.dtype), tuple(v.shape)) for k, v in network.state_dict().items()}
    if shapes != {k: (f"torch.{v.dtype}", v.shape) for k, v in tensors.items()}:
        raise ModelFileError("Its architecture does not match its tensors.")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise ModelFileError("Its weights are not finite.")
    if not (tensors["stop_temperature"] > 0).all():
        raise ModelFileError("Its stop temperature is not positive.")
    # Copy one tensor at a time into memory that is aligned as torch aligns it.
    loaded = {k: torch.from_numpy(tensors.pop(k)).clone() for k in list(tensors)}
    network.load_state_dict(loaded, assign=True)
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
        if not code.has_valid_bins:
            raise ModelFileError(f"The bins of its column {name[:40]!r} are invalid.")
        if code.categories is not None:
            if len(code.categories) > MAX_CATEGORIES:
                raise ModelFileError(f"Its column {name[:40]!r} has too many categories.")
            check_scalars(code.categories, f"The categories of its column {name[:40]!r}")
            # The type of the column is that of its first category.
            if len({(isinstance(c, str), isinstance(c, bool)) for c in code.categories}) > 1:
                raise ModelFileError(f"Its column {name[:40]!r} has categories of mixed types.")


def _check_history(stored: Any) -> list[dict[str, Any]]:
    for record in stored:
        if set(record) != _HISTORY_KEYS or not all(
            value is None or isinstance(value, int | float | str) for value in record.values()
        ):
            raise ModelFileError("Its training history is invalid.")
    return list(stored)
