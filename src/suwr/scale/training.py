"""Training on data larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from suwr._utils.optional import require
from suwr.data.stored import StoredTable
from suwr.data.tables import Table, read_table
from suwr.estimators.base import BaseSUWR
from suwr.exceptions import TableError
from suwr.scale.partitions import BATCH, find_partitions, read_batches

__all__ = ["ParquetTable", "fit_partitions"]

Model = TypeVar("Model", bound=BaseSUWR)
Data = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def fit_partitions(
    model: Model,
    data: Data,
    target: str,
    *,
    sample_weight: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Model:
    """Train on Parquet files that need not fit into memory.

    The files are read twice, piece by piece: once to learn how each column is encoded, once to
    write the encoded rows into a nameless file that is mapped into memory. Training takes its
    batches from there. The result is that of ``model.fit`` on the whole table, bit for bit. What
    grows with the rows in memory are the target and a few numbers a row.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    data : path, pattern, or list of them
        Parquet files, such as ``"data/*.parquet"``, or a folder of them.
    target : str
        The column to predict. All others are features.
    sample_weight : str, optional
        A column of weights.
    scratch : path, optional
        Folder on a disk with room for 4 bytes per encoded number; that of temporary files unless
        said, which on some machines is memory.

    Returns
    -------
    model
        Fitted.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, fit_partitions
    >>> frame = load_iris(as_frame=True).frame
    >>> folder = tempfile.mkdtemp()
    >>> frame[:70].to_parquet(f"{folder}/a.parquet")
    >>> frame[70:].to_parquet(f"{folder}/b.parquet")
    >>> model = SUWRClassifier(max_epochs=2, random_state=0)
    >>> fit_partitions(model, f"{folder}/*.parquet", "target").classes_
    array([0, 1, 2])
    """
    besides = [target] if sample_weight is None else [target, sample_weight]
    table = ParquetTable(data, besides, scratch)
    weight = None if sample_weight is None else table.beside(sample_weight)
    model.fit(table, table.beside(target), weight)
    return model


class ParquetTable(StoredTable):
    """The columns of Parquet files, one file after the other.

    Parameters
    ----------
    data : path, pattern, or list of them
    besides : sequence of str
        Columns that are no features, such as the target.
    scratch : path, optional
        See `StoredTable`.
    """

    def __init__(
        self,
        data: Data,
        besides: Sequence[str] = (),
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        # Small ones: a reader holds on to much of what it has read until it is closed.
        self.partitions = find_partitions(data, BATCH)
        text = [p.source for p in self.partitions if p.row_groups is None]
        if text:
            raise TableError(
                f"{text[0]!r} must be a Parquet file: only those can be read column by column."
            )
        first = self._schema(self.partitions[0].source)
        missing = [name for name in besides if name not in first.names]
        if missing:
            known = ", ".join(first.names[:12])
            raise TableError(
                f"{missing[0]!r} must be a column of {self.partitions[0].source!r}: {known}."
            )
        names = [name for name in first.names if name not in besides]
        self._empty = first.empty_table().select(names).to_pandas(ignore_metadata=True)
        super().__init__(names, sum(p.n_rows or 0 for p in self.partitions), scratch)

    @staticmethod
    def _schema(path: str) -> Any:
        return require("pyarrow.parquet", "tables", "Reading Parquet files").read_schema(path)

    def header(self) -> Any:
        """See `StoredTable`."""
        return self._empty

    def head(self) -> Any:
        """The first rows as a data frame."""
        return next(self._frames(self.names), self._empty)

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """See `StoredTable`."""
        for frame in self._frames([name]):
            yield read_table(frame).columns[0]

    def batches(self) -> Iterator[Table]:
        """See `StoredTable`."""
        for frame in self._frames(self.names):
            yield read_table(frame)

    def beside(self, name: str) -> NDArray[Any]:
        """A column that is no feature, whole."""
        arrow = require("pyarrow", "tables", "Reading Parquet files")
        parquet = require("pyarrow.parquet", "tables", "Reading Parquet files")
        pieces = []
        for path in dict.fromkeys(partition.source for partition in self.partitions):
            column = parquet.read_table(path, columns=[name])[name]
            if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
                # Rows of one class share its name, which millions of copies would not.
                column = column.dictionary_encode()
            pieces.append(np.asarray(column.to_pandas()))
        return np.concatenate(pieces)

    def _frames(self, columns: list[str]) -> Iterator[Any]:
        for partition in self.partitions:
            yield from read_batches(partition, columns, set(), set())
        # Training needs the room that the reader keeps for itself.
        require("pyarrow", "tables", "Reading Parquet files").default_memory_pool().release_unused()
