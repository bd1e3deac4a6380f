"""The published objective (the paper's Section 4.2), for comparison.

Rollouts of *T* steps ignore the stop decisions. With ``p_stop(t)`` the probability of stopping at
step ``t`` along the sampled sequence, the loss is ``Σ_t p_stop(t) (L(f(x ⊙ h_t), y) + λ ‖h_t‖)``:
differentiated directly for stop and predictor, by the log-trick for select. One encoder serves all
three heads; exploration is mixed in and fades.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from suwr.nn.distributed import Team
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, SharedNetwork
from suwr.nn.rollout import decide, reveal_units
from suwr.training.config import Epoch, Progress, Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import Checkpoint, Phase, State, run_phases
from suwr.training.optim import fade, step
from suwr.training.sparsity import Prices
from suwr.training.validation import BestState, Judge

__all__ = ["Reinforce", "train_reinforce"]

LEARNING_RATE = 1e-3


class Reinforce(Phase):
    """Train all three heads by one objective; see `suwr.training.policy` for the parameters."""

    name = "reinforce"

    def __init__(
        self,
        network: SharedNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        validation: Rows,
        settings: Settings,
    ) -> None:
        super().__init__(settings.max_epochs)
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings = folds, settings
        prices = Prices.of(settings, 1, folds.halves.device)
        self.judge = Judge(network, inputs, loss, validation, settings, prices)
        self.best = BestState(network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        self.modules = {"network": network}
        self.optimizers = {"all": self.optimizer}
        self.tensors = self.best.tensors()

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)

    def train_epoch(self) -> Epoch:
        """See `Phase`."""
        settings, folds = self.settings, self.folds
        epsilon = fade(self.epoch / self.epochs, 0.0, settings.exploration_fraction)
        self.network.train()
        for index in folds.batches(settings.batch_size):
            batch = folds.rows[index.flatten()]
            value = _sampled_loss(
                self.network, self.inputs, self.loss, batch, settings, epsilon, folds.generator
            )
            step(self.optimizer, value)
        self.network.eval()
        value = self.judge()
        self.best.offer(value)
        self.tensors = self.best.tensors()
        return Epoch(self.name, self.epoch + 1, self.epochs, float(value), self.judge.policy)

    def finish(self) -> None:
        """See `Phase`."""
        self.best.install()
        self.network.eval()


def train_reinforce(
    architecture: Architecture,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    validation: Rows,
    settings: Settings,
    generator: torch.Generator,
    progress: Progress,
    *,
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
) -> SharedNetwork:
    """Train by REINFORCE; see `suwr.training.train.train` for the parameters."""
    network = SharedNetwork(architecture).to(rows.device)
    network.join(team)
    folds = Folds(rows, generator)
    run_phases(
        [lambda: Reinforce(network, inputs, loss, folds, validation, settings)],
        generator,
        progress,
        checkpoint,
        team,
    )
    network.join(None)
    return network


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
    price = settings.sparsity_weight
    assert isinstance(price, float)
    mask = torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=device)
    paid = torch.zeros(n, device=device)
    reached = torch.ones(n, device=device)
    terms, log_probs = [], []
    for number in range(settings.max_steps + 1):
        seen = inputs.reveal(rows.values, mask)
        decision = decide(network.decide, inputs, seen, mask)
        assert decision.outputs is not None
        last = number == settings.max_steps
        stop = decision.stop_probability
        stop = torch.ones_like(stop) if last else stop
        lost = loss.per_row(decision.outputs, rows.targets)
        terms.append(reached * stop * (lost + price * paid))
        reached = reached * (1 - stop)
        if last or not bool(decision.available.any()):
            break
        sample = decision.sample(
            partial(_selection, decision.raw_logits), settings.units_per_step, epsilon, generator
        )
        mask, cost = reveal_units(inputs, mask, sample.units)
        paid = paid + cost
        log_probs.append(sample.log_prob)
    # A choice at step t is answered for by the terms after it.
    total = torch.stack(terms)
    ahead = total.detach().flip(0).cumsum(0).flip(0)[1:]
    direct = total.sum(dim=0)
    score = sum(
        (a * lp for a, lp in zip(ahead, log_probs, strict=True)), torch.zeros(n, device=device)
    )
    return settings.reward_scale * (rows.weight * (direct + score)).mean()


def _selection(logits: Tensor, available: Tensor) -> Tensor:
    closed = ~available.any(dim=1, keepdim=True)
    return logits.masked_fill(~(available | closed), -torch.inf).softmax(dim=1)
