"""Writing files so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["check_writable", "write_atomic"]


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


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write to a temporary file beside ``path``, then put it in place."""
    target = check_writable(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is private; the finished one follows the usual rules.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
