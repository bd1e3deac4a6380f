"""Comparison of methods over costs, splits and tables: curves, paired differences and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.integrate import trapezoid

__all__ = ["Curve", "PairedDifference", "Ranking", "paired_difference", "rank_methods"]


@dataclass(frozen=True)
class Curve:
    """A score of one method as a function of the mean cost.

    Between its points a curve is linear, beyond its ends it is constant. Points of equal cost are
    averaged.

    Attributes
    ----------
    cost, score : ndarray of shape (n,)
        In increasing order of cost.
    """

    cost: NDArray[np.float64]
    score: NDArray[np.float64]

    @classmethod
    def of(cls, cost: ArrayLike, score: ArrayLike) -> Curve:
        """Sort points, and average those of equal cost.

        Examples
        --------
        >>> Curve.of([3, 1, 3], [0.2, 0.6, 0.4]).score.round(3).tolist()
        [0.6, 0.3]
        """
        costs, place = np.unique(np.asarray(cost, dtype=float), return_inverse=True)
        total = np.bincount(place, np.asarray(score, dtype=float))
        return cls(costs, total / np.bincount(place))

    def at(self, cost: ArrayLike) -> NDArray[np.float64]:
        """Score at some costs."""
        return np.interp(np.asarray(cost, dtype=float), self.cost, self.score)

    def mean(self, low: float, high: float) -> float:
        """Mean score over an interval of costs: the integral of the curve, divided by its length.

        Examples
        --------
        Constant up to the first point, then linear:

        >>> Curve.of([4, 6], [1.0, 0.0]).mean(2, 6)
        0.75
        """
        inner = self.cost[(self.cost > low) & (self.cost < high)]
        grid = np.concatenate([[low], inner, [high]])
        return float(trapezoid(self.at(grid), grid) / (high - low))


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference of two methods over the same splits, and its standard error.

    Attributes
    ----------
    mean : float
    error : float
        NaN for a single split.
    n : int
        Number of splits.
    """

    mean: float
    error: float
    n: int

    @property
    def sign(self) -> int:
        """-1 or 1 if the difference is more than two standard errors below or above 0, else 0."""
        # A comparison with NaN is false.
        return int(np.sign(self.mean)) if abs(self.mean) > 2 * self.error else 0

    def format(self, digits: int) -> str:
        """Mean ± standard error; an asterisk marks more than two standard errors."""
        error = "" if np.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.mean:+.{digits}f}{error}{' *' if self.sign else ''}"


def paired_difference(first: ArrayLike, second: ArrayLike) -> PairedDifference:
    """Difference of two methods, split by split.

    Examples
    --------
    >>> paired_difference([0.5, 0.6, 0.7], [0.6, 0.7, 0.81]).format(3)
    '-0.103 ± 0.003 *'
    """
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    n = len(difference)
    error = float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return PairedDifference(float(difference.mean()), error, n)


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over tables; 1 is the best.

    Attributes
    ----------
    mean_rank : dict from str to float
        In increasing order.
    p_value : float
        Of Friedman's test that all methods are equal; NaN for fewer than three methods or tables.
    critical_difference : float
        Difference of mean ranks that is significant at 5 % by Nemenyi's test.
    n_tables : int
    """

    mean_rank: dict[str, float]
    p_value: float
    critical_difference: float
    n_tables: int

    def groups(self) -> list[tuple[str, ...]]:
        """Maximal groups of methods whose mean ranks do not differ significantly."""
        names, ranks = list(self.mean_rank), list(self.mean_rank.values())
        found: list[tuple[str, ...]] = []
        last = 0
        for start in range(len(names)):
            end = max(
                i for i in range(len(names)) if ranks[i] - ranks[start] <= self.critical_difference
            )
            if end + 1 > last and end > start:
                found.append(tuple(names[start : end + 1]))
            last = max(last, end + 1)
        return found


def rank_methods(losses: Mapping[str, Sequence[float]]) -> Ranking:
    """Rank methods by their losses on the same tables (Demšar, 2006).

    Parameters
    ----------
    losses : mapping from str to sequence of float
        One loss per table.

    Examples
    --------
    >>> ranking = rank_methods({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.4], "c": [0.3, 0.1, 0.5]})
    >>> {name: round(rank, 2) for name, rank in ranking.mean_rank.items()}
    {'a': 1.33, 'b': 2.33, 'c': 2.33}
    >>> round(ranking.critical_difference, 3)
    1.914
    """
    table = np.array(list(losses.values()), dtype=float)
    k, n = table.shape
    mean = stats.rankdata(table, axis=0).mean(axis=1)
    order = np.argsort(mean, kind="stable")
    names = list(losses)
    enough = k > 2 and n > 2
    p_value = float(stats.friedmanchisquare(*table).pvalue) if enough else float("nan")
    quantile = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
    return Ranking(
        {names[i]: float(mean[i]) for i in order},
        p_value,
        float(quantile * np.sqrt(k * (k + 1) / (6 * n))),
        n,
    )
