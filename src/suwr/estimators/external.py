"""The ``predictor`` parameter of the estimators: a predictor that is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray

from suwr._utils.validation import parameter_error
from suwr.data.encode import TableEncoder
from suwr.data.frame import is_frame
from suwr.estimators.export import reference_rows
from suwr.exceptions import ModelFileError, ModelOutputError
from suwr.nn.ensembles import ExternalPredictor
from suwr.training.actor import FixedPredictorTrainer

__all__ = [
    "check_predictor",
    "check_reference",
    "fixed_predictor_trainer",
    "predictor_state",
    "restore_predictor",
]

# Predictions whose logarithms are network outputs are raised to it.
SMALLEST = 1e-12
# Largest difference between the predictions of a predictor on two machines, relative beyond 1.
REFERENCE_TOLERANCE = 1e-4


class RowDecoder:
    """Rows of the user's table from masked encoded values; hidden cells are missing.

    Parameters
    ----------
    encoder : TableEncoder
    backend : narwhals Implementation or None
        Library of the frames; None makes arrays.
    """

    def __init__(self, encoder: TableEncoder, backend: Any) -> None:
        self.encoder, self.backend = encoder, backend

    def __call__(self, values: NDArray[np.float32], masks: NDArray[np.bool_]) -> Any:
        """Decode rows."""
        columns = self.encoder.decode(values, masks)
        if self.backend is not None:
            named = zip(self.encoder.names, columns, strict=True)
            series = {
                name: nw.new_series(name, column.tolist(), _type_of(column), backend=self.backend)
                for name, column in named
            }
            return nw.from_dict(series).to_native()
        if all(column.dtype.kind == "f" for column in columns):
            return np.column_stack(columns)
        rows = np.empty((len(values), len(columns)), dtype=object)
        for number, column in enumerate(columns):
            rows[:, number] = column
        return rows


def _type_of(column: NDArray[Any]) -> Any:
    return nw.Float64() if column.dtype.kind == "f" else None


def check_predictor(model: Any) -> None:
    """Raise an error if the ``predictor`` does not go with the other parameters."""
    if model.predictor is None:
        return
    owner = type(model).__name__
    if not callable(getattr(model.predictor, "predict_masked", None)):
        expected = "None or an object with a predict_masked(X, masks) method"
        raise parameter_error("predictor", owner, expected, model.predictor)
    for name, allowed in (
        ("trainer", ("auto", "actor")),
        ("network", ("mlp",)),
        ("checkpoint", (None,)),
    ):
        value = getattr(model, name)
        if value not in allowed:
            expected = f"{' or '.join(map(repr, allowed))} if 'predictor' is given"
            raise parameter_error(name, owner, expected, value)


def fixed_predictor_trainer(model: Any, X: Any) -> FixedPredictorTrainer:
    """Return the trainer of a policy for the ``predictor`` of an estimator.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        With fitted encoder and target.
    X : object
        The table of ``fit``; decoded rows are frames of its library, or arrays.
    """
    backend = nw.from_native(X, eager_only=True).implementation if is_frame(X) else None
    return FixedPredictorTrainer(_external_predictor(model, model.encoder_, backend))


def _external_predictor(model: Any, encoder: TableEncoder, backend: Any) -> ExternalPredictor:
    classes = model._class_labels()
    order: NDArray[np.intp] | None = None
    known = getattr(model.predictor, "classes_", None)
    if classes is not None and known is not None:
        labels = np.asarray(known).tolist()
        if set(labels) != set(classes):
            expected = f"a predictor of the classes {list(classes)}"
            raise parameter_error("predictor", type(model).__name__, expected, labels)
        order = np.array([labels.index(label) for label in classes])

    def to_outputs(prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        if classes is None:
            scaled = (prediction - model.target_center_) / model.target_scale_
            log_link = model._make_loss().link == "log"
            return np.log(np.maximum(scaled, SMALLEST)) if log_link else scaled
        ordered = prediction if order is None else prediction[:, order]
        return np.log(np.maximum(ordered, SMALLEST))

    return ExternalPredictor(
        model.predictor,
        len(encoder.names),
        RowDecoder(encoder, backend),
        to_outputs,
        model._n_outputs(),
    )


# Model files contain no code: they hold what the predictor predicts for reference rows, and the
# same predictor must be passed to `suwr.load`.


def predictor_state(model: Any) -> dict[str, Any]:
    """Return what a model file says about the ``predictor``."""
    decoder = model.policy_.network.predictor.decode
    return {
        "frames": None if decoder.backend is None else decoder.backend.value,
        "reference": _reference_predictions(model).tolist(),
    }


def restore_predictor(
    model: Any, encoder: TableEncoder, stored: Mapping[str, Any]
) -> ExternalPredictor:
    """Return the network part of a loaded model whose ``predictor`` is set."""
    frames = stored["frames"]
    return _external_predictor(
        model, encoder, None if frames is None else nw.Implementation(frames)
    )


def check_reference(model: Any, stored: Mapping[str, Any]) -> None:
    """Raise an error if the ``predictor`` of a loaded model is not the one of `predictor_state`."""
    expected = np.array(stored["reference"], dtype=np.float64)
    try:
        found = _reference_predictions(model)
    except ModelOutputError as error:
        raise ModelFileError(str(error)) from error
    if expected.shape != found.shape or not np.isfinite(expected).all():
        raise ModelFileError("The reference predictions of its predictor are invalid.")
    worst = float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected))))
    if worst > REFERENCE_TOLERANCE:
        raise ModelFileError(
            "The 'predictor' is not the one that the model was fitted with: its predictions for "
            f"reference rows differ by up to {worst:.3g}."
        )


def _reference_predictions(model: Any) -> NDArray[np.float64]:
    """Predict reference rows with all, half and none of the columns revealed."""
    _, values = reference_rows(model)
    shape, policy = (len(values), model.n_features_in_), model.policy_
    column = torch.arange(shape[1], device=values.device)
    masks = [column >= 0, column % 2 == 0, column % 2 == 1, column < 0]
    parts = [policy.predict(values, mask.expand(shape)).cpu().numpy() for mask in masks]
    return np.concatenate(parts).astype(np.float64)
