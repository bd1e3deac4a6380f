"""Writing files so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_file", "check_writable", "write_atomic"]


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
    handle, name = tempfile.mkstemp(dir=folder or target.parent, prefix=f".{target.name}.")
    os.close(handle)
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


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a temporary file beside ``path``, then put it in place."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)
