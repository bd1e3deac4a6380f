"""Training of a policy for a predictor that is given and stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from suwr.nn.ensembles import ExternalPredictor
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.training.actor import ActorPhase, ActorTrainer
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase
from suwr.training.policy import PolicyPhase
from suwr.training.sparsity import SparsityWeights
from suwr.training.trainer import Task

__all__ = ["FixedPredictorTrainer"]


class FixedPredictorPhase(ActorPhase):
    """Train the policy alone, by the losses of the predictor on the labels.

    The predictor is the same for both folds. Rewards by its own predictions from all features would
    therefore reward every effect in which it believes; only labels are used.
    """

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        self.soft_targets = self.folds.rows.targets
        return PolicyPhase.train_epoch(self)

    @property
    def _label_weight(self) -> float:
        return 1.0

    def _train_predictors(self, rows: Rows, batch: slice, states: Any) -> None:
        pass


class FixedPredictorTrainer(ActorTrainer):
    """Sampled rollouts with a value baseline, for a predictor that is given.

    Parameters
    ----------
    predictor : ExternalPredictor
    """

    name = "actor"
    policy_phase = FixedPredictorPhase
    screens: ClassVar[bool] = False

    def __init__(self, predictor: ExternalPredictor) -> None:
        self.predictor = predictor

    def n_epochs(self, settings: Settings) -> int:
        """See `Trainer`."""
        return settings.max_epochs

    def build(self, architecture: Architecture, settings: Settings, n_models: int) -> Network:
        """See `Trainer`."""
        network = super().build(architecture, settings, n_models)
        assert isinstance(network, SeparateNetwork)
        network.predictor = self.predictor
        return network

    def phases(
        self, network: Any, task: Task, folds: Folds, weights: SparsityWeights
    ) -> list[Callable[[], Phase]]:
        """See `Trainer`; predictors are neither pretrained nor fine-tuned."""
        return [
            lambda: self.policy_phase(
                network, task.inputs, task.loss, folds, task.validation, task.settings, weights
            )
        ]
