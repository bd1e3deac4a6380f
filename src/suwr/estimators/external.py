"""The ``predictor`` parameter of the estimators: a predictor that is given."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import parameter_error
from suwr.data.encoding import TableEncoder
from suwr.data.tables import is_frame
from suwr.nn.external import ExternalPredictor
from suwr.training.fixed import FixedPredictorTrainer

__all__ = ["check_predictor", "fixed_predictor_trainer"]

# Predictions whose logarithms are network outputs are raised to it.
SMALLEST = 1e-12


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

    return FixedPredictorTrainer(
        ExternalPredictor(
            model.predictor,
            len(model.encoder_.names),
            RowDecoder(model.encoder_, backend),
            to_outputs,
            model._n_outputs(),
        )
    )
