"""Partitions of CSV, TSV and Parquet files, read in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from suwr.data.files import DelimitedFile, find_files, open_table

__all__ = ["BATCH", "Partition", "find_partitions", "read_batches"]

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
