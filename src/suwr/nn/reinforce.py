"""The published objective (the paper's Section 4.2), for comparison.

Rollouts of *T* steps ignore the stop decisions. With ``p_stop(t)`` the probability of stopping at
step ``t`` along the sampled sequence, the loss is ``Σ_t p_stop(t) (L(f(x ⊙ h_t), y) + λ ‖h_t‖)``:
differentiated directly for stop and predictor, by the log-trick for select. One encoder serves all
three heads; exploration is mixed in and fades.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from suwr.nn.actor import objective
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, SharedNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.rows import Folds, Rows
from suwr.nn.schedule import fade, step
from suwr.nn.settings import Epoch, Progress, Settings

__all__ = ["train_reinforce"]

LEARNING_RATE = 1e-3


def train_reinforce(
    architecture: Architecture,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    validation: Rows,
    settings: Settings,
    generator: torch.Generator,
    progress: Progress,
) -> SharedNetwork:
    """Train by REINFORCE; see `suwr.nn.training.train` for the parameters."""
    network = SharedNetwork(architecture).to(rows.values.device)
    folds = Folds(rows, generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    judge = Policy(
        network, inputs, loss, settings.max_steps, settings.units_per_step,
        block=min(BLOCK, len(validation)),
    )  # fmt: skip
    best, best_state = float("inf"), copy.deepcopy(network.state_dict())
    for epoch in range(settings.max_epochs):
        epsilon = fade(epoch / settings.max_epochs, 0.0, settings.exploration_fraction)
        network.train()
        for index in folds.batches(settings.batch_size):
            batch = rows[index.flatten()]
            step(
                optimizer, _sampled_loss(network, inputs, loss, batch, settings, epsilon, generator)
            )
        network.eval()
        value = objective(judge, loss, validation, settings.sparsity_weight)
        if value < best:
            best, best_state = value, copy.deepcopy(network.state_dict())
        progress(Epoch("reinforce", epoch + 1, settings.max_epochs, value, judge))
    network.load_state_dict(best_state)
    return network.eval()


def _sampled_loss(
    network: SharedNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    settings: Settings,
    epsilon: float,
    generator: torch.Generator,
) -> Tensor:
    n, device = len(rows), rows.values.device
    mask = torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=device)
    paid = torch.zeros(n, device=device)
    reached = torch.ones(n, device=device)
    terms, log_probs = [], []
    for number in range(settings.max_steps + 1):
        seen = inputs.reveal(rows.values, mask)
        gain, logits, outputs = network.heads(seen)
        free = inputs.available(mask)
        last = number == settings.max_steps
        stop = torch.sigmoid(-gain / network.stop_temperature)
        stop = torch.ones_like(stop) if last else torch.where(free.any(dim=1), stop, 1.0)
        lost = loss.per_row(outputs, rows.targets)
        terms.append(reached * stop * (lost + settings.sparsity_weight * paid))
        reached = reached * (1 - stop)
        if last or not bool(free.any()):
            break
        log_prob = torch.zeros(n, device=device)
        for _ in range(settings.units_per_step):
            open_row = free.any(dim=1)
            # Rows that have everything draw any unit and ignore the draw.
            allowed = free | ~open_row.unsqueeze(1)
            probability = logits.masked_fill(~allowed, -torch.inf).softmax(dim=1)
            uniform = allowed / allowed.sum(dim=1, keepdim=True)
            mixture = (1 - epsilon) * probability.detach() + epsilon * uniform
            unit = torch.multinomial(mixture, 1, generator=generator)
            taken = probability.gather(1, unit)[:, 0].clamp_min(1e-12).log()
            log_prob = log_prob + torch.where(open_row, taken, 0.0)
            paid = paid + torch.where(open_row, inputs.costs[unit[:, 0]], 0.0)
            mask = torch.where(open_row.unsqueeze(1), inputs.add(mask, unit[:, 0]), mask)
            free = free.scatter(1, unit, False)
        log_probs.append(log_prob)
    # A choice at step t is answered for by the terms after it.
    total = torch.stack(terms)
    ahead = total.detach().flip(0).cumsum(0).flip(0)[1:]
    direct = total.sum(dim=0)
    score = sum(
        (a * lp for a, lp in zip(ahead, log_probs, strict=True)), torch.zeros(n, device=device)
    )
    return settings.reward_scale * (rows.weight * (direct + score)).mean()
