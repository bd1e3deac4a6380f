"""One model for a range of λ: which λ to use, and how many features each of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.nn.rollout import Policy
from suwr.training.data import BLOCK_ROWS, Rows
from suwr.training.sparsity import condition_of

__all__ = ["WeightRange", "check_range"]

# Places in the range at which the validation rows are counted.
GRID = 33


def check_range(value: Any, owner: str) -> tuple[float, float]:
    """A range of λ as two numbers, or an error that names the parameter."""
    numbers = len(value) == 2 and all(isinstance(v, Real) for v in value)
    if not numbers or not 0 < value[0] < value[1] < np.inf:
        raise ValueError(
            f"The 'sparsity_weight' parameter of {owner} must be a number, 'auto', or a range "
            f"(low, high) with 0 < low < high. Got {tuple(value)!r} instead."
        )
    return float(value[0]), float(value[1])


@dataclass(frozen=True)
class WeightRange:
    """The range that a model was trained for.

    Attributes
    ----------
    low, high : float
        λ in the user's units.
    n_units : ndarray of shape (GRID,)
        Mean number of units that validation rows reveal, from ``low`` to ``high`` in equal steps of
        the logarithm; never increasing.
    """

    low: float
    high: float
    n_units: NDArray[np.float64]

    @classmethod
    def measure(cls, low: float, high: float, policy: Policy, rows: Rows) -> WeightRange:
        """Count the units that validation rows take at every place of the range."""
        # A GPU is quicker with few large blocks, and a mean does not need equal rounding.
        block = min(len(rows), BLOCK_ROWS if policy.device.type == "cuda" else policy.block)
        at = [policy.at(condition, block) for condition in np.linspace(-1.0, 1.0, GRID)]
        counts = [
            sum((there.rollout(part.values).order >= 0).sum() for _, part in rows.blocks())
            / len(rows)
            for there in at
        ]
        # A dearer unit is never asked for more often; where it seems so, that is noise.
        return cls(low, high, np.minimum.accumulate(counts))

    def condition(self, sparsity_weight: float | None, mean_features: float | None) -> float:
        """Where in the range to decide: -1 at the low end, 1 at the high one.

        Without either argument, in the middle.
        """
        if sparsity_weight is not None and mean_features is not None:
            raise ValueError("Give either 'sparsity_weight' or 'mean_features', not both.")
        if sparsity_weight is not None:
            if (
                not isinstance(sparsity_weight, Real)
                or not self.low <= sparsity_weight <= self.high
            ):
                raise ValueError(
                    f"The 'sparsity_weight' parameter must lie in [{self.low:g}, {self.high:g}], "
                    f"the range that the model was trained for. Got {sparsity_weight!r} instead."
                )
            return condition_of(float(sparsity_weight), self.low, self.high)
        if mean_features is None:
            return 0.0
        most, least = float(self.n_units[0]), float(self.n_units[-1])
        if not isinstance(mean_features, Real) or not least <= mean_features <= most:
            raise ValueError(
                f"The 'mean_features' parameter must lie in [{least:.3g}, {most:.3g}], what the "
                f"range of sparsity weights spans on the validation rows. "
                f"Got {mean_features!r} instead."
            )
        # Interpolation needs increasing numbers: read the grid from its dear end.
        grid = np.linspace(-1.0, 1.0, GRID)
        return float(np.interp(float(mean_features), self.n_units[::-1], grid[::-1]))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for model files."""
        return {"low": self.low, "high": self.high, "n_units": self.n_units.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WeightRange:
        """Undo `to_dict`."""
        counts = np.array(stored["n_units"], dtype=np.float64)
        if counts.shape != (GRID,):
            raise ValueError(f"n_units must hold {GRID} numbers.")
        return cls(float(stored["low"]), float(stored["high"]), counts)
