"""Risks of stopping early, compared with revealing everything, and the statistics that bound them.

The null hypothesis of a policy is that its expected loss is at least ``level``. See
``docs/theory/guarantee.md`` for the argument.

The stopped policy is a fixed function of a row, like any other predictor: scores of calibration
rows and of a new row are exchangeable, whatever the policy reveals of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from sklearn.utils.validation import column_or_1d

from suwr._utils.validation import parameter_error
from suwr.estimators.targets import Target, ValueTarget

# Losses that are 0 or 1 up to the rounding of their sum.
_ROUNDING = 1e-9


def binomial_p_value(losses: ArrayLike, level: float) -> float:
    """Return the exact p-value of losses that are 0 or 1: P(Bin(n, level) ≤ number of losses).

    Parameters
    ----------
    losses : array-like of shape (n,)
    level : float

    Examples
    --------
    >>> round(binomial_p_value([0] * 59, 0.05), 4), binomial_p_value([], 0.05)
    (0.0485, 1.0)
    """
    values = np.asarray(losses, dtype=np.float64)
    if len(values) == 0:
        return 1.0
    return float(binom.cdf(round(float(values.sum())), len(values), level))


def hoeffding_bentkus_p_value(losses: ArrayLike, level: float) -> float:
    """Return the Hoeffding–Bentkus p-value of losses in [0, 1].

    The smaller of Hoeffding's bound exp(-n kl(mean, level)) and Bentkus's bound
    e · P(Bin(n, level) ≤ ⌈sum⌉).

    Parameters
    ----------
    losses : array-like of shape (n,)
    level : float

    Examples
    --------
    >>> round(hoeffding_bentkus_p_value([0.0] * 100, 0.05), 4)
    0.0059
    """
    values = np.asarray(losses, dtype=np.float64)
    n = len(values)
    if n == 0:
        return 1.0
    mean = min(float(values.mean()), level)
    divergence = (1 - mean) * np.log((1 - mean) / (1 - level))
    if mean > 0:
        divergence += mean * np.log(mean / level)
    bentkus = math.e * binom.cdf(np.ceil(float(values.sum()) - _ROUNDING), n, level)
    return float(min(1.0, np.exp(-n * divergence), bentkus))


def fixed_sequence(p_values: Sequence[float] | NDArray[np.float64], error: float) -> int:
    """Return how many hypotheses fixed-sequence testing rejects: all before the first failure.

    Parameters
    ----------
    p_values : sequence of float
        In an order that does not depend on the rows that they were computed from.
    error : float
        Probability of rejecting any true hypothesis.

    Examples
    --------
    >>> fixed_sequence([0.01, 0.03, 0.2, 0.001], 0.05)
    2
    """
    failed = np.asarray(p_values) > error
    return int(np.argmax(failed)) if failed.any() else len(failed)


def smallest_sample(level: float, error: float) -> int:
    """Return how many rows without any loss a test at this level needs.

    Examples
    --------
    >>> smallest_sample(0.05, 0.05)
    59
    """
    return int(np.ceil(np.log(error) / np.log1p(-level)))


FloatArray = NDArray[np.float64]
#: Conformity scores by kind of model.
SCORES = {"classes": ("lac", "aps"), "values": ("absolute",)}


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ⌈(n + 1) · coverage⌉-th smallest score; infinity if there are too few.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 20.0), 0.9)
    18.0
    >>> conformal_quantile(np.arange(5.0), 0.9)
    inf
    """
    # A product such as 20 · 0.95 must not be rounded up because of the binary form of 0.95.
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return math.inf if rank > len(scores) else float(np.sort(scores)[rank - 1])


def scores_of_classes(probability: FloatArray, score: str) -> FloatArray:
    """Return the score of every class, small for a class that conforms.

    'lac' is one minus the probability. 'aps' is the total probability of the class and of all
    classes that are at least as probable.

    Examples
    --------
    >>> scores_of_classes(np.array([[0.5, 0.125, 0.375]]), "aps").tolist()
    [[0.5, 1.0, 0.875]]
    """
    if score == "lac":
        return 1.0 - probability
    at_least = probability[:, None, :] >= probability[:, :, None]
    return (at_least * probability[:, None, :]).sum(axis=2)


