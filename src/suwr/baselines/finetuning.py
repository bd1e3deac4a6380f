"""The last phase of GDFS and DIME: predictors learn the masks of the finished policy."""

from __future__ import annotations

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs, soft_columns
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.training.config import Settings
from suwr.training.data import MIN_BATCHES, Folds
from suwr.training.loop import Epoch, Metrics, Progress, cosine_decay, optimizer_step, set_rate
from suwr.training.predictor import weighted_loss

__all__ = ["finetune_along", "prefix_masks"]


def prefix_masks(inputs: MaskedInputs, order: Tensor, length: Tensor) -> Tensor:
    """Masks over columns after the first ``length`` units of ``order``.

    Parameters
    ----------
    inputs : MaskedInputs
    order : Tensor of int, shape (..., n_steps)
        Units in the order of their revealing; -1 where nothing was revealed.
    length : Tensor of int, shape (...)

    Returns
    -------
    Tensor of bool, shape (..., n_columns)
    """
    place = torch.arange(order.shape[-1], device=order.device)
    shown = (place < length.unsqueeze(-1)) & (order >= 0)
    chosen = torch.zeros((*order.shape[:-1], inputs.n_units), device=order.device)
    chosen = chosen.scatter_add(-1, order.clamp_min(0), shown.to(chosen.dtype))
    return soft_columns(inputs, chosen) > 0.5


def finetune_along(
    network: SeparateNetwork,
    policy: Policy,
    loss: Loss,
    folds: Folds,
    settings: Settings,
    progress: Progress,
) -> None:
    """Teach all predictors all rows under the masks that the finished policy passes through.

    Half of the masks are those it ends with, the others have any number of its steps: one model
    predicts well at every budget up to its own.
    """
    inputs, rows = policy.inputs, folds.rows
    device, members = rows.values.device, network.architecture.n_members
    order = torch.as_tensor(policy.rollout(rows.values).order[:, :, 0], device=device)
    n_steps = order.shape[1]
    optimizer = torch.optim.AdamW(
        network.predictor.parameters(), weight_decay=settings.weight_decay
    )
    batch = min(settings.batch_size, len(rows))
    n_batches, epochs = max(MIN_BATCHES, len(rows) // batch), settings.finetune_epochs
    network.train()
    network.predictor.dropout = settings.finetune_dropout
    for epoch in range(epochs):
        noise = torch.rand((members, len(rows)), generator=folds.generator, device=device)
        shuffled = noise.argsort(dim=1)
        summed = torch.zeros((), device=device)
        for number in range(n_batches):
            share = (epoch + number / n_batches) / epochs
            set_rate(optimizer, settings.finetune_rate * cosine_decay(share))
            place = torch.arange(number * batch, (number + 1) * batch, device=device) % len(rows)
            index = shuffled[:, place].repeat(1, 2)
            length = torch.full_like(index, n_steps)
            length[:, :batch] = torch.randint(
                0, n_steps + 1, (members, batch), generator=folds.generator, device=device
            )
            mask = prefix_masks(inputs, order[index], length)
            value = weighted_loss(network, inputs, loss, rows[index], mask)
            optimizer_step(optimizer, value)
            summed += value.detach()
        progress(Epoch("fine-tuning", epoch + 1, epochs, Metrics(float(summed) / n_batches)))
    network.eval()
