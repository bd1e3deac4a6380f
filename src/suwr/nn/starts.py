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

__all__ = ["Starts", "acquire_units", "evenly_spread", "training_starts"]

# Relative tolerance of budgets: costs have single precision, and their sum is rounded.
TOLERANCE = 1e-6
_GOLDEN_RATIO = 0.6180339887498949


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
        """The starts of rows unless given: with the columns that training always knew.

        Their budget is the largest one that the policy was trained for.
        """
        known = None
        if inputs.known is not None and bool((inputs.known == 1).any()):
            known = (inputs.known == 1).expand(n, -1)
        budget = None
        if inputs.budgets is not None:
            high = inputs.budgets.high
            budget = torch.full((n,), high, dtype=torch.float64, device=inputs.device)
        return None if known is budget is None else cls(known, budget=budget)

    def __getitem__(self, rows: Tensor | slice | tuple[slice, Tensor]) -> Starts:
        """The starts of some of the rows."""
        return Starts(
            None if self.known is None else self.known[rows],
            None if self.available is None else self.available[rows],
            None if self.budget is None else self.budget[rows],
            self.spend_all,
            None if self.costs is None else self.costs[rows],
        )

    def condition(self, inputs: MaskedInputs) -> Tensor | None:
        """Positions of the budgets, ``(n,)``; None unless the policy was trained for budgets."""
        if inputs.budgets is None or self.budget is None:
            return None
        return inputs.budgets.position(self.budget)

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
    inputs: MaskedInputs, values: Tensor, costs: Tensor | None = None, turn: int = 0
) -> Starts | None:
    """The starts of encoded rows during training; None if they start from nothing.

    Budgets are evenly spread over their range, differently in every ``turn``.

    Columns are known at random, equally in every call, and units that were not recorded are not
    available. Which cells were recorded must not be used otherwise: it may depend on their values.
    """
    known = inputs.first_masks((len(values),), torch.Generator().manual_seed(0))
    available = inputs.recorded_units(values)
    budget = None
    if inputs.budgets is not None:
        uniform = evenly_spread(len(values), turn, values.device)
        budget = inputs.budgets.at(uniform, float(inputs.costs.mean()))
    if known is available is costs is budget is None:
        return None
    return Starts(known, available, budget, costs=costs)


def evenly_spread(n: int, turn: int, device: torch.device) -> Tensor:
    """Numbers in [0, 1), evenly spread in every ``turn``, ``(n,)``."""
    # Multiples of the golden ratio modulo 1 are a low-discrepancy sequence.
    number = torch.arange(n, dtype=torch.float64, device=device) + n * turn
    return number * _GOLDEN_RATIO % 1.0


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
    # A unit may become affordable by those before it, if they make it cheaper.
    left = inputs.available(mask)
    left = left if starts.available is None else left & starts.available
    scores = decision.raw_logits.masked_fill(~left, -torch.inf)
    scores = scores if noise is None else scores + noise
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
