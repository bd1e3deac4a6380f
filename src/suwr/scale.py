"""Training and scoring of data larger than memory, in partitions of files or on a cluster."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from suwr._utils.files import atomic_file, file_identity, is_temporary, remove_stale, write_atomic
from suwr._utils.progress import progress_bars
from suwr._utils.validation import check_integer, require
from suwr.data.files import DelimitedFile, ParquetFile, find_files, open_table
from suwr.data.frame import Table, read_table
from suwr.data.stored import StoredTable, name_columns, source_columns
from suwr.estimators.base import SUWRModel
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.fitted import Scores
from suwr.estimators.sequential import SequentialModel
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


# Seconds to wait for a scheduler, and then for its first worker.
TIMEOUT = 10
# Arguments of at least this many bytes are replicated on all workers once; smaller ones are part of
# every task.
LARGE = 1_000_000


@contextmanager
def engine(scheduler: str | None = None) -> Iterator[None]:
    """Run every joblib call inside the block on a Dask cluster.

    The death of a worker does not end the computation: its tasks run on another worker.

    Parameters
    ----------
    scheduler : str or None, default=None
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``. With None, the block runs
        on this machine as it would without `engine`.

    Raises
    ------
    MissingExtraError
        Dask is not installed; the message names the extra.
    ConnectionError
        There is no scheduler at that address, or it has no workers.

    Examples
    --------
    >>> with engine(None):
    ...     print("local")
    local
    """
    if scheduler is None:
        yield
        return
    require("distributed", "dask", "Running on a cluster")
    client = _connect(scheduler)
    with client, parallel_config(backend="dask", client=client, n_jobs=-1):
        yield


async def _identity(value: Any) -> Any:
    return value


def _connect(scheduler: str) -> Any:
    import dask
    from dask.sizeof import sizeof
    from distributed import Client

    class ReplicatingClient(Client):
        """Client whose scattered data survives the death of a worker.

        joblib's backend scatters each argument to a single worker. If that worker dies, Dask
        cancels all tasks that need the argument, which ends the whole search.
        """

        def scatter(self, data: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("asynchronous") and sizeof(data) < LARGE:
                return _identity(data)
            return super().scatter(data, *args, **{**kwargs, "broadcast": True})

    default = dask.config.get("scheduler", None)
    try:
        client = ReplicatingClient(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        # A client that fails to connect remains the default scheduler of this process.
        dask.config.set(scheduler=default)
        raise ConnectionError(
            "The scheduler must be the address of a running Dask scheduler, such as "
            f"'tcp://10.0.0.1:8786'. Got {scheduler!r} instead: {error}"
        ) from error
    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError as error:
        client.close()
        raise ConnectionError(
            f"The scheduler at {scheduler!r} has no workers after {TIMEOUT} seconds."
        ) from error
    return client


MANIFEST = "_plan.json"
# Folder of files being written.
_UNFINISHED = ".unfinished"
# Keys of the metadata of a Parquet file.
_OF_MANIFEST, _OF_PARTITION = b"suwr.manifest", b"suwr.partition"


@dataclass(frozen=True)
class ResultFolder:
    """The results of one manifest.

    Attributes
    ----------
    path : Path
    identity : str
        Digest of the manifest.
    n_partitions : int
    """

    path: Path
    identity: str
    n_partitions: int

    @classmethod
    def of_manifest(cls, path: Path, text: bytes) -> Self:
        """Return the folder of a manifest.

        Raises
        ------
        ValueError
            The text is not a manifest.
        """
        try:
            manifest = json.loads(text)
        except RecursionError:
            manifest = None
        if (
            not isinstance(manifest, dict)
            or manifest.keys() != {"format", "model", "partitions"}
            or manifest["format"] != 1
            or not isinstance(manifest["partitions"], list)
        ):
            raise ValueError("The text is not a manifest.")
        return cls(path, hashlib.sha256(text).hexdigest(), len(manifest["partitions"]))

    def part(self, number: int) -> Path:
        """Return the path of the results of a partition."""
        return self.path / f"part-{number:05d}.parquet"

    def find_parts(self) -> dict[int, Path]:
        """Return the files of complete partitions by number.

        Raises
        ------
        FileExistsError
            A file with the name of a partition is not of this manifest.
        """
        parquet = require("pyarrow.parquet", "tables", "Reading results")
        names = {path.name for path in self.path.iterdir()}
        found = {}
        for number in range(self.n_partitions):
            path = self.part(number)
            if path.name not in names:
                continue
            metadata = None
            if path.is_file():
                with suppress(ValueError, OSError):
                    metadata = parquet.read_schema(path).metadata
            if metadata is None or not self._metadata(number).items() <= metadata.items():
                raise _foreign_file(path)
            found[number] = path
        return found

    def _metadata(self, number: int) -> dict[bytes, bytes]:
        return {_OF_MANIFEST: self.identity.encode(), _OF_PARTITION: b"%d" % number}

    @contextmanager
    def write(self, number: int, schema: Any) -> Iterator[Any]:
        """Yield a writer of the results of a partition; their file appears if the block succeeds.

        Parameters
        ----------
        number : int
        schema : pyarrow.Schema
        """
        parquet = require("pyarrow.parquet", "tables", "Writing predictions")
        schema = schema.with_metadata({**(schema.metadata or {}), **self._metadata(number)})
        with (
            atomic_file(self.part(number), folder=self.path / _UNFINISHED) as path,
            parquet.ParquetWriter(path, schema) as writer,
        ):
            yield writer


@contextmanager
def open_folder(
    folder: Path, manifest: dict[str, Any], overwrite: bool, inputs: Iterable[str] = ()
) -> Iterator[tuple[ResultFolder, list[int]]]:
    """Prepare and lock the directory; yield it with the numbers of the incomplete partitions.

    Parameters
    ----------
    folder : Path
        Created if necessary; its parent must exist.
    manifest : dict
        Identifies the model and, as the list ``"partitions"``, the data.
    overwrite : bool
        Delete results with another manifest. No other file is ever deleted.
    inputs : iterable of str
        Files of the data, none of which may be in the directory.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"'out' must be a directory. Got the file {str(folder)!r} instead."
        )
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"The directory {str(folder.parent)!r} does not exist.")
    folder.mkdir(exist_ok=True)
    with _locked(folder):
        _check_inputs(folder, inputs)
        text = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
        results = ResultFolder.of_manifest(folder, text)
        complete = _prepare(results, text, overwrite)
        unfinished = folder / _UNFINISHED
        unfinished.mkdir(exist_ok=True)
        try:
            remove_stale(unfinished)
            yield results, [n for n in range(results.n_partitions) if n not in complete]
        finally:
            remove_stale(unfinished)
            # The files of another writer remain.
            with suppress(OSError):
                unfinished.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the directory; the operating system releases the lock when the process ends."""
    if sys.platform == "win32":
        yield  # directories cannot be locked
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise FileExistsError(f"Another process is writing to {str(folder)!r}.") from None
    finally:
        os.close(handle)


def _check_inputs(folder: Path, inputs: Iterable[str]) -> None:
    known = {file_identity(path): path for path in inputs}
    for path in folder.iterdir():
        if (source := known.get(file_identity(path))) is not None:
            raise ValueError(
                f"'out' must not contain the data. Got {str(folder)!r}, which contains {source!r}."
            )


def _prepare(results: ResultFolder, text: bytes, overwrite: bool) -> Iterable[int]:
    """Write the manifest, unless the directory has it already; return the complete partitions.

    Nothing is changed unless every file of the directory is one that suwr has written.
    """
    folder, path, unfinished = results.path, results.path / MANIFEST, results.path / _UNFINISHED
    if unfinished.is_symlink() or (unfinished.exists() and not unfinished.is_dir()):
        raise _foreign_file(unfinished)
    old = None
    if path.is_file() and not path.is_symlink():
        with suppress(ValueError):
            old = ResultFolder.of_manifest(folder, path.read_bytes())
    if old == results:
        return results.find_parts()
    parts = [] if old is None else list(old.find_parts().values())
    if parts and not overwrite:
        raise FileExistsError(
            f"{str(folder)!r} contains results of another model or of other data. Use another "
            "directory, or overwrite=True."
        )
    own = set() if old is None else {path, unfinished, *parts}
    for other in folder.iterdir():
        if other not in own and not is_temporary(other, MANIFEST):
            raise _foreign_file(other)
    # The manifest is replaced last: if this is interrupted, the remaining files still belong to it.
    for part in parts:
        part.unlink()
    write_atomic(path, text)
    return ()


def _foreign_file(path: Path) -> FileExistsError:
    return FileExistsError(
        f"'out' must be an empty directory, or one with results of suwr. Got {str(path.parent)!r} "
        f"instead, which contains {path.name!r}."
    )


def to_arrow(
    scores: Scores,
    rows: Any,
    source: str | None,
    columns: list[str],
    units: tuple[str, ...],
    classes: tuple[Any, ...] | None,
) -> Any:
    """Convert scores to an Arrow table with predictions, selected columns and steps by name.

    Parameters
    ----------
    scores : Scores
    rows : array-like
        Row numbers in the file, or the index of a frame.
    source : str or None
        The file that the rows come from.
    columns, units : sequence of str
        Names of the columns and units of the model.
    classes : tuple or None
        Class labels; None for regression.
    """
    arrow = require("pyarrow", "tables", "Writing predictions")
    n = len(scores.mask)
    table: dict[str, Any] = {}
    if source is not None:
        table["file"] = arrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), [source])
    table["row"] = _row_labels(arrow, rows)
    kind = arrow.float64() if classes is None else arrow.array(classes).type
    table["prediction"] = arrow.array(scores.prediction.tolist(), kind)
    if scores.probability is not None:
        for number, label in enumerate(classes or ()):
            table[f"probability of {label}"] = arrow.array(scores.probability[:, number])
    table["n_selected"] = arrow.array(scores.mask.sum(axis=1))
    row, column = np.nonzero(scores.mask)
    table["selected"] = _name_lists(arrow, column, row, n, columns)
    row, step, slot = np.nonzero(scores.order >= 0)
    if scores.order.shape[2] == 1:
        table["steps"] = _name_lists(arrow, scores.order[row, step, slot], row, n, list(units))
    else:
        # Join the units of a step, as `suwr.narrative.explanation.Step.unit` does.
        table["steps"] = arrow.array(
            [
                [" + ".join(units[u] for u in part if u >= 0) for part in steps if part[0] >= 0]
                for steps in scores.order
            ],
            type=arrow.list_(arrow.dictionary(arrow.int32(), arrow.string())),
        )
    return arrow.table(table)


def _row_labels(arrow: Any, rows: Any) -> Any:
    """Convert row numbers or an index; a MultiIndex has one field per level."""
    if getattr(rows, "nlevels", 1) == 1:
        return arrow.array(rows)
    names = [f"level_{i}" if name is None else str(name) for i, name in enumerate(rows.names)]
    levels = [arrow.array(rows.get_level_values(i)) for i in range(rows.nlevels)]
    return arrow.StructArray.from_arrays(levels, names)


def _name_lists(
    arrow: Any, code: NDArray[np.intp], row: NDArray[np.intp], n: int, names: list[str]
) -> Any:
    """Build one list of names per row from (row, index of name) pairs that are sorted by row."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    values = arrow.DictionaryArray.from_arrays(code.astype(np.int32), arrow.array(names))
    return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), values)


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
    stored = to_bytes(model)
    if hasattr(data, "to_delayed"):
        keys, compute = _dask_jobs(stored, data)
        sources = set()
    else:
        keys, compute = _file_jobs(stored, find_partitions(data, rows_per_partition), n_jobs)
        sources = {key["source"] for key in keys}
    digest = hashlib.sha256(stored).hexdigest()
    manifest = {"format": 1, "model": digest, "partitions": keys}
    with open_folder(Path(out), manifest, overwrite, sources) as (results, todo):
        n_rows, n_done = 0, len(keys) - len(todo)
        counts: Any = {"total": len(keys), "completed": n_done, "unit": "partition"}
        with progress_bars(["scoring"], verbose=verbose, **counts) as (bar,):
            for n in compute(results, todo):
                n_rows += n
                bar(status=f"{n_rows:,} rows")
    parquet = require("pyarrow.parquet", "tables", "Reading results")
    paths = [results.part(number) for number in range(len(keys))]
    n_rows = sum(parquet.read_metadata(p).num_rows for p in paths)
    return ScoredFolder(paths, n_rows, len(todo), n_done)


