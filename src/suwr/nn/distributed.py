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
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn.functional import pad
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Shard(NamedTuple):
    """The rows of a batch of ``n_rows`` that one process evaluates."""

    rows: slice
    n_rows: int


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

    def evaluate(self, network: Callable[[Tensor, Shard], Tensor], x: Tensor) -> Tensor:
        """Outputs of an ensemble for rows ``(n_members, n, …)``, sharded over the processes.

        The gradient of the weights is that of this process's rows; see `sum_gradients`.
        """
        n = x.shape[1]
        start, stop = (n * rank // self.size for rank in (self.rank, self.rank + 1))
        if x.requires_grad:
            # That of the inputs is the sum over the processes, each of which has it for its rows.
            x = x.view_as(x)
            x.register_hook(_summed)
        own = network(x[:, start:stop], Shard(slice(start, stop), n))
        own = pad(own, (0, 0, start, n - stop))
        return own + (_summed(own.detach()) - own.detach())

    def sum_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Sum the gradients of all processes; registered as a hook before an optimizer step."""
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        gradients = [p.grad for p in parameters if p.grad is not None]
        vector_to_parameters(_summed(parameters_to_vector(gradients)), gradients)

    def check_equal(self, digest: bytes, message: str) -> None:
        """Raise a ``ValueError`` in every process unless all of them hold the same ``digest``."""
        own = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(self.device)
        digests = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(digests, own)
        if any(not torch.equal(own, other) for other in digests):
            raise ValueError(message)


def _summed(tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes."""
    total = tensor.clone()
    dist.all_reduce(total)
    return total


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
