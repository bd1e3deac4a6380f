"""Constructor parameters in model files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from suwr.data.descriptions import Column
from suwr.data.units import Patches
from suwr.training.config import TrainingConfig

__all__ = ["decode_parameter", "encode_parameter"]


def encode_parameter(value: Any) -> Any:
    """Convert a constructor parameter to JSON types; objects of suwr are marked."""
    if isinstance(value, Patches):
        return {"__patches__": [list(value.shape), value.size, value.stride]}
    if isinstance(value, Column):
        return value.to_dict()
    if isinstance(value, TrainingConfig):
        return {"__training__": value.to_dict()}
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


def decode_parameter(value: Any) -> Any:
    """Inverse of `encode_parameter`."""
    if isinstance(value, dict) and set(value) == {"__patches__"}:
        shape, size, stride = value["__patches__"]
        pairs = [tuple(v) if isinstance(v, list) else v for v in (size, stride)]
        return Patches(tuple(shape), *pairs)
    if isinstance(value, dict) and set(value) == {"__training__"}:
        return TrainingConfig(**value["__training__"])
    if isinstance(value, dict) and set(value) == {"__items__"}:
        keys = [key for key, _ in value["__items__"]]
        # Large integers can be chosen to have equal hashes, which takes quadratic time.
        if not all(isinstance(k, str | float) or -(2**63) <= k < 2**64 for k in keys):
            raise ValueError("The keys of a parameter must be scalars of at most 64 bits.")
        return {key: decode_parameter(item) for key, item in value["__items__"]}
    if isinstance(value, dict):
        return {k: decode_parameter(v) for k, v in value.items()}
    return value
