"""Summaries of numeric training columns: quantiles, and the values of discrete columns.

Networks never read them. They say where a revealed value lies among the training values, and what
answers to expect; model files contain them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ColumnSummary"]

#: Quantiles of a column that are kept, from the smallest to the largest value.
N_QUANTILES = 21
#: A column with at most this many distinct values is discrete, and all of them are kept.
MAX_VALUES = 12
# A value is far outside if it is further from the training values than this share of their range.
FAR = 0.5


@dataclass(frozen=True)
class ColumnSummary:
    """Where the training values of a numeric column lie.

    Attributes
    ----------
    quantiles : tuple of float
        Quantiles 0, 0.05, …, 1.
    values : tuple of float or None
        The distinct values in increasing order, if there are at most 12.
    """

    quantiles: tuple[float, ...]
    values: tuple[float, ...] | None = None

    @classmethod
    def of(cls, present: NDArray[np.float64]) -> ColumnSummary | None:
        """Summarise a column without missing values; None if it has no values.

        Examples
        --------
        >>> summary = ColumnSummary.of(np.array([1.0, 2.0, 2.0]))
        >>> summary.values, summary.quantiles[0], summary.quantiles[-1]
        ((1.0, 2.0), 1.0, 2.0)
        """
        if len(present) == 0:
            return None
        # Values that occur in the column: an average of extreme values may overflow.
        grid = np.linspace(0.0, 1.0, N_QUANTILES)
        quantiles = np.quantile(present, grid, method="inverted_cdf")
        distinct = np.unique(present)
        discrete = len(distinct) <= MAX_VALUES
        return cls(
            tuple(quantiles.tolist()), tuple(distinct.tolist()) if discrete else None
        )  # fmt: skip

    @property
    def low(self) -> float:
        """The smallest training value."""
        return self.quantiles[0]

    @property
    def high(self) -> float:
        """The largest training value."""
        return self.quantiles[-1]

    @property
    def usual_range(self) -> tuple[float, float]:
        """The training range, extended by half of its width on both sides."""
        margin = FAR * (self.high - self.low)
        return self.low - margin, self.high + margin

    def is_far(self, value: float) -> bool:
        """Whether a value is outside the `usual_range`."""
        low, high = self.usual_range
        return not low <= value <= high

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ColumnSummary:
        """Restore the fields from a model file; a ``ValueError`` if they are not valid."""
        quantiles = tuple(float(v) for v in stored["quantiles"])
        values = None if stored["values"] is None else tuple(float(v) for v in stored["values"])
        found = [*quantiles, *(values or ())]
        if len(quantiles) != N_QUANTILES or len(values or ()) > MAX_VALUES or values == ():
            raise ValueError("The summary of a column has a wrong number of values.")
        if not all(map(math.isfinite, found)) or list(quantiles) != sorted(quantiles):
            raise ValueError("The quantiles of a column must be finite and must not decrease.")
        if values is not None and list(values) != sorted(set(values)):
            raise ValueError("The values of a column must increase.")
        return cls(quantiles, values)
