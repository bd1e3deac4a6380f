"""Checkpoints of a fit: one file that is replaced after every epoch.

The file is a container of tensors and JSON with a digest, like a model file. It also holds a
digest of the data and the parameters: a fit resumes only from its own checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suwr._utils.files import write_atomic
from suwr.estimators.container import pack, read_file, unpack
from suwr.exceptions import ModelFileError

__all__ = ["FileCheckpoint", "fingerprint"]


def fingerprint(parameters: dict[str, Any], tensors: Iterable[Tensor]) -> str:
    """Return a digest of the parameters and the data of a fit."""
    sha = hashlib.sha256(json.dumps(parameters, sort_keys=True, default=_representation).encode())
    for tensor in tensors:
        sha.update(str(tuple(tensor.shape)).encode())
        # Hash the buffer without copying it: the rows may be mapped from a file.
        sha.update(tensor.detach().cpu().contiguous().numpy().ravel().data)
    return sha.hexdigest()


def _representation(parameter: Any) -> str:
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
