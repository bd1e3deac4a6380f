"""Training of the predictor *f*: on random masks first, on the policy's own masks last."""

from __future__ import annotations

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.nn.rows import Folds, Rows
from suwr.nn.schedule import cosine, set_rate, step
from suwr.nn.settings import Epoch, Progress, Settings

__all__ = ["finetune", "pretrain", "weighted_loss"]


def weighted_loss(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, rows: Rows, mask: Tensor
) -> Tensor:
    """Mean loss of the ensemble; leading dimension of ``rows`` and ``mask`` are the members."""
    outputs = network.predictor(inputs.reveal(rows.values, mask))
    return (loss.per_row(outputs, rows.targets) * rows.weight).mean()


def pretrain(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    folds: Folds,
    settings: Settings,
    progress: Progress,
) -> None:
    """Teach each predictor its half of the rows under masks of every size.

    Sizes from none to all: a product of two features is seen only where both are revealed, and
    masks of a few units rarely hold both.
    """
    network.train()
    optimizer = torch.optim.AdamW(
        network.predictor.parameters(),
        lr=settings.predictor_rate,
        weight_decay=settings.weight_decay,
    )
    epochs = settings.pretrain_epochs
    total, done = epochs * folds.n_batches(settings.batch_size), 0
    for epoch in range(epochs):
        summed = 0.0
        for index in folds.batches(settings.batch_size):
            set_rate(optimizer, settings.predictor_rate * cosine(done / total, floor=0.1))
            done += 1
            rows = folds.rows[index.repeat(1, settings.pretrain_masks)]
            mask = inputs.random_masks(tuple(rows.weight.shape), folds.generator)
            value = weighted_loss(network, inputs, loss, rows, mask)
            step(optimizer, value)
            summed += value.item()
        progress(Epoch("pretraining", epoch + 1, epochs, summed * epochs / total))


def finetune(
    network: SeparateNetwork,
    policy: Policy,
    loss: Loss,
    folds: Folds,
    settings: Settings,
    progress: Progress,
) -> None:
    """Teach all predictors all rows under the masks that the finished policy ends with.

    Some random masks stay in, so that the predictions along a narrative remain good.
    """
    inputs, rows = policy.inputs, folds.rows
    final = torch.as_tensor(policy.rollout(rows.values).mask, device=policy.device)
    optimizer = torch.optim.AdamW(
        network.predictor.parameters(),
        lr=settings.finetune_rate,
        weight_decay=settings.weight_decay,
    )
    members = network.architecture.n_members
    batch = min(settings.batch_size, len(rows))
    n_batches, epochs = len(rows) // batch, settings.finetune_epochs
    share = torch.tensor([[1.0], [settings.finetune_random]], device=policy.device)
    share = share.repeat_interleave(batch, 0).reshape(1, -1)
    network.train()
    network.predictor.dropout = settings.finetune_dropout
    for epoch in range(epochs):
        order = torch.stack(
            [
                torch.randperm(len(rows), generator=folds.generator, device=policy.device)
                for _ in range(members)
            ]
        )
        summed = 0.0
        for number in range(n_batches):
            set_rate(
                optimizer,
                settings.finetune_rate * cosine((epoch + number / n_batches) / epochs),
            )
            index = order[:, number * batch : (number + 1) * batch]
            random = inputs.random_masks(tuple(index.shape), folds.generator)
            taken = rows[index.repeat(1, 2)]
            weighted = Rows(taken.values, taken.targets, taken.weight * share)
            value = weighted_loss(
                network, inputs, loss, weighted, torch.cat([final[index], random], dim=1)
            )
            step(optimizer, value)
            summed += value.item()
        progress(Epoch("fine-tuning", epoch + 1, epochs, summed / n_batches))
    network.eval()
