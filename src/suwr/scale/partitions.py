"""Partitions of CSV, TSV and Parquet files, read in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suwr._utils.validation import require
from suwr.data.files import SEPARATORS, DelimitedFile, find_files
from suwr.data.frame import arrow_to_pandas
from suwr.exceptions import TableError

__all__ = ["BATCH", "Partition", "find_partitions", "read_batches"]

# Rows per batch; also the number of rows that a model evaluates at a time.
BATCH = 65_536
# Cells per batch of a text file: texts take more memory than numbers.
TEXT_CELLS = 2**22


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


def find_partitions(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], rows_per_partition: int
) -> list[Partition]:
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
    if Path(path).suffix.lower() in SEPARATORS:
        return [Partition(path, facts.st_size, facts.st_mtime_ns)]
    with _open_parquet(path) as file:
        counts = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
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


def _open_parquet(path: str) -> Any:
    parquet = require("pyarrow.parquet", "tables", "Reading Parquet files")
    try:
        return parquet.ParquetFile(path)
    except (ValueError, OSError) as error:
        raise TableError(f"{path!r} cannot be read: {error}") from error


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
    if partition.row_groups is None:
        yield from _read_text(partition.source, columns)
    elif partition.n_rows:
        arrow = require("pyarrow", "tables", "Reading Parquet files")
        with _open_parquet(partition.source) as file:
            _check_columns(partition.source, columns, file.schema_arrow.names)
            for batch in file.iter_batches(
                BATCH, row_groups=list(partition.row_groups), columns=columns
            ):
                frame = arrow_to_pandas(arrow.Table.from_batches([batch]), ignore_metadata=True)
                yield frame if columns is None else frame[columns]


def _read_text(path: str, columns: list[str] | None) -> Iterator[Any]:
    with DelimitedFile(path) as file:
        _check_columns(path, columns, file.names)
        n_rows = int(np.clip(TEXT_CELLS // max(1, len(columns or file.names)), 1, BATCH))
        for frame in file.batches(n_rows, columns):
            yield frame if columns is None else frame[columns]


def _check_columns(path: str, columns: list[str] | None, given: list[str]) -> None:
    missing = [name for name in columns or [] if name not in given]
    if missing:
        raise TableError(
            f"{path!r} lacks {len(missing)} column(s) of the model: "
            + ", ".join(repr(n) for n in missing[:8])
        )
