"""Training of the policy by sampled rollouts with a value baseline.

One rollout of a row visits states ``s_0 = ∅, s_1, …``. With ``l_t`` the loss of the cross-fitted
predictor in state ``s_t`` and ``c_t`` the price of the units that step ``t`` reveals,

    cost of going on     C_t = c_t + J_{t+1}
    cost from s_t on     J_t = ζ_stop(s_t) l_t + (1 - ζ_stop(s_t)) C_t
    gain of going on     D_t = l_t - C_t

Both parts of ``D_t`` come from the same row and label, so that most of the label noise cancels.
The network regresses ``E[D_t | s_t]``: it is the baseline of the policy gradient, and the policy
stops where it is not positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.nn.rollout import decide, reveal_units
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows, by_fold, by_half, by_model
from suwr.training.loop import State
from suwr.training.optim import fade, step
from suwr.training.policy import PolicyPhase
from suwr.training.predictor import weighted_loss

__all__ = ["PolicyTraining", "teacher"]

# Rows of each half that the teacher judges at once.
TEACHER_ROWS = 4096


@dataclass
class _Step:
    """One step of the rows of a batch; leading dimension: the models."""

    row: Tensor  # positions in the batch
    live: Tensor  # whether the row had not stopped
    mask: Tensor  # state after the step
    price: Tensor  # of what it revealed
    stop: Tensor  # ζ_stop before the step
    gain: Tensor  # regressed, with gradient
    log_prob: Tensor  # of the units taken, with gradient
    entropy: Tensor


@dataclass
class _States:
    """All states that a batch passed through, sorted for the predictors ``(2 · n_models, m)``."""

    position: Tensor  # of the row within its half
    level: Tensor  # how many steps had been taken
    mask: Tensor
    live: Tensor

    @classmethod
    def of(cls, steps: list[_Step], half: int) -> _States:
        """Sort by the half that rows belong to."""
        if steps[-1].row.shape[1] < 2 * half:
            # Rows have left; there is one model.
            row = torch.cat([s.row[0] for s in steps])
            level = torch.cat([torch.full_like(s.row[0], t + 1) for t, s in enumerate(steps)])
            index, valid = by_fold(row, half)
            mask = torch.cat([s.mask[0] for s in steps])[index]
            live = torch.cat([s.live[0] for s in steps])[index] & valid
            return cls(row[index] % half, level[index], mask, live)
        mask, live = (
            torch.cat([by_half(x) for x in part], dim=1)
            for part in ([s.mask for s in steps], [s.live for s in steps])
        )
        device = mask.device
        position = torch.arange(half, device=device).repeat(len(steps)).expand(live.shape)
        level = torch.arange(1, len(steps) + 1, device=device).repeat_interleave(half)
        return cls(position, level.expand(live.shape), mask, live)


class PolicyTraining(PolicyPhase):
    """Train policy and predictors together by sampled rollouts."""

    name = "policy"

    def prepare(self) -> State:
        """See `PolicyPhase`."""
        return {"teacher": teacher(self.network, self.inputs, self.loss, self.folds)}

    def train_batch(self, index: Tensor, share: float) -> None:
        """See `PolicyPhase`."""
        settings, network, inputs = self.settings, self.network, self.inputs
        generator = self.folds.generator
        several = index.repeat(1, settings.rollouts)
        hard = self.folds.rows[several]
        softness = fade(share, settings.soft_until, settings.hard_from)
        mixed = hard.targets.lerp(self.tensors["teacher"][several], softness)
        half = several.shape[1]
        weight, condition = self.prices.draw(2 * half, generator)
        states = None
        with settings.precision(index.device):
            steps = _explore(
                network, inputs, by_model(hard.values), weight, condition, settings, share,
                generator,
            )  # fmt: skip
            if steps:
                states = _States.of(steps, half)
                losses = _judge(network, inputs, self.loss, hard.values, mixed, states, len(steps))
                scale = settings.reward_scale * self.prices.importance(weight)
                bonus = settings.entropy_weight * (1.0 - share)
                value = _policy_loss(steps, losses, by_model(hard.weight), scale, bonus)
        if steps:
            self.improve_policy(value)
        seen, mask = _seen_states(inputs, hard, states, settings, generator)
        with settings.precision(index.device):
            value = weighted_loss(network, inputs, self.loss, seen, mask)
        step(self.predictor_optimizer, value)


@torch.no_grad()
def teacher(network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds) -> Tensor:
    """What the other half's predictor says of each row when it sees everything."""
    network.eval()
    said = folds.rows.targets.clone()
    for start in range(0, folds.size, TEACHER_ROWS):
        index = folds.halves[:, start : start + TEACHER_ROWS]
        values = folds.rows[index].values
        mask = torch.ones((*index.shape, inputs.n_columns), dtype=torch.bool, device=values.device)
        said[index] = network.other_half(inputs.reveal(values, mask), loss)
    return said


