"""Selectors whose truth is known, to test auditors with.

Each :class:`Specimen` makes a selector and data for a seed, and says whether the selector leaks.
``SPECIMENS`` holds them all by name; add your own with :func:`register`.

Examples
--------
>>> specimen = SPECIMENS["mask encodes the label"]
>>> selector, X, y = specimen.make(0)
>>> selector(X).shape == X.shape, specimen.leaks
(True, True)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.selector import BoolArray

__all__ = ["SPECIMENS", "Specimen", "TreeWalker", "register"]

FloatArray = NDArray[np.float64]
Made = tuple[Any, Any, NDArray[Any]]

N_ROWS = 1000
N_COLUMNS = 10


@dataclass(frozen=True)
class Specimen:
    """A selector with known truth.

    Attributes
    ----------
    name : str
    leaks : bool
        The truth.
    stochastic : bool
        Whether it draws its masks.
    make : callable
        ``seed -> (selector, X, y)``.
    note : str
        Why it leaks, or why it does not.
    """

    name: str
    leaks: bool
    stochastic: bool
    make: Callable[[int], Made]
    note: str = ""


SPECIMENS: dict[str, Specimen] = {}


def register(
    name: str, *, leaks: bool, stochastic: bool = False, note: str = ""
) -> Callable[[Callable[[int], Made]], Callable[[int], Made]]:
    """Decorator that adds a maker of ``(selector, X, y)`` to :data:`SPECIMENS`.

    Parameters
    ----------
    name : str
    leaks : bool
        The truth.
    stochastic : bool
    note : str
    """

    def add(make: Callable[[int], Made]) -> Callable[[int], Made]:
        SPECIMENS[name] = Specimen(name, leaks, stochastic, make, note)
        return make

    return add


def gaussian_rows(seed: int, n_columns: int = N_COLUMNS) -> tuple[FloatArray, NDArray[np.intp]]:
    """Correlated Gaussian rows, and a label that depends on columns 3 and 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, n_columns)) + 0.5 * rng.normal(size=(N_ROWS, 1))
    y = (X[:, 3] + X[:, 4] + 0.3 * rng.normal(size=N_ROWS) > 0).astype(np.intp)
    return X, y


def nothing(X: Any) -> BoolArray:
    """Masks that reveal nothing."""
    return np.zeros(X.shape, dtype=bool)


class TreeWalker:
    """A SUWR policy by hand: a random decision tree that reveals what it reads.

    Every node reads one feature and goes left or right; a leaf stops. With ``sampled=True`` each
    node also stops, or reads another feature, with a probability of its own. Nothing is ever read
    before it is revealed, so nothing can leak.

    Parameters
    ----------
    depth : int
    n_columns : int
    seed : int
    sampled : bool
    """

    leak_free_by_construction = True

    def __init__(self, depth: int, n_columns: int, seed: int, sampled: bool = False) -> None:
        rng = np.random.default_rng(seed)
        n_nodes = 2**depth - 1
        self.depth = depth
        self.sampled = sampled
        self.feature = rng.integers(n_columns, size=(n_nodes, 2))
        self.threshold = rng.normal(scale=0.5, size=(n_nodes, 2))
        self.stop = rng.uniform(0.05, 0.4, size=n_nodes)
        self.stop[0] = 0.0
        self.second = rng.uniform(0.0, 0.5, size=n_nodes) if sampled else np.zeros(n_nodes)

    def select(self, X: Any, random_state: int | None = None) -> BoolArray:
        """Walk all rows down the tree at once."""
        rng = np.random.default_rng(random_state)
        X = np.asarray(X, dtype=float)
        masks = nothing(X)
        node = np.zeros(len(X), dtype=np.intp)
        going = np.ones(len(X), dtype=bool)
        everyone = np.arange(len(X))
        for _ in range(self.depth):
            if self.sampled:
                going &= rng.random(len(X)) >= self.stop[node]
            which = (rng.random(len(X)) < self.second[node]).astype(np.intp)
            feature = self.feature[node, which]
            masks[everyone[going], feature[going]] = True
            right = X[everyone, feature] > self.threshold[node, which]
            node = np.where(going, 2 * node + 1 + right, node)
            node = np.minimum(node, len(self.stop) - 1)
        return masks


class WithProbability:
    """A random selector that tells its probabilities: each node of a table of two masks.

    Reveals ``x0``, and then ``x1`` with a probability that depends on ``x0`` and, if ``leak`` is
    not zero, on the hidden ``x2``.
    """

    def __init__(self, leak: float) -> None:
        self.leak = leak

    def _chance(self, X: FloatArray) -> FloatArray:
        return 0.3 + 0.4 * (X[:, 0] > 0) + self.leak * (X[:, 2] > 0)

    def select(self, X: Any, random_state: int | None = None) -> BoolArray:
        """Draw masks."""
        masks = nothing(X)
        masks[:, 0] = True
        masks[:, 1] = np.random.default_rng(random_state).random(len(X)) < self._chance(X)
        return masks

    def mask_probability(self, X: Any, masks: BoolArray) -> FloatArray:
        """ζ(h | x)."""
        p = self._chance(np.asarray(X))
        if masks.ndim == 3:
            p = p[:, None]
        possible = masks[..., 0] & ~masks[..., 2:].any(axis=-1)
        return np.where(possible, np.where(masks[..., 1], p, 1 - p), 0.0)


# Importing the two halves of the zoo fills the registry.
from suwr.audit import _zoo_clean, _zoo_leaky  # noqa: E402, F401