@dataclass(frozen=True)
class Conformal:
    """Calibrated prediction sets; see the attribute ``conformal_``.

    Attributes
    ----------
    coverage : float
        The set of a new exchangeable row contains its class or value with at least this
        probability.
    score : {'lac', 'aps', 'absolute'}
    quantile : float
        Classes or values with a score of at most this are in the set.
    n_rows : int
        Calibration rows.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    """

    coverage: float
    score: str
    quantile: float
    n_rows: int
    digest: str

    def sets(self, probability: FloatArray) -> NDArray[np.bool_]:
        """Return which classes are in the set of each row."""
        return np.asarray(scores_of_classes(probability, self.score) <= self.quantile)

    def intervals(self, value: FloatArray) -> FloatArray:
        """Return the ends of the interval of each row."""
        return np.stack([value - self.quantile, value + self.quantile], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent; an infinite quantile is None."""
        finite = math.isfinite(self.quantile)
        return {**asdict(self), "quantile": self.quantile if finite else None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Conformal:
        """Inverse of `to_dict`, with every value checked."""
        quantile = stored["quantile"]
        found = cls(
            float(stored["coverage"]),
            str(stored["score"]),
            math.inf if quantile is None else float(quantile),
            int(stored["n_rows"]),
            str(stored["digest"]),
        )
        known = [name for names in SCORES.values() for name in names]
        if not 0 < found.coverage < 1 or found.score not in known or math.isnan(found.quantile):
            raise ValueError("The calibration of the prediction sets is invalid.")
        return found


#: ``risk(prediction, full, y)`` returns one number in [0, 1] per row.
RiskFunction = Callable[[FloatArray, FloatArray, Any], Any]
#: Maps predictions and full predictions of all rows, in the units of the user, to losses.
Losses = Callable[[FloatArray, FloatArray], FloatArray]


def losses_of(
    target: Target, risk: str | RiskFunction, y: Any, n_rows: int, tolerance: float | None
) -> Losses:
    """Return the function that maps predictions and full predictions to the losses of all rows.

    Parameters
    ----------
    target : Target
    risk : {'disagreement', 'error', 'loss'} or callable
    y : array-like of shape (n_rows,) or None
        Only 'disagreement' and functions do not need it.
    n_rows : int
    tolerance : float or None
        Difference of predicted values that does not count; regression only.
    """
    classes = target.labels is not None
    if classes and tolerance is not None:
        raise parameter_error("tolerance", "certify", "None for a classifier", tolerance)
    if not classes and tolerance is None and risk in ("disagreement", "error"):
        raise parameter_error("tolerance", "certify", f"a float if risk={risk!r}", None)
    if y is None and risk in ("error", "loss"):
        raise ValueError(f"The 'y_cal' parameter of certify is required if risk={risk!r}.")
    # 'disagreement' does not read the target.
    truth = np.zeros(n_rows) if y is None else target.read(y, n_rows)
    if callable(risk):
        return _of_function(risk, target, None if y is None else column_or_1d(y))
    unit, near = target.constant_loss, tolerance or 0.0
    if risk == "loss" and tolerance is not None:
        assert isinstance(target, ValueTarget)
        if target.loss != "squared_error" or target.transform is not None:
            expected = (
                "None if risk='loss', unless the loss of the model is 'squared_error' without a "
                "'target_transform'"
            )
            raise parameter_error("tolerance", "certify", expected, tolerance)
        unit = tolerance**2

    def disagreement(stopped: FloatArray, full: FloatArray) -> FloatArray:
        return target.differ(stopped, full, near).astype(np.float64)

    def error(stopped: FloatArray, full: FloatArray) -> FloatArray:
        wrong = target.wrong(stopped, truth, near) & ~target.wrong(full, truth, near)
        return wrong.astype(np.float64)

    def loss(stopped: FloatArray, full: FloatArray) -> FloatArray:
        excess = target.row_losses(truth, stopped) - target.row_losses(truth, full)
        return np.clip(excess / unit, 0.0, 1.0)

    return {"disagreement": disagreement, "error": error, "loss": loss}[risk]


def _of_function(risk: RiskFunction, target: Target, y: Any) -> Losses:
    def evaluate(stopped: FloatArray, full: FloatArray) -> FloatArray:
        losses = np.asarray(risk(target.outputs(stopped), target.outputs(full), y), np.float64)
        if losses.shape != (len(stopped),) or not ((losses >= 0) & (losses <= 1)).all():
            raise ValueError(
                "The function 'risk' of certify must return one number in [0, 1] per row. Got an "
                f"array of shape {losses.shape}."
            )
        return losses

    return evaluate