def _explore(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    values: Tensor,
    weight: Tensor,
    condition: Tensor | None,
    settings: Settings,
    share: float,
    generator: torch.Generator,
) -> list[_Step]:
    """Sample one rollout per row ``(n_models, n)``.

    On a CPU with one model, rows leave when they stop. Several models, or a GPU that would wait for
    every decision about who leaves, carry them along as not live.
    """
    fading = fade(share, 0.0, settings.exploration_fraction)
    epsilon = settings.exploration_end + fading * (
        settings.exploration_start - settings.exploration_end
    )
    keep_going = min(max(epsilon, settings.least_continuation), settings.most_continuation)
    (m, n), device = values.shape[:2], values.device
    leave = m == 1 and device.type == "cpu"
    row = torch.arange(n, device=device).expand(m, n)
    live = torch.ones(m, n, dtype=torch.bool, device=device)
    mask = torch.zeros(m, n, inputs.n_columns, dtype=torch.bool, device=device)
    steps: list[_Step] = []
    for number in range(settings.max_steps):
        if number == 0 and condition is None:
            # One evaluation serves all rows: nothing is revealed yet.
            first = mask[:, :1]
            seen = inputs.reveal(values[:, :1], first)
            decision = decide(network.decide, inputs, seen, first).expand(m, n)
        else:
            seen = inputs.reveal(values, mask)
            decision = decide(network.decide, inputs, seen, mask, condition)
        stop, free = decision.stop_probability.detach(), decision.available
        draw = torch.rand(live.shape, generator=generator, device=device)
        live = live & (draw >= stop * (1 - keep_going)) & free.any(dim=-1)
        if leave:
            going = torch.nonzero(live[0])[:, 0]
            if len(going) == 0:
                break
            row, live, mask, stop = row[:, going], live[:, going], mask[:, going], stop[:, going]
            decision = decision[:, going]
            values, weight = values[:, going], weight[:, going]
            condition = None if condition is None else condition[:, going]
        probability = decision.finite_logits.softmax(dim=-1)
        entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
        sample = decision.sample(
            partial(_renormalised, probability), settings.units_per_step, epsilon, generator, live
        )
        mask, paid = reveal_units(inputs, mask, sample.units, weight=weight)
        log_prob = sample.behaviour_log_prob
        steps.append(_Step(row, live, mask, paid, stop, decision.gain, log_prob, entropy))
    return steps


def _renormalised(probability: Tensor, available: Tensor) -> Tensor:
    left = probability * available
    return left / left.sum(dim=-1, keepdim=True).clamp_min(1e-12)


@torch.no_grad()
def _judge(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    values: Tensor,
    targets: Tensor,
    states: _States,
    n_steps: int,
) -> Tensor:
    """Losses in every visited state by the predictor that never saw the row.

    Returns ``(n_steps + 1, n_models, n)``.
    """
    network.eval()
    folds, half = values.shape[:2]
    # States that are not live go to a column that is cut off.
    lost = torch.zeros(n_steps + 1, folds, half + 1, device=values.device)
    empty = torch.zeros(folds, 1, inputs.n_columns, dtype=torch.bool, device=values.device)
    blind = network.other_half(inputs.reveal(values[:, :1], empty), loss)
    lost[0, :, :half] = loss.of_prediction(blind.expand(-1, half, -1), targets)
    fold = torch.arange(folds, device=values.device).unsqueeze(1)
    seen = inputs.reveal(values[fold, states.position], states.mask)
    part = loss.of_prediction(network.other_half(seen, loss), targets[fold, states.position])
    column = torch.where(states.live, states.position, half)
    lost[states.level, fold, column] = part
    network.train()
    return lost[..., :half].unflatten(1, (-1, 2)).flatten(2, 3)


def _policy_loss(
    steps: list[_Step], lost: Tensor, weight: Tensor, scale: Tensor, bonus: float
) -> Tensor:
    """Policy gradient, regression of the gain, and a bonus for entropy.

    The mean over a model's states, summed over models. ``weight`` and ``scale`` of the gain are
    those of the rows, ``(n_models, n)``.
    """
    ahead = lost[0].clone()
    for number, s in enumerate(steps):
        reached = torch.where(s.live, lost[number + 1].gather(1, s.row), ahead.gather(1, s.row))
        ahead = ahead.scatter(1, s.row, reached)
    targets: list[Tensor] = []
    for number in range(len(steps) - 1, -1, -1):
        s = steps[number]
        now, later = lost[number].gather(1, s.row), ahead.gather(1, s.row)
        going_on = s.price + later
        targets.append((now - going_on) * scale.gather(1, s.row))
        mixed = s.stop * now + (1 - s.stop) * going_on
        ahead = ahead.scatter(1, s.row, torch.where(s.live, mixed, later))
    target = torch.cat(targets[::-1], dim=1)
    gain = torch.cat([s.gain for s in steps], dim=1)
    log_prob = torch.cat([s.log_prob for s in steps], dim=1)
    entropy = torch.cat([s.entropy for s in steps], dim=1)
    live = torch.cat([s.live for s in steps], dim=1)
    w = weight.gather(1, torch.cat([s.row for s in steps], dim=1)) * live
    advantage = target - gain.detach()
    each = w * (0.5 * (gain - target).square() - advantage * log_prob - bonus * entropy)
    return (each.sum(dim=1) / live.sum(dim=1).clamp_min(1)).sum()


def _seen_states(
    inputs: MaskedInputs,
    rows: Rows,
    states: _States | None,
    settings: Settings,
    generator: torch.Generator,
) -> tuple[Rows, Tensor]:
    """Rows and masks for the predictor: half of them random, half visited by the policy."""
    folds, half = rows.weight.shape
    random = inputs.random_masks((folds, half), generator, settings.most_units)
    if states is None:
        return rows, random
    # Where a half has no live state, any is drawn and gets no weight.
    chance = states.live.to(torch.float32) + 1e-9
    pick = torch.multinomial(chance, half, replacement=True, generator=generator)
    fold = torch.arange(folds, device=pick.device).unsqueeze(1)
    position = states.position[fold, pick]
    joined = Rows(
        torch.cat([rows.values, rows.values[fold, position]], dim=1),
        torch.cat([rows.targets, rows.targets[fold, position]], dim=1),
        torch.cat([rows.weight, rows.weight[fold, position] * states.live[fold, pick]], dim=1),
    )
    return joined, torch.cat([random, states.mask[fold, pick]], dim=1)
