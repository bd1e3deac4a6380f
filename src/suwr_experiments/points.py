"""Points of the curve of a sequential baseline: stopping rules applied at prediction time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.baselines.greedy import Stopping

__all__ = ["Point", "budget_points", "confidence_points", "cost_thresholds"]

#: Thresholds of DIME's gain per cost, relative to the loss of the best constant prediction.
COST_SHARES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.35)
#: Probabilities of the most probable class at which a row stops.
CONFIDENCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999)


@dataclass(frozen=True)
class Point:
    """A method at one setting, on the test rows.

    Attributes
    ----------
    setting : float
        λ, number of leaves, number of units, …
    cost : ndarray of shape (n,)
    prediction : ndarray of shape (n, n_classes) or (n,)
        Class probabilities, or values.
    """

    setting: float
    cost: NDArray[np.float64]
    prediction: NDArray[np.float64]


def budget_points(model: Any, X: Any) -> Iterator[Point]:
    """A sequential model after 0, 1, … units."""
    after = model.predict_steps(X)
    for k in range(after.shape[1]):
        yield Point(k, np.full(len(after), float(k)), after[:, k])


def confidence_points(model: Any, X: Any) -> Iterator[Point]:
    """A sequential classifier stopped at every confidence, which does not change the order."""
    if hasattr(model.policy_.network, "stopping"):
        model.policy_.network.stopping = Stopping()
    after = model.predict_steps(X)
    for value in CONFIDENCES:
        done = after.max(axis=2) >= value
        done[:, -1] = True
        steps = done.argmax(axis=1)
        yield Point(value, steps.astype(np.float64), after[np.arange(len(after)), steps])


def cost_thresholds(model: Any) -> Iterator[float]:
    """Set the stopping rule of DIME to one threshold after the other; one fit serves them all."""
    for value in COST_SHARES:
        model.policy_.network.stopping = Stopping(sparsity_weight=value)
        yield value
