"""The leaky half of the zoo."""

import numpy as np
from numpy.typing import NDArray

from suwr.audit.adapters import TopK
from suwr.selector import BoolArray
from suwr_experiments.zoo_policies import TreeWalker, WithProbability
from suwr_experiments.zoo_specimen import FloatArray, Made, Zoo, first, gaussian_rows, nothing

LEAKY = Zoo()


@LEAKY.register(
    "Table 1 of the paper", leaks=True, note="masks tell y = x1 + x2 and every hidden value"
)
def table_1(seed: int) -> Made:
    X = np.random.default_rng(seed).integers(2, size=(200, 2))

    def select(X: NDArray[np.int_]) -> BoolArray:
        both, either = X.all(axis=1), X.any(axis=1)
        return np.stack([both, either & ~both], axis=1)

    return select, X, X.sum(axis=1)


@LEAKY.on_gaussian_rows(
    "mask encodes the label", leaks=True, note="x1 or x2 is shown, by the label's sign"
)
def label_in_mask(X: FloatArray) -> BoolArray:
    masks = first(X)
    masks[:, 1] = X[:, 3] + X[:, 4] > 0
    masks[:, 2] = ~masks[:, 1]
    return masks


@LEAKY.on_gaussian_rows(
    "mask encodes a hidden feature", leaks=True, note="x1 is shown when x5 is large"
)
def feature_in_mask(X: FloatArray) -> BoolArray:
    masks = first(X)
    masks[:, 1] = X[:, 5] > 0.7
    return masks


@LEAKY.register(
    "leak on 0.5 % of rows (tail)", leaks=True, note="when hidden x7 is in its top 0.5 %"
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


@LEAKY.register(
    "leak on 0.5 % of rows (leaf)", leaks=True, note="only where x0 is in its top 0.5 %"
)
def rare_leaf(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    limit = np.quantile(X[:, 0], 0.995)

    def select(X: FloatArray) -> BoolArray:
        masks = first(X)
        masks[:, 1] = X[:, 0] > 0
        masks[:, 2] = (X[:, 0] > limit) & (X[:, 6] > 0)
        return masks

    return select, X, y


@LEAKY.on_gaussian_rows(
    "leak on four hidden values", leaks=True, note="only if all four are extreme at once"
)
def needle(X: FloatArray) -> BoolArray:
    masks = first(X)
    masks[:, 1] = X[:, 0] > 0
    masks[:, 2] = (X[:, 6] > 1.5) & (X[:, 7] > 1.5) & (X[:, 8] < -1.2) & (X[:, 9] < -1.0)
    return masks


@LEAKY.on_gaussian_rows(
    "leak at the boundary", leaks=True, note="hidden x3 moves a threshold on x0 by 0.01 σ"
)
def boundary(X: FloatArray) -> BoolArray:
    masks = first(X)
    masks[:, 1] = X[:, 0] + 0.01 * X[:, 3] > 0
    return masks


@LEAKY.on_gaussian_rows(
    "leak in the number of features", leaks=True, note="first k features, k tells the label"
)
def count_only(X: FloatArray) -> BoolArray:
    k = 1 + (X[:, 3] + X[:, 4] > 0).astype(np.intp)
    return np.arange(X.shape[1]) < k[:, None]


@LEAKY.on_gaussian_rows(
    "normalised softmax", leaks=True, note="scores of single features, normalised over all"
)
def softmax(X: FloatArray) -> BoolArray:
    weight = np.exp(X)
    return weight / weight.sum(axis=1, keepdims=True) > 0.15


@LEAKY.on_gaussian_rows(
    "whole-row scaling", leaks=True, note="large features after the row is standardised"
)
def row_scaling(X: FloatArray) -> BoolArray:
    centred = X - X.mean(axis=1, keepdims=True)
    return centred > 1.2 * centred.std(axis=1, keepdims=True)


@LEAKY.register(
    "top 3 of attributions", leaks=True, note="the largest |w·x|, as from L2X, SHAP or LIME"
)
def attributions(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    weights = np.random.default_rng(seed + 1).normal(size=X.shape[1])
    return TopK(lambda X: X * weights, k=3), X, y


@LEAKY.register(
    "stop chosen afterwards", leaks=True, note="the best of all steps, though it looked on"
)
def stop_afterwards(seed: int) -> Made:
    X, y = gaussian_rows(seed)
    rng = np.random.default_rng(seed + 1)
    order = rng.permutation(X.shape[1])[:5]
    weights = rng.normal(size=5)

    def select(X: FloatArray) -> BoolArray:
        evidence = abs(np.cumsum(X[:, order] * weights, axis=1))
        best = evidence.argmax(axis=1)
        masks = nothing(X)
        for step, column in enumerate(order):
            masks[:, column] = step <= best
        return masks

    return select, X, y


def _one_of_two(chance: NDArray[np.floating], X: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Reveal x0 with the given chance, and x1 otherwise."""
    masks = nothing(X)
    masks[:, 0] = rng.random(len(X)) < chance
    masks[:, 1] = ~masks[:, 0]
    return masks


@LEAKY.on_gaussian_rows(
    "probabilities shifted by 5 %", leaks=True, stochastic=True, note="0.50 or 0.55, by hidden x2"
)
def shift(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return _one_of_two(0.5 + 0.05 * (X[:, 2] > 0), X, rng)


@LEAKY.register(
    "5 % shift against another hidden one",
    leaks=True,
    stochastic=True,
    note="up when hidden x2 and x5 agree in sign, down when not: no effect of either alone",
)
def crossed_shift(seed: int) -> Made:
    X, y = gaussian_rows(seed)

    def select(X: FloatArray, rng: np.random.Generator) -> BoolArray:
        return _one_of_two(0.5 + 0.025 * np.sign(X[:, 2] * X[:, 5]), X, rng)

    return select, X - np.median(X, axis=0), y


@LEAKY.on_gaussian_rows(
    "sampled softmax",
    leaks=True,
    stochastic=True,
    note="two features, drawn from a softmax over all",
)
def sampled_softmax(X: FloatArray, rng: np.random.Generator) -> BoolArray:
    return TopK(lambda X: 0.5 * X + rng.gumbel(size=X.shape), k=2, absolute=False).select(X)


@LEAKY.register(
    "5 % shift with stated probabilities", leaks=True, stochastic=True, note="as above, but stated"
)
def stated_shift(seed: int) -> Made:
    return WithProbability(0.05), *gaussian_rows(seed)
