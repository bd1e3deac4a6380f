"""Partitions of CSV, TSV and Parquet files, read in batches, and training on those of Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import require
from suwr.data.files import DelimitedFile, ParquetFile, find_files, open_table
from suwr.data.frame import Table, read_table
from suwr.data.stored import StoredTable
from suwr.estimators.base import SUWRModel
from suwr.exceptions import TableError

Model = TypeVar("Model", bound=SUWRModel)
Data = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# Rows per batch; also the number of rows that a model evaluates at a time.
BATCH = 65_536


@dataclass(frozen=True)
class Partition:
    """Consecutive rows of a file.

    Attributes
    ----------
    source : str
        Path of the file.
    size, modified : int
        Size in bytes and modification time in ns, to detect changed files.
    first_row : int
        Position of the first row within the file.
    row_groups : tuple of int, or None
        Row groups of a Parquet file; None for a text file, which is not split.
    n_rows : int or None
        Number of rows; None for a text file, whose rows are not counted in advance.
    """

    source: str
    size: int
    modified: int
    first_row: int = 0
    row_groups: tuple[int, ...] | None = None
    n_rows: int | None = None


def find_partitions(data: Data, rows_per_partition: int) -> list[Partition]:
    """Return the partitions of all files, ordered by file name.

    Parameters
    ----------
    data : path, glob pattern, or list of them
        A directory stands for all tables in it.
    rows_per_partition : int
        Parquet files with more rows are split between row groups.
    """
    given = [data] if isinstance(data, str | os.PathLike) else list(data)
    paths = [path for entry in given for path in find_files(os.fspath(entry))]
    if not paths:
        raise FileNotFoundError("'data' must name at least one file. Got an empty list instead.")
    return [piece for path in dict.fromkeys(paths) for piece in _split(path, rows_per_partition)]


def _split(path: str, rows_per_partition: int) -> list[Partition]:
    facts = os.stat(path)
    with open_table(path) as file:
        if isinstance(file, DelimitedFile):
            return [Partition(path, facts.st_size, facts.st_mtime_ns)]
        found = file.file.metadata
        counts = [found.row_group(group).num_rows for group in range(found.num_row_groups)]
    pieces, groups, first, n_rows = [], [], 0, 0
    for group, count in enumerate(counts):
        groups.append(group)
        n_rows += count
        if n_rows >= rows_per_partition or group == len(counts) - 1:
            pieces.append(
                Partition(path, facts.st_size, facts.st_mtime_ns, first, tuple(groups), n_rows)
            )
            groups, first, n_rows = [], first + n_rows, 0
    return pieces


def read_batches(partition: Partition, columns: list[str] | None = None) -> Iterator[Any]:
    """Iterate over pandas frames of at most `BATCH` rows.

    The cells of a text file are read as text, and integers stay integers: the value of a cell does
    not depend on the rows of a batch. The model parses the cells by the types of its columns.

    Parameters
    ----------
    partition : Partition
    columns : list of str, or None
        The columns to read; None reads all of them.
    """
    with open_table(partition.source) as file:
        yield from file.batches(BATCH, columns, partition.row_groups)


def fit_partitions(
    model: Model,
    data: Data,
    target: str,
    *,
    sample_weight: str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Model:
    """Fit a model to Parquet files that need not fit into memory.

    The files are read twice: column by column to fit the encoding, then in batches of rows to
    write the encoded rows to a memory-mapped temporary file, from which training draws its
    batches. The result is bit for bit that of ``model.fit`` on the whole table. Memory holds the
    target and a few numbers per row.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    data : path, glob pattern, or list of them
        Parquet files, such as ``"data/*.parquet"``, or a directory of them.
    target : str
        The column to predict. All other columns are features.
    sample_weight : str, optional
        A column of sample weights.
    scratch : path, optional
        Directory for the encoded rows, which take 4 bytes per encoded value. The default is the
        system's directory for temporary files, which on some systems resides in memory.
    checkpoint : path, optional
        As in ``model.fit``.

    Returns
    -------
    model
        The fitted model.

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
    excluded = [target] if sample_weight is None else [target, sample_weight]
    table = ParquetTable(data, excluded, scratch)
    weight = None if sample_weight is None else table.read_excluded(sample_weight)
    model.fit(table, table.read_excluded(target), weight, checkpoint=checkpoint)
    return model


class ParquetTable(StoredTable):
    """The concatenated rows of Parquet files.

    Parameters
    ----------
    data : path, glob pattern, or list of them
    excluded : sequence of str
        Columns that are not features, such as the target.
    scratch : path, optional
        See `StoredTable`.
    """

    def __init__(
        self,
        data: Data,
        excluded: Sequence[str] = (),
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        # Small partitions: a Parquet reader retains memory until it is closed.
        self.partitions = find_partitions(data, BATCH)
        text = [p.source for p in self.partitions if p.row_groups is None]
        if text:
            raise TableError(
                f"{text[0]!r} must be a Parquet file, which can be read column by column."
            )
        with ParquetFile(self.partitions[0].source) as file:
            first = file.file.schema_arrow
        missing = [name for name in excluded if name not in first.names]
        if missing:
            known = ", ".join(first.names[:12])
            raise TableError(
                f"{missing[0]!r} must be a column of {self.partitions[0].source!r}: {known}."
            )
        names = [name for name in first.names if name not in excluded]
        self._empty = first.empty_table().select(names).to_pandas(ignore_metadata=True)
        super().__init__(names, sum(p.n_rows or 0 for p in self.partitions), scratch)

    def header(self) -> Any:
        """See `StoredTable`."""
        return self._empty

    def head(self) -> Any:
        """Return the first rows as a data frame."""
        return next(self._frames(self.names), self._empty)

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """See `StoredTable`."""
        for frame in self._frames([name]):
            yield read_table(frame).columns[0]

    def batches(self) -> Iterator[Table]:
        """See `StoredTable`."""
        for frame in self._frames(self.names):
            yield read_table(frame)

    def read_excluded(self, name: str) -> NDArray[Any]:
        """Return a whole column that is not a feature."""
        arrow = require("pyarrow", "tables", "Reading Parquet files")
        pieces = []
        for path in dict.fromkeys(partition.source for partition in self.partitions):
            with ParquetFile(path) as file:
                column = file.file.read(columns=[name])[name]
            if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
                # Rows of one class share one string object instead of a copy each.
                column = column.dictionary_encode()
            pieces.append(np.asarray(column.to_pandas()))
        return np.concatenate(pieces)

    def _frames(self, columns: list[str]) -> Iterator[Any]:
        for partition in self.partitions:
            yield from read_batches(partition, columns)
        # Return the memory that Arrow retains, before training starts.
        require("pyarrow", "tables", "Reading Parquet files").default_memory_pool().release_unused()
