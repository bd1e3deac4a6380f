"""Split conformal prediction after adaptive stopping: prediction sets and intervals.

The stopped policy is a fixed function of a row, like any other predictor: scores of calibration
rows and of a new row are exchangeable, whatever the policy reveals of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCORES", "Conformal", "conformal_quantile", "scores_of_classes"]

FloatArray = NDArray[np.float64]
#: Conformity scores by kind of model.
SCORES = {"classes": ("lac", "aps"), "values": ("absolute",)}


def conformal_quantile(scores: FloatArray, coverage: float) -> float:
    """Return the ⌈(n + 1) · coverage⌉-th smallest score; infinity if there are too few.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 20.0), 0.9)
    18.0
    >>> conformal_quantile(np.arange(5.0), 0.9)
    inf
    """
    # A product such as 20 · 0.95 must not be rounded up because of the binary form of 0.95.
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return math.inf if rank > len(scores) else float(np.sort(scores)[rank - 1])


def scores_of_classes(probability: FloatArray, score: str) -> FloatArray:
    """Return the score of every class, small for a class that conforms.

    'lac' is one minus the probability. 'aps' is the total probability of the class and of all
    classes that are at least as probable.

    Examples
    --------
    >>> scores_of_classes(np.array([[0.5, 0.125, 0.375]]), "aps").tolist()
    [[0.5, 1.0, 0.875]]
    """
    if score == "lac":
        return 1.0 - probability
    at_least = probability[:, None, :] >= probability[:, :, None]
    return (at_least * probability[:, None, :]).sum(axis=2)


@dataclass(frozen=True)
class Conformal:
    """Calibrated prediction sets; see the attribute ``conformal_``.

    Attributes
    ----------
    coverage : float
        The set of a new exchangeable row contains its class or value with at least this
        probability.
    score : {'lac', 'aps', 'absolute'}
    quantile : float
        Classes or values with a score of at most this are in the set.
    n_rows : int
        Calibration rows.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    """

    coverage: float
    score: str
    quantile: float
    n_rows: int
    digest: str

    def sets(self, probability: FloatArray) -> NDArray[np.bool_]:
        """Return which classes are in the set of each row."""
        return np.asarray(scores_of_classes(probability, self.score) <= self.quantile)

    def intervals(self, value: FloatArray) -> FloatArray:
        """Return the ends of the interval of each row."""
        return np.stack([value - self.quantile, value + self.quantile], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent; an infinite quantile is None."""
        finite = math.isfinite(self.quantile)
        return {**asdict(self), "quantile": self.quantile if finite else None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Conformal:
        """Inverse of `to_dict`, with every value checked."""
        quantile = stored["quantile"]
        found = cls(
            float(stored["coverage"]),
            str(stored["score"]),
            math.inf if quantile is None else float(quantile),
            int(stored["n_rows"]),
            str(stored["digest"]),
        )
        known = [name for names in SCORES.values() for name in names]
        if not 0 < found.coverage < 1 or found.score not in known or math.isnan(found.quantile):
            raise ValueError("The calibration of the prediction sets is invalid.")
        return found
