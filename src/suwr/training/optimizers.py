"""Optimizers, learning rates and weight averages."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from suwr.nn.ensembles import Ensemble

__all__ = [
    "cosine_decay",
    "ensemble_step",
    "make_optimizer",
    "optimizer_step",
    "set_rate",
    "update_average",
]


def cosine_decay(progress: float, floor: float = 0.0) -> float:
    """Learning-rate factor at a point of the training, from 1 at 0 down to ``floor`` at 1."""
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def make_optimizer(network: nn.Module, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """AdamW; on CUDA, its steps can be captured in a graph."""
    parameters = list(network.parameters())
    device = parameters[0].device
    if device.type != "cuda":
        # Old versions of torch have no fused steps on other devices than these two.
        fused = True if device.type == "cpu" else None
        return torch.optim.AdamW(parameters, weight_decay=weight_decay, fused=fused)
    rate = torch.zeros((), device=device)
    return torch.optim.AdamW(
        parameters, lr=rate, weight_decay=weight_decay, fused=True, capturable=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimizer_step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One gradient step."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def ensemble_step(optimizer: torch.optim.Optimizer, ensemble: Ensemble, loss: Tensor) -> None:
    """One gradient step, with the weight decay of each member."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    ensemble.decay_weights(optimizer.param_groups[0]["lr"])
    optimizer.step()


@torch.no_grad()
def update_average(average: nn.Module, current: nn.Module, decay: float) -> None:
    """Update an exponential moving average of the weights."""
    slow, fast = list(average.parameters()), list(current.parameters())
    get_ema_multi_avg_fn(decay)(slow, fast, 0)
