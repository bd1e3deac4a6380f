"""The output directory of partitioned scoring: a manifest and one Parquet file per partition.

A partition is complete if its file exists, since files are written atomically. The manifest
identifies the model and the data, so that a resumed call skips complete partitions and never mixes
results of different models or data.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import atomic_file, remove_stale, write_atomic
from suwr._utils.optional import require
from suwr.estimators.results import Scores

__all__ = ["MANIFEST", "open_folder", "part_path", "to_arrow", "write_part"]

# Named "plan" so that directories of earlier versions can be resumed.
MANIFEST = "_plan.json"
# Files being written; leftovers of a crash are deleted.
_UNFINISHED = ".unfinished"


def part_path(folder: Path, number: int) -> Path:
    """Return the path of the results of a partition."""
    return folder / f"part-{number:05d}.parquet"


@contextmanager
def open_folder(folder: Path, manifest: dict[str, Any], overwrite: bool) -> Iterator[list[int]]:
    """Prepare and lock the directory, and yield the numbers of the incomplete partitions.

    Parameters
    ----------
    folder : Path
        Created if necessary; its parent must exist.
    manifest : dict
        Identifies the model and, as the list ``"partitions"``, the data.
    overwrite : bool
        Delete results with another manifest.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"'out' must be a directory. Got the file {str(folder)!r} instead."
        )
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"The directory {str(folder.parent)!r} does not exist.")
    folder.mkdir(exist_ok=True)
    with _locked(folder):
        _prepare(folder, manifest, overwrite)
        unfinished = folder / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            numbers = range(len(manifest["partitions"]))
            yield [n for n in numbers if not part_path(folder, n).exists()]
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def write_part(folder: Path, number: int) -> Iterator[Path]:
    """Yield a path to write a partition to; its file appears if the block succeeds."""
    with atomic_file(part_path(folder, number), folder=folder / _UNFINISHED) as path:
        yield path


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


def _prepare(folder: Path, manifest: dict[str, Any], overwrite: bool) -> None:
    """Write the manifest, unless the directory has it already."""
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    path = folder / MANIFEST
    remove_stale(folder, MANIFEST)
    if path.exists():
        if path.read_text() == text:
            return
        if not overwrite:
            raise FileExistsError(
                f"{str(folder)!r} contains results of another model or of other data. Use another "
                "directory, or overwrite=True."
            )
        # Delete the manifest first; parts without one are ignored.
        path.unlink()
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    others = [p.name for p in folder.iterdir() if p.name != _UNFINISHED]
    if others:
        raise FileExistsError(
            f"'out' must be an empty directory. Got {str(folder)!r} instead, which contains "
            f"{others[0]!r}."
        )
    write_atomic(path, text.encode())


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
        # Join the units of a step, as `suwr.explanation.Step.unit` does.
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
