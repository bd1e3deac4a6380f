"""The output directory of partitioned scoring: a manifest and one Parquet file per partition.

A partition is complete if its file exists, since files are written atomically. The manifest
identifies the model and the data, and every file names its manifest: a resumed call skips complete
partitions, never mixes results of different models or data, and takes no other file for a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import (
    atomic_file,
    file_identity,
    is_temporary,
    remove_stale,
    write_atomic,
)
from suwr._utils.validation import require
from suwr.estimators.results import Scores

__all__ = ["MANIFEST", "ResultFolder", "open_folder", "to_arrow"]

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
    table["row"] = arrow.array(rows)
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


def _name_lists(
    arrow: Any, code: NDArray[np.intp], row: NDArray[np.intp], n: int, names: list[str]
) -> Any:
    """Build one list of names per row from (row, index of name) pairs that are sorted by row."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    values = arrow.DictionaryArray.from_arrays(code.astype(np.int32), arrow.array(names))
    return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), values)
