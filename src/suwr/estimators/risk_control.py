"""Learn-then-Test: p-values of bounded losses, and fixed-sequence testing of ordered policies.

The null hypothesis of a policy is that its expected loss is at least ``level``. See
``docs/theory/guarantee.md`` for the argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

__all__ = ["binomial_p_value", "fixed_sequence", "hoeffding_bentkus_p_value", "smallest_sample"]

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
    bentkus = np.e * binom.cdf(np.ceil(float(values.sum()) - _ROUNDING), n, level)
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
