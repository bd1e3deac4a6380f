"""Trainers: how the networks of a model are built, and by which phases they are trained."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from suwr.nn.distributed import ProcessGroup
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.config import Settings, SparsityWeights, TrainingConfig
from suwr.training.data import Folds
from suwr.training.loop import (
    Checkpoint,
    History,
    Metrics,
    Phase,
    Progress,
    State,
    cosine_decay,
    ensemble_step,
    make_optimizer,
    optimizer_step,
    run_phases,
    set_rate,
    update_average,
)
from suwr.training.predictor import (
    FineTuning,
    Pretraining,
    extended,
    ignore_pieces,
    joint_rate,
    pretraining_state,
    restore_pretraining,
)
from suwr.training.validation import BestState, Task

__all__ = ["PolicyPhase", "PolicyTrainer", "Task", "Trainer", "relaxation_temperature"]


# Settings where a teacher provides the targets. They are free of label noise, so predictors need
# less regularisation, and there are many rows, each of which needs few masks and rollouts.
NOISE_FREE = {
    "label_weight": 1.0, "dropout": 0.1, "finetune_dropout": 0.05, "weight_decay": 0.05,
    "rollouts": 1, "pretrain_fraction": 2.4, "pretrain_masks": 2, "finetune_fraction": 0.4,
}  # fmt: skip


class Trainer(ABC):
    """A training method. `suwr.training.registry` lists them by name.

    Attributes
    ----------
    name : str
        Value of the ``trainer`` parameter of the estimators.
    shared : bool
        Whether all heads share one encoder; see `Architecture`.
    informed : bool
        Whether the stopping policy of a classifier reads the uncertainty of the predictors.
    supports_range : bool
        Whether one model can be trained for a range of λ.
    screens : bool
        Whether the units of wide tables are screened before training.
    teaches : bool
        Whether it can learn from a teacher.
    """

    name: ClassVar[str]
    shared: ClassVar[bool] = False
    informed: ClassVar[bool] = False
    supports_range: ClassVar[bool] = True
    screens: ClassVar[bool] = False
    teaches: ClassVar[bool] = False

    def configure(self, config: TrainingConfig, taught: bool = False, **fit: Any) -> Settings:
        """Settings of a fit: ``config``, where None and 'auto' are open, and ``fit``.

        ``taught`` is whether a teacher provides the targets, which are then free of label noise.
        """
        given = {field.name: getattr(config, field.name) for field in fields(TrainingConfig)}
        given = {name: value for name, value in given.items() if value not in (None, "auto")}
        defaults = self.defaults(fit["max_steps"] * fit["units_per_step"])
        defaults |= NOISE_FREE if taught and self.screens else {}
        return Settings(**{**defaults, **given, **fit})

    def defaults(self, max_units: int) -> dict[str, Any]:
        """Defaults of `TrainingConfig` fields that are None, if they differ from `Settings`.

        ``max_units`` is the largest number of units that the policy can reveal.
        """
        return {}

    @abstractmethod
    def n_epochs(self, task: Task) -> int:
        """Number of epochs of all phases, for progress bars."""

    @abstractmethod
    def build(self, architecture: Architecture, settings: Settings) -> Network:
        """Build the untrained network."""

    @abstractmethod
    def phases(self, network: Any, task: Task, folds: Folds) -> list[Callable[[], Phase]]:
        """Builders of the phases, in order; see `run_phases`."""

    def train(
        self,
        architecture: Architecture,
        task: Task,
        generator: torch.Generator,
        progress: Progress,
        *,
        checkpoint: Checkpoint | None = None,
        process_group: ProcessGroup | None = None,
    ) -> tuple[Network, History]:
        """Train a network from start to finish.

        Parameters
        ----------
        architecture : Architecture
        task : Task
        generator : torch.Generator
            On the device of the rows.
        progress : callable
            Called with an `Epoch` after every epoch.
        checkpoint : Checkpoint, optional
        process_group : ProcessGroup, optional
            The processes that train this model together.

        Returns
        -------
        network : Network
        history : list of dict
            See `run_phases`.
        """
        network = self.build(architecture, task.taught or task.settings).to(task.rows.device)
        if task.settings.n_bins is None and isinstance(network, SeparateNetwork):
            ignore_pieces(network, task.inputs, policy=task.lesson is None)
        network.set_process_group(process_group)
        folds = Folds(task.rows, generator, task.settings.n_folds)
        saved = None if checkpoint is None else checkpoint.read()
        if saved is not None and task.lesson is not None:
            task.lesson.recall(saved[1])
        phases = self.phases(network, task, folds)
        work = architecture.n_weights * (task.taught or task.settings).batch_size
        with training_threads(work):
            history = run_phases(phases, generator, progress, checkpoint, process_group)
        network.set_process_group(None)
        return network.eval(), history


# Multiplications of a batch up to which one thread trains.
SINGLE_THREAD_WORK = 10**8


@contextmanager
def training_threads(work: int) -> Iterator[None]:
    """Let one thread evaluate small batches.

    Several threads are little faster then, take twice the processor time, and wait for one another
    actively: beside another process, the training takes three to four times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if work <= SINGLE_THREAD_WORK else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Gumbel-softmax temperature of a relaxed choice of the next unit, at the start and at the end.
