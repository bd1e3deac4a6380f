"""REINFORCE as published (Section 4.2 of the paper), for comparison.

Rollouts of *T* steps ignore the stopping policy. With ``p_stop(t)`` the probability of stopping at
step ``t`` of the sampled sequence, the objective is ``Σ_t p_stop(t) (L(f(x ⊙ h_t), y) + λ ‖h_t‖)``.
Its gradient is exact for the stopping policy and the predictor, and a score-function estimate
without a baseline for the selection policy. All three are heads of one encoder.

What the paper leaves open follows the published experiments, with their 1,000 epochs rescaled to
``max_epochs``: for 50 epochs, units are drawn uniformly, every step has the same probability of
being the last, and λ is 0; λ then grows for 50 epochs, while exploration decreases geometrically
by 0.5 % per epoch, to 5 % of the units and 10 % of the stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SharedNetwork
from suwr.nn.step import decide, reveal_units
from suwr.training.config import FINAL_EXPLORATION, Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, State, optimizer_step
from suwr.training.trainer import Trainer
from suwr.training.validation import BestState, Task

__all__ = ["ReinforcePhase", "ReinforceTrainer", "Schedule"]

LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-4
# Fraction of the training with uniform exploration and λ = 0, and of the increase of λ after it.
WARM_UP, WEIGHT_INCREASE = 0.05, 0.05
# Factor of the exploration in `exploration_fraction` of the training, 0.995 ** 600.
EXPLORATION_FACTOR = 0.05
MIN_STOP_EXPLORATION = 0.1


class Schedule(NamedTuple):
    """Exploration and λ at a point of the training.

    Attributes
    ----------
    exploration : float
        Share of uniformly random choices of units.
    stop_exploration : float
        Share of the uniform distribution over the steps in that of the last step.
    sparsity_factor : float
        Factor of λ.
    """

    exploration: float
    stop_exploration: float
    sparsity_factor: float

    @classmethod
    def at(cls, progress: float, settings: Settings) -> Schedule:
        """The schedule after a fraction ``progress`` of the training."""
        since = max(0.0, progress - WARM_UP)
        decay = EXPLORATION_FACTOR ** (since / settings.exploration_fraction)
        return cls(
            max(FINAL_EXPLORATION, decay),
            max(MIN_STOP_EXPLORATION, decay),
            min(1.0, since / WEIGHT_INCREASE),
        )


class ReinforcePhase(Phase):
    """Train all three heads by one objective; see `PolicyPhase` for the parameters."""

    name = "reinforce"

    def __init__(self, network: SharedNetwork, task: Task, folds: Folds) -> None:
        settings = task.settings
        super().__init__(settings.max_epochs)
        self.network, self.inputs, self.loss = network, task.inputs, task.loss
        self.folds, self.settings = folds, settings
        assert isinstance(settings.sparsity_weight, float)
        self.weight = settings.sparsity_weight
        self.validate = task.validate(network)
        self.best = BestState(network)
        self.optimizer = torch.optim.Adam(
            network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
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
        schedule = Schedule.at(self.epoch / self.epochs, settings)
        total = torch.zeros((), device=folds.indices.device)
        self.network.train()
        for index in folds.batches(settings.batch_size):
            rows = folds.rows[index.flatten()]
            surrogate, expected = _sampled_loss(
                self.network, self.inputs, self.loss, rows, settings,
                self.weight, schedule, folds.generator,
            )  # fmt: skip
            optimizer_step(self.optimizer, surrogate)
            total = total + expected
        self.network.eval()
        objective = self.validate()
        self.best.update(objective.value, self.epoch)
        self.tensors = self.best.tensors()
        mean_loss = float(total) / folds.n_batches(settings.batch_size)
        return Metrics(mean_loss, *objective, self.validate.policy)

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        self.network.eval()


class ReinforceTrainer(Trainer):
    """The published method: one encoder, trained by REINFORCE for a single λ."""

    name = "reinforce"
    shared = True
    supports_range = False

    def n_epochs(self, task: Task) -> int:
        """See `Trainer`."""
        return task.settings.max_epochs

    def build(self, architecture: Architecture, settings: Settings) -> Network:
        """See `Trainer`."""
        return SharedNetwork(architecture)

    def phases(self, network: Any, task: Task, folds: Folds) -> list[Callable[[], Phase]]:
        """See `Trainer`."""
        return [lambda: ReinforcePhase(network, task, folds)]


def _sampled_loss(
    network: SharedNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    settings: Settings,
    sparsity_weight: float,
    schedule: Schedule,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Surrogate loss of sampled rollouts, and the mean objective that it estimates."""
    shape, device = rows.weight.shape, rows.device
    price = schedule.sparsity_factor * sparsity_weight
    first = inputs.first_masks(tuple(shape), generator)
    mask = torch.zeros(*shape, inputs.n_columns, dtype=torch.bool, device=device)
    mask = mask if first is None else first
    allowed = inputs.recorded_units(rows.values)
    cost = torch.zeros(shape, device=device)
    reached = torch.ones(shape, device=device)
    uniform = schedule.stop_exploration / (settings.max_steps + 1)
    terms, log_probs = [], []
    for number in range(settings.max_steps + 1):
        seen = inputs.reveal(rows.values, mask)
        decision = decide(network.decide, inputs, seen, mask, allowed=allowed)
        assert decision.outputs is not None
        last = number == settings.max_steps
        stop = reached if last else reached * decision.stop_probability
        reached = reached - stop
        stop = (1.0 - schedule.stop_exploration) * stop + uniform
        losses = loss.per_row(decision.outputs, rows.targets)
        terms.append(stop * (losses + price * cost))
        if last:
            break
        sample = decision.sample(settings.units_per_step, schedule.exploration, generator)
        mask, paid = reveal_units(inputs, mask, sample.units, known=first, costs=rows.costs)
        cost = cost + paid
        # Of the distribution that was sampled, which explores: with ζ_select alone, and without
        # a baseline, the gradient would make any choice more certain.
        log_probs.append(decision.log_prob(sample, schedule.exploration))
    total = torch.stack(terms)
    # A choice at step t only affects the terms after it.
    ahead = total.detach().flip(0).cumsum(0).flip(0)[1:]
    direct = total.sum(dim=0)
    score = (ahead * torch.stack(log_probs)).sum(dim=0)
    surrogate = settings.reward_scale * (rows.weight * (direct + score)).mean()
    return surrogate, (rows.weight * direct.detach()).mean()
