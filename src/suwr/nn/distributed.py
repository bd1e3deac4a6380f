"""Data-parallel training by several processes, one per GPU or core.

Every process holds the same rows, draws the same random numbers and takes the same decisions. Only
the evaluation of the networks is distributed: each process evaluates its shard of the batch, the
outputs are gathered, and the gradients of the weights are summed. No layer mixes rows, so the
result equals that of one process up to rounding, and the trainers need no distributed code.
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

__all__ = ["ProcessGroup", "Shard", "torchrun_process_group"]


@dataclass(frozen=True)
class Shard:
    """The rows ``start`` to ``stop`` of ``n_rows``, evaluated by one process."""

    start: int
    stop: int
    n_rows: int

    @classmethod
    def of_rank(cls, n_rows: int, rank: int, size: int) -> Shard:
        """The shard of process ``rank`` of ``size``; only the last non-empty one may be smaller."""
        each = -(-n_rows // size)
        start = min(rank * each, n_rows)
        return cls(start, min(start + each, n_rows), n_rows)

    def slice(self, x: Tensor) -> Tensor:
        """This shard of a tensor whose second dimension is the rows."""
        return x[:, self.start : self.stop]


class ProcessGroup:
    """The default process group of ``torch.distributed``, seen from one of its processes.

    Parameters
    ----------
    device : str or torch.device, default='cpu'
        The device on which this process trains.
    """

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(device)

    @classmethod
    def current(cls, device: str | torch.device = "cpu") -> ProcessGroup | None:
        """The process group; None unless it was initialised with more than one process."""
        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
            return None
        return cls(device)

    @property
    def is_main(self) -> bool:
        """Whether this process has rank 0, which alone prints and writes files."""
        return self.rank == 0

    def evaluate(self, network: Callable[..., Tensor], x: Tensor) -> Tensor:
        """Outputs of an ensemble for rows ``(n_members, n, …)``, sharded over the processes."""
        shard = Shard.of_rank(x.shape[1], self.rank, self.size)
        # The gradient of a plain slice would cover one shard only; `_Scatter` gathers all of them.
        part = _Scatter.apply(x, self, shard) if x.requires_grad else shard.slice(x)
        outputs: Tensor = _Gather.apply(network(part, shard), self, shard)
        return outputs

    def sum_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Sum the gradients of all processes; registered as a hook before an optimizer step."""
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        for gradient, summed in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(summed.view_as(gradient))

    def check_equal(self, digest: bytes, message: str) -> None:
        """Raise a ``ValueError`` in every process unless all of them hold the same ``digest``."""
        own = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(self.device)
        digests = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(digests, own)
        if any(not torch.equal(own, other) for other in digests):
            raise ValueError(message)

    def gather(self, part: Tensor, shard: Shard) -> Tensor:
        """Concatenate the shards of all processes along the second dimension."""
        size = -(-shard.n_rows // self.size)
        whole = part.new_empty(self.size, part.shape[0], size, *part.shape[2:])
        own = part.new_zeros(whole.shape[1:])
        own[:, : part.shape[1]] = part
        dist.all_gather(list(whole), own)
        return whole.transpose(0, 1).flatten(1, 2)[:, : shard.n_rows]


class _Gather(torch.autograd.Function):
    """Gather shards. Every process computes the loss of all rows and keeps its own gradient."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: ProcessGroup, shard: Shard) -> Tensor:
        ctx.shard = shard
        return group.gather(part, shard)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.shard.slice(gradients[0]), None, None


class _Scatter(torch.autograd.Function):
    """Slice a shard; its backward pass gathers the gradients of all shards."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, shard: Shard) -> Tensor:
        ctx.group, ctx.shard = group, shard
        return shard.slice(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.group.gather(gradients[0], ctx.shard), None, None


@contextmanager
def torchrun_process_group(device: str = "auto") -> Iterator[bool]:
    """Initialise the process group of a program launched by ``torchrun``; otherwise do nothing.

    Parameters
    ----------
    device : str, default='auto'
        The training device; on CUDA, each process takes the GPU of its local rank.

    Yields
    ------
    bool
        Whether this process has rank 0, which alone prints and writes files.
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
