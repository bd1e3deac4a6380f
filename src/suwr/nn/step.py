"""The step of Algorithm 1, written once for inference and every trainer, and where rollouts start.

`decide` evaluates the stopping and the selection policy, `Decision.best` or `Decision.sample`
chooses units, and `reveal_units` gives the state after the choice. None of them takes raw rows:
they see masked inputs and masks, so a decision cannot depend on an unrevealed value. Rows are
masked by `MaskedInputs.reveal`.

`Starts` states the known columns, available units, costs and budgets of rows, and every rollout and
every session applies them here. None of them is read from the row: a caller that derives them from
hidden values makes the decisions depend on hidden values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.nn.inputs import MaskedInputs, gumbel_softmax
from suwr.nn.networks import PolicyOutputs

Heads = Callable[[Tensor, Tensor | None, Tensor | None], tuple[Tensor, PolicyOutputs]]


class Sample(NamedTuple):
    """Units drawn with exploration.

    Attributes
    ----------
    units : Tensor of int, shape (..., units_per_step)
        -1 where nothing was drawn.
    exploration : Tensor of shape (..., units_per_step)
        Probability of each draw under the exploration distribution.
    """

    units: Tensor
    exploration: Tensor


# Units that a policy might as well have chosen: at most so many, each of at least this probability
# relative to that of the chosen one.
MAX_ALTERNATIVES, NEAR_TIE = 3, 0.9


class Alternatives(NamedTuple):
    """Units that the selection policy might as well have chosen.

    Attributes
    ----------
    units : Tensor of int, shape (..., 3)
        The most probable first; -1 where there are fewer.
    odds : Tensor of shape (..., 3)
        Their probabilities, relative to that of the least probable chosen unit.
    """

    units: Tensor
    odds: Tensor


@dataclass(frozen=True)
class Decision:
    """The stopping and the selection policy in one state per row.

    Attributes
    ----------
    stop_probability : Tensor of shape (...)
        ζ_stop; 1 where no unit is available.
    raw_logits : Tensor of shape (..., n_units)
        Selection logits before masking.
    available : Tensor of bool, shape (..., n_units)
        Units that may be chosen and would still reveal a column.
    gain : Tensor of shape (...)
        Expected gain of continuing, from which ζ_stop follows.
    outputs : Tensor of shape (..., n_outputs), or None
        Predictor outputs, for networks that compute them in the same pass.
    """

    stop_probability: Tensor
    raw_logits: Tensor
    available: Tensor
    gain: Tensor
    outputs: Tensor | None = None

    def __getitem__(self, index: Tensor | tuple[slice | Tensor, ...]) -> Decision:
        """Decisions of some of the rows."""
        return _each(self, lambda part: part[index])

    @property
    def logits(self) -> Tensor:
        """Selection logits, -inf for units that are not available."""
        return self.raw_logits.masked_fill(~self.available, -torch.inf)

    @property
    def finite_logits(self) -> Tensor:
        """As `logits`, but unmasked in rows without available units.

        Their softmax is then defined; whatever is drawn from it must be ignored.
        """
        closed = ~self.available.any(dim=-1, keepdim=True)
        return self.raw_logits.masked_fill(~(self.available | closed), -torch.inf)

    @property
    def probability(self) -> Tensor:
        """ζ_select, ``(..., n_units)``."""
        return self.finite_logits.softmax(dim=-1)

    def restricted(self, units: Tensor) -> Decision:
        """The decision if only ``units`` ``(..., n_units)`` were available."""
        return replace(self, available=units)

    def expand(self, *shape: int) -> Decision:
        """Repeat the decision of one state for all rows of ``shape``."""
        n = self.gain.dim()
        return _each(self, lambda part: part.expand(*shape, *part.shape[n:]))

    def best(self, units_per_step: int, noise: Tensor | None = None) -> Tensor:
        """The units of largest logit, ``(..., units_per_step)``; -1 where fewer are available.

        With Gumbel ``noise`` ``(..., n_units)`` they are a sample without replacement.
        """
        scores = self.logits if noise is None else self.logits + noise
        return best_units(scores.flatten(0, -2), units_per_step).unflatten(0, scores.shape[:-1])

    def alternatives(self, units: Tensor) -> Alternatives:
        """The units that nearly tied with the chosen ``units`` ``(n, units_per_step)``."""
        index, logits = units.clamp_min(0), self.logits
        chosen = logits.gather(-1, index).masked_fill(units < 0, torch.inf)
        least = chosen.amin(dim=-1, keepdim=True)
        odds = (logits.scatter(-1, index, -torch.inf) - least).exp()
        odds, units = odds.topk(min(MAX_ALTERNATIVES, odds.shape[-1]), dim=-1)
        missing = MAX_ALTERNATIVES - odds.shape[-1]
        units = torch.where(odds >= NEAR_TIE, units, -1)
        return Alternatives(F.pad(units, (0, missing), value=-1), F.pad(odds, (0, missing)))

    def margin(self, units_per_step: int, threshold: float = 0.5) -> Tensor:
        """Distance from the nearest other decision of the greedy policy, ``(...)``.

        The distance of ζ_stop from the threshold and, where the row continues, the smallest
        difference between neighbours among the chosen logits and the next largest one. Infinite
        where no unit is available, which leaves no decision.
        """
        margin = (self.stop_probability - threshold).abs()
        top = self.logits.topk(min(units_per_step + 1, self.logits.shape[-1]), dim=-1).values
        if top.shape[-1] > 1:
            # The difference to a unit that is not available is infinite, or NaN between two.
            gaps = (top[..., :-1] - top[..., 1:]).nan_to_num(nan=torch.inf, posinf=torch.inf)
            going = self.stop_probability < threshold
            margin = torch.where(going, torch.minimum(margin, gaps.amin(dim=-1)), margin)
        return torch.where(self.available.any(dim=-1), margin, torch.inf)

    @torch.no_grad()
    def sample(
        self,
        units_per_step: int,
        epsilon: float,
        generator: torch.Generator,
        active: Tensor | None = None,
        explore: Callable[[Tensor], Tensor] | None = None,
    ) -> Sample:
        """Draw units without replacement from ``(1 - ε) ζ_select + ε exploration``.

        Parameters
        ----------
        units_per_step : int
        epsilon : float
            Share of exploration.
        generator : torch.Generator
        active : Tensor of bool, shape (...), optional
            Rows that choose; the others draw as well, but ignore the draw.
        explore : callable, optional
            From the units that can be drawn to the exploration distribution over them; uniform by
            default.
        """
        left, chosen, explored = self.available, [], []
        for _ in range(units_per_step):
            open_row = left.any(dim=-1)
            if active is not None:
                open_row = open_row & active
            exploration = uniform(left) if explore is None else explore(left)
            mixture = torch.lerp(self.restricted(left).probability, exploration, epsilon)
            draws = torch.where(open_row.unsqueeze(-1), mixture, 1.0)
            unit = torch.multinomial(draws.flatten(0, -2), 1, generator=generator)
            unit = unit.unflatten(0, open_row.shape)
            left = left.scatter(-1, unit, False)
            chosen.append(torch.where(open_row, unit[..., 0], -1))
            explored.append(exploration.gather(-1, unit)[..., 0])
        return Sample(torch.stack(chosen, dim=-1), torch.stack(explored, dim=-1))

    def relaxed(self, temperature: float | Tensor, generator: torch.Generator) -> Tensor:
        """A differentiable choice of one unit, Gumbel-softmax, ``(..., n_units)``."""
        return gumbel_softmax(self.finite_logits, temperature, generator)

    def log_prob(self, sample: Sample, epsilon: float = 0.0) -> Tensor:
        """Log-probability of a sample under ``(1 - ε) ζ_select + ε exploration``, ``(...)``."""
        left, total = self.available, torch.zeros_like(self.gain)
        for unit, exploration in zip(
            sample.units.unbind(dim=-1), sample.exploration.unbind(dim=-1), strict=True
        ):
            index = unit.clamp_min(0).unsqueeze(-1)
            taken = self.restricted(left).probability.gather(-1, index)[..., 0]
            mixture = torch.lerp(taken, exploration.to(taken.dtype), epsilon)
            total = total + torch.where(unit >= 0, mixture.clamp_min(1e-12).log(), 0.0)
            left = left.scatter(-1, index, False)
        return total


def uniform(available: Tensor) -> Tensor:
    """The uniform distribution over the available units of each row."""
    return available / available.sum(dim=-1, keepdim=True).clamp_min(1)


class Revealed(NamedTuple):
    """The state after a choice.

    Attributes
    ----------
    mask : Tensor of bool, shape (..., n_columns)
    cost : Tensor of shape (...)
        Cost of the units that the step revealed, and of the visit.
    """

    mask: Tensor
    cost: Tensor


def decide(
    heads: Heads,
    inputs: MaskedInputs,
    seen: Tensor,
    mask: Tensor,
    condition: Tensor | None = None,
    prediction: Tensor | None = None,
    allowed: Tensor | None = None,
) -> Decision:
    """Evaluate both policies on masked inputs.

    Parameters
    ----------
    heads : callable
        `Network.decide`, or a function of the same signature.
    inputs : MaskedInputs
        The units.
    seen : Tensor of shape (..., n_inputs)
        Masked inputs ``[x ⊙ h, h]``; see `MaskedInputs.reveal`.
    mask : Tensor of bool, shape (..., n_columns)
        *h*.
    condition : Tensor of shape (...), optional
        Position of λ in its range, for a network trained for a range.
    prediction : Tensor of shape (..., n_outputs), optional
        Class probabilities, for a policy that stops by predictive uncertainty.
    allowed : Tensor of bool, shape (..., n_units), optional
        Units that may be chosen, of those that would reveal a column; all of them by default.
    """
    stop_logit, found = heads(seen, condition, prediction)
    available = inputs.available(mask)
    available = available if allowed is None else available & allowed
    stop = torch.where(available.any(dim=-1), torch.sigmoid(stop_logit), 1.0)
    return Decision(stop, found.logits, available, found.gain, found.outputs)


def reveal_units(
    inputs: MaskedInputs,
    mask: Tensor,
    units: Tensor,
    active: Tensor | None = None,
    weight: Tensor | None = None,
    known: Tensor | None = None,
    costs: Tensor | None = None,
    *,
    visit: bool = True,
) -> Revealed:
    """The state after units were chosen.

    Parameters
    ----------
    inputs : MaskedInputs
    mask : Tensor of bool, shape (..., n_columns)
    units : Tensor of int, shape (..., units_per_step)
        -1 reveals nothing.
    active : Tensor of bool, shape (...), optional
        Rows that continue; the others keep their mask and pay nothing.
    weight : Tensor of shape (...), optional
        Factor of the costs, such as λ.
    known : Tensor of bool, shape (..., n_columns), optional
        Columns that were known at the start; see `MaskedInputs.unit_costs`.
    costs : Tensor of shape (..., n_units), optional
        Costs of the units of each row, instead of those of all rows.
    visit : bool, default=True
        Whether the units are a visit of their own, which is charged if there is any unit.
    """
    cost = torch.zeros(mask.shape[:-1], device=mask.device)
    for unit in units.unbind(dim=-1):
        taken = unit >= 0 if active is None else active & (unit >= 0)
        number = unit.clamp_min(0)
        paid = inputs.cost_of(number, mask, known, costs)
        paid = paid if weight is None else paid * weight
        mask = torch.where(taken.unsqueeze(-1), inputs.add(mask, number), mask)
        cost = cost + torch.where(taken, paid, 0.0)
    if visit and inputs.visit_cost > 0:
        going = (units >= 0).any(dim=-1)
        going = going if active is None else active & going
        fee = going * inputs.visit_cost
        cost = cost + (fee if weight is None else fee * weight)
    return Revealed(mask, cost)


def best_units(scores: Tensor, width: int) -> Tensor:
    """The ``width`` best units of each row, best first; -1 where fewer have a finite score.

    A single best unit is the arg max, whatever its score.
    """
    if width == 1:
        return scores.argmax(dim=1, keepdim=True)
    top = scores.topk(min(width, scores.shape[1]), dim=1)
    units = torch.where(torch.isneginf(top.values), -1, top.indices)
    return F.pad(units, (0, width - units.shape[1]), value=-1)


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
        return _each(self, lambda part: part[rows])

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


State = TypeVar("State", Decision, Starts)


def _each(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """A state with a function applied to each of its tensors."""
    parts = vars(state).items()
    changed: dict[str, Any] = {k: change(v) for k, v in parts if isinstance(v, Tensor)}
    return replace(state, **changed)


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
