"""The identity of a fitted model: the digest of its file, and what determines its rounding."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cached_property
from typing import Any

import numpy as np
import torch

from suwr.nn.rollout import Policy

__all__ = ["ModelIssuer", "environment", "model_digest", "remember_file"]


def remember_file(model: Any, data: bytes) -> Any:
    """Let a loaded model remember the digest of its file; return the model.

    A later version of suwr writes another file for the same model, so the digest cannot be computed
    from the model.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    model._loaded_from_ = (sha256, model.policy_, getattr(model, "certificate_", None))
    return model


def model_digest(model: Any) -> str:
    """Return the SHA-256 digest of the model file.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted. The file is the one that the model was loaded from or, for a model that was not
        loaded or has changed since, the one that ``save`` would write.
    """
    from suwr.estimators.io import to_bytes

    sha256, policy, certificate = getattr(model, "_loaded_from_", (None, None, None))
    unchanged = policy is model.policy_ and certificate is getattr(model, "certificate_", None)
    if sha256 is not None and unchanged:
        return str(sha256)
    return hashlib.sha256(to_bytes(model)).hexdigest()


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
    model : SequentialModel
        Fitted.
    policy : Policy
        The policy that decides, at one λ.
    """

    def __init__(self, model: Any, policy: Policy) -> None:
        self._model = model
        self.condition = policy.condition
        self.environment = environment(policy.device)

    @cached_property
    def model(self) -> str:
        """SHA-256 digest of the model file."""
        if not hasattr(self._model, "save"):
            raise ValueError(
                "A receipt requires a model that can be saved. "
                f"Got {type(self._model).__name__} instead."
            )
        return model_digest(self._model)

    @cached_property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate as JSON types."""
        found = getattr(self._model, "certificate_", None)
        if found is None:
            return None
        state: dict[str, Any] = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        return state
