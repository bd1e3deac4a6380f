"""Writing files so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["atomic_file", "check_writable", "sweep", "write_atomic"]

_SUFFIX = ".part"


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Say at once, before any work, when a file cannot be written."""
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"The folder {str(folder)!r} of {str(path)!r} does not exist.")
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, not a file.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {str(folder)!r} cannot be written to.")
    return target


@contextmanager
def atomic_file(
    path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """A temporary file to write to; it takes the place of ``path`` when the block ends well.

    Parameters
    ----------
    path : path
    folder : path, optional
        Where the temporary file lives, on the same disk; beside ``path`` unless said.
    """
    target = check_writable(path)
    place = Path(folder or target.parent)
    sweep(place, target.name)
    handle, name = _temporary(place, target.name)
    try:
        yield Path(name)
        with open(name, "rb") as file:
            os.fsync(file.fileno())
        # A temporary file is private; the finished one follows the usual rules.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            # A full disk does not say by itself what could not be written.
            raise OSError(error.errno, os.strerror(error.errno), str(target)) from error
        raise
    finally:
        os.close(handle)


def sweep(folder: Path, name: str) -> None:
    """Remove temporary files of a target whose writers are dead."""
    for path in folder.iterdir():
        if path.name.startswith(f".{name}.") and path.name.endswith(_SUFFIX):
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY)
                try:
                    _lock(handle, wait=False)
                    os.unlink(path)
                finally:
                    os.close(handle)


def _temporary(folder: Path, name: str) -> tuple[int, str]:
    """A new file that is locked for as long as this process has it open."""
    while True:
        handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=_SUFFIX)
        _lock(handle, wait=True)
        if os.path.exists(path):
            return handle, path
        os.close(handle)  # swept away by another process before it was locked


def _lock(handle: int, *, wait: bool) -> None:
    """Lock a file; the system lets go of it however the process ends."""
    if sys.platform == "win32":
        if not wait:
            raise OSError("Nobody can tell whether the writer is alive.")
        return
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a temporary file beside ``path``, then put it in place."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)
