"""Atomic writes: readers see the old file or the complete new one."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# With the eight characters of `tempfile`, no name that another program gives to a file.
_SUFFIX = ".suwr-part"
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.suwr-part")


def file_identity(path: str | os.PathLike[str]) -> str | tuple[int, int]:
    """Return what all names of a file have in common, including hard links and symbolic links."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Raise an error if a file cannot be written, before any work is done.

    Returns
    -------
    Path
        The file itself, if ``path`` is a symbolic link.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"The folder {str(folder)!r} of {str(path)!r} does not exist.")
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, not a file.")
    if target.exists() and not target.is_file():
        # The new file would replace the device or pipe itself, even /dev/null.
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {str(folder)!r} cannot be written to.")
    return target


@contextmanager
def atomic_file(
    path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` if the block succeeds.

    An existing file keeps its permissions, and its owner if possible. A symbolic link is followed.

    Parameters
    ----------
    path : path
    folder : path, optional
        Directory of the temporary file, on the same file system as ``path``; by default the
        directory of ``path``.
    """
    target = check_writable(path)
    directory = Path(folder or target.parent)
    remove_stale(directory, target.name)
    handle, name = _temporary(directory, target.name)
    try:
        yield Path(name)
        with open(name, "rb") as file:
            os.fsync(file.fileno())
        _copy_permissions(target, name)
        os.replace(name, target)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            # The error of a full disk does not name the file.
            raise OSError(error.errno, os.strerror(error.errno), str(target)) from error
        raise
    finally:
        os.close(handle)


def _copy_permissions(target: Path, new: str) -> None:
    """Give a new file the owner and the permissions of an existing one, or those of the umask."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(new, 0o666 & ~umask)
        return
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(new, status.st_uid, status.st_gid)
    os.chmod(new, stat.S_IMODE(status.st_mode) & 0o777)


def is_temporary(path: Path, name: str | None = None) -> bool:
    """Whether `atomic_file` has made a file, for the target ``name`` or for any."""
    made = _TEMPORARY.fullmatch(path.name)
    return made is not None and name in (None, made[1]) and stat.S_ISREG(path.lstat().st_mode)


def remove_stale(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files of a target, or of all, whose writers no longer run."""
    for path in folder.iterdir():
        with suppress(OSError):
            if is_temporary(path, name):
                handle = os.open(path, os.O_RDONLY)
                try:
                    _lock(handle, wait=False)
                    os.unlink(path)
                finally:
                    os.close(handle)


def _temporary(folder: Path, name: str) -> tuple[int, str]:
    """Create a file that stays locked while this process has it open."""
    while True:
        handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=_SUFFIX)
        _lock(handle, wait=True)
        if os.path.exists(path):
            return handle, path
        os.close(handle)  # removed by another process before it was locked


def _lock(handle: int, *, wait: bool) -> None:
    """Lock a file; the operating system releases the lock when the process ends."""
    if sys.platform == "win32":
        if not wait:
            raise OSError("Cannot determine whether the writer still runs.")
        return
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of ``path`` in one step."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)
