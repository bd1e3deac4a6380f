"""Tables that need not fit into memory: read piece by piece, trained on from a mapped file."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.data.encoding import ColumnCode, TableEncoder, category_code, number_code
from suwr.data.tables import Table
from suwr.exceptions import TableError

__all__ = ["StoredTable", "mapped_tensor"]


class StoredTable(ABC):
    """A table on disk that ``fit`` takes in place of one in memory, to the same result.

    Memory holds one column, or some ten thousand rows, at a time.

    Parameters
    ----------
    names : list of str
        Columns.
    n_rows : int
    scratch : path, optional
        Folder on a disk with room for 4 bytes per encoded number; that of temporary files
        unless said.
    """

    def __init__(
        self, names: list[str], n_rows: int, scratch: str | os.PathLike[str] | None = None
    ) -> None:
        if scratch is not None and not os.path.isdir(scratch):
            raise FileNotFoundError(
                f"The 'scratch' parameter must be an existing folder. Got {str(scratch)!r} instead."
            )
        self.names = names
        self.n_rows = n_rows
        self.scratch = scratch

    def __len__(self) -> int:
        return self.n_rows

    @abstractmethod
    def header(self) -> Any:
        """The columns as a data frame without rows."""

    @abstractmethod
    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """A column in pieces, as `suwr.data.tables.Table` holds it."""

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """All columns, some rows at a time, in order."""

    def fit_encoder(self, *, joint: bool = False) -> TableEncoder:
        """As `TableEncoder.fit`, one column at a time."""
        if joint:
            raise ValueError(
                "The 'groups' parameter must not be Patches for data that are read piece by piece: "
                "the scale of an image is that of all its columns."
            )
        return TableEncoder(self.names, [self._fit_column(name) for name in self.names])

    def _fit_column(self, name: str) -> ColumnCode:
        numbers, counts, filled = np.full(self.n_rows, np.nan), Counter[Any](), 0
        for piece in self.column(name):
            if piece.dtype.kind == "f":
                numbers[filled : filled + len(piece)] = piece
            else:
                counts.update(v for v in piece if v is not None)
            filled += len(piece)
        if np.isinf(numbers).any():
            raise TableError(
                f"Input X contains infinity in column {name!r}. Use NaN for missing values."
            )
        # A piece of a text column with nothing in it looks like numbers that are missing.
        if not counts:
            return number_code(numbers)
        if not np.isnan(numbers).all():
            raise TableError(f"Column {name!r} mixes numbers and text. Give it one type.")
        return category_code(counts, counts.total() < self.n_rows)

    def encode(self, encoder: TableEncoder, parts: Sequence[NDArray[np.intp]]) -> list[Tensor]:
        """The encoded rows of every part, in its order, in mapped files.

        Parameters
        ----------
        encoder : TableEncoder
        parts : sequence of ndarray of int
            Row numbers, each at most once in a part.
        """
        width = len(encoder.column_of)
        tensors = [mapped_tensor((len(rows), width), self.scratch) for rows in parts]
        places = [_inverse(rows, self.n_rows) for rows in parts]
        start = 0
        for batch in self.batches():
            encoded = torch.from_numpy(encoder.encode(batch))
            for tensor, place in zip(tensors, places, strict=True):
                here = torch.from_numpy(place[start : start + batch.n_rows])
                chosen = here >= 0
                tensor[here[chosen]] = encoded[chosen]
            start += batch.n_rows
        return tensors


def mapped_tensor(shape: tuple[int, int], folder: str | os.PathLike[str] | None = None) -> Tensor:
    """A tensor of float32 zeros whose memory is a nameless file: it cannot be left behind.

    Room for it is taken at once, so that a full disk is an error here and not a crash later.
    """
    size = 4 * shape[0] * shape[1]
    with tempfile.TemporaryFile(dir=folder) as file:
        if size == 0:
            return torch.zeros(shape)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                where = os.fspath(folder or tempfile.gettempdir())
                what = f"{error.strerror}: training needs {size / 1e9:.1f} GB here"
                raise OSError(error.errno, what, where) from error
        # The map outlives the file object.
        return torch.from_numpy(np.memmap(file, dtype=np.float32, mode="w+", shape=shape))


def _inverse(rows: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """The place of each of ``n`` rows among ``rows``; -1 where it has none."""
    place = np.full(n, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place
