"""What all trainers of a policy share: averaged weights, validation, the best epoch."""

from __future__ import annotations

import copy
from abc import abstractmethod

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.config import Epoch, Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import Phase, State
from suwr.training.optim import cosine, make_optimizer, set_rate, step, update_average
from suwr.training.sparsity import Prices
from suwr.training.validation import BestState, Judge

__all__ = ["PolicyPhase"]


class PolicyPhase(Phase):
    """Train policy and predictors together; leave the best epoch by validation in the network.

    A running average of the policy's weights is what gets validated and kept.

    Parameters
    ----------
    network : SeparateNetwork
    inputs : MaskedInputs
    loss : Loss
    folds : Folds
    validation : Rows
    settings : Settings
    prices : Prices
    """

    def __init__(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        validation: Rows,
        settings: Settings,
        prices: Prices,
    ) -> None:
        super().__init__(settings.max_epochs)
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings, self.prices = folds, settings, prices
        self._soften(0.0)
        self.average = copy.deepcopy(network.policy)
        self.averaged = network.with_policy(self.average)
        self.judge = Judge(self.averaged, inputs, loss, validation, settings, prices)
        self.best = BestState(self.averaged, network.n_models)
        self.policy_optimizer = make_optimizer(network.policy)
        self.predictor_optimizer = make_optimizer(network.predictor, settings.weight_decay)
        set_rate(self.predictor_optimizer, settings.predictor_rate * settings.joint_rate)
        self.modules = {"network": network, "average": self.average}
        self.optimizers = {"policy": self.policy_optimizer, "predictor": self.predictor_optimizer}
        self.tensors = self.prepare() | self.best.tensors()

    def _soften(self, share: float) -> None:
        """Set the temperature of the stop decisions."""
        mean_cost = float(self.inputs.costs.mean())
        self.prices.set_temperature(self.network, self.settings, mean_cost, share)

    def prepare(self) -> State:
        """Tensors that training needs, made once before it."""
        return {}

    @abstractmethod
    def train_batch(self, index: Tensor, share: float) -> None:
        """Learn from the rows ``index`` ``(2 · n_models, b)`` after a ``share`` of the training."""

    def improve_policy(self, value: Tensor) -> None:
        """One gradient step of the policy, and its average."""
        step(self.policy_optimizer, value)
        update_average(self.average, self.network.policy, self.settings.average_decay)

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)

    def train_epoch(self) -> Epoch:
        """See `Phase`."""
        settings, folds = self.settings, self.folds
        n_batches, share = folds.n_batches(settings.batch_size), 0.0
        self._soften(self.epoch / self.epochs)
        self.network.train()
        for number, index in enumerate(folds.batches(settings.batch_size)):
            share = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.policy_optimizer, settings.policy_rate * cosine(share, floor=0.05))
            self.train_batch(index, share)
        self.averaged.eval()
        value = self.judge()
        # Before exploration has faded, a good epoch is a lucky one.
        if share >= 0.8 * settings.exploration_fraction:
            self.best.offer(value)
            self.tensors |= self.best.tensors()
        policy = self.judge.policy
        return Epoch(self.name, self.epoch + 1, self.epochs, float(value.mean()), policy)

    def finish(self) -> None:
        """See `Phase`."""
        if bool(torch.isfinite(self.best.value).all()):
            self.best.install()
        self.network.policy = self.average
        self.network.eval()
