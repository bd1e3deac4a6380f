"""Masked states of a sparse support: only those that some row can show.

States are numbered by the number of revealed features, then by mask, so that the children of a
state always come after it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exact._arrays import Floats, Ints, group_sum
from suwr.exact._losses import row_moments, stopping_loss
from suwr.exact.states import MaskedStates, bits_mask

# Child states sorted by parent, where each parent's run starts, and the parents.
Edges = tuple[Ints, Ints, Ints]


class SparseStates(MaskedStates):
    """The states of positive probability, found by grouping the support rows under each mask."""

    def __init__(
        self,
        codes: Ints,
        radices: Sequence[int],
        p: Floats,
        labels: NDArray[Any],
        label_distribution: Any,
        loss: str,
        costs: Floats | None,
    ) -> None:
        super().__init__(codes, radices)
        masks = np.arange(2**self.n_features, dtype=np.int64)
        sizes = bits_mask(masks, self.n_features).sum(axis=1)
        order = np.lexsort((masks, sizes))
        self._rank = np.empty_like(order)  # place of each mask in the numbering
        self._rank[order] = np.arange(len(order))
        self._ids, first = _group(codes, self.radices, order)
        rank_of, self._member = np.divmod(first, len(codes))
        self._mask = masks[order][rank_of]
        self.size = sizes[order][rank_of].astype(np.uint8)

        flat = self._ids.reshape(-1)
        self.mass = self._total(flat, p)
        if loss == "squared_error":
            mean, variance = row_moments(labels, label_distribution)
            centre = self._total(flat, p * mean) / self.mass
            self._prediction = centre
            spread = (
                np.tile(p * variance, len(masks))
                + np.tile(p, len(masks)) * (np.tile(mean, len(masks)) - centre[flat]) ** 2
            )
            self.risk = group_sum(flat, spread)
        else:
            joint = label_distribution.multiply(p[:, None]).toarray()
            self._prediction = np.stack([self._total(flat, column) for column in joint.T])
            self.risk = stopping_loss(self._prediction, loss)
        if costs is None:
            self.cost_mass = self.size_mass()
        else:
            self.cost_mass = self.mass * (bits_mask(self._mask, self.n_features) @ costs)

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
        owners, starts = np.unique(parents[order], return_index=True)
        return children[order], starts, owners

    def sweep(self, value: Floats, *others: Floats) -> None:
        arrays = [value, *others]
        for level in reversed(range(self.n_features)):
            for edges in self._single_edges[level]:
                _keep_lower(edges, arrays, arrays)

    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        bits = sum(1 << unit for unit in units)
        _keep_lower(self._edges(np.arange(self.n_states), bits), source, target)


def _keep_lower(edges: Edges, source: list[Floats], target: list[Floats]) -> None:
    children, starts, parents = edges
    if not len(parents):
        return
    candidate = np.add.reduceat(source[0][children], starts, axis=0)
    better = candidate < target[0][parents]
    target[0][parents] = np.where(better, candidate, target[0][parents])
    for amounts, kept in zip(source[1:], target[1:], strict=True):
        total = np.add.reduceat(amounts[children], starts, axis=0)
        kept[parents] = np.where(better, total, kept[parents])


def _group(codes: Ints, radices: Sequence[int], order: Ints) -> tuple[Ints, Ints]:
    """Number the groups of rows that look alike under each mask.

    Returns the group of every (mask, row), masks in ``order``, and the first flat (mask, row) of
    each group.
    """
    n_rows = len(codes)
    groups = np.zeros((1, n_rows), dtype=np.int64)
    for j, radix in enumerate(radices):
        # Masks double with every feature: those without it, then those with it.
        shown = groups * radix + codes[:, j]
        groups = _renumber(np.concatenate([groups, shown]), n_rows * radix)[0]
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
