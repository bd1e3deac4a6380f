"""Training of the predictor *f*: on random masks first, on the policy's own masks last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.config import Epoch, Settings
from suwr.training.data import Folds, Rows, shuffled
from suwr.training.loop import Phase
from suwr.training.optim import cosine, make_optimizer, set_rate, step

__all__ = ["FineTuning", "Pretraining", "member_loss", "weighted_loss"]


def member_loss(network: SeparateNetwork, loss: Loss, seen: Tensor, rows: Rows) -> Tensor:
    """Mean loss of a model's predictors, summed over the models that train together.

    ``seen`` and ``rows`` have one leading entry for each predictor, or for each half of the rows.
    """
    group = network.n_models * network.architecture.n_members // len(seen)
    outputs = network.predictor(seen.repeat_interleave(group, dim=0)).float()
    targets, weight = (part.repeat_interleave(group, dim=0) for part in (rows.targets, rows.weight))
    return (loss.per_row(outputs, targets) * weight).mean() * network.n_models


def weighted_loss(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, rows: Rows, mask: Tensor
) -> Tensor:
    """`member_loss` under hard masks."""
    return member_loss(network, loss, inputs.reveal(rows.values, mask), rows)


class Pretraining(Phase):
    """Teach each predictor its half of the rows under masks of every size.

    Sizes from none to all: a product of two features is seen only where both are revealed, and
    masks of a few units rarely hold both.
    """

    name = "pretraining"

    def __init__(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        settings: Settings,
    ) -> None:
        super().__init__(settings.pretrain_epochs)
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings = folds, settings
        self.optimizer = make_optimizer(network.predictor, settings.weight_decay)
        self.modules = {"network": network}
        self.optimizers = {"predictor": self.optimizer}

    def train_epoch(self) -> Epoch:
        """See `Phase`."""
        settings, folds = self.settings, self.folds
        n_batches = folds.n_batches(settings.batch_size)
        summed = torch.zeros((), device=folds.halves.device)
        self.network.train()
        for number, index in enumerate(folds.batches(settings.batch_size)):
            share = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.predictor_rate * cosine(share, floor=0.1))
            own = index.repeat_interleave(self.network.predictor.group, dim=0)
            rows = folds.rows[own.repeat(1, settings.pretrain_masks)]
            mask = self.inputs.random_masks(
                tuple(rows.weight.shape), folds.generator, settings.most_units
            )
            with settings.precision(rows.values.device):
                value = weighted_loss(self.network, self.inputs, self.loss, rows, mask)
            step(self.optimizer, value)
            summed = summed + value.detach()
        return Epoch(self.name, self.epoch + 1, self.epochs, float(summed) / n_batches)

    def finish(self) -> None:
        """See `Phase`."""
        self.network.eval()


class FineTuning(Phase):
    """Teach all predictors all rows under the masks that the finished policy ends with.

    Some random masks stay in, so that the predictions along a narrative remain good.

    Parameters
    ----------
    network : SeparateNetwork
    inputs : MaskedInputs
    loss : Loss
    folds : Folds
    final : callable
        From the number of an epoch to the masks ``(n_rows, n_columns)`` of the rows of ``folds``.
    settings : Settings
    """

    name = "fine-tuning"

    def __init__(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        final: Callable[[int], Tensor],
        settings: Settings,
    ) -> None:
        super().__init__(settings.finetune_epochs)
        self.network, self.inputs, self.loss = network, inputs, loss
        self.folds, self.settings, self.final = folds, settings, final
        network.predictor.dropout = settings.finetune_dropout
        self.optimizer = make_optimizer(network.predictor, settings.weight_decay)
        self.modules = {"network": network}
        self.optimizers = {"predictor": self.optimizer}

    def train_epoch(self) -> Epoch:
        """See `Phase`."""
        settings, rows, generator = self.settings, self.folds.rows, self.folds.generator
        self.network.eval()
        final = self.final(self.epoch)
        tables = len(self.folds.halves) // 2
        members = self.network.architecture.n_members
        n = len(rows) // tables
        everything = torch.arange(len(rows), device=final.device).reshape(tables, n)
        order = shuffled(everything.repeat_interleave(members, dim=0), generator)
        batch = min(settings.batch_size, n)
        n_batches, summed = n // batch, torch.zeros((), device=final.device)
        share = torch.tensor([1.0, settings.finetune_random], device=final.device)
        share = share.repeat_interleave(batch)
        self.network.train()
        for number in range(n_batches):
            done = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.finetune_rate * cosine(done))
            index = order[:, number * batch : (number + 1) * batch]
            random = self.inputs.random_masks(tuple(index.shape), generator, settings.most_units)
            taken = rows[index.repeat(1, 2)]
            weighted = Rows(taken.values, taken.targets, taken.weight * share)
            mask = torch.cat([final[index], random], dim=1)
            with settings.precision(mask.device):
                value = weighted_loss(self.network, self.inputs, self.loss, weighted, mask)
            step(self.optimizer, value)
            summed = summed + value.detach()
        return Epoch(self.name, self.epoch + 1, self.epochs, float(summed) / n_batches)

    def finish(self) -> None:
        """See `Phase`."""
        self.network.eval()
