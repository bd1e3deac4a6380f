"""Training rows on a device, and the two halves that judge each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["Folds", "Rows", "by_fold", "by_half", "by_model", "shuffled"]

# Rows that are carried through a policy at once: what a pass over all rows may copy.
BLOCK_ROWS = 65_536

# Small tables are passed over several times in what counts as an epoch, so that a fixed number of
# epochs trains them as well as large ones.
LEAST_BATCHES = 8


@dataclass(frozen=True)
class Rows:
    """Encoded rows with their targets.

    Attributes
    ----------
    values : Tensor of shape (n, n_values)
        May lie on the CPU, in a mapped file, while training is elsewhere: only what is asked for is
        read and moved.
    targets : Tensor of shape (n, n_outputs)
        One-hot classes or standardised values.
    weight : Tensor of shape (n,)
        Sample weights with mean one.
    """

    values: Tensor
    targets: Tensor
    weight: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """Where training is."""
        return self.weight.device

    def __getitem__(self, index: Tensor | slice) -> Rows:
        where = index if isinstance(index, slice) else index.to(self.values.device)
        values = self.values[where].to(self.device)
        return Rows(values, self.targets[index], self.weight[index])

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """All rows in order, a bounded number at once, and where they stand."""
        for start in range(0, len(self), BLOCK_ROWS):
            place = slice(start, min(start + BLOCK_ROWS, len(self)))
            yield place, self[place]


class Folds:
    """Two disjoint halves of the training rows.

    A predictor trained on one half judges the other: a reward from a predictor that saw the row is
    too optimistic.

    Parameters
    ----------
    rows : Rows
        Of one table, or of ``n_tables`` tables of one length, one after the other.
    generator : torch.Generator
    n_tables : int, default=1
        Each has two halves of its own; ``halves`` is ``(2 · n_tables, size)``.
    """

    def __init__(self, rows: Rows, generator: torch.Generator, n_tables: int = 1) -> None:
        self.rows = rows
        self.generator = generator
        n, device = len(rows) // n_tables, rows.device
        self.size = max(1, n // 2)
        halves = []
        for table in range(n_tables):
            order = table * n + torch.randperm(n, generator=generator, device=device)
            # With an odd number of rows one is left out; with one row both halves are that row.
            halves += [order[: self.size], order[-self.size :]]
        self.halves = torch.stack(halves)

    def n_batches(self, batch_size: int) -> int:
        """Batches in an epoch: one pass, or several where there are few rows."""
        return max(LEAST_BATCHES, self.size // self._half(batch_size))

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """Row numbers ``(2 · n_tables, b)``; within a pass, no row comes twice."""
        b = self._half(batch_size)
        order, start = self.halves, self.size
        for _ in range(self.n_batches(batch_size)):
            if start + b > self.size:
                order, start = shuffled(self.halves, self.generator), 0
            yield order[:, start : start + b]
            start += b

    def _half(self, batch_size: int) -> int:
        return max(1, min(batch_size // 2, self.size))


def shuffled(halves: Tensor, generator: torch.Generator) -> Tensor:
    """Every row of ``halves`` in a random order of its own."""
    noise = torch.rand(halves.shape, generator=generator, device=halves.device)
    return halves.gather(1, noise.argsort(dim=1))


def by_model(tensor: Tensor) -> Tensor:
    """From one entry per half to one per model: ``(2 m, b, …)`` becomes ``(m, 2 b, …)``."""
    return tensor.unflatten(0, (-1, 2)).flatten(1, 2)


def by_half(tensor: Tensor) -> Tensor:
    """Undo `by_model`."""
    return tensor.unflatten(1, (2, -1)).flatten(0, 1)


def by_fold(position: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Sort entries by the half that their row belongs to.

    Parameters
    ----------
    position : Tensor of shape (k,)
        Position of each entry's row in a flattened batch ``(2, half)``.
    half : int

    Returns
    -------
    index, valid : Tensors of shape (2, m)
        Entry numbers of each half, the shorter one padded, and which of them are real.
    """
    parts = [torch.nonzero(position < half)[:, 0], torch.nonzero(position >= half)[:, 0]]
    longest = max(len(p) for p in parts)
    index = torch.stack([F.pad(p, (0, longest - len(p))) for p in parts])
    counts = torch.tensor([[len(p)] for p in parts], device=position.device)
    valid = torch.arange(longest, device=position.device).unsqueeze(0) < counts
    return index, valid
