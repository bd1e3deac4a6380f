"""Small helpers that every training phase shares."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

__all__ = ["cosine", "fade", "make_optimizer", "set_rate", "step", "update_average"]


def cosine(done: float, floor: float = 0.0) -> float:
    """Learning-rate factor after a share ``done`` of the training, from 1 down to ``floor``."""
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))


def fade(done: float, start: float, end: float) -> float:
    """1 before ``start``, 0 from ``end`` on, linear in between."""
    return min(1.0, max(0.0, (end - done) / (end - start)))


def make_optimizer(network: nn.Module, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """AdamW; on CUDA one whose steps can be recorded, see `suwr.training.graphs`."""
    parameters = list(network.parameters())
    device = parameters[0].device
    if device.type != "cuda":
        return torch.optim.AdamW(parameters, weight_decay=weight_decay)
    rate = torch.zeros((), device=device)
    return torch.optim.AdamW(
        parameters, lr=rate, weight_decay=weight_decay, fused=True, capturable=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One gradient step."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


@torch.no_grad()
def update_average(average: nn.Module, current: nn.Module, decay: float) -> None:
    """Move a running average of the weights towards the current ones."""
    slow, fast = list(average.parameters()), list(current.parameters())
    get_ema_multi_avg_fn(decay)(slow, fast, 0)
