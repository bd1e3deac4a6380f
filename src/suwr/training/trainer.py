"""Trainers: how the networks of a model are built, and by which phases they are trained."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
import json
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor

from suwr.nn.distributed import ProcessGroup
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.config import Settings, SparsityWeights, TrainingConfig
from suwr.training.data import Folds, Rows
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
    final_masks,
    ignore_pieces,
    joint_rate,
    pretraining_state,
    restore_pretraining,
)
from suwr.training.teacher import Lesson
from suwr.training.validation import BestState, ValidationObjective

__all__ = ["PolicyPhase", "PolicyTrainer", "Task", "Trainer", "relaxation_temperature"]


@dataclass(frozen=True)
class Task:
    """The learning problem.

    Attributes
    ----------
    inputs : MaskedInputs
    loss : Loss
    rows, validation : Rows
        Training and validation rows; the latter choose the best epoch. Those of several models are
        concatenated, equally many of each.
    settings : Settings
    """

    inputs: MaskedInputs
    loss: Loss
    rows: Rows
    validation: Rows
    settings: Settings
    lesson: Lesson | None = None


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
    """

    name: ClassVar[str]
    shared: ClassVar[bool] = False
    informed: ClassVar[bool] = False
    supports_range: ClassVar[bool] = True
    screens: ClassVar[bool] = False

    def configure(self, config: TrainingConfig, **fit: Any) -> Settings:
        """Settings of a fit: ``config``, where None is the default of this trainer, and ``fit``."""
        given = {field.name: getattr(config, field.name) for field in fields(TrainingConfig)}
        given = {name: value for name, value in given.items() if value is not None}
        defaults = self.defaults(fit["max_steps"] * fit["units_per_step"])
        return Settings(**{**defaults, **given, **fit})

    def defaults(self, max_units: int) -> dict[str, Any]:
        """Defaults of `TrainingConfig` fields that are None, if they differ from `Settings`.

        ``max_units`` is the largest number of units that the policy can reveal.
        """
        return {}

    @abstractmethod
    def n_epochs(self, settings: Settings) -> int:
        """Number of epochs of all phases, for progress bars."""

    @abstractmethod
    def build(self, architecture: Architecture, settings: Settings, n_models: int) -> Network:
        """Build the untrained network."""

    @abstractmethod
    def phases(
        self, network: Any, task: Task, folds: Folds, weights: SparsityWeights
    ) -> list[Callable[[], Phase]]:
        """Builders of the phases, in order; see `run_phases`."""

    def train(
        self,
        architecture: Architecture,
        inputs: MaskedInputs,
        loss: Loss,
        rows: Rows,
        validation: Rows,
        settings: Settings,
        generator: torch.Generator,
        progress: Progress,
        *,
        n_models: int = 1,
        lesson: Lesson | None = None,
        checkpoint: Checkpoint | None = None,
        process_group: ProcessGroup | None = None,
    ) -> tuple[Network, History]:
        """Train a network from start to finish.

        Parameters
        ----------
        architecture : Architecture
        inputs, loss, rows, validation, settings
            See `Task`.
        generator : torch.Generator
            On the device of the rows.
        progress : callable
            Called with an `Epoch` after every epoch.
        n_models : int, default=1
            Models of one architecture that are trained together.
        checkpoint : Checkpoint, optional
        process_group : ProcessGroup, optional
            The processes that train this model together.

        Returns
        -------
        network : Network
        history : list of dict
            See `run_phases`.
        """
        network = self.build(architecture, settings, n_models).to(rows.device)
        if settings.n_bins is None and isinstance(network, SeparateNetwork):
            ignore_pieces(network, inputs)
        network.set_process_group(process_group)
        folds = Folds(rows, generator, n_models, settings.n_folds)
        weights = SparsityWeights.of(settings, n_models, rows.device)
        task = Task(inputs, loss, rows, validation, settings, lesson)
        phases = self.phases(network, task, folds, weights)
        history = run_phases(phases, generator, progress, checkpoint, process_group)
        network.set_process_group(None)
        return network.eval(), history


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
    inputs : MaskedInputs
    loss : Loss
    folds : Folds
    validation : Rows
    settings : Settings
    weights : SparsityWeights
    """

    # Predictor updates of one batch.
    updates_per_batch = 1
    # Whether the settings of the policy's regularisation apply.
    regularised: ClassVar[bool] = False

    def __init__(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        validation: Rows,
        settings: Settings,
        weights: SparsityWeights,
    ) -> None:
        super().__init__(extended(settings.max_epochs, network.predictor, settings))
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings, self.weights = folds, settings, weights
        self._set_temperature(0.0)
        self.average = copy.deepcopy(network.policy)
        self.averaged = network.with_modules(policy=self.average)
        self.validate = ValidationObjective(
            self.averaged, inputs, loss, validation, settings, weights
        )
        self.best = BestState(self.averaged, network.n_models)
        decay = settings.policy_weight_decay if self.regularised else 0.0
        self.policy_optimizer = make_optimizer(network.policy, decay)
        self.predictor_optimizer = make_optimizer(network.predictor)
        self.total_loss = torch.zeros((), device=folds.indices.device)
        self.modules = {"network": network, "average": self.average}
        self.optimizers = {"policy": self.policy_optimizer, "predictor": self.predictor_optimizer}
        self.tensors = self.prepare() | self.best.tensors() | pretraining_state(network.predictor)

    def _set_temperature(self, progress: float) -> None:
        mean_cost = float(self.inputs.costs.mean())
        self.weights.set_temperature(self.network, self.settings, mean_cost, progress)

    def prepare(self) -> State:
        """Tensors computed once before training."""
        return {}

    @property
    def settled(self) -> Tensor:
        """Models whose best epoch is final, bool ``(n_models,)``, while others still train."""
        return torch.zeros_like(self.best.epoch, dtype=torch.bool)

    @property
    def batches_at_once(self) -> int:
        """Number of batches of a call of `train_batches`."""
        return 1

    @abstractmethod
    def train_batches(self, index: Tensor, progress: float) -> None:
        """Update policy and predictors on some batches of rows.

        Parameters
        ----------
        index : Tensor of int, shape (n_batches, n_folds * n_models, b)
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
        self._set_temperature(self.epoch / self.epochs)
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
            open_models = objective.value.masked_fill(self.settled, torch.inf)
            self.best.update(open_models, self.epoch)
            self.tensors |= self.best.tensors()
        n_updates = n_batches * self.updates_per_batch * self.network.n_models
        return Metrics(
            float(self.total_loss) / n_updates,
            float(objective.value.mean()),
            float(objective.mean_cost.mean()),
            self.validate.policy,
        )

    def finish(self) -> None:
        """See `Phase`."""
        if bool(torch.isfinite(self.best.value).all()):
            self.best.load()
        self.network.policy = self.average
        self.network.eval()


