"""Scoring of data larger than memory."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from suwr._utils.optional import require
from suwr.data.input import name_columns
from suwr.estimators.io import from_bytes, to_bytes
from suwr.estimators.results import empty_scores, score_rows
from suwr.estimators.sequential import SequentialModel
from suwr.scale.folder import open_folder, part_path, write_part
from suwr.scale.output import to_arrow
from suwr.scale.partitions import Partition, find_partitions, read_batches

__all__ = ["ScoredFolder", "score_partitions"]


@dataclass(frozen=True)
class ScoredFolder:
    """Where the results are.

    Attributes
    ----------
    paths : list of Path
        Parquet files, in the order of the partitions.
    n_rows : int
        Rows in all of them.
    n_scored, n_resumed : int
        Partitions that were scored now, and those that were finished before.
    """

    paths: list[Path]
    n_rows: int
    n_scored: int
    n_resumed: int

    def to_frame(self) -> Any:
        """All results as one pandas frame, where they fit into memory."""
        pandas = require("pandas", "tables", "ScoredFolder.to_frame")
        return pandas.concat([pandas.read_parquet(p) for p in self.paths], ignore_index=True)


def score_partitions(
    model: SequentialModel,
    data: Any,
    out: str | os.PathLike[str],
    *,
    rows_per_partition: int = 500_000,
    n_jobs: int | None = None,
    overwrite: bool = False,
    verbose: int = 0,
) -> ScoredFolder:
    """Write predictions, selected columns and step orders, partition by partition.

    Memory stays bounded: rows are read, scored and written some ten thousand at a time. Finished
    partitions are not repeated when an interrupted call is made again. The results are those of
    `predict`, `predict_proba`, `select` and `explain` on the whole table, bit for bit.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    data : path, pattern, list of them, or Dask data frame
        CSV, TSV and Parquet files, such as ``"data/*.parquet"``, or a folder of them.
    out : path
        A folder for the results; made if needed. It holds a plan and one Parquet file per
        partition.
    rows_per_partition : int, default=500_000
        A Parquet file with more rows is cut between its row groups.
    n_jobs : int or None, default=None
        Partitions at once, through joblib; each worker holds one batch. A Dask data frame is
        computed by its own scheduler instead.
    overwrite : bool, default=False
        Replace results of another model or of other data. Otherwise they are an error.
    verbose : int, default=0
        Show a progress bar.

    Returns
    -------
    ScoredFolder

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, score_partitions
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> folder = tempfile.mkdtemp()
    >>> X.to_csv(f"{folder}/iris.csv", index=False)
    >>> scored = score_partitions(clf, f"{folder}/*.csv", f"{folder}/scored")
    >>> bool((scored.to_frame()["prediction"] == clf.predict(X)).all())
    True
    """
    if not isinstance(rows_per_partition, int) or rows_per_partition < 1:
        raise ValueError(
            "The 'rows_per_partition' parameter must be a positive whole number. "
            f"Got {rows_per_partition!r} instead."
        )
    stored, folder = to_bytes(model), Path(out)
    digest = hashlib.sha256(stored).hexdigest()
    if hasattr(data, "to_delayed"):
        return _score_dask(stored, digest, data, folder, overwrite, verbose)
    partitions = find_partitions(data, rows_per_partition)
    plan = {"format": 1, "model": digest, "partitions": [asdict(p) for p in partitions]}
    with open_folder(folder, plan, overwrite) as todo:
        run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        done = run(delayed(_score_file)(stored, partitions[n], folder, n) for n in todo)
        _consume(done, len(partitions), len(partitions) - len(todo), verbose)
    return _finished(folder, len(partitions), len(todo))


def _score_dask(
    stored: bytes, digest: str, frame: Any, folder: Path, overwrite: bool, verbose: int
) -> ScoredFolder:
    dask = require("dask", "dask", "Scoring Dask data frames")
    parts = frame.to_delayed()
    token = dask.base.tokenize(frame)
    plan = {"format": 1, "model": digest, "partitions": [f"{token}-{n}" for n in range(len(parts))]}
    with open_folder(folder, plan, overwrite) as todo:
        score = dask.delayed(_score_frame)
        jobs = [score(stored, parts[n], folder.absolute(), n) for n in todo]
        # As many at once as the scheduler likes; each job writes its own file.
        _consume(dask.compute(*jobs), len(parts), len(parts) - len(todo), verbose)
    return _finished(folder, len(parts), len(todo))


def _score_file(stored: bytes, partition: Partition, folder: Path, number: int) -> int:
    """Score one partition and write its file; the number of its rows."""
    model = _model(stored)
    codes = dict(zip(model.encoder_.names, model.encoder_.codes, strict=True))
    numbers = {n for n, c in codes.items() if c.categories is None}
    text = {n for n, c in codes.items() if any(isinstance(v, str) for v in c.categories or ())}
    columns = model.encoder_.names if hasattr(model, "feature_names_in_") else None
    batches = read_batches(partition, columns, text, numbers)
    rows = _numbered(batches, partition.first_row)
    return _write(model, rows, np.arange(0), partition.source, folder, number)


def _score_frame(stored: bytes, frame: Any, folder: Path, number: int) -> int:
    model = _model(stored)
    if hasattr(model, "feature_names_in_"):
        frame = frame[model.encoder_.names]
    return _write(model, [(frame.index, frame)], frame.index[:0], None, folder, number)


def _numbered(batches: Iterable[Any], start: int) -> Iterator[tuple[Any, Any]]:
    for frame in batches:
        yield np.arange(start, start + len(frame)), frame
        start += len(frame)


def _write(
    model: Any,
    batches: Iterable[tuple[Any, Any]],
    no_rows: Any,
    source: str | None,
    folder: Path,
    number: int,
) -> int:
    parquet = require("pyarrow.parquet", "tables", "Writing predictions")
    names, units, classes = name_columns(model), model.units_.names, model._class_labels()
    n_rows = 0
    schema = to_arrow(empty_scores(model), no_rows, source, names, units, classes).schema
    with write_part(folder, number) as path, parquet.ParquetWriter(path, schema) as writer:
        for rows, frame in batches:
            if len(frame):
                if not hasattr(model, "feature_names_in_"):
                    # Names mean nothing to a model that was fitted without them.
                    frame = frame.set_axis(range(frame.shape[1]), axis=1)
                table = to_arrow(score_rows(model, frame), rows, source, names, units, classes)
                writer.write_table(table)
                n_rows += len(frame)
    return n_rows


@lru_cache(maxsize=2)
def _model(stored: bytes) -> Any:
    """The model of a worker, made once and not for every partition."""
    return from_bytes(stored)


def _finished(folder: Path, n_partitions: int, n_scored: int) -> ScoredFolder:
    parquet = require("pyarrow.parquet", "tables", "Reading results")
    paths = [part_path(folder, n) for n in range(n_partitions)]
    n_rows = sum(parquet.read_metadata(p).num_rows for p in paths)
    return ScoredFolder(paths, n_rows, n_scored, n_partitions - n_scored)


def _consume(done: Iterable[int], total: int, before: int, verbose: int) -> None:
    with _progress(total, before, verbose) as advance:
        for n_rows in done:
            advance(n_rows)


@contextmanager
def _progress(total: int, before: int, verbose: int) -> Iterator[Any]:
    if not verbose:
        yield lambda n_rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("scoring"),
        BarColumn(),
        TextColumn("partition {task.completed}/{task.total}, {task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr),
    ) as bar:
        task = bar.add_task("scoring", total=total, completed=before, rows=0)

        def advance(n_rows: int) -> None:
            bar.update(task, advance=1, rows=bar.tasks[0].fields["rows"] + n_rows)

        yield advance
