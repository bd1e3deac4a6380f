"""Rollouts that are sampled in training, and the states that they visit.

Units that are informative only jointly are rarely drawn together by chance. Half of the exploration
therefore follows the interactions of the units (`suwr.training.screening`): after a unit, it
prefers units that interact with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.nn.inputs import MaskedInputs
from suwr.nn.networks import SeparateNetwork
from suwr.nn.step import Starts, decide, reveal_units, uniform
from suwr.training.config import Settings

__all__ = ["SampledSteps", "VisitedStates", "sample_rollouts"]

# Share of the exploration that follows the interactions.
GUIDED_SHARE = 0.5


@dataclass
class SampledSteps:
    """One step of the rows that have not stopped; or several steps, joined."""

    row: Tensor  # position in the batch
    before: Tensor  # state before the step
    available: Tensor  # units before the step
    stop: Tensor  # ζ_stop before the step
    units: Tensor  # revealed in the step
    exploration: Tensor  # their probability under the exploration distribution
    mask: Tensor  # state after the step
    cost: Tensor  # of the revealed units, multiplied by λ
    spent: Tensor  # cost of all units revealed so far

    @classmethod
    def join(cls, steps: list[SampledSteps]) -> SampledSteps:
        """Concatenate steps."""
        return cls(
            *(torch.cat(part) for part in zip(*(vars(s).values() for s in steps), strict=True))
        )

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Tensor) -> SampledSteps:
        """Some of the rows."""
        return SampledSteps(*(part[index] for part in vars(self).values()))


@dataclass
class VisitedStates:
    """States that a batch has visited, grouped by the fold of their row, ``(n_folds, m)``."""

    position: Tensor  # of the row within its fold
    mask: Tensor
    spent: Tensor  # cost of the revealed units
    valid: Tensor  # False for the padding of folds with fewer states

    @classmethod
    def of(cls, steps: SampledSteps, fold_size: int, n_folds: int) -> tuple[VisitedStates, Tensor]:
        """Group the states after all steps; also returns the place of each step in the groups."""
        index, valid = group_by_fold(steps.row, fold_size, n_folds)
        place = torch.empty_like(steps.row)
        flat = torch.arange(index.numel(), device=index.device).view_as(index)
        place[index[valid]] = flat[valid]
        states = cls(steps.row[index] % fold_size, steps.mask[index], steps.spent[index], valid)
        return states, place

    def sample(
        self, n: int, n_first: int, first: Tensor | None, generator: torch.Generator
    ) -> VisitedStates:
        """Draw ``n`` states of every fold; for ``n_first`` of them the rollout has not begun.

        ``first`` are the masks before the first step, grouped by fold; None reveals nothing.
        """
        device = self.mask.device
        index = torch.randint(self.mask.shape[1], (n,), generator=generator, device=device)
        position, mask, spent, valid = (part[:, index] for part in vars(self).values())
        start = torch.zeros_like(mask[:, :n_first])
        if first is not None:
            fold = torch.arange(len(mask), device=device).unsqueeze(1)
            start = first[fold, position[:, :n_first]]
        mask = torch.cat([start, mask[:, n_first:]], dim=1)
        begun = torch.arange(n, device=device) >= n_first
        return VisitedStates(position, mask, spent * begun, valid | ~begun)


def group_by_fold(position: Tensor, size: int, n_folds: int) -> tuple[Tensor, Tensor]:
    """Group entries by the fold of their row.

    Parameters
    ----------
    position : Tensor of int, shape (k,)
        Position of the row of each entry in a flattened batch ``(n_folds, size)``.
    size : int
        Rows of each fold in the batch.
    n_folds : int

    Returns
    -------
    index, valid : Tensors of shape (n_folds, m)
        Entries of each fold, padded to equal length, and whether each is not padding.
    """
    parts = [torch.nonzero(position // size == fold)[:, 0] for fold in range(n_folds)]
    longest = max(len(p) for p in parts)
    index = torch.stack([F.pad(p, (0, longest - len(p))) for p in parts])
    counts = torch.tensor([[len(p)] for p in parts], device=position.device)
    valid = torch.arange(longest, device=position.device).unsqueeze(0) < counts
    return index, valid


@torch.no_grad()
def sample_rollouts(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    values: Tensor,
    weight: Tensor,
    condition: Tensor | None,
    settings: Settings,
    epsilon: float,
    generator: torch.Generator,
    interaction: Tensor,
    starts: Starts,
) -> list[SampledSteps]:
    """Sample one rollout per row, from where it starts.

    A share ``epsilon`` of the choices of units is random; ``interaction`` ``(n_units, n_units)``
    guides half of it.
    """
    continuation = min(max(epsilon, settings.min_continuation), settings.max_continuation)
    n, device = len(values), values.device
    row = torch.arange(n, device=device)
    mask = starts.first_masks(n, inputs)
    spent = torch.zeros(n, device=device)
    shared = condition is starts.known is starts.budget is starts.available is None
    last: Tensor | None = None
    steps: list[SampledSteps] = []
    for number in range(settings.max_steps):
        if number == 0 and shared:
            # The first state is the same for every row: evaluate it once.
            seen = inputs.reveal(values[:1], mask[:1])
            decision = decide(network.decide, inputs, seen, mask[:1]).expand(n)
        else:
            seen = inputs.reveal(values, mask)
            allowed = starts.allowed(inputs, mask, spent.double())
            decision = decide(network.decide, inputs, seen, mask, condition, allowed=allowed)
        draw = torch.rand(len(row), generator=generator, device=device)
        going = draw >= decision.stop_probability * (1 - continuation)
        going = torch.nonzero(going & decision.available.any(dim=-1))[:, 0]
        if len(going) == 0:
            break
        row, mask, values, weight = row[going], mask[going], values[going], weight[going]
        decision, starts, spent = decision[going], starts[going], spent[going]
        condition = None if condition is None else condition[going]
        guide = None if last is None else partial(_guided, interaction[last[going]])
        units, exploration = decision.sample(
            settings.units_per_step, epsilon, generator, explore=guide
        )
        last, before = units[..., -1].clamp_min(0), mask
        mask, cost = reveal_units(inputs, mask, units, known=starts.known, costs=starts.costs)
        spent = spent + cost
        steps.append(SampledSteps(
            row, before, decision.available, decision.stop_probability, units, exploration, mask,
            cost * weight, spent,
        ))  # fmt: skip
    return steps


def _guided(interaction: Tensor, available: Tensor) -> Tensor:
    """Exploration that prefers units which interact with the last revealed one."""
    weight = interaction * available
    total = weight.sum(dim=-1, keepdim=True)
    guided = torch.where(total > 0, weight / total.clamp_min(1e-12), uniform(available))
    return (1 - GUIDED_SHARE) * uniform(available) + GUIDED_SHARE * guided