START_TEMPERATURE, END_TEMPERATURE = 2.0, 0.2


def relaxation_temperature(remaining: float) -> float:
    """Temperature of a relaxed choice when a fraction ``remaining`` of the look-ahead is left.

    Examples
    --------
    >>> [relaxation_temperature(remaining) for remaining in (1.0, 0.0)]
    [2.0, 0.2]
    """
    return END_TEMPERATURE * (START_TEMPERATURE / END_TEMPERATURE) ** remaining


class PolicyPhase(Phase):
    """Train policy and predictors jointly, and keep the best epoch by validation.

    The policy that is validated and kept has exponentially averaged weights.

    Parameters
    ----------
    network : SeparateNetwork
    task : Task
    folds : Folds
    """

    # Predictor updates of one batch.
    updates_per_batch = 1
    policy_weight_decay: ClassVar[float] = 0.0

    def __init__(self, network: SeparateNetwork, task: Task, folds: Folds) -> None:
        settings = task.settings
        super().__init__(extended(settings.max_epochs, network.predictor, settings))
        self.network, self.inputs, self.loss = network, task.inputs, task.loss
        self.folds = self.stored_folds = folds
        self.settings = settings
        self.weights = SparsityWeights.of(settings, folds.rows.device)
        self.weights.set_temperature(network, settings, float(task.inputs.costs.mean()))
        self.average = copy.deepcopy(network.policy)
        self.averaged = network.with_modules(policy=self.average)
        self.validate = task.validate(self.averaged)
        self.best = BestState(self.averaged)
        self.policy_optimizer = make_optimizer(network.policy, self.policy_weight_decay)
        self.predictor_optimizer = make_optimizer(network.predictor)
        self.total_loss = torch.zeros((), device=folds.indices.device)
        self.modules = {"network": network, "average": self.average}
        self.optimizers = {"policy": self.policy_optimizer, "predictor": self.predictor_optimizer}
        self.tensors = self.prepare() | self.best.tensors() | pretraining_state(network.predictor)

    def prepare(self) -> State:
        """Tensors computed once before training."""
        return {}

    @property
    def batches_at_once(self) -> int:
        """Number of batches of a call of `train_batches`."""
        return 1

    @abstractmethod
    def train_batches(self, index: Tensor, progress: float) -> None:
        """Update policy and predictors on some batches of rows.

        Parameters
        ----------
        index : Tensor of int, shape (n_batches, n_folds, b)
            The rows of at most `batches_at_once` batches.
        progress : float
            The completed fraction of the phase.
        """

    def update_policy(self, loss: Tensor) -> None:
        """One gradient step of the policy, and an update of its average."""
        optimizer_step(self.policy_optimizer, loss)
        update_average(self.average, self.network.policy, self.settings.average_decay)

    def update_predictors(self, loss: Tensor) -> None:
        """One gradient step of the predictors."""
        ensemble_step(self.predictor_optimizer, self.network.predictor, loss)
        # In place, because captured CUDA graphs hold its address.
        self.total_loss.add_(loss.detach())

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)
        restore_pretraining(self.network.predictor, self.tensors)
        self.epochs = extended(self.settings.max_epochs, self.network.predictor, self.settings)

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        settings, folds = self.settings, self.folds
        n_batches, progress = folds.n_batches(settings.batch_size), 0.0
        set_rate(self.predictor_optimizer, joint_rate(self.network.predictor, settings))
        self.total_loss.zero_()
        self.network.train()
        batches = folds.batches(settings.batch_size)
        for number in range(0, n_batches, self.batches_at_once):
            progress = (self.epoch + number / n_batches) / self.epochs
            rate = settings.policy_rate * cosine_decay(progress, floor=0.05)
            set_rate(self.policy_optimizer, rate)
            self.train_batches(torch.stack(list(islice(batches, self.batches_at_once))), progress)
        self.averaged.eval()
        objective = self.validate()
        # Epochs with strong exploration are good only by chance.
        if progress >= 0.8 * settings.exploration_fraction:
            self.best.update(objective.value, self.epoch)
            self.tensors |= self.best.tensors()
        mean_loss = float(self.total_loss) / (n_batches * self.updates_per_batch)
        return Metrics(mean_loss, *objective, self.validate.policy)

    def finish(self) -> None:
        """See `Phase`."""
        if math.isfinite(self.best.value):
            self.best.load()
        self.network.policy = self.average
        self.network.eval()


