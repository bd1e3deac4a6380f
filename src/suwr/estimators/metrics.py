"""Metrics with confidence intervals, from the influence of each row on the metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Calibration", "Estimate", "area_under_roc", "calibration_bins", "mean_estimate",
    "r2_estimate", "wilson_estimate",
]  # fmt: skip

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
    """

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    share: tuple[float, ...]
    n_rows: tuple[int, ...]

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
