"""Monotone transformations of regression targets with heavy tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import plain_repr

__all__ = ["IDENTITY", "MAX_TRANSFORMED", "TARGET_TRANSFORMS", "TargetTransform"]

FloatArray = NDArray[np.float64]
#: Transformed values are clipped to ±this before the inverse, so that predictions are finite.
MAX_TRANSFORMED = 700.0


@dataclass(frozen=True)
class TargetTransform:
    """An increasing function of the target, with its inverse.

    It has no fitted state: model files hold its name. `suwr.estimators.export` describes the
    inverse to pages and ONNX files, by the same name.

    Attributes
    ----------
    name : str or None
        The value of the ``target_transform`` parameter.
    function, inverse_function : callable
        Of arrays.
    above : float
        The function is defined for greater values only.
    """

    name: str | None
    function: Callable[[FloatArray], FloatArray]
    inverse_function: Callable[[FloatArray], FloatArray]
    above: float = -np.inf

    def check(self, values: FloatArray) -> None:
        """Raise an error that names the first value for which the function is not defined."""
        invalid = values <= self.above
        if invalid.any():
            expected = "positive" if self.above == 0 else f"greater than {self.above:g}"
            raise ValueError(
                f"y must be {expected} for target_transform={self.name!r}. "
                f"Got {plain_repr(values[invalid][0])} instead."
            )

    def forward(self, values: Any) -> FloatArray:
        """Return the transformed values; NaN or infinity where the function is not defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.function(np.asarray(values, dtype=np.float64))

    def inverse(self, transformed: FloatArray) -> FloatArray:
        """Return the values in the units of the target."""
        if self.name is None:
            return transformed
        return self.inverse_function(np.clip(transformed, -MAX_TRANSFORMED, MAX_TRANSFORMED))


def _identity(values: FloatArray) -> FloatArray:
    return values


IDENTITY = TargetTransform(None, _identity, _identity)
#: From the values of the ``target_transform`` parameter, except None, to the transformations.
TARGET_TRANSFORMS = {
    "log": TargetTransform("log", np.log, np.exp, above=0.0),
    "log1p": TargetTransform("log1p", np.log1p, np.expm1, above=-1.0),
    "asinh": TargetTransform("asinh", np.arcsinh, np.sinh),
}