class PolicyTrainer(Trainer):
    """Pretrain predictors on random masks, train the policy, fine-tune the predictors.

    With a teacher, predictors are pretrained on the labels first, since the lesson depends on what
    they know. The policy follows on the rows of the lesson. Predictors whose loss on the labels was
    still falling learn more from them in fine-tuning; others would overfit them, and are fine-tuned
    on the lesson too. A subclass sets ``policy_phase``.
    """

    policy_phase: ClassVar[type[PolicyPhase]]
    policy_dropout: ClassVar[bool] = True
    teaches = True

    def n_epochs(self, task: Task) -> int:
        """See `Trainer`."""
        labels = task.settings
        if task.taught is None:
            later = labels.max_epochs + labels.finetune_epochs
            return labels.pretrain_epochs + round(labels.extension * later)
        lesson = task.taught.pretrain_epochs + task.taught.max_epochs
        tuning = max(round(labels.extension * labels.finetune_epochs), task.taught.finetune_epochs)
        return labels.pretrain_epochs + lesson + tuning

    def build(self, architecture: Architecture, settings: Settings) -> SeparateNetwork:
        """See `Trainer`."""
        rate = settings.policy_dropout if self.policy_dropout else 0.0
        return SeparateNetwork(
            architecture, settings.dropout, policy_dropout=rate, n_folds=settings.n_folds
        )

    def phases(self, network: Any, task: Task, folds: Folds) -> list[Callable[[], Phase]]:
        """See `Trainer`."""
        first = [lambda: Pretraining(network, task, folds)]
        lesson = task.lesson
        if lesson is None or task.taught is None:
            return [
                *first,
                lambda: self.policy_phase(network, task, folds),
                lambda: FineTuning(network, task, folds),
            ]
        taught = replace(task, settings=task.taught, validation=lesson.validation)

        def rows() -> Folds:
            network.predictor.attentive = True
            return lesson.folds(network, task.inputs, task.loss, folds)

        def tuning() -> Phase:
            known = rows()
            settled, weight_decay = lesson.pretrained
            if settled:
                return FineTuning(network, taught, known)
            network.predictor.settled = settled
            network.predictor.weight_decay.fill_(weight_decay)
            return FineTuning(network, task, folds, stored=known)

        return [
            *first,
            lambda: Pretraining(network, taught, rows()),
            lambda: self.policy_phase(network, taught, rows()),
            tuning,
        ]
