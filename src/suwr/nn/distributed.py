"""Training by several processes, one for each GPU or core.

Every process holds the same rows, draws the same random numbers and takes the same decisions. Only
the evaluation of networks, which is most of the work, is divided: each process takes its share of
the rows, the outputs are gathered, and the gradients of the weights are added up. No layer mixes
rows, so the result is that of one process up to rounding, and no trainer needs to know of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn import functional as F

__all__ = ["Share", "Team", "launched"]


@dataclass(frozen=True)
class Share:
    """The rows ``start`` to ``stop`` of ``n_rows`` that one process evaluates."""

    start: int
    stop: int
    n_rows: int

    @classmethod
    def cut(cls, n_rows: int, rank: int, size: int) -> Share:
        """The share of process ``rank`` of ``size``: all alike but the last, which may be less."""
        each = -(-n_rows // size)
        start = min(rank * each, n_rows)
        return cls(start, min(start + each, n_rows), n_rows)

    def of(self, x: Tensor) -> Tensor:
        """The share of a tensor whose second dimension are the rows."""
        return x[:, self.start : self.stop]

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """Dropout with the noise that a single process would draw for these rows."""
        noise = F.dropout(x.new_ones(x.shape[0], self.n_rows, *x.shape[2:]), rate)
        return x * self.of(noise)


class Team:
    """The processes of torch's default group, of which this is one.

    Parameters
    ----------
    device : str or torch.device
        Where this process trains.
    """

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(device)

    @classmethod
    def current(cls, device: str | torch.device = "cpu") -> Team | None:
        """The team, where ``torch.distributed`` was started with more than one process."""
        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
            return None
        return cls(device)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that prints and writes."""
        return self.rank == 0

    def evaluate(self, network: Callable[..., Tensor], x: Tensor, flip: bool = False) -> Tensor:
        """Outputs of an ensemble for the rows ``(n_members, n, …)``, evaluated by all processes."""
        share = Share.cut(x.shape[1], self.rank, self.size)
        # The gradient of a slice knows one share only; `_Cut` joins them, where any is asked for.
        part = _Cut.apply(x, self, share) if x.requires_grad else share.of(x)
        outputs: Tensor = _Gather.apply(network(part, flip, share), self, share)
        return outputs

    def add_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Add up what the rows of all processes say; a hook before an optimiser's step."""
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        gradients = [p.grad for p in parameters if p.grad is not None]
        joined = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(joined)
        for gradient, summed in zip(
            gradients, joined.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(summed.view_as(gradient))

    def check_same(self, digest: bytes, message: str) -> None:
        """Raise in every process unless all of them hold the same ``digest``."""
        own = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(self.device)
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(everyone, own)
        if any(not torch.equal(own, other) for other in everyone):
            raise ValueError(message)

    def gather(self, part: Tensor, share: Share) -> Tensor:
        """The shares of all processes one after the other, along the second dimension."""
        size = -(-share.n_rows // self.size)
        whole = part.new_empty(self.size, part.shape[0], size, *part.shape[2:])
        own = part.new_zeros(whole.shape[1:])
        own[:, : part.shape[1]] = part
        dist.all_gather(list(whole), own)
        return whole.transpose(0, 1).flatten(1, 2)[:, : share.n_rows]


class _Gather(torch.autograd.Function):
    """Join the shares. The loss of them all is known everywhere: each keeps its own gradient."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, team: Team, share: Share) -> Tensor:
        ctx.share = share
        return team.gather(part, share)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.share.of(gradients[0]), None, None


class _Cut(torch.autograd.Function):
    """Take a share. Its gradient is joined with those of the others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, team: Team, share: Share) -> Tensor:
        ctx.team, ctx.share = team, share
        return share.of(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.team.gather(gradients[0], ctx.share), None, None


@contextmanager
def launched(device: str = "auto") -> Iterator[bool]:
    """Join the processes that ``torchrun`` started; nothing happens where it did not.

    Yields whether this process is the one that prints and writes.

    Parameters
    ----------
    device : str, default='auto'
        Where training will be: each process takes the GPU of its number.
    """
    if not dist.is_available() or not dist.is_torchelastic_launched():
        yield True
        return
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield dist.get_rank() == 0
    finally:
        dist.destroy_process_group()
