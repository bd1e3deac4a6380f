"""Budgets that a policy is trained for, and their position as an input of its networks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Budgets"]


@dataclass(frozen=True)
class Budgets:
    """A range of budgets, the largest cost of a row.

    The position of a budget in the range, from -1 to 1, is an input of the networks. What is left
    of the budget follows from the mask.

    Attributes
    ----------
    low, high : float
    """

    low: float
    high: float

    def at(self, uniform: Tensor, mean_cost: float) -> Tensor:
        """Budgets in the range for numbers that are uniform on [0, 1).

        The density is uniform up to the last unit, of ``mean_cost``, which ``high`` just affords:
        with unit costs, all whole budgets are equally frequent.

        Examples
        --------
        >>> Budgets(1.0, 3.0).at(torch.tensor([0.0, 0.5, 0.9]), 1.0).tolist()
        [1.0, 2.5, 3.0]
        """
        return (self.low + uniform.double() * (self.high - self.low + mean_cost)).clamp_max(
            self.high
        )

    def position(self, budget: Tensor) -> Tensor:
        """The positions of budgets; those outside of the range have the position of its end."""
        share = (budget.clamp(self.low, self.high) - self.low) / (self.high - self.low)
        return (2.0 * share - 1.0).to(torch.float32)
