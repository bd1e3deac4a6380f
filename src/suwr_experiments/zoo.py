"""Selectors with known ground truth, for testing auditors.

Each `Specimen` makes a selector and data for a seed, and states whether the selector leaks.
``SPECIMENS`` holds them all by name; add others with ``register``.

Examples
--------
>>> specimen = SPECIMENS["mask encodes the label"]
>>> selector, X, y = specimen.make(0)
>>> selector(X).shape == X.shape, specimen.leaks
(True, True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.auditing.adapters import TopK
from suwr.selector import BoolArray
from suwr_experiments.specimen import (
    N_COLUMNS,
    N_ROWS,
    FloatArray,
    Made,
    Specimen,
    StatedProbabilities,
    TreeWalker,
    Zoo,
    empty_masks,
    first_column_masks,
    gaussian_rows,
)

__all__ = ["SPECIMENS", "Specimen", "TreeWalker", "gaussian_rows", "register"]

SPECIMENS = Zoo()
register = SPECIMENS.register

_BLOCKS = ("000", "111", "01*", "*01", "1*0")


@SPECIMENS.on_gaussian_rows("random masks", leaks=False, stochastic=True, note="ignores the row")
def random_masks(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return rng.random(X.shape) < 0.3


@SPECIMENS.register("constant mask", leaks=False, note="the same three features for every row")
def constant(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    chosen = np.random.default_rng(seed).permutation(N_COLUMNS) < 3
    return (lambda X: np.repeat(chosen[None], len(X), axis=0)), X, y


@SPECIMENS.on_gaussian_rows("all features", leaks=False, note="hides nothing")
def everything(X: FloatArray) -> BoolArray:
    return ~empty_masks(X)


@SPECIMENS.register("decision tree", leaks=False, note="reveals every feature it reads")
def tree(seed: int) -> Made:
    walker = TreeWalker(4, N_COLUMNS, seed)
    return (lambda X: walker.select(X)), *gaussian_rows(seed)


@SPECIMENS.register(
    "sequential policy, greedy", leaks=False, note="a hand-written SUWR policy, declared leak-free"
)
def greedy(seed: int) -> Made:
    return TreeWalker(6, N_COLUMNS, seed), *gaussian_rows(seed)


@SPECIMENS.register(
    "sequential policy, sampled",
    leaks=False,
    stochastic=True,
    note="the same with sampled decisions",
)
def sampled(seed: int) -> Made:
    return TreeWalker(4, N_COLUMNS, seed, sampled=True), *gaussian_rows(seed)


@SPECIMENS.register(
    "stated probabilities",
    leaks=False,
    stochastic=True,
    note="probabilities depend on the revealed x0 only",
)
def stated(seed: int) -> Made:
    return StatedProbabilities(0.0), *gaussian_rows(seed)


@SPECIMENS.register(
    "five blocks", leaks=False, note="leak-free, but not representable as a SUWR policy"
)
def five_blocks(seed: int) -> Made:
    X = np.random.default_rng(seed).integers(2, size=(N_ROWS, 3))

    def block(x: NDArray[np.int_]) -> str:
        bits = "".join(map(str, x))
        return next(b for b in _BLOCKS if all(c in ("*", v) for c, v in zip(b, bits, strict=True)))

    def select(X: NDArray[np.int_]) -> BoolArray:
        return np.array([[c != "*" for c in block(x)] for x in X]).reshape(X.shape)

    return select, X, np.array([_BLOCKS.index(block(x)) for x in X])


@SPECIMENS.register(
    "five blocks on continuous rows", leaks=False, note="the same on the signs of x0 to x2"
)
def five_blocks_continuous(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    small, _, _ = five_blocks(seed)

    def select(X: FloatArray) -> BoolArray:
        masks = empty_masks(X)
        masks[:, :3] = small((X[:, :3] > 0).astype(int))
        return masks

    return select, X, y


@SPECIMENS.on_gaussian_rows(
    "leak in the order only", leaks=False, note="hidden values affect the order, not the set"
)
def order_only(X: FloatArray) -> BoolArray:
    masks = empty_masks(X)
    earlier = np.where(X[:, 5] > 0, 0, 1)
    # Both columns are revealed eventually; only the order depends on the hidden x5.
    for step in (earlier, 1 - earlier):
        masks[np.arange(len(X)), step] = True
    return masks


@SPECIMENS.register(
    "greedy dynamic selection by hand",
    leaks=False,
    note="chooses the next feature from revealed values",
)
def dynamic(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2 * N_COLUMNS, N_COLUMNS))
    bias = rng.normal(size=N_COLUMNS)

    def select(X: FloatArray) -> BoolArray:
        masks = empty_masks(X)
        for _ in range(4):
            revealed = np.where(masks, X, 0.0)
            # One row at a time: a matrix product may round differently in another batch.
            both = np.concatenate([revealed, masks], axis=1)
            score = np.stack([row @ weights for row in both]) + bias
            score = np.where(masks, -np.inf, score)
            masks[np.arange(len(X)), score.argmax(axis=1)] = True
        return masks

    return select, X, y


@SPECIMENS.register(
    "tree on a data frame", leaks=False, note="strings, categories and missing values"
)
def frame(seed: int) -> Made:
    import pandas as pd

    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, N_ROWS).astype(float)
    age[rng.random(N_ROWS) < 0.1] = np.nan
    X = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], N_ROWS),
            "ward": pd.Categorical(rng.choice(["A", "B", "C"], N_ROWS)),
            "lab": rng.normal(size=N_ROWS),
        }
    )

    def select(X: Any) -> BoolArray:
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 2] = True
        in_a = np.asarray(X["ward"] == "A")
        masks[in_a, 0] = True
        masks[~in_a, 1] = True
        masks[in_a & np.asarray(X["age"].isna()), 3] = True
        return masks

    return select, X, (X["sex"] == "f").to_numpy().astype(int)


# Leaking selectors.


@SPECIMENS.register(
    "Table 1 of the paper", leaks=True, note="masks determine y = x1 + x2 and all hidden values"
)
def table_1(seed: int) -> Made:
    X = np.random.default_rng(seed).integers(2, size=(200, 2))

    def select(X: NDArray[np.int_]) -> BoolArray:
        both, either = X.all(axis=1), X.any(axis=1)
        return np.stack([both, either & ~both], axis=1)

    return select, X, X.sum(axis=1)


@SPECIMENS.on_gaussian_rows(
    "mask encodes the label", leaks=True, note="reveals x1 or x2 depending on the label"
)
def label_in_mask(X: FloatArray) -> BoolArray:
    masks = first_column_masks(X)
    masks[:, 1] = X[:, 3] + X[:, 4] > 0
    masks[:, 2] = ~masks[:, 1]
    return masks


@SPECIMENS.on_gaussian_rows(
    "mask encodes a hidden feature", leaks=True, note="reveals x1 if the hidden x5 is large"
)
def feature_in_mask(X: FloatArray) -> BoolArray:
    masks = first_column_masks(X)
    masks[:, 1] = X[:, 5] > 0.7
    return masks


@SPECIMENS.register(
    "leak on 0.5 % of rows (tail)", leaks=True, note="only if the hidden x7 is in its top 0.5 %"
)
def rare_tail(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    tree = TreeWalker(3, 6, seed)
    limit = np.quantile(X[:, 7], 0.995)

    def select(X: FloatArray) -> BoolArray:
        masks = tree.select(X)
        masks[:, 8] |= X[:, 7] > limit
        return masks

    return select, X, y


@SPECIMENS.register(
    "leak on 0.5 % of rows (leaf)", leaks=True, note="only if x0 is in its top 0.5 %"
)
def rare_leaf(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    limit = np.quantile(X[:, 0], 0.995)

    def select(X: FloatArray) -> BoolArray:
        masks = first_column_masks(X)
        masks[:, 1] = X[:, 0] > 0
        masks[:, 2] = (X[:, 0] > limit) & (X[:, 6] > 0)
        return masks

    return select, X, y


@SPECIMENS.on_gaussian_rows(
    "leak on four hidden values", leaks=True, note="only if all four are extreme at once"
)
def needle(X: FloatArray) -> BoolArray:
    masks = first_column_masks(X)
    masks[:, 1] = X[:, 0] > 0
    masks[:, 2] = (X[:, 6] > 1.5) & (X[:, 7] > 1.5) & (X[:, 8] < -1.2) & (X[:, 9] < -1.0)
    return masks


@SPECIMENS.on_gaussian_rows(
    "leak at the boundary", leaks=True, note="the hidden x3 shifts a threshold on x0 by 0.01 σ"
)
def boundary(X: FloatArray) -> BoolArray:
    masks = first_column_masks(X)
    masks[:, 1] = X[:, 0] + 0.01 * X[:, 3] > 0
    return masks


@SPECIMENS.on_gaussian_rows(
    "leak in the number of features",
    leaks=True,
    note="reveals the first k features; k encodes the label",
)
def count_only(X: FloatArray) -> BoolArray:
    k = 1 + (X[:, 3] + X[:, 4] > 0).astype(np.intp)
    return np.arange(X.shape[1]) < k[:, None]


@SPECIMENS.on_gaussian_rows(
    "normalised softmax", leaks=True, note="univariate scores, normalised over all features"
)
def softmax(X: FloatArray) -> BoolArray:
    weight = np.exp(X)
    return weight / weight.sum(axis=1, keepdims=True) > 0.15


@SPECIMENS.on_gaussian_rows(
    "whole-row scaling", leaks=True, note="thresholds values standardised by row"
)
def row_scaling(X: FloatArray) -> BoolArray:
    centred = X - X.mean(axis=1, keepdims=True)
    return centred > 1.2 * centred.std(axis=1, keepdims=True)


@SPECIMENS.register(
    "top 3 of attributions", leaks=True, note="the three largest |w·x|, as with L2X, SHAP or LIME"
)
def attributions(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    weights = np.random.default_rng(seed + 1).normal(size=X.shape[1])
    return TopK(lambda X: X * weights, k=3), X, y


@SPECIMENS.register(
    "stop chosen afterwards", leaks=True, note="chooses the best stopping step in retrospect"
)
def stop_afterwards(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    rng = np.random.default_rng(seed + 1)
    order = rng.permutation(X.shape[1])[:5]
    weights = rng.normal(size=5)

    def select(X: FloatArray) -> BoolArray:
        evidence = abs(np.cumsum(X[:, order] * weights, axis=1))
        best = evidence.argmax(axis=1)
        masks = empty_masks(X)
        for step, column in enumerate(order):
            masks[:, column] = step <= best
        return masks

    return select, X, y


def _one_of_two(
    probability: NDArray[np.floating], X: FloatArray, rng: np.random.Generator
) -> BoolArray:
    """Reveal x0 with the given probability, and x1 otherwise."""
    masks = empty_masks(X)
    masks[:, 0] = rng.random(len(X)) < probability
    masks[:, 1] = ~masks[:, 0]
    return masks


@SPECIMENS.on_gaussian_rows(
    "probabilities shifted by 5 %",
    leaks=True,
    stochastic=True,
    note="0.50 or 0.55, depending on the hidden x2",
)
def shift(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return _one_of_two(0.5 + 0.05 * (X[:, 2] > 0), X, rng)


@SPECIMENS.register(
    "5 % shift against another hidden one",
    leaks=True,
    stochastic=True,
    note="depends on the sign of hidden x2 · x5: no marginal effect of either",
)
def crossed_shift(seed: int) -> Made:
    X, y = gaussian_rows(seed)

    def select(X: FloatArray, rng: np.random.Generator) -> BoolArray:
        return _one_of_two(0.5 + 0.025 * np.sign(X[:, 2] * X[:, 5]), X, rng)

    return select, X - np.median(X, axis=0), y


@SPECIMENS.on_gaussian_rows(
    "sampled softmax",
    leaks=True,
    stochastic=True,
    note="samples two features from a softmax over all",
)
def sampled_softmax(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return TopK(lambda X: 0.5 * X + rng.gumbel(size=X.shape), k=2, absolute=False).select(X)


@SPECIMENS.register(
    "5 % shift with stated probabilities",
    leaks=True,
    stochastic=True,
    note="the 5 % shift, with mask_probability",
)
def stated_shift(seed: int) -> Made:
    return StatedProbabilities(0.05), *gaussian_rows(seed)
