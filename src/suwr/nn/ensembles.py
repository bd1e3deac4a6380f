"""Ensembles of networks of one shape, evaluated together, and a given predictor in their place.

No layer mixes rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from suwr.exceptions import ModelOutputError
from suwr.nn.distributed import ProcessGroup, Shard


class Ensemble(nn.Module, ABC):
    """Networks of one shape, evaluated together; by all processes of a ``process_group`` if set.

    Attributes
    ----------
    differentiable : bool
        Whether outputs have gradients.
    dropout : float
        Dropout rate during training.
    weight_decay : Tensor of shape (n_members,)
        Strength of the weight decay of each member during training; see `decay_weights`.
    settled : bool
        Whether the loss has settled in pretraining, so that only small updates are left to make.
    attentive : bool
        Whether members learn from all inputs; see `EnsembleMLP.ignore`.
    """

    process_group: ProcessGroup | None = None
    differentiable: ClassVar[bool] = True
    dropout: float
    weight_decay: Tensor
    settled: bool = False
    attentive: bool = True

    def __init__(self, n_members: int) -> None:
        super().__init__()
        # Not a buffer: it is a state of the training, not of the model.
        self.weight_decay = torch.zeros(n_members, device="cpu")

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate every member on its own rows."""
        if self.process_group is None:
            return self.evaluate(x)
        return self.process_group.evaluate(self.evaluate, x)

    @torch.no_grad()
    def decay_weights(self, rate: float | Tensor) -> None:
        """Decoupled weight decay of a step with learning rate ``rate``; biases do not decay."""
        for weight, factor in self.decaying(1.0 - rate * self.weight_decay):
            weight.mul_(factor)

    def decaying(self, factors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The weights that decay, each with its part of the ``factors`` of the members."""
        return []

    @abstractmethod
    def evaluate(self, x: Tensor, shard: Shard | None = None) -> Tensor:
        """Evaluate in this process alone; ``x`` holds the rows of ``shard``, if given."""


class EnsembleMLP(Ensemble):
    """Feed-forward networks, evaluated by one batched matrix product per layer.

    Maps ``(n_members, n, n_in)`` to ``(n_members, n, n_out)``.

    Parameters
    ----------
    n_members, n_in, hidden_size, n_layers, n_out : int
    dropout : float, default=0.0
        After every hidden layer, during training.
    """

    def __init__(
        self,
        n_members: int,
        n_in: int,
        hidden_size: int,
        n_layers: int,
        n_out: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(n_members)
        widths = [n_in] + [hidden_size] * n_layers + [n_out]
        self.dropout = dropout
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
            # He initialisation of the hidden layers: products of two features are found several
            # times faster than with the default of torch.nn.Linear.
            small = 1.0 / math.sqrt(fan_in)
            bound = small if layer == n_layers else math.sqrt(6.0) * small
            weight = torch.empty(n_members, fan_in, fan_out).uniform_(-bound, bound)
            bias = torch.empty(n_members, 1, fan_out).uniform_(-small, small)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))

    def decaying(self, factors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """See `Ensemble`."""
        return [(weight, factors.view(-1, 1, 1)) for weight in self.weights]

    @torch.no_grad()
    def ignore(self, inputs: Tensor, members: slice = slice(None)) -> None:
        """Let members ignore inputs, bool ``(n_in,)``: their weights are 0, and stay 0 in training.

        The other initial weights are scaled to the number of inputs that are left. Once the
        ensemble is `attentive` again, all weights are trained.
        """
        self.attentive, weight = False, self.weights[0]
        ignored = torch.zeros(len(weight), len(inputs), 1, dtype=torch.bool, device=weight.device)
        ignored[members] = inputs.view(1, -1, 1)
        n_read = (~ignored).sum(dim=1, keepdim=True)
        weight.mul_((len(inputs) / n_read).sqrt()).masked_fill_(ignored, 0.0)
        weight.register_hook(
            lambda gradient: gradient if self.attentive else gradient.masked_fill(ignored, 0.0)
        )

    def evaluate(self, x: Tensor, shard: Shard | None = None) -> Tensor:
        """See `Ensemble`."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = _affine(bias, x, weight)
            if layer < last:
                x = F.hardswish(x)
                if self.dropout and self.training:
                    x = _dropout(x, self.dropout, shard)
        return x


class _Affine(torch.autograd.Function):
    """``torch.baddbmm`` whose backward pass copies the transposed weights.

    OpenBLAS multiplies by a transposed matrix at less than half of its speed.
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias, x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        of_x = None
        if ctx.needs_input_grad[1]:
            of_x = torch.bmm(gradient, weight.transpose(1, 2).contiguous())
        of_weight = torch.bmm(x.transpose(1, 2), gradient)
        return gradient.sum(dim=1, keepdim=True), of_x, of_weight


def _affine(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    if x.device.type == "cpu" and torch.is_grad_enabled():
        return _Affine.apply(bias, x, weight)
    return torch.baddbmm(bias, x, weight)


def _dropout(x: Tensor, rate: float, shard: Shard | None) -> Tensor:
    """Dropout; of a shard, with the noise that a single process would draw for its rows.

    Every process draws the noise of all rows, which keeps their generators in step. On a CPU, the
    rate is rounded to a multiple of 1/256: one byte of noise per value takes a sixth of the time of
    `torch.nn.functional.dropout`, which would take longer than the matrix products. Comparing bytes
    and converting booleans would take longer than clamping and converting bytes.
    """
    rows, n = (slice(None), x.shape[1]) if shard is None else shard
    shape = (x.shape[0], n, *x.shape[2:])
    if x.device.type != "cpu":
        return (
            F.dropout(x, rate) if shard is None else x * F.dropout(x.new_ones(shape), rate)[:, rows]
        )
    threshold = min(round(256 * rate), 255)
    if threshold == 0:
        return x
    size = math.prod(shape)
    words = torch.empty(-(-size // 8), dtype=torch.int64).random_(-(2**63), None)
    noise = words.view(torch.uint8)[:size].reshape(shape)
    keep = noise.clamp_(threshold - 1, threshold).sub_(threshold - 1)[:, rows]
    return x * keep.to(x.dtype).mul_(256 / (256 - threshold))


class EnsembleConv(Ensemble):
    """Small convolutional networks over a masked image and its mask.

    Maps ``(n_members, n, 2 · height · width + n_extra)`` to ``(n_members, n, n_out)``. The input
    is laid out as for `EnsembleMLP`: the image, the mask, then ``n_extra`` other inputs.

    Parameters
    ----------
    n_members : int
    image_shape : tuple of int
        Height and width.
    n_extra, hidden_size, n_out : int
    dropout : float, default=0.0
        After the hidden dense layer, during training.
    """

    def __init__(
        self,
        n_members: int,
        image_shape: tuple[int, int],
        n_extra: int,
        hidden_size: int,
        n_out: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(n_members)
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
        self.dense = EnsembleMLP(n_members, n_flat + n_extra, hidden_size, 1, n_out, dropout)

    @property
    def dropout(self) -> float:
        """Dropout rate of the dense layer."""
        return self.dense.dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        self.dense.dropout = rate

    def decaying(self, factors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """See `Ensemble`."""
        images = zip(self.images, factors, strict=True)
        own = [(p, factor) for image, factor in images for p in image.parameters() if p.dim() > 1]
        return self.dense.decaying(factors) + own

    def evaluate(self, x: Tensor, shard: Shard | None = None) -> Tensor:
        """See `Ensemble`."""
        size, features = math.prod(self.image_shape), []
        for member, rows in zip(self.images, x, strict=True):
            image = rows[:, : 2 * size].reshape(-1, 2, *self.image_shape)
            if image.is_cuda:
                # The memory format of tensor-core convolutions.
                image = image.contiguous(memory_format=torch.channels_last)
            features.append(torch.cat([member(image), rows[:, 2 * size :]], dim=1))
        return self.dense.evaluate(torch.stack(features), shard=shard)


class MaskedPredictor(Protocol):
    """What the ``predictor`` parameter of the estimators accepts."""

    def predict_masked(self, X: Any, masks: NDArray[np.bool_]) -> Any:
        """Predict from masked rows: probabilities (n, n_classes), or values (n,)."""
        ...


class ExternalPredictor(Ensemble):
    """Evaluates a user's predictor on masked inputs ``[x ⊙ h, h]``.

    Its rows are decoded from the masked inputs, so that it cannot read a hidden value whatever it
    does with the mask. Equal rows are evaluated once.

    Parameters
    ----------
    source : MaskedPredictor
    n_columns : int
    decode : callable
        From encoded values (n, n_values) and masks (n, n_columns) to rows.
    to_outputs : callable
        From validated predictions (n, n_outputs) to network outputs.
    n_outputs : int
    """

    differentiable = False

    def __init__(
        self,
        source: MaskedPredictor,
        n_columns: int,
        decode: Callable[[NDArray[np.float32], NDArray[np.bool_]], Any],
        to_outputs: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        n_outputs: int,
    ) -> None:
        super().__init__(n_members=1)
        self.source, self.decode, self.to_outputs = source, decode, to_outputs
        self.n_columns, self.n_outputs = n_columns, n_outputs
        self.dropout = 0.0
        # Optimizers and checks of devices expect a parameter; this one is never updated.
        self.unused = nn.Parameter(torch.zeros(()))

    def evaluate(self, x: Tensor, shard: Shard | None = None) -> Tensor:
        """See `Ensemble`; all members are the same predictor."""
        shape = (*x.shape[:-1], self.n_outputs)
        if x.numel() == 0:
            return x.new_zeros(shape)
        flat = x.detach().float().cpu().numpy().reshape(-1, x.shape[-1])
        keys = np.ascontiguousarray(flat).view(np.dtype((np.void, flat.itemsize * flat.shape[1])))
        _, first, inverse = np.unique(keys[:, 0], return_index=True, return_inverse=True)
        distinct = flat[first]
        masks = distinct[:, -self.n_columns :] > 0.5
        rows = self.decode(distinct[:, : -self.n_columns], masks)
        try:
            found = np.asarray(self.source.predict_masked(rows, masks.copy()), dtype=np.float64)
        except Exception as error:
            raise ModelOutputError(
                f"The 'predictor' failed on {len(masks)} rows: {type(error).__name__}: {error}"
            ) from error
        found = found.reshape(len(found), -1) if found.ndim == 1 else found
        if found.shape != (len(masks), self.n_outputs) or not np.isfinite(found).all():
            raise ModelOutputError(
                "predict_masked of the 'predictor' must return finite predictions of shape "
                f"({len(masks)}, {self.n_outputs}). Got shape {found.shape}, with "
                f"{int((~np.isfinite(found)).sum())} values that are not finite."
            )
        outputs = self.to_outputs(found).astype(np.float32)[inverse.reshape(-1)]
        return torch.as_tensor(outputs, device=x.device).reshape(shape)
