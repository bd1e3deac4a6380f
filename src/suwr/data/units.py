"""Units: the columns, groups of columns or image patches that one step reveals, with their costs.

A *unit* corresponds to the paper's feature index *i*. A *mask* (*h*) is boolean over columns: the
union of the revealed units.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import did_you_mean
from suwr._utils.validation import must_error, parameter_error
from suwr.data.costs import CostFunction, Costs, Setups, resolve_costs, resolve_setups


def named_groups(groups: Any, columns: Sequence[str], owner: str) -> dict[str, list[int]]:
    """Convert a mapping or a list of lists to ``{name: [column index, ...]}``.

    Parameters
    ----------
    groups : mapping or sequence of sequences
        Columns by name or index.
    columns : sequence of str
        Column names.
    owner : str
        Class or function with this parameter, for error messages.

    Examples
    --------
    >>> named_groups([["a", 2]], ("a", "b", "c"), "SUWRClassifier")
    {'a + 2': [0, 2]}
    """
    expected = (
        f"The 'groups' parameter of {owner} must be None, Patches, a mapping of names to columns, "
        "or a list of lists of columns."
    )
    if isinstance(groups, Mapping):
        items = list(groups.items())
    elif isinstance(groups, Sequence) and not isinstance(groups, str):
        if any(isinstance(g, str) or not isinstance(g, Sequence | np.ndarray) for g in groups):
            raise ValueError(f"{expected} Got {groups!r} instead.")
        items = [(" + ".join(str(c) for c in group), group) for group in groups]
    else:
        raise ValueError(f"{expected} Got {groups!r} instead.")
    position = {name: i for i, name in enumerate(columns)}
    named: dict[str, list[int]] = {}
    for name, members in items:
        if isinstance(members, str) or not isinstance(members, Sequence | np.ndarray):
            raise ValueError(f"{expected} Got {members!r} for the group {name!r} instead.")
        if len(members) == 0:
            raise ValueError(f"{expected} Got the empty group {name!r} instead.")
        numbers = []
        for member in members:
            if isinstance(member, Integral) and -len(columns) <= int(member) < len(columns):
                numbers.append(int(member) % len(columns))
            elif isinstance(member, str) and member in position:
                numbers.append(position[member])
            else:
                got, hint = f"{member!r} in the group {name!r}", did_you_mean(member, columns)
                raise must_error("groups", owner, "name columns of X", got, hint)
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"{expected} Got a column twice in the group {name!r} instead.")
        named[str(name)] = numbers
    return named


BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def _pair(value: Any, name: str) -> tuple[int, int]:
    """Convert an integer or a pair of integers to (rows, columns)."""
    pair = (value, value) if isinstance(value, Integral) else tuple(value)
    if len(pair) != 2 or not all(isinstance(v, Integral) and int(v) >= 1 for v in pair):
        raise parameter_error(name, "Patches", "a positive integer or a pair of them", value)
    return int(pair[0]), int(pair[1])


def _span_text(name: str, first: int, end: int) -> str:
    return f"{name} {first}" if end - first == 1 else f"{name}s {first}–{end - 1}"


def _spans(length: int, size: int, stride: int) -> list[tuple[int, int, int]]:
    """Return (centre, start, stop) of the patches along one axis, truncated at the borders."""
    before = (size - 1) // 2
    centres = list(range(min(before, stride // 2), length, stride))
    while not centres or centres[-1] - before + size < length:
        centres.append(centres[-1] + stride if centres else 0)
    return [(c, max(0, c - before), min(length, c - before + size)) for c in centres]


@dataclass(frozen=True)
class Patches:
    """Rectangular patches of an image as units; the columns of ``X`` are its pixels, row by row.

    The centres of adjacent patches are ``stride`` apart. Patches overlap if ``stride < size`` and
    are truncated at the borders.

    Parameters
    ----------
    shape : tuple of int
        ``(height, width)`` or ``(height, width, channels)``; a patch contains all channels.
    size : int or (int, int), default=3
        Height and width of a patch.
    stride : int or (int, int), default=1
        Distance between centres; at most ``size``, so that every pixel belongs to a patch.

    Examples
    --------
    >>> Patches((28, 28), size=3).membership().shape
    (784, 784)
    >>> Patches((4, 4), size=2, stride=2).names
    ('patch (0, 0)', 'patch (0, 2)', 'patch (2, 0)', 'patch (2, 2)')
    """

    shape: tuple[int, ...]
    size: int | tuple[int, int] = 3
    stride: int | tuple[int, int] = 1

    def __post_init__(self) -> None:
        shape = tuple(self.shape)
        if len(shape) not in (2, 3) or not all(isinstance(v, Integral) and v >= 1 for v in shape):
            expected = "(height, width) or (height, width, channels), positive integers"
            raise parameter_error("shape", "Patches", expected, self.shape)
        sizes, strides = _pair(self.size, "size"), _pair(self.stride, "stride")
        if strides[0] > sizes[0] or strides[1] > sizes[1]:
            must = "be at most 'size', so that every pixel belongs to a patch"
            raise must_error(
                "stride", "Patches", must, f"stride {self.stride!r} for size {self.size!r}"
            )
        object.__setattr__(self, "shape", tuple(int(v) for v in shape))

    @property
    def n_columns(self) -> int:
        """Number of pixels times channels."""
        return math.prod(self.shape)

    def _grid(self) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
        height, width = self.shape[:2]
        (sr, sc), (tr, tc) = _pair(self.size, "size"), _pair(self.stride, "stride")
        return [(r, c) for r in _spans(height, sr, tr) for c in _spans(width, sc, tc)]

    @property
    def names(self) -> tuple[str, ...]:
        """One name per patch, with the row and column of its centre."""
        kind = "pixel" if _pair(self.size, "size") == (1, 1) else "patch"
        return tuple(f"{kind} ({r[0]}, {c[0]})" for r, c in self._grid())

    @property
    def labels(self) -> tuple[str, ...]:
        """The pixels of each patch in words, for narratives.

        Examples
        --------
        >>> Patches((4, 4), size=(1, 2), stride=(1, 2)).labels[:2]
        ('patch at row 0, columns 0–1', 'patch at row 0, columns 2–3')
        """
        kind = "pixel" if _pair(self.size, "size") == (1, 1) else "patch"
        return tuple(
            f"{kind} at {_span_text('row', *rows[1:])}, {_span_text('column', *columns[1:])}"
            for rows, columns in self._grid()
        )

    def membership(self) -> BoolArray:
        """Return the columns of each patch as a boolean array of shape (n_units, n_columns)."""
        grid = self._grid()
        image = np.zeros((len(grid), *self.shape[:2], *self.shape[2:]), dtype=bool)
        for unit, ((_, top, bottom), (_, left, right)) in enumerate(grid):
            image[unit, top:bottom, left:right] = True
        return image.reshape(len(grid), -1)

    def tiles(self) -> NDArray[np.intp]:
        """Return the nearest patch of each column: a partition of the pixels without overlaps.

        Examples
        --------
        >>> Patches((2, 4), size=3, stride=2).tiles().reshape(2, 4)
        array([[0, 0, 0, 1],
               [0, 0, 0, 1]])
        """
        height, width = self.shape[:2]
        sizes, strides = _pair(self.size, "size"), _pair(self.stride, "stride")
        nearest = []
        for length, size, stride in zip((height, width), sizes, strides, strict=True):
            centres = np.array([centre for centre, _, _ in _spans(length, size, stride)])
            nearest.append(abs(np.arange(length)[:, None] - centres).argmin(axis=1))
        n_across = len(_spans(width, sizes[1], strides[1]))
        patch = nearest[0][:, None] * n_across + nearest[1]
        return np.repeat(patch.reshape(-1), self.n_columns // patch.size)


@dataclass(frozen=True)
class Units:
    """The units of a table.

    Attributes
    ----------
    names : tuple of str
    membership : ndarray of bool, shape (n_units, n_columns)
        The columns that each unit reveals; read-only if every column is a unit.
    costs : ndarray of float, shape (n_units,)
        Contribution of each unit to the cost ‖h‖. Before any unit is acquired, if it changes; the
        mean over the training rows, if every row has its own.
    single : bool
        Whether unit *i* is column *i*.
    setups : Setups or None
        Costs that the first of several units has in addition.
    function : CostFunction or None
        Costs given what was acquired before, instead of ``costs``.
    visit_cost : float
        Cost of each step that acquires at least one unit, besides those of its units.
    step_size : int
        Largest number of units of a step.
    per_row : bool
        Whether the costs of training were those of each row.
    """

    names: tuple[str, ...]
    membership: BoolArray
    costs: FloatArray
    single: bool = False
    setups: Setups | None = None
    function: CostFunction | None = None
    visit_cost: float = 0.0
    step_size: int = 1
    per_row: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def columns_of(self, unit: int) -> NDArray[np.intp]:
        """Return the column indices of one unit."""
        return np.flatnonzero(self.membership[unit])

    def total_cost(self, selected: BoolArray | None = None) -> float:
        """Return the cost of all units, or of the selected ones, ``(n_units,)``."""
        return float(self.cost_of(self.all_steps(selected))[0])

    def all_steps(self, selected: BoolArray | None = None) -> NDArray[np.intp]:
        """Return all units, or the selected ones, as steps ``(1, n_steps, units_per_step)``."""
        chosen = np.arange(len(self)) if selected is None else np.flatnonzero(selected)
        size = self.step_size if self.visit_cost else 1
        return np.pad(chosen, (0, -len(chosen) % size), constant_values=-1).reshape(1, -1, size)

    def cost_of(
        self,
        order: NDArray[np.intp],
        costs: FloatArray | None = None,
        known: BoolArray | None = None,
    ) -> FloatArray:
        """Return the cost of the units that each row acquired.

        Parameters
        ----------
        order : ndarray of int, shape (n, n_steps) or (n, n_steps, units_per_step)
            -1 is no unit.
        costs : ndarray of shape (n, n_units), optional
            Costs of each row.
        known : ndarray of bool, shape (n, n_columns), optional
            Columns that were known at the start.
        """
        units = order.reshape(len(order), math.prod(order.shape[1:]))
        if self.function is not None:
            paid = self.function.cost_of(units, self.membership, known)
        else:
            table = np.broadcast_to(self.costs if costs is None else costs, (len(order), len(self)))
            each = np.take_along_axis(table, np.maximum(units, 0), axis=1)
            paid = np.where(units >= 0, each, 0.0).sum(axis=1)
        paid = paid if self.setups is None else paid + self.setups.cost_of(units)
        if not self.visit_cost:
            return paid
        steps = (order >= 0).reshape(*order.shape[:2], math.prod(order.shape[2:])).any(axis=2)
        return paid + self.visit_cost * steps.sum(axis=1)


def _identity(n: int) -> BoolArray:
    """Return the identity matrix as a view of 2 n − 1 elements: tables have up to 10⁵ columns."""
    diagonal = np.zeros(2 * n - 1, dtype=bool)
    diagonal[n - 1] = True
    return np.lib.stride_tricks.as_strided(diagonal[n - 1 :], (n, n), (-1, 1), writeable=False)


def membership_bytes(groups: Any, n_columns: int) -> int:
    """Return the memory that the units of valid ``groups`` take, before it is allocated."""
    if groups is None:
        return 0
    if isinstance(groups, Patches):
        n_units, (height, width) = len(groups.names), _pair(groups.size, "size")
        largest = min(n_columns, height * width * math.prod(groups.shape[2:]))
    else:
        sizes = [len(g) for g in (groups.values() if isinstance(groups, Mapping) else groups)]
        n_units = max(0, n_columns - sum(sizes) + len(sizes))
        largest = max(sizes, default=1)
    # The matrix, and the columns of each unit as integers if they are few.
    return n_units * (n_columns + min(n_columns, 8 * largest))


def resolve_units(
    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None,
    costs: Any,
    columns: Sequence[str],
    owner: str = "SUWRClassifier",
) -> Units:
    """Resolve the ``groups`` and ``costs`` parameters of an estimator.

    Each column that belongs to no group is a unit. Groups must be disjoint; `Patches` may overlap.

    Parameters
    ----------
    groups : Patches, mapping, sequence of sequences, or None
        Groups of columns, by name or index.
    costs : Costs, mapping, array-like of shape (n_units,), callable, or None
        See `suwr.Costs`.
    columns : sequence of str
        Column names.
    owner : str
        Class or function with these parameters, for error messages.

    Returns
    -------
    Units

    Examples
    --------
    >>> groups = {"size": ["height", "width"]}
    >>> units = resolve_units(groups, {"size": 3}, ["age", "height", "width"])
    >>> units.names, units.costs.tolist()
    (('age', 'size'), [1.0, 3.0])
    """
    names, membership = _members(groups, list(columns), owner)
    single = groups is None or np.array_equal(membership, _identity(len(columns)))
    given, function = Costs.read(costs), None
    if given.setup is not None and isinstance(groups, Patches):
        raise parameter_error("setup", "Costs", "None with Patches", given.setup)
    each = given.units
    if callable(each):
        function = CostFunction(each, len(names), len(columns), owner)
        function.check()
        each = function(np.zeros((1, len(columns)), dtype=bool))[0]
    prices, setups = resolve_costs(each, names, owner), resolve_setups(given.setup, names)
    visit, of = float(given.visit), int(given.of)
    return Units(names, membership, prices, single, setups, function, visit, of)


def _members(groups: Any, columns: list[str], owner: str) -> tuple[tuple[str, ...], BoolArray]:
    if groups is None:
        return tuple(columns), _identity(len(columns))
    if isinstance(groups, Patches):
        if groups.n_columns != len(columns):
            must = f"fit X: Patches of shape {groups.shape} need {groups.n_columns} columns"
            raise must_error("groups", owner, must, f"X with {len(columns)}")
        return groups.names, groups.membership()
    named = named_groups(groups, columns, owner)
    owner_of: dict[int, str] = {}
    for name, members in named.items():
        for column in members:
            if column in owner_of:
                got = f"column {columns[column]!r} in {owner_of[column]!r} and {name!r}"
                raise must_error("groups", owner, "not put a column into two groups", got)
            owner_of[column] = name
    # A unit takes the position of its first column, which preserves the order of the table.
    first = {min(members): name for name, members in named.items()}
    names, rows = [], []
    for column, label in enumerate(columns):
        if column in first:
            names.append(first[column])
            rows.append(named[first[column]])
        elif column not in owner_of:
            names.append(label)
            rows.append([column])
    if len(set(names)) != len(names):
        double = Counter(names).most_common(1)[0][0]
        must = "not name a group like a column outside it"
        raise must_error("groups", owner, must, f"{double!r} for both")
    membership = np.zeros((len(rows), len(columns)), dtype=bool)
    for unit, members in enumerate(rows):
        membership[unit, members] = True
    return tuple(names), membership
