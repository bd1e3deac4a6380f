"""Policies by hand that several specimens of the zoo are made of."""

from typing import Any

import numpy as np

from suwr.selector import BoolArray
from suwr_experiments.zoo_specimen import FloatArray, nothing


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
