"""Masked states of a product of values, by mixed-radix arithmetic.

A state is a number with one digit a feature: the code of the revealed value, or, as the last digit,
'hidden'. Every array is a cube with one axis a feature, so that hiding a feature is a sum over an
axis and no table of neighbours is needed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exact._arrays import Floats, Ints
from suwr.exact._losses import row_moments, stopping_loss
from suwr.exact.states import MaskedStates


class ProductStates(MaskedStates):
    """All Π (k_j + 1) states, for k_j values of feature j."""

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
        self.shape = tuple(radix + 1 for radix in self.radices)
        self.strides = np.cumprod([1, *self.shape[:0:-1]], dtype=np.int64)[::-1]
        # What revealing a row's value adds to the number of a state that hides it.
        self._shift = (codes - np.array(self.radices)) * self.strides
        self._all_hidden = int(np.array(self.radices) @ self.strides)
        place = tuple(codes.T)
        if loss == "squared_error":
            mean, variance = row_moments(labels, label_distribution)
            cubes = [self._cube(place, v) for v in (p, mean, p * variance)]
            self.mass, self._prediction, self.risk = _pool_moments(cubes, self.n_features)
        else:
            joint = (label_distribution.multiply(p[:, None])).toarray()
            masses = np.stack([self._cube(place, column) for column in joint.T])
            self._prediction = _pool(masses, self.n_features).reshape(len(labels), -1)
            self.mass = self._prediction.sum(axis=0)
            self.risk = stopping_loss(self._prediction, loss)
        self.size = self._revealed_sum(np.ones(self.n_features), np.uint8)
        if costs is None:
            self.cost_mass = self.size_mass()
        else:
            self.cost_mass = self.mass * self._revealed_sum(costs, np.float64)

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
            shown = cube.take(range(radix), axis=j).sum(axis=j)
            cube = np.stack([cube.take(radix, axis=j), shown], axis=j)
        # Bit j of a mask belongs to feature j, the last axis of the cube moves fastest.
        return cube.transpose(range(self.n_features)[::-1]).reshape(-1)

    def sweep(self, value: Floats, *others: Floats) -> None:
        cubes = [a.reshape((*self.shape, a.shape[1])) for a in (value, *others)]
        self._sweep(cubes, 0, 0)

    def _sweep(self, cubes: list[Floats], feature: int, axis: int) -> None:
        # Axes before `axis` run over revealed values; features before `feature` with no axis left
        # are hidden. Every state is final before any state that hides one feature more reads it.
        if feature == self.n_features:
            return
        self._sweep([_shown(c, axis, self.radices[feature]) for c in cubes], feature + 1, axis + 1)
        hidden = [_at(c, axis, self.radices[feature]) for c in cubes]
        _keep_lower([_add_values(c, axis, self.radices[feature]) for c in cubes], hidden)
        self._sweep(hidden, feature + 1, axis)

    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        pick = tuple(
            slice(0, radix) if j in units else slice(None) for j, radix in enumerate(self.radices)
        )
        hide = tuple(radix if j in units else slice(None) for j, radix in enumerate(self.radices))
        shape = (*self.shape, source[0].shape[1])
        candidates = [a.reshape(shape)[pick].sum(axis=units) for a in source]
        _keep_lower(candidates, [a.reshape(shape)[hide] for a in target])


def _shown(cube: Floats, axis: int, radix: int) -> Floats:
    return cube[(slice(None),) * axis + (slice(0, radix),)]


def _at(cube: Floats, axis: int, digit: int) -> Floats:
    return cube[(slice(None),) * axis + (digit,)]


def _add_values(cube: Floats, axis: int, radix: int) -> Floats:
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


def _pool(cube: Floats, n_features: int) -> Floats:
    for axis in range(1, n_features + 1):
        cube = np.concatenate([cube, cube.sum(axis=axis, keepdims=True)], axis=axis)
    return cube


def _pool_moments(cubes: list[Floats], n_features: int) -> tuple[Floats, Floats, Floats]:
    # Means and squared deviations are merged as such: E[y²] - E[y]² would lose digits.
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
