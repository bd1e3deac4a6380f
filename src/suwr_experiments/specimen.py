"""Building blocks of the zoo: the registry of specimens, their data, and hand-written policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.selector import BoolArray

__all__ = [
    "Specimen",
    "StatedProbabilities",
    "TreeWalker",
    "Zoo",
    "empty_masks",
    "first_column_masks",
    "gaussian_rows",
]

FloatArray = NDArray[np.float64]
Made = tuple[Any, Any, NDArray[Any]]
Make = Callable[[int], Made]

N_ROWS = 1000
N_COLUMNS = 10


@dataclass(frozen=True)
class Specimen:
    """A selector whose leakage is known.

    Attributes
    ----------
    name : str
    leaks : bool
        Ground truth.
    stochastic : bool
        Whether the selector samples its masks.
    make : callable
        ``seed -> (selector, X, y)``.
    note : str
        Why it leaks, or why it does not.
    """

    name: str
    leaks: bool
    stochastic: bool
    make: Make
    note: str = ""


class Zoo(dict[str, Specimen]):
    """Specimens by name, with decorators that register new ones."""

    def register(
        self, name: str, *, leaks: bool, stochastic: bool = False, note: str = ""
    ) -> Callable[[Make], Make]:
        """Register a factory ``seed -> (selector, X, y)``; use as a decorator.

        Parameters
        ----------
        name : str
        leaks : bool
            Ground truth.
        stochastic : bool, default=False
            Whether the selector samples its masks.
        note : str, default=""
            Why it leaks, or why it does not.
        """

        def add(make: Make) -> Make:
            self[name] = Specimen(name, leaks, stochastic, make, note)
            return make

        return add

    def on_gaussian_rows(
        self, name: str, *, leaks: bool, stochastic: bool = False, note: str = ""
    ) -> Callable[[Callable[..., BoolArray]], Callable[..., BoolArray]]:
        """Register a function ``X -> masks`` with `gaussian_rows` as its data; a decorator."""

        def add(select: Callable[..., BoolArray]) -> Callable[..., BoolArray]:
            def make(seed: int) -> Made:
                return select, *gaussian_rows(seed)

            self.register(name, leaks=leaks, stochastic=stochastic, note=note)(make)
            return select

        return add


def gaussian_rows(seed: int, n_columns: int = N_COLUMNS) -> tuple[FloatArray, NDArray[np.intp]]:
    """Draw correlated Gaussian rows, and a label that depends on columns 3 and 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, n_columns)) + 0.5 * rng.normal(size=(N_ROWS, 1))
    y = (X[:, 3] + X[:, 4] + 0.3 * rng.normal(size=N_ROWS) > 0).astype(np.intp)
    return X, y


def empty_masks(X: Any) -> BoolArray:
    """Masks that reveal nothing."""
    return np.zeros(X.shape, dtype=bool)


def first_column_masks(X: Any) -> BoolArray:
    """Masks that reveal the first column only."""
    masks = empty_masks(X)
    masks[:, 0] = True
    return masks


class TreeWalker:
    """A hand-written SUWR policy: a random decision tree that reveals every feature it reads.

    Every node reads one feature and branches on it; a leaf stops. With ``sampled=True`` each node
    stops, or reads an alternative feature, with a probability of its own. No feature is read
    before it is revealed, so the policy is leak-free by construction.

    Parameters
    ----------
    depth : int
        Depth of the tree, which is the maximum number of steps.
    n_columns : int
        Number of columns among which the nodes choose.
    seed : int
        Seed of the random tree.
    sampled : bool, default=False
        Whether decisions are sampled.
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
        """Masks of all rows."""
        rng = np.random.default_rng(random_state)
        X = np.asarray(X, dtype=float)
        masks = empty_masks(X)
        node = np.zeros(len(X), dtype=np.intp)
        active = np.ones(len(X), dtype=bool)
        rows = np.arange(len(X))
        for _ in range(self.depth):
            if self.sampled:
                active &= rng.random(len(X)) >= self.stop[node]
            which = (rng.random(len(X)) < self.second[node]).astype(np.intp)
            feature = self.feature[node, which]
            masks[rows[active], feature[active]] = True
            right = X[rows, feature] > self.threshold[node, which]
            node = np.where(active, 2 * node + 1 + right, node)
            node = np.minimum(node, len(self.stop) - 1)
        return masks


class StatedProbabilities:
    """A stochastic selector over two masks that implements ``mask_probability``.

    Reveals ``x0``, and ``x1`` with a probability that depends on ``x0`` and, unless ``leak`` is
    zero, on the hidden ``x2``.

    Parameters
    ----------
    leak : float
        Increase of the probability where ``x2`` is positive.
    """

    def __init__(self, leak: float) -> None:
        self.leak = leak

    def _probability(self, X: FloatArray) -> FloatArray:
        return 0.3 + 0.4 * (X[:, 0] > 0) + self.leak * (X[:, 2] > 0)

    def select(self, X: Any, random_state: int | None = None) -> BoolArray:
        """Sample masks."""
        masks = empty_masks(X)
        masks[:, 0] = True
        masks[:, 1] = np.random.default_rng(random_state).random(len(X)) < self._probability(X)
        return masks

    def mask_probability(self, X: Any, masks: BoolArray) -> FloatArray:
        """ζ(h | x), exact."""
        p = self._probability(np.asarray(X))
        if masks.ndim == 3:
            p = p[:, None]
        possible = masks[..., 0] & ~masks[..., 2:].any(axis=-1)
        return np.where(possible, np.where(masks[..., 1], p, 1 - p), 0.0)
