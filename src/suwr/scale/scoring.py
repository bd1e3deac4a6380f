"""Scoring of data larger than memory, partition by partition."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from suwr._utils.progress import progress_bars
from suwr._utils.validation import check_integer, require
from suwr.data.stored import name_columns, source_columns
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.results import Scores, empty_scores, score_rows
from suwr.estimators.sequential import SequentialModel
from suwr.exceptions import TableError
from suwr.scale.partitions import Partition, find_partitions, read_batches
from suwr.scale.results import ResultFolder, open_folder, to_arrow

__all__ = ["ScoredFolder", "score_partitions"]


@dataclass(frozen=True)
class ScoredFolder:
    """The results of `score_partitions`.

    Attributes
    ----------
    paths : list of Path
        Parquet files, in the order of the partitions.
    n_rows : int
        Total number of rows.
    n_scored, n_resumed : int
        Number of partitions scored by this call and by previous ones.
    """

    paths: list[Path]
    n_rows: int
    n_scored: int
    n_resumed: int

    def to_frame(self) -> Any:
        """Return all results as one pandas frame, which must fit into memory."""
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
    verbose: int | None = None,
) -> ScoredFolder:
    """Write predictions, selected columns and the order of the steps to Parquet files.

    Rows are read, scored and written in batches, so memory use is bounded. An interrupted call can
    be repeated and skips completed partitions. The results are bit for bit those of `predict`,
    `predict_proba`, `select` and `explain` on the whole table.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        A fitted model.
    data : path, glob pattern, list of them, or Dask data frame
        CSV, TSV and Parquet files, such as ``"data/*.parquet"``, or a directory of them.
    out : path
        Output directory, created if necessary. It contains a manifest and one Parquet file per
        partition. A directory with other files raises an error.
    rows_per_partition : int, default=500_000
        Parquet files with more rows are split between row groups.
    n_jobs : int or None, default=None
        Number of partitions scored in parallel by joblib. Dask data frames use their own scheduler
        instead.
    overwrite : bool, default=False
        Replace results of another model or of other data, which otherwise raise an error. Only
        files that a previous call has written are deleted.
    verbose : int or None, default=None
        Whether to show a progress bar; None shows it in a terminal and in a notebook.

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
    check_integer(rows_per_partition, "rows_per_partition", "score_partitions", 1)
    if model.predictor is not None:
        raise ValueError(
            "Workers load the model from its file, which does not contain a 'predictor' of your "
            "own: score_partitions requires a model without one."
        )
    stored, folder = to_bytes(model), Path(out)
    digest = hashlib.sha256(stored).hexdigest()
    if hasattr(data, "to_delayed"):
        return _score_dask(stored, digest, data, folder, overwrite, verbose)
    partitions = find_partitions(data, rows_per_partition)
    manifest = {"format": 1, "model": digest, "partitions": [asdict(p) for p in partitions]}
    sources = {partition.source for partition in partitions}
    with open_folder(folder, manifest, overwrite, sources) as (results, todo):
        run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        done = run(delayed(_score_file)(stored, partitions[n], results, n) for n in todo)
        _consume(done, len(partitions), len(partitions) - len(todo), verbose)
    return _collect(results, len(todo))


def _score_dask(
    stored: bytes, digest: str, frame: Any, folder: Path, overwrite: bool, verbose: int | None
) -> ScoredFolder:
    dask = require("dask", "dask", "Scoring Dask data frames")
    parts = frame.to_delayed()
    token = dask.base.tokenize(frame)
    manifest = {
        "format": 1,
        "model": digest,
        "partitions": [f"{token}-{n}" for n in range(len(parts))],
    }
    with open_folder(folder, manifest, overwrite) as (results, todo):
        score = dask.delayed(_score_frame)
        there = replace(results, path=folder.absolute())
        jobs = [score(stored, parts[n], there, n) for n in todo]
        # Each job writes its own file and returns only the number of rows.
        _consume(dask.compute(*jobs), len(parts), len(parts) - len(todo), verbose)
    return _collect(results, len(todo))


def _score_file(stored: bytes, partition: Partition, results: ResultFolder, number: int) -> int:
    """Score one partition, write its file and return its number of rows."""
    model = _model(stored)
    batches = read_batches(partition, source_columns(model))
    rows = _numbered(batches, partition.first_row)
    return _write(model, rows, np.arange(0), partition.source, results, number)


def _score_frame(stored: bytes, frame: Any, results: ResultFolder, number: int) -> int:
    model = _model(stored)
    columns = source_columns(model)
    if columns is not None:
        frame = frame[columns]
    return _write(model, [(frame.index, frame)], frame.index[:0], None, results, number)


def _numbered(batches: Iterable[Any], start: int) -> Iterator[tuple[Any, Any]]:
    for frame in batches:
        yield np.arange(start, start + len(frame)), frame
        start += len(frame)


def _write(
    model: Any,
    batches: Iterable[tuple[Any, Any]],
    no_rows: Any,
    source: str | None,
    results: ResultFolder,
    number: int,
) -> int:
    names, units, classes = name_columns(model), model.units_.names, model._class_labels()
    n_rows = 0
    schema = to_arrow(empty_scores(model), no_rows, source, names, units, classes).schema
    with results.write(number, schema) as writer:
        for rows, frame in batches:
            if len(frame):
                if not hasattr(model, "feature_names_in_"):
                    # A model that was fitted without column names ignores them.
                    frame = frame.set_axis(range(frame.shape[1]), axis=1)
                scores = _score_rows(model, frame, rows, source)
                writer.write_table(to_arrow(scores, rows, source, names, units, classes))
                n_rows += len(frame)
    return n_rows


def _score_rows(model: Any, frame: Any, rows: Any, source: str | None) -> Scores:
    try:
        if model.dates_ is not None:
            frame = model.dates_.transform(frame)
        return score_rows(model, frame, rows)
    except TableError as error:
        raise error if source is None else TableError(f"{source!r}: {error}") from error


@lru_cache(maxsize=2)
def _model(stored: bytes) -> Any:
    """Load the model once per worker instead of once per partition."""
    return from_bytes(stored)


def _collect(results: ResultFolder, n_scored: int) -> ScoredFolder:
    parquet = require("pyarrow.parquet", "tables", "Reading results")
    paths = [results.part(number) for number in range(results.n_partitions)]
    n_rows = sum(parquet.read_metadata(p).num_rows for p in paths)
    return ScoredFolder(paths, n_rows, n_scored, len(paths) - n_scored)


def _consume(done: Iterable[int], total: int, before: int, verbose: int | None) -> None:
    n_rows = 0
    with progress_bars(
        ["scoring"], verbose=verbose, total=total, completed=before, unit="partition"
    ) as (bar,):
        for n in done:
            n_rows += n
            bar(status=f"{n_rows:,} rows")
