"""Evaluation on rows with known targets: metrics with confidence intervals, and references.

The intervals follow from the influence of each row on the metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import align_columns, format_alike, format_label
from suwr.estimators.targets import Target, ValueTarget

FloatArray = NDArray[np.float64]

# Bins of a calibration curve, of about equal numbers of rows, each of at least this many.
N_BINS, MIN_BIN = 10, 10


@dataclass(frozen=True)
class Estimate:
    """A value with a confidence interval.

    Attributes
    ----------
    value : float
    low, high : float or None
        The ends of the confidence interval; None if there is none.
    error : float or None
        The standard error.
    """

    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Estimate:
        """Restore the fields from JSON."""
        ends = (state[name] for name in ("low", "high", "error"))
        return cls(float(state["value"]), *(None if v is None else float(v) for v in ends))


@dataclass(frozen=True)
class Calibration:
    """Predicted and observed frequencies in bins of about equal numbers of rows.

    Attributes
    ----------
    predicted : tuple of float
        Mean predicted probability in each bin.
    observed : tuple of float
        Observed frequency in each bin.
    share : tuple of float
        Share of the rows in each bin.
    n_rows : tuple of int
        Number of rows in each bin.
    label : str or None
        The class whose probability it is; None if that is not known.
    """

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    share: tuple[float, ...]
    n_rows: tuple[int, ...]
    label: str | None = None

    def error(self) -> float:
        """Return the expected calibration error: the mean distance of predicted and observed."""
        gaps = np.abs(np.subtract(self.predicted, self.observed))
        return float(np.sum(gaps * np.array(self.share)))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Calibration:
        """Restore the fields from JSON."""
        return cls(
            tuple(float(v) for v in state["predicted"]),
            tuple(float(v) for v in state["observed"]),
            tuple(float(v) for v in state["share"]),
            tuple(int(v) for v in state["n_rows"]),
            None if state.get("label") is None else str(state["label"]),
        )


def _estimate(
    value: float, influence: FloatArray, confidence: float, low: float, high: float
) -> Estimate:
    """Return a normal interval; the variance is the sum of squared influences."""
    error = math.sqrt(float(np.sum(influence**2)))
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * error
    return Estimate(float(value), max(low, value - half), min(high, value + half), error)


def mean_estimate(values: FloatArray, share: FloatArray, confidence: float) -> Estimate:
    """Estimate a mean of values that are not negative; ``share`` are weights that sum to one."""
    mean = float(np.sum(share * values))
    return _estimate(mean, share * (values - mean), confidence, 0.0, math.inf)


def wilson_estimate(hits: NDArray[Any], share: FloatArray, confidence: float) -> Estimate:
    """Estimate a proportion, with the Wilson interval for the effective number of rows."""
    # The sum of the shares may exceed one by rounding.
    p, n = min(1.0, float(np.sum(share * hits))), 1.0 / float(np.sum(share**2))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))
    return Estimate(p, low, high, math.sqrt(p * (1 - p) / n))


def area_under_roc(
    y: NDArray[Any], probability: FloatArray, share: FloatArray, confidence: float
) -> Estimate | None:
    """Estimate the AUROC, with the interval of DeLong et al. (1988).

    Of more than two classes, it is the mean of the AUROC of each class against all others, over
    the classes that occur; None if fewer than two occur.
    """
    classes = [1] if probability.shape[1] == 2 else range(probability.shape[1])
    present = [k for k in classes if 0 < (y == k).sum() < len(y)]
    if not present:
        return None
    areas, influence = [], np.zeros(len(y))
    for k in present:
        positive = y == k
        area, own = _binary_area(positive, probability[:, k], share)
        areas.append(area)
        influence += own / len(present)
    return _estimate(float(np.mean(areas)), influence, confidence, 0.0, 1.0)


def _binary_area(
    positive: NDArray[np.bool_], score: FloatArray, share: FloatArray
) -> tuple[float, FloatArray]:
    """Return the area and the influence of every row on it."""
    placement = np.empty(len(score))
    for own, sign in ((positive, 1.0), (~positive, -1.0)):
        # The share of the other group that is ranked lower; ties count half.
        order = np.argsort(sign * score[~own], kind="stable")
        ranked = (sign * score[~own])[order]
        total = np.concatenate([[0.0], np.cumsum(share[~own][order])])
        left, right = (np.searchsorted(ranked, sign * score[own], side) for side in _SIDES)
        placement[own] = (total[left] + total[right]) / (2 * total[-1])
    of_positive = share[positive] / share[positive].sum()
    area = float(np.sum(of_positive * placement[positive]))
    group = np.where(positive, share[positive].sum(), share[~positive].sum())
    return area, (placement - area) * share / group


_SIDES: tuple[Any, Any] = ("left", "right")


def r2_estimate(
    y: FloatArray, prediction: FloatArray, share: FloatArray, confidence: float
) -> Estimate | None:
    """Estimate R², a ratio of two means; None for a constant target."""
    error, spread = (prediction - y) ** 2, (y - np.sum(share * y)) ** 2
    variance = float(np.sum(share * spread))
    if variance <= 0:
        return None
    ratio = float(np.sum(share * error)) / variance
    influence = share * (error - ratio * spread) / variance
    return _estimate(1.0 - ratio, influence, confidence, -math.inf, 1.0)


def calibration_bins(probability: FloatArray, hits: NDArray[Any], share: FloatArray) -> Calibration:
    """Group rows by predicted probability; rows of equal probability share a bin."""
    n_bins = max(1, min(N_BINS, len(probability) // MIN_BIN))
    cuts = np.quantile(probability, np.linspace(0, 1, n_bins + 1)[1:-1])
    bins = np.searchsorted(np.unique(cuts), probability, side="right")
    columns: list[tuple[float, float, float, int]] = []
    for number in np.unique(bins):
        own = bins == number
        total = float(share[own].sum())
        if total > 0:
            columns.append(
                (
                    float(np.sum(share[own] * probability[own]) / total),
                    float(np.sum(share[own] * hits[own]) / total),
                    total,
                    int(own.sum()),
                )
            )
    predicted, observed, shares, counts = zip(*columns, strict=True)
    return Calibration(predicted, observed, shares, counts)


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
    prediction : ndarray of shape (n, n_outputs)
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
    target: Target,
    y: NDArray[Any],
    model: Outcome,
    constant: Outcome,
    all_features: Outcome | None,
    weight: NDArray[np.float64] | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """Compute all metrics of a model and its references.

    Parameters
    ----------
    target : Target
    y : ndarray of shape (n,)
        Numbers of the classes, or values.
    model, constant, all_features : Outcome
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    confidence : float, default=0.95
    """
    measure = partial(_class_metrics if target.labels else _value_metrics, target)
    weight = np.ones(len(y)) if weight is None else weight
    share = weight / weight.sum()
    references = [
        None if o is None else {k: e.value for k, e in measure(y, o, share, confidence).items()}
        for o in (constant, all_features)
    ]
    assert references[0] is not None
    calibration = None
    if target.labels is not None:
        label = format_label(target.labels[1]) if len(target.labels) == 2 else "the predicted class"
        calibration = replace(_calibration(y, model.prediction, share), label=label)
    return Evaluation(
        len(y),
        confidence,
        measure(y, model, share, confidence),
        references[0],
        references[1],
        calibration,
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
    target: Target,
    y: NDArray[Any],
    outcome: Outcome,
    share: NDArray[np.float64],
    confidence: float,
) -> dict[str, Estimate]:
    probability = outcome.prediction
    truth = np.eye(probability.shape[1])[y]
    error = _calibration(y, probability, share).error()
    found: dict[str, Estimate] = {
        "loss": mean_estimate(target.row_losses(y, probability), share, confidence),
        "accuracy": wilson_estimate(probability.argmax(axis=1) == y, share, confidence),
        "brier": mean_estimate(((probability - truth) ** 2).sum(axis=1), share, confidence),
        "calibration_error": Estimate(error),
        "cost": mean_estimate(outcome.cost, share, confidence),
    }
    auroc = area_under_roc(y, probability, share, confidence)
    return found if auroc is None else {**found, "auroc": auroc}


def _value_metrics(
    target: Target,
    y: NDArray[Any],
    outcome: Outcome,
    share: NDArray[np.float64],
    confidence: float,
) -> dict[str, Estimate]:
    assert isinstance(target, ValueTarget)
    prediction = outcome.prediction[:, 0]
    found = {
        "loss": mean_estimate(target.row_losses(y, outcome.prediction), share, confidence),
        "mae": mean_estimate(np.abs(prediction - y), share, confidence),
        "cost": mean_estimate(outcome.cost, share, confidence),
    }
    if target.loss == "quantile":
        found["coverage"] = wilson_estimate(y <= prediction, share, confidence)
    r2 = r2_estimate(y, prediction, share, confidence)
    return found if r2 is None else {**found, "r2": r2}


def _calibration(
    y: NDArray[Any], probability: NDArray[np.float64], share: NDArray[np.float64]
) -> Calibration:
    """Of the second class if there are two, otherwise of the predicted class."""
    if probability.shape[1] == 2:
        return calibration_bins(probability[:, 1], y == 1, share)
    return calibration_bins(probability.max(axis=1), probability.argmax(axis=1) == y, share)
