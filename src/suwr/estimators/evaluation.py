"""Evaluation on rows with known targets: metrics with confidence intervals, and references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import align_columns, format_alike
from suwr.estimators.metrics import (
    Calibration,
    Estimate,
    area_under_roc,
    calibration_bins,
    mean_estimate,
    r2_estimate,
    wilson_estimate,
)

__all__ = ["Evaluation", "Outcome", "RowLosses", "evaluate_outcome"]

RowLosses = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

_TINY = 1e-12
# Metric → heading and decimals, in the order of the table; None is four significant digits.
_HEADINGS = {
    "loss": ("loss", None),
    "accuracy": ("accuracy", 3),
    "auroc": ("AUROC", 3),
    "r2": ("R²", 3),
    "mae": ("mean absolute error", None),
    "coverage": ("share of rows below", 3),
    "brier": ("Brier score", 4),
    "calibration_error": ("calibration error", 3),
    "cost": ("mean cost", 2),
}


@dataclass(frozen=True)
class Outcome:
    """Predictions and costs of rows with known targets.

    Attributes
    ----------
    prediction : ndarray of shape (n, n_classes) or (n,)
        Class probabilities, or values.
    cost : ndarray of shape (n,)
    """

    prediction: NDArray[np.float64]
    cost: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """How well a model predicts rows with known targets.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    confidence : float
        Confidence level of the intervals.
    scores : dict of str to Estimate
        Classification: ``loss`` (cross-entropy in nats), ``accuracy``, ``auroc`` (of several
        classes, the mean of one class against the others), ``brier``, ``calibration_error`` and
        ``cost``. Regression: ``loss`` (the ``loss`` of the estimator), ``r2``, ``mae``, ``cost``
        and, of a quantile, ``coverage``: the share of the rows that are not above the prediction.
        Each has a ``value`` and the ends ``low`` and ``high`` of its confidence interval.
    constant : dict of str to float
        The same for the best constant prediction of the training rows, such as the class
        frequencies or the mean.
    all_features : dict of str to float, or None
        The same for the predictor with all features revealed; None if a hidden cell is not valid.
    calibration : Calibration or None
        Predicted and observed frequencies; None for regression.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X[::2], y[::2])
    >>> evaluation = clf.evaluate(X[1::2], y[1::2])
    >>> evaluation.n_rows, evaluation["accuracy"] == clf.score(X[1::2], y[1::2])
    (75, True)
    """

    n_rows: int
    confidence: float
    scores: dict[str, Estimate]
    constant: dict[str, float]
    all_features: dict[str, float] | None
    calibration: Calibration | None = None

    def __getitem__(self, metric: str) -> float:
        """Return the value of a metric, such as ``evaluation["auroc"]``."""
        return self.scores[metric].value

    def rows(self) -> list[tuple[str, ...]]:
        """Return the lines of the table: metric, this model, constant, all features."""
        lines: list[tuple[str, ...]] = []
        for name, (heading, decimals) in _HEADINGS.items():
            if name in self.scores:
                own = self.scores[name]
                others = [(found or {}).get(name) for found in (self.constant, self.all_features)]
                value, low, high, *texts = _texts([own.value, own.low, own.high, *others], decimals)
                interval = f" ({low} to {high})" if low and high else ""
                lines.append((heading, value + interval, *texts))
        return lines

    def text(self) -> str:
        """Return a table as plain text."""
        head = (f"{self.n_rows:,} rows", "this model", "constant", "all features")
        shown = align_columns([head, *self.rows()])
        level = f"In parentheses: {100 * self.confidence:g} % confidence intervals."
        return "\n".join([*shown, level])

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Evaluation:
        """Create an evaluation from the output of `to_dict`."""
        all_features, calibration = state["all_features"], state["calibration"]
        return cls(
            int(state["n_rows"]),
            float(state["confidence"]),
            {str(k): Estimate.from_dict(v) for k, v in state["scores"].items()},
            {str(k): float(v) for k, v in state["constant"].items()},
            None if all_features is None else {str(k): float(v) for k, v in all_features.items()},
            None if calibration is None else Calibration.from_dict(calibration),
        )


def evaluate_outcome(
    y: NDArray[Any],
    classes: Sequence[Any] | None,
    model: Outcome,
    constant: Outcome,
    all_features: Outcome | None,
    weight: NDArray[np.float64] | None = None,
    confidence: float = 0.95,
    row_losses: RowLosses | None = None,
    quantile: bool = False,
) -> Evaluation:
    """Compute all metrics of a model and its references.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Numbers of the classes, or values.
    classes : sequence or None
        The class labels; None for regression.
    model, constant, all_features : Outcome
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    confidence : float, default=0.95
    row_losses : callable, optional
        From values of ``y`` and predictions to the loss of every row; by default, the squared
        error. Not used for classification, whose loss is the cross-entropy.
    quantile : bool, default=False
        Whether the predictions are quantiles.
    """
    measure = _class_metrics
    if classes is None:
        measure = partial(_value_metrics, row_losses or _squared_errors, quantile)
    weight = np.ones(len(y)) if weight is None else weight
    share = weight / weight.sum()
    references = [
        None if o is None else {k: e.value for k, e in measure(y, o, share, confidence).items()}
        for o in (constant, all_features)
    ]
    assert references[0] is not None
    return Evaluation(
        len(y),
        confidence,
        measure(y, model, share, confidence),
        references[0],
        references[1],
        None if classes is None else _calibration(y, model.prediction, share),
    )


def _texts(values: Sequence[float | None], decimals: int | None) -> list[str]:
    """Format the numbers of a line of the table; None is the empty text."""
    given = [v for v in values if v is not None]
    if decimals is None:
        texts = iter(format_alike(given, 4))
    else:
        # Adding zero removes the sign of -0.0.
        texts = iter(f"{round(v, decimals) + 0.0:.{decimals}f}" for v in given)
    return ["" if v is None else next(texts) for v in values]


def _class_metrics(
    y: NDArray[Any], outcome: Outcome, share: NDArray[np.float64], confidence: float
) -> dict[str, Estimate]:
    probability = outcome.prediction
    of_truth = probability[np.arange(len(y)), y]
    truth = np.eye(probability.shape[1])[y]
    error = _calibration(y, probability, share).error()
    found: dict[str, Estimate] = {
        "loss": mean_estimate(-np.log(np.maximum(of_truth, _TINY)), share, confidence),
        "accuracy": wilson_estimate(probability.argmax(axis=1) == y, share, confidence),
        "brier": mean_estimate(((probability - truth) ** 2).sum(axis=1), share, confidence),
        "calibration_error": Estimate(error),
        "cost": mean_estimate(outcome.cost, share, confidence),
    }
    auroc = area_under_roc(y, probability, share, confidence)
    return found if auroc is None else {**found, "auroc": auroc}


def _squared_errors(y: NDArray[np.float64], prediction: NDArray[np.float64]) -> NDArray[np.float64]:
    return (prediction - y) ** 2


def _value_metrics(
    row_losses: RowLosses,
    quantile: bool,
    y: NDArray[Any],
    outcome: Outcome,
    share: NDArray[np.float64],
    confidence: float,
) -> dict[str, Estimate]:
    found = {
        "loss": mean_estimate(row_losses(y, outcome.prediction), share, confidence),
        "mae": mean_estimate(np.abs(outcome.prediction - y), share, confidence),
        "cost": mean_estimate(outcome.cost, share, confidence),
    }
    if quantile:
        found["coverage"] = wilson_estimate(y <= outcome.prediction, share, confidence)
    r2 = r2_estimate(y, outcome.prediction, share, confidence)
    return found if r2 is None else {**found, "r2": r2}


def _calibration(
    y: NDArray[Any], probability: NDArray[np.float64], share: NDArray[np.float64]
) -> Calibration:
    """Of the second class if there are two, otherwise of the predicted class."""
    if probability.shape[1] == 2:
        return calibration_bins(probability[:, 1], y == 1, share)
    return calibration_bins(probability.max(axis=1), probability.argmax(axis=1) == y, share)
