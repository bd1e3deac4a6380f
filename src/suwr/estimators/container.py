"""The container of model files and checkpoints: a JSON text and tensors in one safetensors file.

The text and a SHA-256 digest of the content are in the header of the file. The digest detects
accidental damage, not forgery. Reading runs no code, and the size of the file and of its parts is
checked before they are read, so that memory is proportional to the bytes on the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from suwr.exceptions import ModelFileError

__all__ = ["MAX_FILE", "MAX_HEADER", "Tensors", "digest", "pack", "read_file", "unpack"]

Tensors = dict[str, NDArray[Any]]

# Limits on the length of the header and on the values in it: parsed, a value takes up to 64 bytes.
MAX_HEADER = 16 * 2**20
MAX_VALUES = 2 * 10**6
MAX_FILE = 16 * 2**30
# A file with this many times more bytes than the disk holds is sparse rather than compressed.
_MAX_COMPRESSION = 8


def digest(text: str, tensors: Tensors) -> str:
    """Return the SHA-256 digest of the text and the tensors."""
    sha = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        sha.update(f"\0{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        # A view of the bytes: weights need not be copied.
        sha.update(array.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def pack(text: str, tensors: Tensors) -> bytes:
    """Return the bytes of a file.

    Raises
    ------
    ValueError
        The file would exceed a limit, so that `unpack` would refuse it.
    """
    data = tensor_bytes(tensors, {"suwr": text, "sha256": digest(text, tensors)})
    start = 8 + _header_size(data)
    # safetensors does not fix the order of its header; sorted, equal models give equal files.
    header = json.dumps(json.loads(data[8:start]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    n_values = _count_values(header)
    if len(header) > MAX_HEADER or n_values > MAX_VALUES:
        raise ValueError(
            f"Names, categories and history of a model must fit into {MAX_HEADER:,} bytes and "
            f"{MAX_VALUES:,} values of JSON. Got {len(header):,} bytes and {n_values:,} values "
            "instead."
        )
    if len(data) > MAX_FILE:
        raise ValueError(
            f"A model must have at most {MAX_FILE:,} bytes. Got {len(data):,} bytes instead."
        )
    return len(header).to_bytes(8, "little") + header + data[start:]


def unpack(data: bytes, name: str) -> tuple[str, Tensors]:
    """Return the text and the tensors of a file, after verifying the digest.

    Parameters
    ----------
    data : bytes
    name : str
        Of the file, for error messages.
    """
    _check_header(data[:8], len(data), name)
    header = data[8 : 8 + _header_size(data)]
    # Colons and brackets are counted inside strings too, so this is an upper bound.
    if _count_values(header) > MAX_VALUES:
        raise _not_a_model(name)
    try:
        metadata = json.loads(header)["__metadata__"]
        text, stored = metadata["suwr"], metadata["sha256"]
        tensors = read_tensors(data)
        found = digest(text, tensors)
    except Exception as error:  # arbitrary bytes can raise any exception
        raise _not_a_model(name) from error
    if found != stored:
        raise ModelFileError(f"{name} was altered or damaged: the digest does not match.")
    return text, tensors


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read a file of plausible size; pipes and devices, which may never end, are refused."""
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ModelFileError(f"{path} is not a suwr model file: it is not a regular file.")
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        start = file.read(8)
        _check_header(start, status.st_size, str(path))
        # Some file systems report no blocks at all.
        on_disk = 512 * getattr(status, "st_blocks", 0)
        if 0 < _MAX_COMPRESSION * on_disk < status.st_size:
            raise ModelFileError(f"{path} is not a suwr model file: it is sparse.")
        return start + file.read(status.st_size - len(start))


def _count_values(header: bytes) -> int:
    return sum(header.count(mark) for mark in (b",", b":", b"[", b"{"))


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _check_header(start: bytes, size: int, name: str) -> None:
    if len(start) < 8 or _header_size(start) > min(MAX_HEADER, size - 8) or size > MAX_FILE:
        raise _not_a_model(name)


def _not_a_model(name: str) -> ModelFileError:
    return ModelFileError(f"{name} is not a suwr model file, or it is truncated.")
