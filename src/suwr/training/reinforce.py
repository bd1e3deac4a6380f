"""REINFORCE as published (Section 4.2 of the paper), for comparison.

Rollouts of *T* steps ignore the stopping policy. With ``p_stop(t)`` the probability of stopping at
step ``t`` of the sampled sequence, the objective is ``Σ_t p_stop(t) (L(f(x ⊙ h_t), y) + λ ‖h_t‖)``.
Its gradient is exact for the stopping policy and the predictor, and a score-function estimate for
the selection policy. All three are heads of one encoder; exploration decreases linearly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SharedNetwork
from suwr.nn.step import decide, reveal_units
from suwr.training.config import Settings, linear_decay
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, State
from suwr.training.optimizers import optimizer_step
from suwr.training.sparsity import SparsityWeights
from suwr.training.trainer import Task, Trainer
from suwr.training.validation import BestState, ValidationObjective

__all__ = ["ReinforcePhase", "ReinforceTrainer"]

LEARNING_RATE = 1e-3


class ReinforcePhase(Phase):
    """Train all three heads by one objective; see `PolicyPhase` for the parameters."""

    name = "reinforce"

    def __init__(
        self,
        network: SharedNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        validation: Rows,
        settings: Settings,
        weights: SparsityWeights,
    ) -> None:
        super().__init__(settings.max_epochs)
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings = folds, settings
        self.validate = ValidationObjective(network, inputs, loss, validation, settings, weights)
        self.best = BestState(network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        self.modules = {"network": network}
        self.optimizers = {"all": self.optimizer}
        self.tensors = self.best.tensors()

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        settings, folds = self.settings, self.folds
        epsilon = linear_decay(self.epoch / self.epochs, 0.0, settings.exploration_fraction)
        total = torch.zeros((), device=folds.indices.device)
        self.network.train()
        for index in folds.batches(settings.batch_size):
            batch = folds.rows[index.flatten()]
            surrogate, expected = _sampled_loss(
                self.network, self.inputs, self.loss, batch, settings, epsilon, folds.generator
            )
            optimizer_step(self.optimizer, surrogate)
            total = total + expected
        self.network.eval()
        objective = self.validate()
        self.best.update(objective.value, self.epoch)
        self.tensors = self.best.tensors()
        return Metrics(
            float(total) / folds.n_batches(settings.batch_size),
            float(objective.value),
            float(objective.mean_cost),
            self.validate.policy,
        )

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        self.network.eval()


class ReinforceTrainer(Trainer):
    """The published method: one encoder, trained by REINFORCE for a single λ."""

    name = "reinforce"
    shared = True
    supports_range = False
    supports_several_models = False

    def n_epochs(self, settings: Settings) -> int:
        """See `Trainer`."""
        return settings.max_epochs

    def build(self, architecture: Architecture, settings: Settings, n_models: int) -> Network:
        """See `Trainer`."""
        return SharedNetwork(architecture)

    def phases(
        self, network: Any, task: Task, folds: Folds, weights: SparsityWeights
    ) -> list[Callable[[], Phase]]:
        """See `Trainer`."""
        return [
            lambda: ReinforcePhase(
                network, task.inputs, task.loss, folds, task.validation, task.settings, weights
            )
        ]


def _sampled_loss(
    network: SharedNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    settings: Settings,
    epsilon: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Surrogate loss of sampled rollouts, and the mean objective that it estimates."""
    n, device = len(rows), rows.values.device
    sparsity_weight = settings.sparsity_weight
    assert isinstance(sparsity_weight, float)
    first = inputs.first_masks((n,), generator)
    mask = torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=device)
    mask = mask if first is None else first
    allowed = inputs.recorded_units(rows.values)
    cost = torch.zeros(n, device=device)
    reached = torch.ones(n, device=device)
    terms, log_probs = [], []
    for number in range(settings.max_steps + 1):
        seen = inputs.reveal(rows.values, mask)
        decision = decide(network.decide, inputs, seen, mask, allowed=allowed)
        assert decision.outputs is not None
        last = number == settings.max_steps
        stop = decision.stop_probability
        stop = torch.ones_like(stop) if last else stop
        losses = loss.per_row(decision.outputs, rows.targets)
        terms.append(reached * stop * (losses + sparsity_weight * cost))
        reached = reached * (1 - stop)
        if last or not bool(decision.available.any()):
            break
        sample = decision.sample(settings.units_per_step, epsilon, generator)
        mask, paid = reveal_units(inputs, mask, sample.units, known=first, costs=rows.costs)
        cost = cost + paid
        log_probs.append(decision.log_prob(sample))
    total = torch.stack(terms)
    # A choice at step t only affects the terms after it.
    ahead = total.detach().flip(0).cumsum(0).flip(0)[1:]
    direct = total.sum(dim=0)
    score = sum(
        (a * lp for a, lp in zip(ahead, log_probs, strict=True)), torch.zeros(n, device=device)
    )
    surrogate = settings.reward_scale * (rows.weight * (direct + score)).mean()
    return surrogate, (rows.weight * direct.detach()).mean()
