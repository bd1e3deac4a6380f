"""Stopping rules of DIME and SEFA."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Stopping"]


@dataclass(frozen=True)
class Stopping:
    """Stopping rule; criteria that are None are ignored.

    Attributes
    ----------
    sparsity_weight : float or None
        Stop if no unit has this gain per unit of cost.
    confidence : float or None
        Stop if a class has at least this probability.
    max_cost : float or None
        Stop if the next unit would exceed this total cost.
    """

    sparsity_weight: float | None = None
    confidence: float | None = None
    max_cost: float | None = None

    def applies(
        self, scores: Tensor, available: Tensor, costs: Tensor, prediction: Tensor
    ) -> Tensor:
        """Return which rows stop.

        Parameters
        ----------
        scores : Tensor of shape (n, n_units)
            The next unit is the available one of largest score, a gain per cost if
            ``sparsity_weight`` is given.
        available : Tensor of bool, shape (n, n_units)
        costs : Tensor of shape (n_units,)
        prediction : Tensor of shape (n, n_outputs)
            Class probabilities if ``confidence`` is given.

        Returns
        -------
        Tensor of bool, shape (n,)

        Examples
        --------
        >>> scores, available = torch.tensor([[0.3, 0.1]]), torch.tensor([[True, True]])
        >>> costs, prediction = torch.tensor([2.0, 1.0]), torch.tensor([[0.9, 0.1]])
        >>> for rule in (Stopping(max_cost=1.0), Stopping(max_cost=2.0), Stopping(confidence=0.9)):
        ...     rule.applies(scores, available, costs, prediction).tolist()
        [True]
        [False]
        [True]
        """
        best = scores.masked_fill(~available, -torch.inf).max(dim=1)
        stop = torch.zeros_like(best.values, dtype=torch.bool)
        if self.sparsity_weight is not None:
            stop |= best.values < self.sparsity_weight
        if self.confidence is not None:
            stop |= prediction.amax(dim=1) >= self.confidence
        if self.max_cost is not None:
            spent = torch.where(available, 0.0, costs).sum(dim=1)
            stop |= spent + costs[best.indices] > self.max_cost
        return stop
