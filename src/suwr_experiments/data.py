"""What a model is fitted and judged on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """The rows of a cell.

    Attributes
    ----------
    X, y : ndarray
        Rows to train on.
    X_test, y_test : ndarray
        Rows to be judged on, once.
    kind : {'Classifier', 'Regressor'}
    told : dict
        What only an oracle is told, by parameter name.
    groups : object or None
        Units, where they are not single columns.
    facts : dict
        What measuring needs to know besides.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]
    kind: Literal["Classifier", "Regressor"] = "Classifier"
    told: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    facts: dict[str, Any] = field(default_factory=dict)