class PolicyTrainer(Trainer):
    """Pretrain predictors on random masks, train the policy, fine-tune the predictors.

    A subclass sets ``policy_phase``.
    """

    policy_phase: ClassVar[type[PolicyPhase]]

    def n_epochs(self, settings: Settings) -> int:
        """See `Trainer`."""
        later = settings.max_epochs + settings.finetune_epochs
        return settings.pretrain_epochs + round(settings.extension * later)

    def build(self, architecture: Architecture, settings: Settings, n_models: int) -> Network:
        """See `Trainer`."""
        rate = settings.policy_dropout if self.policy_phase.regularised else 0.0
        return SeparateNetwork(architecture, settings.dropout, n_models, rate, settings.n_folds)

    def phases(
        self, network: Any, task: Task, folds: Folds, weights: SparsityWeights
    ) -> list[Callable[[], Phase]]:
        """See `Trainer`."""
        inputs, loss, settings = task.inputs, task.loss, task.settings
        validation = task.validation
        final = final_masks(network, inputs, loss, task.rows, settings, weights)

        def fine_tuning() -> Phase:
            validate = ValidationObjective(network, inputs, loss, validation, settings, weights)
            return FineTuning(network, inputs, loss, folds, final, validate, settings)

        if task.lesson is not None:
            return self.taught_phases(network, task, folds, weights)
        return [
            lambda: Pretraining(network, inputs, loss, folds, settings),
            lambda: self.policy_phase(network, inputs, loss, folds, validation, settings, weights),
            fine_tuning,
        ]

    def taught_phases(self, network: Any, task: Task, folds: Folds, weights: SparsityWeights):
        import os
        inputs, loss, settings, validation = task.inputs, task.loss, task.settings, task.validation
        E = json.loads(os.environ.get("TAUGHT", "{}"))
        n_rows = len(task.lesson.rows)
        first = replace(settings, max_epochs=E.get("first", 30), pretrain_fraction=1.0)
        taught = replace(settings, max_epochs=E.get("epochs", 30), pretrain_fraction=E.get("pre", .5),
            finetune_fraction=E.get("fine", .3), extension=1.0, batch_size=E.get("batch", max(100, min(500, n_rows // 18))),
            label_weight=1.0, dropout=E.get("dropout", .1), weight_decay=.05, finetune_dropout=.05, rollouts=E.get("rollouts", 2),
            joint_rate=E.get("joint"))
        state = {}
        def second():
            rows, share, without, mixed = task.lesson.mix(network, inputs, loss, folds)
            print("lesson", {k: round(v, 2) for k, v in task.lesson.weights.items()}, "share", share, round(without, 4), round(mixed, 4))
            state["folds"] = folds.extended(rows)
            network.predictor.dropout = taught.dropout
            return Pretraining(network, inputs, loss, state["folds"], taught)
        def policy():
            return self.policy_phase(network, inputs, loss, state["folds"], validation, taught, weights)
        def fine():
            validate = ValidationObjective(network, inputs, loss, validation, settings, weights)
            final = final_masks(network, inputs, loss, state["folds"].rows, taught, weights)
            return FineTuning(network, inputs, loss, state["folds"], final, validate, taught)
        return [lambda: Pretraining(network, inputs, loss, folds, first), second, policy, fine]

