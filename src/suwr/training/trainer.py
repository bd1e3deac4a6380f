"""Trainers: how the networks of a model are built and by which phases they are trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from suwr.nn.distributed import ProcessGroup
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.config import Settings, TrainingConfig
from suwr.training.data import Folds, Rows
from suwr.training.loop import Checkpoint, History, Phase, Progress, run_phases
from suwr.training.predictor import ignore_pieces
from suwr.training.sparsity import SparsityWeights

__all__ = ["Task", "Trainer"]


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
        task = Task(inputs, loss, rows, validation, settings)
        phases = self.phases(network, task, folds, weights)
        history = run_phases(phases, generator, progress, checkpoint, process_group)
        network.set_process_group(None)
        return network.eval(), history