#: From the folder and the numbers of partitions to the numbers of rows that were scored.
Compute = Callable[[ResultFolder, list[int]], Iterable[int]]


def _file_jobs(
    stored: bytes, partitions: list[Partition], n_jobs: int | None
) -> tuple[list[Any], Compute]:
    def compute(results: ResultFolder, todo: list[int]) -> Iterable[int]:
        run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        return run(delayed(_score_file)(stored, partitions[n], results, n) for n in todo)

    return [asdict(partition) for partition in partitions], compute


def _dask_jobs(stored: bytes, frame: Any) -> tuple[list[Any], Compute]:
    dask = require("dask", "dask", "Scoring Dask data frames")
    parts, token = frame.to_delayed(), dask.base.tokenize(frame)

    def compute(results: ResultFolder, todo: list[int]) -> Iterable[int]:
        score = dask.delayed(_score_frame)
        there = replace(results, path=results.path.absolute())
        # Each job writes its own file and returns only the number of rows.
        return dask.compute(*(score(stored, parts[n], there, n) for n in todo))

    return [f"{token}-{n}" for n in range(len(parts))], compute


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
    model: SequentialModel,
    batches: Iterable[tuple[Any, Any]],
    no_rows: Any,
    source: str | None,
    results: ResultFolder,
    number: int,
) -> int:
    names, units, classes = name_columns(model), model.units_.names, model.target_.labels
    n_rows = 0
    schema = to_arrow(
        model.fitted_policy().no_scores(), no_rows, source, names, units, classes
    ).schema
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


def _score_rows(model: SequentialModel, frame: Any, rows: Any, source: str | None) -> Scores:
    try:
        if model.dates_ is not None:
            frame = model.dates_.transform(frame)
        return model.fitted_policy().scores(frame, rows)
    except TableError as error:
        raise error if source is None else TableError(f"{source!r}: {error}") from error


@lru_cache(maxsize=2)
def _model(stored: bytes) -> Any:
    """Load the model once per worker instead of once per partition."""
    return from_bytes(stored)
