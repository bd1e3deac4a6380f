"""Training rows on a device, and their folds for cross-fitting."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.networks import HELD_OUT

__all__ = ["Folds", "Rows", "shuffled"]

# Rows processed at once in a pass over all rows; bounds the memory of the pass.
BLOCK_ROWS = 65_536

# Minimum number of batches per epoch: small tables are passed over several times, so that the same
# number of epochs suits tables of all sizes.
MIN_BATCHES = 8


@dataclass(frozen=True)
class Rows:
    """Encoded rows with their targets.

    Attributes
    ----------
    values : Tensor of shape (n, n_values)
        May be a memory-mapped file on the CPU while training runs on another device; only the
        requested rows are read and moved.
    targets : Tensor of shape (n, n_outputs)
        One-hot classes, class probabilities or standardised values.
    weight : Tensor of shape (n,)
        Sample weights of mean one.
    costs : Tensor of shape (n, n_units), or None
        Costs of the units of each row; None if they are those of the model.
    """

    values: Tensor
    targets: Tensor
    weight: Tensor
    costs: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """The training device."""
        return self.weight.device

    def __getitem__(self, index: Tensor | slice) -> Rows:
        stored = index if isinstance(index, slice) else index.to(self.values.device)
        values = self.values[stored].to(self.device)
        costs = None if self.costs is None else self.costs[index]
        return Rows(values, self.targets[index], self.weight[index], costs)

    def tensors(self) -> list[Tensor]:
        """All parts, in the order of the constructor."""
        return [part for part in vars(self).values() if part is not None]

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """All rows in order, in blocks of bounded size, with the slice of each block."""
        for start in range(0, len(self), BLOCK_ROWS):
            place = slice(start, min(start + BLOCK_ROWS, len(self)))
            yield place, self[place]


class Folds:
    """Disjoint folds of the training rows.

    The rows of a fold are evaluated by predictors that were trained on the other folds
    (cross-fitting), because the loss of a predictor on its own training rows is optimistic. The
    folds of a classifier are stratified: the numbers of rows of a class in any two differ by at
    most one. Rows with class probabilities count for their most probable class.

    Parameters
    ----------
    rows : Rows
    generator : torch.Generator
    n_folds : int, default=2

    Attributes
    ----------
    indices : Tensor of int, shape (n_folds, size)
        Row numbers of the folds.
    size : int
        Rows of a fold.
    report : Tensor or None
        What a teacher knows, if it provides the targets; see `suwr.training.teacher.Lesson`.
    """

    report: Tensor | None = None

    def __init__(self, rows: Rows, generator: torch.Generator, n_folds: int = 2) -> None:
        self.rows, self.generator, self.n_folds = rows, generator, n_folds
        n = len(rows)
        self.size = max(1, n // n_folds)
        # Rows in excess are left out; fewer rows than folds are in several folds.
        starts = [fold * (n - self.size) // (n_folds - 1) for fold in range(n_folds)]
        order = torch.randperm(n, generator=generator, device=rows.device)
        self.indices = torch.stack([order[start : start + self.size] for start in starts])
        if rows.targets.shape[1] > 1 and n >= n_folds:
            self.indices = self._stratified(self.indices.flatten())

    def extended(self, rows: Rows, report: Tensor) -> Folds:
        """The folds of rows that are followed by recombinations of them, each in one fold."""
        twin = copy.copy(self)
        repeat = len(rows) // len(self.rows)
        offset = torch.arange(repeat, device=rows.device).view(1, -1, 1) * len(self.rows)
        twin.rows, twin.size, twin.report = rows, self.size * repeat, report
        twin.indices = (self.indices.unsqueeze(1) + offset).flatten(1)
        return twin

    def _stratified(self, order: Tensor) -> Tensor:
        """Divide shuffled row numbers so that each fold has its share of every class."""
        classes = self.rows.targets[order].argmax(dim=1)
        dealt = order[classes.argsort(stable=True)].reshape(self.size, self.n_folds)
        # The first rows of a fold are used as a sample of it: they must not be of one class.
        return shuffled(dealt.T, self.generator)

    def n_batches(self, batch_size: int) -> int:
        """Batches of an epoch."""
        return max(MIN_BATCHES, self.size // self.rows_per_batch(batch_size))

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """Row numbers ``(n_folds, b)`` of the batches of an epoch.

        A row occurs at most once in a pass over the table.
        """
        b = self.rows_per_batch(batch_size)
        order, start = self.indices, self.size
        for _ in range(self.n_batches(batch_size)):
            if start + b > self.size:
                order, start = shuffled(self.indices, self.generator), 0
            yield order[:, start : start + b]
            start += b

    def rows_per_batch(self, batch_size: int) -> int:
        """Rows of each fold in a batch."""
        return max(1, min(batch_size // self.n_folds, self.size))

    def training_folds(self) -> Tensor:
        """Draw a fold for each group of predictors to be trained on, ``(n_folds,)``.

        All folds but the held-out one are equally likely. Each fold trains one group.
        """
        groups = torch.arange(self.n_folds, device=self.indices.device)
        if self.n_folds == 2:
            return groups
        place = torch.randint(
            self.n_folds - 1, (1,), generator=self.generator, device=self.indices.device
        )
        return (groups + place + (place >= HELD_OUT)) % self.n_folds


def shuffled(indices: Tensor, generator: torch.Generator) -> Tensor:
    """Shuffle each row of ``indices`` independently."""
    noise = torch.rand(indices.shape, generator=generator, device=indices.device)
    return indices.gather(1, noise.argsort(dim=1))
