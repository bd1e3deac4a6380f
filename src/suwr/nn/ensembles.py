"""Ensembles of networks of one shape. No layer mixes rows: a row's output is its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suwr.nn.distributed import Share, Team

__all__ = ["Ensemble", "EnsembleConv", "EnsembleMLP"]


class Ensemble(nn.Module, ABC):
    """Networks of one shape; the processes of a ``team``, where there is one, share the rows."""

    team: Team | None = None

    def forward(self, x: Tensor, flip: bool = False) -> Tensor:
        """Evaluate every member on its own rows; with ``flip``, on those of its counterpart."""
        if self.team is None:
            return self.evaluate(x, flip)
        return self.team.evaluate(self.evaluate, x, flip)

    @abstractmethod
    def evaluate(self, x: Tensor, flip: bool = False, share: Share | None = None) -> Tensor:
        """As `forward`, in this process; ``x`` may be its share of all rows."""


class EnsembleMLP(Ensemble):
    """``n_members`` feed-forward networks of one shape, evaluated by one batched product a layer.

    Input ``(n_members, n, n_in)`` gives ``(n_members, n, n_out)``. Members come in groups of
    ``group``; each two groups are counterparts, which `forward` can exchange.
    """

    def __init__(
        self,
        n_members: int,
        n_in: int,
        hidden_size: int,
        n_layers: int,
        n_out: int,
        dropout: float = 0.0,
        group: int = 1,
    ) -> None:
        super().__init__()
        self.group = group
        widths = [n_in] + [hidden_size] * n_layers + [n_out]
        self.dropout = dropout
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
            # He's scale keeps the signal through the layers: with the usual smaller one the
            # product of two features is found several times later.
            small = 1.0 / math.sqrt(fan_in)
            bound = small if layer == n_layers else math.sqrt(6.0) * small
            weight = torch.empty(n_members, fan_in, fan_out).uniform_(-bound, bound)
            bias = torch.empty(n_members, 1, fan_out).uniform_(-small, small)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))

    def evaluate(self, x: Tensor, flip: bool = False, share: Share | None = None) -> Tensor:
        """See `Ensemble`."""
        if flip:
            # Rows change places, not weights: those are larger, and cast once for all steps.
            return _exchange(self.evaluate(_exchange(x, self.group), share=share), self.group)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if layer < last:
                x = F.hardswish(x)
                if self.dropout and self.training:
                    drop = F.dropout if share is None else share.dropout
                    x = drop(x, self.dropout)
        return x


def _exchange(tensor: Tensor, group: int) -> Tensor:
    return tensor.unflatten(0, (-1, 2, group)).flip(1).flatten(0, 2)


class EnsembleConv(Ensemble):
    """``n_members`` small convolutional networks over a masked image and its mask.

    Input ``(n_members, n, 2 · height · width + n_extra)``, as `EnsembleMLP` takes it: the image,
    the mask, then numbers that are no image.
    """

    def __init__(
        self,
        n_members: int,
        image_shape: tuple[int, int],
        n_extra: int,
        hidden_size: int,
        n_out: int,
        dropout: float = 0.0,
        group: int = 1,
    ) -> None:
        super().__init__()
        self.group = group
        self.image_shape = image_shape
        height, width = image_shape
        n_flat = 64 * -(-height // 4) * -(-width // 4)
        self.images = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(2, 32, 3, padding=1),
                nn.Hardswish(),
                nn.Conv2d(32, 64, 3, stride=2, padding=1),
                nn.Hardswish(),
                nn.Conv2d(64, 64, 3, stride=2, padding=1),
                nn.Hardswish(),
                nn.Flatten(),
            )
            for _ in range(n_members)
        )
        self.dense = EnsembleMLP(n_members, n_flat + n_extra, hidden_size, 1, n_out, dropout, group)

    @property
    def dropout(self) -> float:
        """Of the dense layer."""
        return self.dense.dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        self.dense.dropout = rate

    def evaluate(self, x: Tensor, flip: bool = False, share: Share | None = None) -> Tensor:
        """See `Ensemble`."""
        if flip:
            return _exchange(self.evaluate(_exchange(x, self.group), share=share), self.group)
        size, found = math.prod(self.image_shape), []
        for member, rows in zip(self.images, x, strict=True):
            image = rows[:, : 2 * size].reshape(-1, 2, *self.image_shape)
            if image.is_cuda:
                # The order that the products of mixed precision are built for.
                image = image.contiguous(memory_format=torch.channels_last)
            found.append(torch.cat([member(image), rows[:, 2 * size :]], dim=1))
        return self.dense.evaluate(torch.stack(found), share=share)
