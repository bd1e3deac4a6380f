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

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import EnsembleMLP, SeparateNetwork
from suwr.nn.predictor import weighted_loss
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.rows import Folds, Rows, by_fold
from suwr.nn.schedule import cosine, fade, set_rate, step, update_average
from suwr.nn.settings import Epoch, Progress, Settings

__all__ = ["objective", "train_policy"]


@dataclass
class _Step:
    """One step of those rows of a batch that had not stopped."""

    row: Tensor  # positions in the batch
    mask: Tensor  # state after the step
    price: Tensor  # of what it revealed
    stop: Tensor  # ζ_stop before the step
    gain: Tensor  # regressed, with gradient
    log_prob: Tensor  # of the units taken, with gradient
    entropy: Tensor


@torch.no_grad()
def objective(policy: Policy, loss: Loss, rows: Rows, sparsity_weight: float) -> float:
    """Weighted mean of ``L(f(x ⊙ h), y) + λ ‖h‖`` under greedy inference."""
    trace = policy.rollout(rows.values)
    mask = torch.as_tensor(trace.mask, device=policy.device)
    order = torch.as_tensor(trace.order, device=policy.device).flatten(1)
    price = torch.where(order >= 0, policy.inputs.costs[order.clamp_min(0)], 0.0).sum(dim=1)
    lost = loss.of_prediction(policy.predict(rows.values, mask), rows.targets)
    return float(((lost + sparsity_weight * price) * rows.weight).mean())


def train_policy(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    folds: Folds,
    validation: Rows,
    settings: Settings,
    progress: Progress,
) -> None:
    """Train policy and predictors together; leave the best epoch by validation in ``network``."""
    network.stop_temperature.fill_(settings.stop_temperature(float(inputs.costs.mean())))
    teacher = _teacher(network, inputs, loss, folds)
    average = copy.deepcopy(network.policy)
    judge = Policy(
        network, inputs, loss, settings.max_steps, settings.units_per_step,
        block=min(BLOCK, len(validation)),
    )  # fmt: skip
    policy_optimizer = torch.optim.AdamW(
        network.policy.parameters(), lr=settings.policy_rate, weight_decay=0.0
    )
    predictor_optimizer = torch.optim.AdamW(
        network.predictor.parameters(),
        lr=settings.predictor_rate * 0.1,
        weight_decay=settings.weight_decay,
    )
    total, done = settings.max_epochs * folds.n_batches(settings.batch_size), 0
    best, best_state = float("inf"), copy.deepcopy(network.state_dict())
    for epoch in range(settings.max_epochs):
        network.train()
        for index in folds.batches(settings.batch_size):
            share = done / total
            done += 1
            set_rate(policy_optimizer, settings.policy_rate * cosine(share, floor=0.05))
            hard = folds.rows[index.repeat(1, settings.rollouts)]
            softness = fade(share, settings.soft_until, settings.hard_from)
            mixed = hard.targets.lerp(teacher[index.repeat(1, settings.rollouts)], softness)
            steps = _explore(
                network, inputs, hard.values.flatten(0, 1), settings, share, folds.generator
            )
            if steps:
                losses = _judge(network, inputs, loss, hard.values, mixed, steps)
                value = _policy_loss(steps, losses, hard.weight.flatten(), settings, 1.0 - share)
                step(policy_optimizer, value)
                update_average(average, network.policy, settings.average_decay)
            seen, mask = _seen_states(inputs, hard, steps, index.shape[1], folds.generator)
            step(predictor_optimizer, weighted_loss(network, inputs, loss, seen, mask))
        state = _swap(network, average)
        value_now = objective(judge, loss, validation, settings.sparsity_weight)
        # Before exploration has faded, a good epoch is a lucky one.
        if value_now < best and share >= 0.8 * settings.exploration_fraction:
            best, best_state = value_now, copy.deepcopy(network.state_dict())
        progress(Epoch("policy", epoch + 1, settings.max_epochs, value_now, judge))
        _swap(network, state)
    network.load_state_dict(best_state)
    network.eval()


def _swap(network: SeparateNetwork, policy: EnsembleMLP) -> EnsembleMLP:
    """Put another policy into the network and return the one that was there."""
    old, network.policy = network.policy, policy
    network.eval()
    return old


@torch.no_grad()
def _teacher(network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds) -> Tensor:
    """What the other half's predictor says of each row when it sees everything."""
    network.eval()
    teacher = folds.rows.targets.clone()
    for start in range(0, folds.size, 4 * BLOCK):
        index = folds.halves[:, start : start + 4 * BLOCK]
        values = folds.rows.values[index]
        mask = torch.ones((*index.shape, inputs.n_columns), dtype=torch.bool, device=values.device)
        outputs = network.predictor(inputs.reveal(values, mask), flip=True)
        teacher[index] = loss.predict(outputs)
    return teacher


