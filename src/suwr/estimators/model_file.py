"""The container of a model: one safetensors file whose header carries a text and a digest.

Whatever the bytes are, reading them runs no code and takes memory in proportion to their number.
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

__all__ = ["Tensors", "join", "read_bounded", "split"]

Tensors = dict[str, NDArray[Any]]

# Parsed JSON takes up to 25 times its length in memory; a table model needs far less than this.
MAX_HEADER = 16 * 2**20
# A model of a billion parameters is not a table model.
MAX_FILE = 4 * 2**30


def join(text: str, tensors: Tensors) -> bytes:
    """A text and tensors as the bytes of a file."""
    data = tensor_bytes(tensors, {"suwr": text, "sha256": digest(text, tensors)})
    start = 8 + _header_size(data)
    # The library writes its header in any order; sorted, equal models are equal files.
    header = json.dumps(json.loads(data[8:start]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ValueError(
            f"Names and categories of a model must fit into {MAX_HEADER:,} bytes of JSON. "
            f"Got {len(header):,} bytes instead."
        )
    return len(header).to_bytes(8, "little") + header + data[start:]


def split(data: bytes, name: str) -> tuple[str, Tensors]:
    """Undo `join`, once the digest agrees; ``name`` is for errors."""
    _check_header(data[:8], len(data), name)
    try:
        metadata = json.loads(data[8 : 8 + _header_size(data)])["__metadata__"]
        text, stored = metadata["suwr"], metadata["sha256"]
        tensors = read_tensors(data)
        found = digest(text, tensors)
    except Exception as error:  # foreign bytes fail in every way there is
        raise _foreign(name) from error
    if found != stored:
        raise ModelFileError(f"{name} was altered or damaged: its digest does not agree.")
    return text, tensors


def digest(text: str, tensors: Tensors) -> str:
    """SHA-256 of everything that a file says."""
    sha = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        array = np.ascontiguousarray(tensors[key])
        sha.update(f"\0{key}\0{array.dtype.str}\0{array.shape}\0".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def read_bounded(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file that may be a model.

    A pipe would wait for ever and a device has no end, so only plain files are read, and only
    after their first bytes have promised a header that fits.
    """
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ModelFileError(f"{path} is not a model file of suwr: it is not a plain file.")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        _check_header(start, size, str(path))
        return start + file.read(size - len(start))


def _header_size(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _check_header(start: bytes, size: int, name: str) -> None:
    if len(start) < 8 or _header_size(start) > min(MAX_HEADER, size - 8) or size > MAX_FILE:
        raise _foreign(name)


def _foreign(name: str) -> ModelFileError:
    return ModelFileError(f"{name} is not a model file of suwr, or it is truncated.")
