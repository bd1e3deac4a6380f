"""The step of Algorithm 1, written once for inference and for every trainer.

`decide` evaluates the stopping and the selection policy, `Decision.best` or `Decision.sample`
chooses units, and `reveal_units` gives the state after the choice. None of them takes raw rows:
they see masked inputs and masks, so a decision cannot depend on an unrevealed value. Rows are
masked by `MaskedInputs.reveal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.nn.inputs import MaskedInputs, gumbel
from suwr.nn.networks import PolicyOutputs

__all__ = ["Decision", "Revealed", "Sample", "best_units", "decide", "reveal_units", "uniform"]

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
        return Decision(
            self.stop_probability[index],
            self.raw_logits[index],
            self.available[index],
            self.gain[index],
            None if self.outputs is None else self.outputs[index],
        )

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
        return Decision(
            self.stop_probability.expand(*shape),
            self.raw_logits.expand(*shape, -1),
            self.available.expand(*shape, -1),
            self.gain.expand(*shape),
            None if self.outputs is None else self.outputs.expand(*shape, -1),
        )

    def best(self, units_per_step: int, noise: Tensor | None = None) -> Tensor:
        """The units of largest logit, ``(..., units_per_step)``; -1 where fewer are available.

        With Gumbel ``noise`` ``(..., n_units)`` they are a sample without replacement.
        """
        scores = self.logits if noise is None else self.logits + noise
        return best_units(scores.flatten(0, -2), units_per_step).unflatten(0, scores.shape[:-1])

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
        log_probability = self.finite_logits.log_softmax(dim=-1)
        noise = gumbel(tuple(log_probability.shape), generator)
        return ((log_probability + noise) / temperature).softmax(dim=-1)

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