def _explore(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    values: Tensor,
    settings: Settings,
    share: float,
    generator: torch.Generator,
) -> list[_Step]:
    """Sample one rollout per row; rows leave when they stop."""
    fading = fade(share, 0.0, settings.exploration_fraction)
    epsilon = settings.exploration_end + fading * (
        settings.exploration_start - settings.exploration_end
    )
    keep_going = min(max(epsilon, settings.least_continuation), settings.most_continuation)
    price = inputs.costs * settings.sparsity_weight
    n, device = len(values), values.device
    row = torch.arange(n, device=device)
    mask = torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=device)
    steps: list[_Step] = []
    for number in range(settings.max_steps):
        if number == 0:
            # One evaluation serves all rows: nothing is revealed yet.
            gain, logits = network.policy_outputs(inputs.reveal(values[:1], mask[:1]))
            gain, logits = gain.expand(n), logits.expand(n, -1)
        else:
            gain, logits = network.policy_outputs(inputs.reveal(values[row], mask))
        stop = torch.sigmoid(-gain.detach() / network.stop_temperature)
        free = inputs.available(mask)
        leaves = torch.rand(len(row), generator=generator, device=device) < stop * (1 - keep_going)
        going = torch.nonzero(~leaves & free.any(dim=1))[:, 0]
        if len(going) == 0:
            break
        row, mask, free = row[going], mask[going], free[going]
        gain, logits, stop = gain[going], logits[going], stop[going]
        probability = logits.masked_fill(~free, -torch.inf).softmax(dim=1)
        entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=1)
        log_prob, paid = torch.zeros_like(gain), torch.zeros_like(gain)
        for _ in range(settings.units_per_step):
            open_row = free.any(dim=1)
            uniform = free / free.sum(dim=1, keepdim=True).clamp_min(1)
            left = probability * free
            left = left / left.sum(dim=1, keepdim=True).clamp_min(1e-12)
            mixture = (1 - epsilon) * left + epsilon * uniform
            # A row without free units draws any of them and then ignores the draw.
            draws = torch.where(open_row.unsqueeze(1), mixture.detach(), 1.0)
            unit = torch.multinomial(draws, 1, generator=generator)
            taken = mixture.gather(1, unit)[:, 0]
            log_prob = log_prob + torch.where(open_row, taken.clamp_min(1e-12).log(), 0.0)
            paid = paid + torch.where(open_row, price[unit[:, 0]], 0.0)
            mask = torch.where(open_row.unsqueeze(1), inputs.add(mask, unit[:, 0]), mask)
            free = free.scatter(1, unit, False)
        steps.append(_Step(row, mask, paid, stop, gain, log_prob, entropy))
    return steps


@torch.no_grad()
def _judge(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    values: Tensor,
    targets: Tensor,
    steps: list[_Step],
) -> Tensor:
    """Losses in every visited state by the predictor that never saw the row, (n_states, n)."""
    network.eval()
    half = values.shape[1]
    flat_values, flat_targets = values.flatten(0, 1), targets.flatten(0, 1)
    lost = torch.zeros(len(steps) + 1, 2 * half, device=values.device)
    empty = torch.zeros(2, 1, inputs.n_columns, dtype=torch.bool, device=values.device)
    blind = network.predictor(inputs.reveal(values[:, :1], empty), flip=True)
    lost[0] = loss.per_row(blind.expand(-1, half, -1), targets).flatten()
    row = torch.cat([s.row for s in steps])
    mask = torch.cat([s.mask for s in steps])
    level = torch.cat([torch.full_like(s.row, number + 1) for number, s in enumerate(steps)])
    index, valid = by_fold(row, half)
    outputs = network.predictor(inputs.reveal(flat_values[row[index]], mask[index]), flip=True)
    part = loss.per_row(outputs, flat_targets[row[index]])
    kept = index[valid]
    lost[level[kept], row[kept]] = part[valid]
    network.train()
    return lost


def _policy_loss(
    steps: list[_Step], lost: Tensor, weight: Tensor, settings: Settings, remaining: float
) -> Tensor:
    """Policy gradient, regression of the gain, and an entropy bonus that fades."""
    ahead = lost[0].clone()
    for number, s in enumerate(steps):
        ahead[s.row] = lost[number + 1, s.row]
    targets: list[Tensor] = []
    for number in range(len(steps) - 1, -1, -1):
        s = steps[number]
        now, going_on = lost[number, s.row], s.price + ahead[s.row]
        targets.append((now - going_on) * settings.reward_scale)
        ahead[s.row] = s.stop * now + (1 - s.stop) * going_on
    target = torch.cat(targets[::-1])
    gain = torch.cat([s.gain for s in steps])
    log_prob = torch.cat([s.log_prob for s in steps])
    entropy = torch.cat([s.entropy for s in steps])
    w = weight[torch.cat([s.row for s in steps])]
    advantage = target - gain.detach()
    bonus = settings.entropy_weight * remaining * entropy
    return (w * (0.5 * (gain - target).square() - advantage * log_prob - bonus)).mean()


def _seen_states(
    inputs: MaskedInputs, rows: Rows, steps: list[_Step], batch: int, generator: torch.Generator
) -> tuple[Rows, Tensor]:
    """Rows and masks for the predictor: half of them random, half visited by the policy."""
    half, device = rows.weight.shape[1], rows.weight.device
    random = inputs.random_masks((2, half), generator)
    if not steps:
        return rows, random
    position = torch.cat([s.row for s in steps])
    mask = torch.cat([s.mask for s in steps])
    pick = torch.randint(0, len(position), (2 * half,), generator=generator, device=device)
    index, valid = by_fold(position[pick], half)
    visited = pick[index]
    flat = Rows(rows.values.flatten(0, 1), rows.targets.flatten(0, 1), rows.weight.flatten())
    taken = flat[position[visited]]
    joined = Rows(
        torch.cat([rows.values, taken.values], dim=1),
        torch.cat([rows.targets, taken.targets], dim=1),
        torch.cat([rows.weight, taken.weight * valid], dim=1),
    )
    return joined, torch.cat([random, mask[visited]], dim=1)
