"""One model for a range of λ: which λ to decide by, and how many units each λ reveals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import Interval, Options, parameter_error
from suwr.exceptions import ModelFileError
from suwr.nn.rollout import Policy
from suwr.nn.step import training_starts
from suwr.training.config import condition_of
from suwr.training.data import BLOCK_ROWS, Rows
from suwr.training.registry import TRAINERS

__all__ = ["WeightRange", "check_range", "check_sparsity_weight", "restore_range"]

# Number of λ values, equally spaced on a logarithmic scale, at which the units are counted.
GRID = 33
# Where the number of units changes by more than this between two of them, only the two were
# measured, and what lies in between is unknown.
JUMP = 0.5


def check_range(value: Any, owner: str) -> tuple[float, float]:
    """Return a range of λ as two floats; raise a ``ValueError`` if it is not one."""
    numbers = len(value) == 2 and all(isinstance(v, Real) for v in value)
    if not numbers or not 0 < value[0] < value[1] < np.inf:
        expected = "a float, 'auto', or a range (low, high) with 0 < low < high"
        raise parameter_error("sparsity_weight", owner, expected, tuple(value))
    return float(value[0]), float(value[1])


def check_sparsity_weight(weight: Any, trainer: str, owner: str) -> None:
    """Raise a ``ValueError`` if the parameter ``sparsity_weight`` is invalid."""
    if not isinstance(weight, tuple | list):
        if weight not in Options("auto") and weight not in Interval(Real, 0):
            expected = "'auto', a float in the range [0, inf), or a range (low, high)"
            raise parameter_error("sparsity_weight", owner, expected, weight)
        return
    check_range(weight, owner)
    if trainer != "auto" and not TRAINERS[trainer].supports_range:
        expected = f"a float or 'auto' if trainer={trainer!r}"
        raise parameter_error("sparsity_weight", owner, expected, weight)


@dataclass(frozen=True)
class WeightRange:
    """The range of λ that a model was fitted for.

    Attributes
    ----------
    low, high : float
        The ends of the range.
    n_units : ndarray of shape (33,)
        Mean number of units that the validation rows reveal at each λ, from ``low`` to ``high`` in
        equal steps of log λ; non-increasing. A group or a patch counts as one unit, whatever its
        number of columns or its cost. ``mean_features`` refers to these numbers.
    """

    low: float
    high: float
    n_units: NDArray[np.float64]

    @classmethod
    def measure(cls, low: float, high: float, policy: Policy, rows: Rows) -> WeightRange:
        """Count the units that the validation rows reveal across the range."""
        # Large blocks are faster on a GPU; their rounding does not matter for a mean.
        block = min(len(rows), BLOCK_ROWS if policy.device.type == "cuda" else policy.block)
        policies = [policy.at(condition, block) for condition in np.linspace(-1.0, 1.0, GRID)]
        counts = [
            sum(
                (p.rollout(part.values, starts=training_starts(p.inputs, part.values)).order >= 0)
                .sum() for _, part in rows.blocks()
            ) / len(rows)
            for p in policies
        ]  # fmt: skip
        # A larger λ never reveals more in expectation: an increase is noise.
        return cls(low, high, np.minimum.accumulate(counts))

    def condition(self, sparsity_weight: float | None, mean_features: float | None) -> float:
        """Return the position in the range: -1 is the low end, 1 the high end.

        Without arguments it is 0, the geometric mean of the range.
        """
        if sparsity_weight is not None and mean_features is not None:
            raise ValueError("Pass either 'sparsity_weight' or 'mean_features', not both.")
        if sparsity_weight is not None:
            if (
                not isinstance(sparsity_weight, Real)
                or not self.low <= sparsity_weight <= self.high
            ):
                raise ValueError(
                    f"The 'sparsity_weight' parameter must be in [{self.low:g}, {self.high:g}], "
                    f"the range that the model was fitted for. Got {sparsity_weight!r} instead."
                )
            return condition_of(float(sparsity_weight), self.low, self.high)
        if mean_features is None:
            return 0.0
        most, least = float(self.n_units[0]), float(self.n_units[-1])
        if not isinstance(mean_features, Real) or not least <= mean_features <= most:
            raise ValueError(
                f"The 'mean_features' parameter must be in [{least:.3g}, {most:.3g}], the mean "
                "numbers of units that the validation rows reveal across the range of "
                f"'sparsity_weight'. Got {mean_features!r} instead."
            )
        grid, wanted = np.linspace(-1.0, 1.0, GRID), float(mean_features)
        above = int(np.flatnonzero(self.n_units >= wanted)[-1])
        ends = [above, min(above + 1, GRID - 1)]
        if self.n_units[ends[0]] - self.n_units[ends[1]] > JUMP:
            return float(grid[min(ends, key=lambda end: abs(self.n_units[end] - wanted))])
        # np.interp needs increasing abscissas: reverse the grid.
        return float(np.interp(wanted, self.n_units[::-1], grid[::-1]))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, for model files."""
        return {"low": self.low, "high": self.high, "n_units": self.n_units.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WeightRange:
        """Restore the output of `to_dict`."""
        counts = np.array(stored["n_units"], dtype=np.float64)
        if counts.shape != (GRID,) or not (np.isfinite(counts) & (counts >= 0)).all():
            raise ValueError(f"n_units must have {GRID} elements, finite and not negative.")
        if (np.diff(counts) > 0).any():
            raise ValueError("n_units must not increase.")
        return cls(float(stored["low"]), float(stored["high"]), counts)


def restore_range(stored: Any, weight: Any, owner: str) -> WeightRange | None:
    """Restore the range of a model file, after comparing it with the ``sparsity_weight``."""
    if stored is None and not isinstance(weight, tuple | list):
        return None
    if stored is not None and isinstance(weight, tuple | list):
        found = WeightRange.from_dict(stored)
        if (found.low, found.high) == check_range(weight, owner):
            return found
    raise ModelFileError("Its range of 'sparsity_weight' is inconsistent.")
