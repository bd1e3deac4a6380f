"""The container of model files and checkpoints, and the identity of a model: its digest.

A container is a JSON text and tensors in one safetensors file.

The text and a SHA-256 digest of the content are in the header of the file. The digest detects
accidental damage, not forgery. Reading runs no code, and the size of the file and of its parts is
checked before they are read, so that memory is proportional to the bytes on the disk.

A checkpoint is one container, which is replaced after every epoch and holds a digest of the data
and the parameters: a fit resumes only from its own checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes
from torch import Tensor

from suwr._utils.files import write_atomic
from suwr.data.costs import Costs
from suwr.data.descriptions import Column
from suwr.data.units import Patches
from suwr.estimators.risks import Certificate
from suwr.exceptions import ModelFileError
from suwr.nn.rollout import Policy
from suwr.training.config import TrainingConfig

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


def fingerprint(parameters: dict[str, Any], tensors: Iterable[Tensor]) -> str:
    """Return a digest of the parameters and the data of a fit."""
    sha = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=_representation).encode())
    for tensor in tensors:
        sha.update(str(tuple(tensor.shape)).encode())
        # Hash the buffer without copying it: the rows may be mapped from a file.
        sha.update(tensor.detach().cpu().contiguous().numpy().ravel().data)
    return sha.hexdigest()


def _representation(parameter: Any) -> Any:
    if isinstance(parameter, Costs):
        return vars(parameter)
    # That of a function has an address, which differs between processes.
    return str(getattr(parameter, "__qualname__", "")) or repr(parameter)


def check_seed(model: Any, who: str, why: str) -> None:
    """Raise a ``ValueError`` unless the ``random_state`` of an estimator is an integer."""
    if not isinstance(model.random_state, Integral):
        raise ValueError(
            f"{who} requires 'random_state' to be an int, so that {why}. "
            f"Got {model.random_state!r} instead."
        )


class FileCheckpoint:
    """A `suwr.training.loop.Checkpoint` in one file.

    Parameters
    ----------
    path : path
    identity : str
        The `fingerprint` of this fit.
    writes : bool, default=True
        Whether this process writes. One of the processes of a distributed fit does.
    """

    def __init__(self, path: str | os.PathLike[str], identity: str, *, writes: bool = True) -> None:
        self.path = Path(path)
        self.identity = identity
        self.writes = writes

    def read(self) -> tuple[int, dict[str, Tensor]] | None:
        """See `suwr.training.loop.Checkpoint`."""
        if not self.path.exists():
            return None
        try:
            text, tensors = unpack(read_file(self.path), str(self.path))
            stored = json.loads(text)
            phase, identity = stored["phase"], stored["identity"]
            if type(phase) is not int:
                raise TypeError("The number of the phase is not an integer.")
        # An OSError, such as a missing permission, is no damage.
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"The 'checkpoint' {self.path} is damaged or not a suwr checkpoint of this "
                "version. Delete it to start the fit from the beginning."
            ) from error
        if identity != self.identity:
            raise ModelFileError(
                f"The 'checkpoint' {self.path} belongs to a fit with other data or parameters. "
                "Delete it or use another path."
            )
        return phase, {k: torch.from_numpy(tensors.pop(k)) for k in list(tensors)}

    def write(self, phase: int, state: dict[str, Tensor]) -> None:
        """See `suwr.training.loop.Checkpoint`."""
        if not self.writes:
            return
        text = json.dumps({"phase": phase, "identity": self.identity, "torch": torch.__version__})
        tensors = {k: v.detach().cpu().numpy() for k, v in state.items()}
        write_atomic(self.path, pack(text, tensors))

    def remove(self) -> None:
        """Delete the file after the fit."""
        if self.writes:
            # Writing follows a symbolic link.
            Path(os.path.realpath(self.path)).unlink(missing_ok=True)


def environment(device: torch.device) -> str:
    """Describe platform, libraries and device: with equal descriptions, numbers round alike."""
    processor = torch.backends.cpu.get_cpu_capability()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return (
        f"{platform.system()} {platform.machine()} {processor}, torch {torch.__version__}, "
        f"numpy {np.__version__}, {name}"
    )


class ModelIssuer:
    """What the receipts of a model state about it; implements `suwr.narrative.receipt.Issuer`.

    Parameters
    ----------
    file_digest : callable
        Returns the SHA-256 digest of the model file.
    policy : Policy
        The policy that decides, at one λ.
    certificate : Certificate or None
    """

    def __init__(
        self, file_digest: Callable[[], str], policy: Policy, certificate: Certificate | None
    ) -> None:
        self._file_digest, self._certificate = file_digest, certificate
        self.condition = policy.condition
        self.environment = environment(policy.device)

    @cached_property
    def model(self) -> str:
        """SHA-256 digest of the model file."""
        return self._file_digest()

    @cached_property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate as JSON types."""
        if self._certificate is None:
            return None
        state: dict[str, Any] = json.loads(json.dumps(self._certificate.to_dict(), allow_nan=False))
        return state


def encode_parameter(value: Any) -> Any:
    """Convert a constructor parameter to JSON types; objects of suwr are marked."""
    if isinstance(value, Patches):
        return {"__patches__": [list(value.shape), value.size, value.stride]}
    if isinstance(value, Column):
        return value.to_dict()
    if isinstance(value, TrainingConfig):
        return {"__training__": value.to_dict()}
    if isinstance(value, Costs):
        return {"__costs__": encode_parameter(vars(value))}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, Mapping):
        if all(isinstance(k, str) for k in value):
            return {str(k): encode_parameter(v) for k, v in value.items()}
        return {"__items__": [[encode_parameter(part) for part in item] for item in value.items()]}
    if isinstance(value, Sequence):
        return [encode_parameter(v) for v in value]
    # A RandomState has no JSON form, and a fitted model no longer needs it.
    return None
