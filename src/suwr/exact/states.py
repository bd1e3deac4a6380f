"""Masked states x ⊙ h, in two memory layouts: a dense product of values, and a sparse support.

This module also holds the array types, the mask encoding and the memory limit that all exact
methods share.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exceptions import ProblemTooLargeError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEFAULT_MEMORY = 4 * 1024**3


@dataclass(frozen=True)
class Support:
    """Support rows of a problem, from which its masked states are computed.

    Attributes
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Support rows, with every value replaced by its code.
    radices : sequence of int
        Number of values of each feature.
    p : ndarray of shape (n_rows,)
        Their probabilities.
    labels : ndarray of shape (n_labels,)
    label_distribution : sparse array of shape (n_rows, n_labels)
        p(y | x).
    loss : {"squared_error", "cross_entropy", "zero_one"}
    costs : ndarray of shape (n_features,)
        Cost of each feature.
    """

    codes: Ints
    radices: Sequence[int]
    p: Floats
    labels: NDArray[Any]
    label_distribution: Any
    loss: str
    costs: Floats

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of y given each row, for squared error."""
        values = self.labels.astype(float)
        mean = np.asarray(self.label_distribution @ values, dtype=float)
        entries = self.label_distribution.tocoo()
        squares = entries.data * (values[entries.col] - mean[entries.row]) ** 2
        return mean, group_sum(entries.row, squares, len(mean))

    def joint(self) -> Floats:
        """p(x, y), of shape (n_labels, n_rows)."""
        return np.asarray(self.label_distribution.multiply(self.p[:, None]).toarray().T)


class MaskedStates(ABC):
    """Statistics of every masked state x ⊙ h.

    All quantities are weighted by the probability of the state, so that the quantity of a state can
    be compared with the sum over its children. States of probability 0 have quantities of 0.

    Parameters
    ----------
    support : Support

    Attributes
    ----------
    mass : ndarray of shape (n_states,)
        p(s), the probability that a row agrees with the revealed values.
    risk : ndarray of shape (n_states,)
        p(s) times the expected loss of f* when the policy stops in s.
    size : ndarray of shape (n_states,)
        Number of revealed features.
    cost_mass : ndarray of shape (n_states,)
        p(s) ‖h‖, where ‖h‖ is the cost of the revealed features.
    """

    mass: Floats
    risk: Floats
    size: NDArray[np.uint8]
    cost_mass: Floats
    _prediction: Floats  # means of shape (n_states,), or p(s, y) of shape (n_labels, n_states)

    def __init__(self, support: Support) -> None:
        self.radices = tuple(support.radices)
        self.n_features = len(self.radices)

    @property
    def n_states(self) -> int:
        """Length of the arrays; the product layout includes states of probability 0."""
        return len(self.mass)

    @property
    def n_positive(self) -> int:
        """Number of states with positive probability."""
        return int(np.count_nonzero(self.mass))

    @property
    def root(self) -> int:
        """Index of the state in which nothing is revealed."""
        return int(self.index(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))[0])

    def size_mass(self) -> Floats:
        """p(s) times the number of revealed features."""
        return self.mass * self.size

    def prediction(self, ids: Ints) -> Floats:
        """f*(s): the mean label, or a distribution over the labels."""
        if self._prediction.ndim == 1:
            return self._prediction[ids]
        masses = self._prediction[:, ids].T
        return masses / masses.sum(axis=1, keepdims=True)

    def stop_cost(self, weights: Floats, max_size: int | None = None) -> Floats:
        """c(s) = risk + λ cost for each λ, of shape (n_states, n_weights).

        States with more than ``max_size`` features have an infinite cost, which excludes them from
        every optimal policy.
        """
        cost = self.risk[:, None] + self.cost_mass[:, None] * weights
        if max_size is not None and max_size < self.n_features:
            cost[self.size > max_size] = np.inf
        return cost

    @abstractmethod
    def index(self, rows: Ints, masks: Ints) -> Ints:
        """Indices of the states of support rows under masks, which are given as bits."""

    @abstractmethod
    def masks_of(self, ids: Ints) -> Ints:
        """Masks of states, as bits."""

    @abstractmethod
    def mask_totals(self, amounts: Floats) -> Floats:
        """Sum of a quantity over the states of each mask, of shape (2 ** n_features,)."""

    @abstractmethod
    def sweep(self, value: Floats, *others: Floats) -> None:
        """Turn stopping costs into optimal values, in place: V(s) = min(c(s), min_i Σ_a V(s, a)).

        ``others`` hold further quantities of stopping; they are propagated by the decisions that
        minimise ``value``. All arrays have shape (n_states, n_weights).
        """

    @abstractmethod
    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        """Reveal ``units`` at once wherever that lowers ``target[0]``.

        ``source`` holds the values of the next step. Further arrays in ``source`` and ``target``
        are propagated by the decisions of the first ones.
        """


