"""The clean half of the zoo."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.selector import BoolArray
from suwr_experiments.zoo_policies import TreeWalker, WithProbability
from suwr_experiments.zoo_specimen import (
    N_COLUMNS,
    N_ROWS,
    FloatArray,
    Made,
    Zoo,
    gaussian_rows,
    nothing,
)

CLEAN = Zoo()

_BLOCKS = ("000", "111", "01*", "*01", "1*0")


@CLEAN.on_gaussian_rows(
    "random masks", leaks=False, stochastic=True, note="no look at the row at all"
)
def random_masks(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return rng.random(X.shape) < 0.3


@CLEAN.register("constant mask", leaks=False, note="the same three features for everybody")
def constant(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    chosen = np.random.default_rng(seed).permutation(N_COLUMNS) < 3
    return (lambda X: np.repeat(chosen[None], len(X), axis=0)), X, y


@CLEAN.on_gaussian_rows("all features", leaks=False, note="nothing is hidden")
def everything(X: FloatArray) -> BoolArray:
    return ~nothing(X)


@CLEAN.register("decision tree", leaks=False, note="reveals what it reads")
def tree(seed: int) -> Made:
    walker = TreeWalker(4, N_COLUMNS, seed)
    return (lambda X: walker.select(X)), *gaussian_rows(seed)


@CLEAN.register(
    "sequential policy, greedy", leaks=False, note="a SUWR policy by hand, that says so"
)
def greedy(seed: int) -> Made:
    return TreeWalker(6, N_COLUMNS, seed), *gaussian_rows(seed)


@CLEAN.register("sequential policy, sampled", leaks=False, stochastic=True, note="the same, drawn")
def sampled(seed: int) -> Made:
    return TreeWalker(4, N_COLUMNS, seed, sampled=True), *gaussian_rows(seed)


@CLEAN.register(
    "stated probabilities", leaks=False, stochastic=True, note="depends on revealed x0 only"
)
def stated(seed: int) -> Made:
    return WithProbability(0.0), *gaussian_rows(seed)


@CLEAN.register("five blocks", leaks=False, note="leak-free, though no SUWR policy equals it")
def five_blocks(seed: int) -> Made:
    X = np.random.default_rng(seed).integers(2, size=(N_ROWS, 3))

    def block(x: NDArray[np.int_]) -> str:
        bits = "".join(map(str, x))
        return next(b for b in _BLOCKS if all(c in ("*", v) for c, v in zip(b, bits, strict=True)))

    def select(X: NDArray[np.int_]) -> BoolArray:
        return np.array([[c != "*" for c in block(x)] for x in X]).reshape(X.shape)

    return select, X, np.array([_BLOCKS.index(block(x)) for x in X])


@CLEAN.register(
    "five blocks on continuous rows", leaks=False, note="the same, by the signs of x0 to x2"
)
def five_blocks_continuous(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    small, _, _ = five_blocks(seed)

    def select(X: FloatArray) -> BoolArray:
        masks = nothing(X)
        masks[:, :3] = small((X[:, :3] > 0).astype(int))
        return masks

    return select, X, y


@CLEAN.on_gaussian_rows(
    "leak in the order only", leaks=False, note="hidden values choose the order, not the set"
)
def order_only(X: FloatArray) -> BoolArray:
    masks = nothing(X)
    earlier = np.where(X[:, 5] > 0, 0, 1)
    for step in (earlier, 1 - earlier):  # both are revealed in the end
        masks[np.arange(len(X)), step] = True
    return masks


@CLEAN.register(
    "greedy dynamic selection by hand", leaks=False, note="the next feature by what is revealed"
)
def dynamic(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2 * N_COLUMNS, N_COLUMNS))
    bias = rng.normal(size=N_COLUMNS)

    def select(X: FloatArray) -> BoolArray:
        masks = nothing(X)
        for _ in range(4):
            shown = np.where(masks, X, 0.0)
            # A row at a time: a matrix product may round differently in another batch.
            both = np.concatenate([shown, masks], axis=1)
            score = np.stack([row @ weights for row in both]) + bias
            score = np.where(masks, -np.inf, score)
            masks[np.arange(len(X)), score.argmax(axis=1)] = True
        return masks

    return select, X, y


@CLEAN.register("tree on a data frame", leaks=False, note="strings, categories and missing values")
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
