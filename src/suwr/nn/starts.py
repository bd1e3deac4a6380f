"""Where rollouts start and what they may acquire: known columns, available units, costs, budgets.

Every rollout and every session applies these here. None of them is read from the row: a caller that
derives them from hidden values makes the decisions depend on hidden values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.step import Decision, Revealed, reveal_units

__all__ = ["Starts", "acquire_units", "training_starts"]

# Relative tolerance of budgets: costs have single precision, and their sum is rounded.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Starts:
    """The start states of rows, and what may be acquired from there.

    Attributes
    ----------
    known : Tensor of bool, shape (n, n_columns), or None
        Columns that are revealed at no cost before the first decision; None is no column.
    available : Tensor of bool, shape (n, n_units), or None
        Units that may be acquired; None is all of them.
    budget : Tensor of float64, shape (n,), or None
        Largest cost of the acquired units; None is no limit. A unit that exceeds what is left of it
        is not available.
    spend_all : bool
        Whether a row may stop only when no unit is available.
    costs : Tensor of shape (n, n_units), or None
        Costs of the units of each row; None is those of the model.
    """

    known: Tensor | None = None
    available: Tensor | None = None
    budget: Tensor | None = None
    spend_all: bool = False
    costs: Tensor | None = None

    @classmethod
    def usual(cls, inputs: MaskedInputs, n: int) -> Starts | None:
        """The starts of rows unless given: with the columns that training always knew."""
        if inputs.known is None or not bool((inputs.known == 1).any()):
            return None
        return cls(known=(inputs.known == 1).expand(n, -1))

    def __getitem__(self, rows: Tensor | slice) -> Starts:
        """The starts of some of the rows."""
        return Starts(
            None if self.known is None else self.known[rows],
            None if self.available is None else self.available[rows],
            None if self.budget is None else self.budget[rows],
            self.spend_all,
            None if self.costs is None else self.costs[rows],
        )

    def first_masks(self, n: int, inputs: MaskedInputs) -> Tensor:
        """The masks before the first decision."""
        if self.known is not None:
            return self.known.clone()
        return torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=inputs.device)

    def allowed(
        self, inputs: MaskedInputs, mask: Tensor, spent: Tensor, *, visit: bool = True
    ) -> Tensor | None:
        """Units that may be acquired in a state, ``(n, n_units)``; None is all of them.

        Parameters
        ----------
        inputs : MaskedInputs
        mask : Tensor of bool, shape (n, n_columns)
        spent : Tensor of float64, shape (n,)
            Cost of the units acquired so far.
        visit : bool, default=True
            Whether the units begin a visit, which is charged as well.
        """
        if self.budget is None:
            return self.available
        total = spent.unsqueeze(-1) + inputs.unit_costs(mask, self.known, self.costs).double()
        total = total + inputs.visit_cost if visit else total
        affordable = total <= self.budget.unsqueeze(-1) * (1 + TOLERANCE)
        return affordable if self.available is None else affordable & self.available


def training_starts(
    inputs: MaskedInputs, values: Tensor, costs: Tensor | None = None
) -> Starts | None:
    """The starts of encoded rows during training; None if they start from nothing.

    Columns are known at random, equally in every call, and units that were not recorded are not
    available. Which cells were recorded must not be used otherwise: it may depend on their values.
    """
    known = inputs.first_masks((len(values),), torch.Generator().manual_seed(0))
    available = inputs.recorded_units(values)
    if known is None and available is None and costs is None:
        return None
    return Starts(known, available, costs=costs)


def acquire_units(
    inputs: MaskedInputs,
    decision: Decision,
    mask: Tensor,
    units_per_step: int,
    noise: Tensor | None = None,
    starts: Starts | None = None,
    spent: Tensor | None = None,
) -> tuple[Tensor, Revealed]:
    """The best units of a decision, and the state after they were acquired.

    Within a step, a unit is chosen only if the budget covers it together with those before it.

    Parameters
    ----------
    inputs : MaskedInputs
    decision : Decision
    mask : Tensor of bool, shape (n, n_columns)
    units_per_step : int
    noise : Tensor of shape (n, n_units), optional
        As in `Decision.best`.
    starts : Starts, optional
    spent : Tensor of float64, shape (n,), optional
        Cost of the units acquired so far; required with ``starts``.
    """
    known, costs = (None, None) if starts is None else (starts.known, starts.costs)
    if starts is None or starts.budget is None or units_per_step == 1:
        units = decision.best(units_per_step, noise)
        return units, reveal_units(inputs, mask, units, known=known, costs=costs)
    assert spent is not None
    scores = decision.logits if noise is None else decision.logits + noise
    cost, chosen = torch.zeros_like(decision.gain), []
    for number in range(units_per_step):
        visit = number == 0
        allowed = starts.allowed(inputs, mask, spent + cost.double(), visit=visit)
        assert allowed is not None
        best = scores.masked_fill(~allowed, -torch.inf).max(dim=-1)
        unit = torch.where(torch.isneginf(best.values), -1, best.indices).unsqueeze(-1)
        mask, paid = reveal_units(inputs, mask, unit, known=known, costs=costs, visit=visit)
        cost = cost + paid
        scores = scores.scatter(-1, best.indices.unsqueeze(-1), -torch.inf)
        chosen.append(unit)
    return torch.cat(chosen, dim=-1), Revealed(mask, cost)
