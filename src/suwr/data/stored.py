"""Tables larger than memory: read in batches, encoded into a memory-mapped file."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.encoding import ColumnCode, TableEncoder, category_code, number_code
from suwr.data.tables import Table
from suwr.exceptions import TableError

__all__ = ["StoredTable", "mapped_array"]


class StoredTable(ABC):
    """A table on disk that ``fit`` accepts in place of a data frame, with the same result.

    At any time, memory holds a single column or a batch of rows.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    n_rows : int
        Number of rows.
    scratch : path, optional
        Directory for the encoded rows, which take 4 bytes per encoded value; by default the
        system's directory for temporary files.
    """

    def __init__(
        self, names: list[str], n_rows: int, scratch: str | os.PathLike[str] | None = None
    ) -> None:
        if scratch is not None and not os.path.isdir(scratch):
            raise FileNotFoundError(
                "The 'scratch' parameter must be an existing directory. "
                f"Got {str(scratch)!r} instead."
            )
        self.names = names
        self.n_rows = n_rows
        self.scratch = scratch

    def __len__(self) -> int:
        return self.n_rows

    @abstractmethod
    def header(self) -> Any:
        """Return the columns as a data frame without rows."""

    @abstractmethod
    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """Iterate over a column in pieces, in the representation of `suwr.data.tables.Table`."""

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """Iterate over the rows in order, a batch at a time, with all columns."""

    def fit_encoder(self, *, joint: bool = False, n_bins: int = 0) -> TableEncoder:
        """Fit an encoder one column at a time; equal to `TableEncoder.fit` on the whole table."""
        if joint:
            raise ValueError(
                "The 'groups' parameter must not be Patches for data that is read in batches: "
                "pixels share one scale, which requires all columns at once."
            )
        return TableEncoder(self.names, [self._fit_column(name, n_bins) for name in self.names])

    def _fit_column(self, name: str, n_bins: int) -> ColumnCode:
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
        # A piece of a text column with only missing values is read as numbers that are all NaN.
        if not counts:
            return number_code(numbers, n_bins)
        if not np.isnan(numbers).all():
            raise TableError(
                f"Column {name!r} mixes numbers and text. Convert it to a single type."
            )
        if len({type(value) for value in counts} & {bool, str}) == 2:
            raise TableError(
                f"Column {name!r} mixes booleans and text. Convert it to a single type."
            )
        return category_code(counts, counts.total() < self.n_rows)

    def encode(
        self, encoder: TableEncoder, parts: Sequence[NDArray[np.intp]]
    ) -> list[NDArray[np.float32]]:
        """Encode subsets of the rows into memory-mapped arrays.

        Parameters
        ----------
        encoder : TableEncoder
        parts : sequence of ndarray of int
            Row numbers, unique within a part.

        Returns
        -------
        list of ndarray of shape (len(part), n_values)
            One array per part, with the rows in the order of the part.
        """
        width = len(encoder.column_of)
        arrays = [mapped_array((len(rows), width), self.scratch) for rows in parts]
        positions = [_inverse(rows, self.n_rows) for rows in parts]
        start = 0
        for batch in self.batches():
            encoded = encoder.encode(encoder.parse(batch.columns))
            for array, position in zip(arrays, positions, strict=True):
                target = position[start : start + batch.n_rows]
                chosen = target >= 0
                array[target[chosen]] = encoded[chosen]
            start += batch.n_rows
        return arrays


def mapped_array(
    shape: tuple[int, int], folder: str | os.PathLike[str] | None = None
) -> NDArray[np.float32]:
    """Allocate a float32 array of zeros in an unnamed temporary file.

    The file disappears with the process, however it ends. Disk space is allocated immediately, so
    that a full disk raises an error here instead of a bus error later.
    """
    size = 4 * shape[0] * shape[1]
    with tempfile.TemporaryFile(dir=folder) as file:
        if size == 0:
            return np.zeros(shape, dtype=np.float32)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                where = os.fspath(folder or tempfile.gettempdir())
                what = f"{error.strerror}: training needs {size / 1e9:.1f} GB here"
                raise OSError(error.errno, what, where) from error
        # The mapping stays valid after the file object is closed.
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def _inverse(rows: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Return the position of each of ``n`` rows within ``rows``; -1 if absent."""
    position = np.full(n, -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    return position
