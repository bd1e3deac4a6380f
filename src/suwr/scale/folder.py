"""The folder of results: a plan, one file per finished partition, and nothing else.

A partition is finished when its file is there, since files appear whole or not at all. The plan
says of which model and which data, so that nothing finished is repeated and nothing old is kept.
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

from suwr._utils.files import atomic_file, remove_stale, write_atomic

__all__ = ["PLAN", "open_folder", "part_path", "write_part"]

PLAN = "_plan.json"
# Files that are being written; what is left here after a crash is rubbish.
_UNFINISHED = ".unfinished"


def part_path(folder: Path, number: int) -> Path:
    """Where the results of a partition are."""
    return folder / f"part-{number:05d}.parquet"


@contextmanager
def open_folder(folder: Path, plan: dict[str, Any], overwrite: bool) -> Iterator[list[int]]:
    """Prepare the folder, hold it against others, and yield the unfinished partitions.

    Parameters
    ----------
    folder : Path
        Made if needed; its parent must exist.
    plan : dict
        Model, data and ``"partitions"``: a list.
    overwrite : bool
        Throw results of another plan away.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"'out' must be a folder. Got the file {str(folder)!r} instead.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(folder.parent)!r} does not exist.")
    folder.mkdir(exist_ok=True)
    with _held(folder):
        _settle(folder, plan, overwrite)
        unfinished = folder / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            numbers = range(len(plan["partitions"]))
            yield [n for n in numbers if not part_path(folder, n).exists()]
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep other processes out. The system lets go of the lock however this process ends."""
    if sys.platform == "win32":
        yield  # folders cannot be locked there
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


def _settle(folder: Path, plan: dict[str, Any], overwrite: bool) -> None:
    """Make sure that the folder holds this plan, or nothing yet."""
    text = json.dumps(plan, indent=1, sort_keys=True) + "\n"
    path = folder / PLAN
    remove_stale(folder, PLAN)
    if path.exists():
        if path.read_text() == text:
            return
        if not overwrite:
            raise FileExistsError(
                f"{str(folder)!r} holds results of another model or of other data. Choose another "
                "folder, or say that it may be overwritten."
            )
        # The plan goes first: parts without a plan are of no plan.
        path.unlink()
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    others = [p.name for p in folder.iterdir() if p.name != _UNFINISHED]
    if others:
        raise FileExistsError(
            f"'out' must be an empty folder. Got {str(folder)!r} instead, which holds "
            f"{others[0]!r}."
        )
    write_atomic(path, text.encode())


@contextmanager
def write_part(folder: Path, number: int) -> Iterator[Path]:
    """A path to write a partition to; its file appears when the block ends well."""
    with atomic_file(part_path(folder, number), folder=folder / _UNFINISHED) as path:
        yield path
