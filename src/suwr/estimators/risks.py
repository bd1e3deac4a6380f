"""The risks that stopping early can have, compared with revealing everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import assert_all_finite, check_consistent_length, column_or_1d

from suwr._utils.validation import parameter_error
from suwr.estimators.evaluation import RowLosses
from suwr.estimators.regression_target import RegressionTarget
from suwr.estimators.table_model import TableModel

__all__ = ["RiskFunction", "losses_of"]

FloatArray = NDArray[np.float64]
#: ``risk(prediction, full, y)`` returns one number in [0, 1] per row.
RiskFunction = Callable[[FloatArray, FloatArray, Any], Any]
# Log losses are computed from probabilities of at least this.
_SMALLEST = 1e-12


def losses_of(
    model: TableModel, risk: str | RiskFunction, y: Any, n_rows: int, tolerance: float | None
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the function that maps predictions and full predictions to the losses of all rows.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    risk : {'disagreement', 'error', 'loss'} or callable
    y : array-like of shape (n_rows,) or None
        Only 'disagreement' and functions do not need it.
    n_rows : int
    tolerance : float or None
        Difference of predicted values that does not count; regression only.

    Returns
    -------
    callable
        Of two arrays of shape (n_rows, n_outputs), in the user's units.
    """
    classes = model._class_labels() is not None
    if classes and tolerance is not None:
        raise parameter_error("tolerance", "certify", "None for a classifier", tolerance)
    if not classes and tolerance is None and risk in ("disagreement", "error"):
        raise parameter_error("tolerance", "certify", f"a float if risk={risk!r}", None)
    if y is None and risk in ("error", "loss"):
        raise ValueError(f"The 'y_cal' parameter of certify is required if risk={risk!r}.")
    target = None if y is None else read_target(model, y, n_rows)
    if callable(risk):
        return _of_function(risk, classes, None if y is None else column_or_1d(y))
    unit = model.constant_loss_
    if risk == "loss" and tolerance is not None:
        assert isinstance(model, RegressionTarget)
        if model.loss != "squared_error" or model.target_transform is not None:
            expected = (
                "None if risk='loss', unless the loss of the model is 'squared_error' without a "
                "'target_transform'"
            )
            raise parameter_error("tolerance", "certify", expected, tolerance)
        unit = tolerance**2
    # 'disagreement' does not read the target.
    known = np.zeros(n_rows) if target is None else target
    if classes:
        return _of_classes(risk, known, unit)
    assert isinstance(model, RegressionTarget)
    return _of_values(risk, known, unit, tolerance or 0.0, model._row_losses)


def read_target(model: TableModel, y: Any, n_rows: int) -> NDArray[Any]:
    """Return labels as class numbers, or values as floats, of rows other than those of ``fit``."""
    given = column_or_1d(y, warn=True)
    check_consistent_length(given, np.empty(n_rows))
    if model._class_labels() is None:
        values = np.asarray(given, dtype=np.float64)
        assert_all_finite(values, input_name="y")
        if isinstance(model, RegressionTarget):
            model._check_domain(values)
        return values
    number = {label: i for i, label in enumerate(model._class_labels() or ())}
    unknown = [label for label in given.tolist() if label not in number]
    if unknown:
        raise ValueError(
            f"y must contain only classes that the model was fitted with. Got {unknown[0]!r}."
        )
    return np.array([number[label] for label in given.tolist()], dtype=np.intp)


def _of_classes(
    risk: str, target: NDArray[Any], unit: float
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    def disagreement(stopped: FloatArray, full: FloatArray) -> FloatArray:
        return (stopped.argmax(axis=1) != full.argmax(axis=1)).astype(np.float64)

    def error(stopped: FloatArray, full: FloatArray) -> FloatArray:
        wrong = stopped.argmax(axis=1) != target
        return (wrong & (full.argmax(axis=1) == target)).astype(np.float64)

    def loss(stopped: FloatArray, full: FloatArray) -> FloatArray:
        row = np.arange(len(stopped))
        now, then = (-np.log(np.maximum(p[row, target], _SMALLEST)) for p in (stopped, full))
        return np.clip((now - then) / unit, 0.0, 1.0)

    return {"disagreement": disagreement, "error": error, "loss": loss}[risk]


def _of_values(
    risk: str, target: NDArray[Any], unit: float, tolerance: float, row_losses: RowLosses
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    def disagreement(stopped: FloatArray, full: FloatArray) -> FloatArray:
        return (np.abs(stopped - full)[:, 0] > tolerance).astype(np.float64)

    def error(stopped: FloatArray, full: FloatArray) -> FloatArray:
        now, then = (np.abs(p[:, 0] - target) > tolerance for p in (stopped, full))
        return (now & ~then).astype(np.float64)

    def loss(stopped: FloatArray, full: FloatArray) -> FloatArray:
        now, then = (row_losses(target, p[:, 0]) for p in (stopped, full))
        return np.clip((now - then) / unit, 0.0, 1.0)

    return {"disagreement": disagreement, "error": error, "loss": loss}[risk]


def _of_function(
    risk: RiskFunction, classes: bool, y: Any
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    def evaluate(stopped: FloatArray, full: FloatArray) -> FloatArray:
        given = (stopped, full) if classes else (stopped[:, 0], full[:, 0])
        losses = np.asarray(risk(*given, y), dtype=np.float64)
        if losses.shape != (len(stopped),) or not ((losses >= 0) & (losses <= 1)).all():
            raise ValueError(
                "The function 'risk' of certify must return one number in [0, 1] per row. Got an "
                f"array of shape {losses.shape}."
            )
        return losses

    return evaluate