def group_sum(groups: NDArray[np.integer], amounts: Floats, n_groups: int | None = None) -> Floats:
    """Sum of the amounts of each group 0, 1, …"""
    size = 0 if n_groups is None else n_groups
    return np.bincount(groups, weights=amounts, minlength=size).astype(np.float64, copy=False)


def mask_bits(masks: NDArray[np.bool_]) -> Ints:
    """Encode boolean masks (…, d) as integers: bit j stands for feature j."""
    weights = np.left_shift(np.int64(1), np.arange(masks.shape[-1], dtype=np.int64))
    return masks.astype(np.int64) @ weights


def bits_mask(bits: NDArray[np.int64], n_features: int) -> NDArray[np.bool_]:
    """Decode integers into boolean masks: the inverse of :func:`mask_bits`."""
    return (np.asarray(bits)[..., None] >> np.arange(n_features)) & 1 == 1


def memory_limit(max_memory: int | None) -> int:
    """Memory limit in bytes: ``max_memory``, or 4 GiB capped at half of the physical memory."""
    if max_memory is not None:
        return max_memory
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf on Windows
        return DEFAULT_MEMORY
    return min(DEFAULT_MEMORY, physical // 2) if physical > 0 else DEFAULT_MEMORY


def check_memory(needed: int, limit: int, n_states: int, what: str) -> None:
    """Raise before allocation if a computation would exceed the memory limit.

    Parameters
    ----------
    needed, limit : int
        Bytes.
    n_states : int
        Number of masked states, for the message.
    what : str
        Subject of the message.
    """
    if needed > limit:
        raise ProblemTooLargeError(
            f"{what} needs up to {n_states:,} masked states, about {_gigabytes(needed)} of memory; "
            f"the limit is {_gigabytes(limit)}. Use fewer features or values, or raise the "
            "'max_memory' parameter of FiniteProblem."
        )


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes < 1e15 else f"{n_bytes // 10**9:,} GB"


# Child states sorted by parent, the start of each parent's run, and the parents.
Edges = tuple[Ints, Ints, Ints]


class ProductStates(MaskedStates):
    """All Π (k_j + 1) states, where feature j has k_j values.

    A state is a mixed-radix number with one digit per feature: the code of the revealed value, or
    the largest digit if the feature is hidden. Every array is a cube with one axis per feature, so
    that hiding a feature is a sum over an axis and no adjacency table is needed.
    """

    def __init__(self, support: Support) -> None:
        super().__init__(support)
        codes, p = support.codes, support.p
        self.shape = tuple(radix + 1 for radix in self.radices)
        self.strides = np.cumprod([1, *self.shape[:0:-1]], dtype=np.int64)[::-1]
        # Change of a state's index when a row's value is revealed.
        self._shift = (codes - np.array(self.radices)) * self.strides
        self._all_hidden = int(np.array(self.radices) @ self.strides)
        place = tuple(codes.T)
        if support.loss == "squared_error":
            mean, variance = support.moments()
            cubes = [self._cube(place, v) for v in (p, mean, p * variance)]
            self.mass, self._prediction, self.risk = _pool_moments(cubes, self.n_features)
        else:
            masses = np.stack([self._cube(place, column) for column in support.joint()])
            self._prediction = _pool(masses, self.n_features).reshape(len(masses), -1)
            self.mass = self._prediction.sum(axis=0)
            self.risk = _stopping_loss(self._prediction, support.loss)
        self.size = self._revealed_sum(np.ones(self.n_features), np.uint8)
        self.cost_mass = self.mass * self._revealed_sum(support.costs, np.float64)

    def _cube(self, place: tuple[Ints, ...], amounts: Floats) -> Floats:
        cube = np.zeros(self.radices)
        cube[place] = amounts
        return cube

    def _revealed_sum(self, amounts: Floats, dtype: Any) -> NDArray[Any]:
        total = np.zeros(self.shape, dtype=dtype)
        for j, radix in enumerate(self.radices):
            axis = np.full(radix + 1, amounts[j], dtype=dtype)
            axis[radix] = 0
            total += axis.reshape((-1,) + (1,) * (self.n_features - 1 - j))
        return total.reshape(-1)

    def index(self, rows: Ints, masks: Ints) -> Ints:
        rows, masks = np.broadcast_arrays(rows, masks)
        ids = np.full(rows.shape, self._all_hidden, dtype=np.int64)
        for j in range(self.n_features):
            ids += ((masks >> j) & 1) * self._shift[rows, j]
        return ids

    def masks_of(self, ids: Ints) -> Ints:
        masks = np.zeros(np.shape(ids), dtype=np.int64)
        for j, radix in enumerate(self.radices):
            revealed = (ids // self.strides[j]) % (radix + 1) < radix
            masks |= revealed.astype(np.int64) << j
        return masks

    def mask_totals(self, amounts: Floats) -> Floats:
        cube = amounts.reshape(self.shape)
        for j, radix in enumerate(self.radices):
            revealed = cube.take(range(radix), axis=j).sum(axis=j)
            cube = np.stack([cube.take(radix, axis=j), revealed], axis=j)
        # Bit j of a mask is feature j, whereas the last axis of the cube varies fastest.
        return cube.transpose(range(self.n_features)[::-1]).reshape(-1)

    def sweep(self, value: Floats, *others: Floats) -> None:
        cubes = [a.reshape((*self.shape, a.shape[1])) for a in (value, *others)]
        self._sweep(cubes, 0, 0)

    def _sweep(self, cubes: list[Floats], feature: int, axis: int) -> None:
        # Axes before `axis` run over revealed values; features before `feature` without an axis are
        # hidden. Every state is final before a state that hides one more feature reads it.
        if feature == self.n_features:
            return
        radix = self.radices[feature]
        self._sweep([_revealed_part(c, axis, radix) for c in cubes], feature + 1, axis + 1)
        hidden = [_at(c, axis, radix) for c in cubes]
        _keep_lower([_sum_over_values(c, axis, radix) for c in cubes], hidden)
        self._sweep(hidden, feature + 1, axis)

    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        revealed = tuple(
            slice(0, radix) if j in units else slice(None) for j, radix in enumerate(self.radices)
        )
        hidden = tuple(radix if j in units else slice(None) for j, radix in enumerate(self.radices))
        shape = (*self.shape, source[0].shape[1])
        candidates = [a.reshape(shape)[revealed].sum(axis=units) for a in source]
        _keep_lower(candidates, [a.reshape(shape)[hidden] for a in target])


class SparseStates(MaskedStates):
    """The states of positive probability, found by grouping the support rows under each mask.

    States are ordered by the number of revealed features, then by mask, so that the children of a
    state always have larger indices.
    """

    def __init__(self, support: Support) -> None:
        super().__init__(support)
        codes, p = support.codes, support.p
        masks = np.arange(2**self.n_features, dtype=np.int64)
        sizes = bits_mask(masks, self.n_features).sum(axis=1)
        order = np.lexsort((masks, sizes))
        self._rank = np.empty_like(order)  # position of each mask in the order of the states
        self._rank[order] = np.arange(len(order))
        self._ids, first = _group(codes, self.radices, order)
        rank_of, self._member = np.divmod(first, len(codes))
        self._mask = masks[order][rank_of]
        self.size = sizes[order][rank_of].astype(np.uint8)

        flat = self._ids.reshape(-1)
        self.mass = self._total(flat, p)
        if support.loss == "squared_error":
            mean, variance = support.moments()
            state_mean = self._total(flat, p * mean) / self.mass
            self._prediction = state_mean
            deviation = (
                np.tile(p * variance, len(masks))
                + np.tile(p, len(masks)) * (np.tile(mean, len(masks)) - state_mean[flat]) ** 2
            )
            self.risk = group_sum(flat, deviation)
        else:
            self._prediction = np.stack([self._total(flat, column) for column in support.joint()])
            self.risk = _stopping_loss(self._prediction, support.loss)
        self.cost_mass = self.mass * (bits_mask(self._mask, self.n_features) @ support.costs)

    def _total(self, flat: Ints, amounts: Floats) -> Floats:
        return group_sum(flat, np.tile(amounts, len(self._rank)))

    def index(self, rows: Ints, masks: Ints) -> Ints:
        return self._ids[self._rank[masks], rows]

    def masks_of(self, ids: Ints) -> Ints:
        return self._mask[ids]

    def mask_totals(self, amounts: Floats) -> Floats:
        return group_sum(self._mask, amounts, len(self._rank))

    @cached_property
    def _single_edges(self) -> list[list[Edges]]:
        edges = []
        for level in range(self.n_features):
            children = np.flatnonzero(self.size == level + 1)
            edges.append([self._edges(children, 1 << j) for j in range(self.n_features)])
        return edges

    def _edges(self, children: Ints, units: int) -> Edges:
        children = children[(self._mask[children] & units) == units]
        parents = self.index(self._member[children], self._mask[children] ^ units)
        order = np.argsort(parents, kind="stable")
        distinct, starts = np.unique(parents[order], return_index=True)
        return children[order], starts, distinct

    def sweep(self, value: Floats, *others: Floats) -> None:
        arrays = [value, *others]
        for level in reversed(range(self.n_features)):
            for edges in self._single_edges[level]:
                _keep_lower_along(edges, arrays, arrays)

    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        bits = sum(1 << unit for unit in units)
        _keep_lower_along(self._edges(np.arange(self.n_states), bits), source, target)


def build_states(support: Support, max_memory: int) -> MaskedStates:
    """Enumerate the masked states in the layout that needs less memory."""
    n_rows, n_features = support.codes.shape
    n_product = prod(radix + 1 for radix in support.radices)
    n_pairs = n_rows * 2**n_features
    n_label_arrays = 1 if support.loss == "squared_error" else len(support.labels)
    # Peak memory: the statistics, the copies made while building them, and one solution.
    per_state = 8 * (8 + 2 * n_label_arrays)
    product_bytes = n_product * per_state
    sparse_bytes = n_pairs * (per_state + 48 + 12 * n_features)
    check_memory(
        min(product_bytes, sparse_bytes), max_memory, min(n_product, n_pairs), "This problem"
    )
    if product_bytes <= sparse_bytes and n_features < 31:
        states: MaskedStates = ProductStates(support)
    else:
        states = SparseStates(support)
    if support.loss == "squared_error" and len(support.labels) == 1:
        states.risk[:] = 0.0  # exact, whereas the pooled means are rounded
    return states


def _stopping_loss(label_mass: Floats, loss: str) -> Floats:
    """Expected loss of f*, times the probability of the state, from p(s, y) of shape (n_labels, …).

    f* is p(y | s). Its cross-entropy is the conditional entropy, and its 0/1 loss is the
    probability that the most likely label is wrong.
    """
    total = label_mass.sum(axis=0)
    if loss == "zero_one":
        return total - label_mass.max(axis=0)
    result = np.zeros_like(total)
    for mass in label_mass:
        present = mass > 0
        result[present] -= mass[present] * np.log(mass[present] / total[present])
    return np.maximum(result, 0, out=result)


def _revealed_part(cube: Floats, axis: int, radix: int) -> Floats:
    return cube[(slice(None),) * axis + (slice(0, radix),)]


def _at(cube: Floats, axis: int, digit: int) -> Floats:
    return cube[(slice(None),) * axis + (digit,)]


def _sum_over_values(cube: Floats, axis: int, radix: int) -> Floats:
    total = _at(cube, axis, 0)
    # A loop over the few values is faster than a reduction over a short strided axis.
    for code in range(1, radix):
        total = total + _at(cube, axis, code)
    return total


def _keep_lower(candidates: list[Floats], targets: list[Floats]) -> None:
    if len(targets) == 1:
        np.minimum(targets[0], candidates[0], out=targets[0])
        return
    better = candidates[0] < targets[0]
    for candidate, target in zip(candidates, targets, strict=True):
        np.copyto(target, candidate, where=better)


def _keep_lower_along(edges: Edges, source: list[Floats], target: list[Floats]) -> None:
    children, starts, parents = edges
    if not len(parents):
        return
    candidate = np.add.reduceat(source[0][children], starts, axis=0)
    better = candidate < target[0][parents]
    target[0][parents] = np.where(better, candidate, target[0][parents])
    for amounts, kept in zip(source[1:], target[1:], strict=True):
        total = np.add.reduceat(amounts[children], starts, axis=0)
        kept[parents] = np.where(better, total, kept[parents])


def _pool(cube: Floats, n_features: int) -> Floats:
    for axis in range(1, n_features + 1):
        cube = np.concatenate([cube, cube.sum(axis=axis, keepdims=True)], axis=axis)
    return cube


def _pool_moments(cubes: list[Floats], n_features: int) -> tuple[Floats, Floats, Floats]:
    # Merge means and squared deviations: E[y²] - E[y]² would suffer from cancellation.
    mass, mean, deviation = cubes
    for axis in range(n_features):
        total = mass.sum(axis=axis, keepdims=True)
        centre = (mass * mean).sum(axis=axis, keepdims=True)
        np.divide(centre, total, out=centre, where=total > 0)
        spread = (mass * (mean - centre) ** 2 + deviation).sum(axis=axis, keepdims=True)
        mass = np.concatenate([mass, total], axis=axis)
        mean = np.concatenate([mean, centre], axis=axis)
        deviation = np.concatenate([deviation, spread], axis=axis)
    return mass.reshape(-1), mean.reshape(-1), deviation.reshape(-1)


def _group(codes: Ints, radices: Sequence[int], order: Ints) -> tuple[Ints, Ints]:
    """Number the groups of rows that agree on the revealed values of each mask.

    Returns the group of every (mask, row), with masks in ``order``, and the first flat (mask, row)
    of each group.
    """
    n_rows = len(codes)
    groups = np.zeros((1, n_rows), dtype=np.int64)
    for j, radix in enumerate(radices):
        # Every feature doubles the masks: first those without it, then those with it.
        revealed = groups * radix + codes[:, j]
        groups = _renumber(np.concatenate([groups, revealed]), n_rows * radix)[0]
    groups, first = _renumber(groups[order], n_rows)
    return groups + _offsets(groups), first


def _renumber(groups: Ints, bound: int) -> tuple[Ints, Ints]:
    keys = groups + np.arange(len(groups))[:, None] * bound
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    inverse = inverse.reshape(groups.shape)
    return inverse - inverse.min(axis=1, keepdims=True), first


def _offsets(groups: Ints) -> Ints:
    sizes = groups.max(axis=1) + 1
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])[:, None]
