"""Rollouts in training: sampled ones, the states that they visit, and greedy ones of many models.

Units that are informative only jointly are rarely drawn together by chance. Half of the exploration
therefore follows the interactions of the units (`suwr.training.screening`): after a unit, it
prefers units that interact with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Network, SeparateNetwork
from suwr.nn.step import Revealed, Starts, decide, reveal_units, training_starts, uniform
from suwr.training.config import Settings
from suwr.training.data import group_by_fold, to_folds

__all__ = ["SampledSteps", "VisitedStates", "rollout_together", "sample_rollouts"]

# Share of the exploration that follows the interactions.
GUIDED_SHARE = 0.5


@dataclass
class SampledSteps:
    """One step of the rows of a batch, ``(n_models, n)``; or several, joined along the rows."""

    row: Tensor  # position in the batch
    active: Tensor  # whether the row had not stopped
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
        """Concatenate the rows of all steps."""
        parts = zip(*(vars(s).values() for s in steps), strict=True)
        return cls(*(torch.cat(part, dim=1) for part in parts))

    def __getitem__(self, index: Tensor) -> SampledSteps:
        """Some of the rows."""
        return SampledSteps(*(part[:, index] for part in vars(self).values()))


@dataclass
class VisitedStates:
    """All states visited by a batch, grouped by fold ``(n_folds · n_models, m)``."""

    position: Tensor  # of the row within its fold
    step: Tensor  # number of steps taken
    mask: Tensor
    active: Tensor
    spent: Tensor  # cost of the revealed units

    @classmethod
    def of(cls, steps: list[SampledSteps], fold_size: int, n_folds: int) -> VisitedStates:
        """Group the states after all steps by the fold of their row."""
        if steps[-1].row.shape[1] < n_folds * fold_size:
            # Stopped rows were removed from the batch of a single model.
            row = torch.cat([s.row[0] for s in steps])
            number = torch.cat([torch.full_like(s.row[0], t + 1) for t, s in enumerate(steps)])
            index, valid = group_by_fold(row, fold_size, n_folds)
            mask = torch.cat([s.mask[0] for s in steps])[index]
            active = torch.cat([s.active[0] for s in steps])[index] & valid
            spent = torch.cat([s.spent[0] for s in steps])[index]
            return cls(row[index] % fold_size, number[index], mask, active, spent)
        mask, active, spent = (
            torch.cat([to_folds(x, n_folds) for x in part], dim=1)
            for part in zip(*((s.mask, s.active, s.spent) for s in steps), strict=True)
        )
        device = mask.device
        position = torch.arange(fold_size, device=device).repeat(len(steps)).expand(active.shape)
        number = torch.arange(1, len(steps) + 1, device=device).repeat_interleave(fold_size)
        return cls(position, number.expand(active.shape), mask, active, spent)

    def sample(
        self, n: int, n_first: int, first: Tensor | None, generator: torch.Generator
    ) -> VisitedStates:
        """Draw ``n`` states of every fold; for ``n_first`` of them the rollout has not begun.

        ``first`` are the masks before the first step, grouped by fold; None reveals nothing.
        """
        device = self.mask.device
        index = torch.randint(self.mask.shape[1], (n,), generator=generator, device=device)
        position, step, mask, active, spent = (part[:, index] for part in vars(self).values())
        start = torch.zeros_like(mask[:, :n_first])
        if first is not None:
            fold = torch.arange(len(mask), device=device).unsqueeze(1)
            start = first[fold, position[:, :n_first]]
        mask = torch.cat([start, mask[:, n_first:]], dim=1)
        begun = torch.arange(n, device=device) >= n_first
        return VisitedStates(position, step * begun, mask, active | ~begun, spent * begun)


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
    first: Tensor | None = None,
    costs: Tensor | None = None,
    budget: Tensor | None = None,
) -> list[SampledSteps]:
    """Sample one rollout per row ``(n_models, n)``, from the masks ``first``, within ``budget``.

    A share ``epsilon`` of the choices of units is random; ``interaction``
    ``(n_models, n_units, n_units)`` guides half of it.

    Stopped rows are removed from the batch of a single model on a CPU. Otherwise they stay in it as
    inactive: models keep batches of one size, and a GPU needs no synchronisation per step.
    """
    continuation = min(max(epsilon, settings.min_continuation), settings.max_continuation)
    (m, n), device = values.shape[:2], values.device
    remove = m == 1 and device.type == "cpu"
    row = torch.arange(n, device=device).expand(m, n)
    active = torch.ones(m, n, dtype=torch.bool, device=device)
    empty = torch.zeros(m, n, inputs.n_columns, dtype=torch.bool, device=device)
    mask = empty if first is None else first
    starts = Starts(first, inputs.recorded_units(values), budget, costs=costs)
    spent = torch.zeros(m, n, device=device)
    shared = condition is first is budget is starts.available is None
    model = torch.arange(m, device=device).unsqueeze(1)
    last: Tensor | None = None
    steps: list[SampledSteps] = []
    for number in range(settings.max_steps):
        if number == 0 and shared:
            # The first state is the same for every row: evaluate it once.
            seen = inputs.reveal(values[:, :1], mask[:, :1])
            decision = decide(network.decide, inputs, seen, mask[:, :1]).expand(m, n)
        else:
            seen = inputs.reveal(values, mask)
            allowed = starts.allowed(inputs, mask, spent.double())
            decision = decide(network.decide, inputs, seen, mask, condition, allowed=allowed)
        stop = decision.stop_probability
        draw = torch.rand(active.shape, generator=generator, device=device)
        open_row = decision.available.any(dim=-1)
        active = active & (draw >= stop * (1 - continuation)) & open_row
        if remove:
            going = torch.nonzero(active[0])[:, 0]
            if len(going) == 0:
                break
            row, active, mask = row[:, going], active[:, going], mask[:, going]
            decision, values, weight = decision[:, going], values[:, going], weight[:, going]
            condition = None if condition is None else condition[:, going]
            last = None if last is None else last[:, going]
            starts, spent = starts[:, going], spent[:, going]
        units, exploration = decision.sample(
            settings.units_per_step, epsilon, generator, active,
            None if last is None else partial(_guided, interaction[model, last]),
        )  # fmt: skip
        last, before = units[..., -1].clamp_min(0), mask
        mask, cost = reveal_units(inputs, mask, units, known=starts.known, costs=starts.costs)
        spent = spent + cost
        stop = decision.stop_probability
        steps.append(SampledSteps(
            row, active, before, decision.available, stop, units, exploration, mask,
            cost * weight, spent,
        ))  # fmt: skip
    return steps


@torch.no_grad()
def rollout_together(
    network: Network,
    inputs: MaskedInputs,
    loss: Loss,
    values: Tensor,
    max_steps: int,
    units_per_step: int = 1,
    condition: Tensor | None = None,
    costs: Tensor | None = None,
    turn: int = 0,
) -> Revealed:
    """Greedy inference of several models at once, each on its own rows, during training.

    Rows that have stopped stay in the batch, which saves a GPU a synchronisation per step.
    Decisions are those of `Policy`, up to rounding.

    Parameters
    ----------
    network : Network
        Of several models.
    inputs : MaskedInputs
    loss : Loss
    values : Tensor of shape (n_models, n, n_values)
    max_steps, units_per_step : int
    condition : Tensor of shape (n_models, n), optional
        Position of λ in its range for every row.
    costs : Tensor of shape (n_models, n, n_units), optional
        Costs of the units of each row.
    turn : int, default=0
        As in `training_starts`.

    Returns
    -------
    mask : Tensor of bool, shape (n_models, n, n_columns)
    cost : Tensor of shape (n_models, n)
    """
    shape = values.shape[:2]
    prices = None if costs is None else costs.flatten(0, 1)
    starts = training_starts(inputs, values.flatten(0, 1), prices, turn) or Starts()
    mask = starts.first_masks(shape.numel(), inputs).unflatten(0, shape)
    known = None if starts.known is None else mask
    if condition is None and (position := starts.condition(inputs)) is not None:
        condition = position.unflatten(0, shape)
    cost = torch.zeros(shape, device=values.device)
    going = torch.ones(shape, dtype=torch.bool, device=values.device)
    for _ in range(max_steps):
        seen = inputs.reveal(values, mask)
        prediction = network.consensus(seen, loss) if network.architecture.informed else None
        allowed = starts.allowed(inputs, mask.flatten(0, 1), cost.flatten().double())
        allowed = None if allowed is None else allowed.unflatten(0, shape)
        decision = decide(network.decide, inputs, seen, mask, condition, prediction, allowed)
        going = going & (decision.stop_probability < 0.5)
        units = decision.best(units_per_step)
        mask, paid = reveal_units(inputs, mask, units, going, known=known, costs=costs)
        cost = cost + paid
    return Revealed(mask, cost)


def _guided(interaction: Tensor, available: Tensor) -> Tensor:
    """Exploration that prefers units which interact with the last revealed one."""
    weight = interaction * available
    total = weight.sum(dim=-1, keepdim=True)
    guided = torch.where(total > 0, weight / total.clamp_min(1e-12), uniform(available))
    return (1 - GUIDED_SHARE) * uniform(available) + GUIDED_SHARE * guided
