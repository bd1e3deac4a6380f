"""Dependence between columns that holds in all observed rows: copies, one-hot codes, sums.

A leak concerns rows of positive probability only, and a probe that violates such a dependence is no
such row. A hidden value that the revealed ones determine is therefore kept, and units that
determine each other are resampled together, from a row that agrees on all revealed values among
them. Found are functions of one column, values that occur with a single value of another unit, and
exact linear relations; other dependence remains undetected. Evidence is the absence of exceptions
where at least ``MIN_EXPECTED`` would be expected of independent columns.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from suwr.selector import BoolArray

# Independent columns have no exception with a probability of at most exp(-20), about 2e-9.
MIN_EXPECTED = 20.0
_MIN_ROWS_PER_KEY = 4
_RANK_TOLERANCE = 1e-5
_TOLERANCE = 1e-6
# Rows × columns × units that are compared; wide data are compared on fewer rows, or not at all.
_MAX_CELLS = 100_000_000
_MIN_ROWS = 200
_MAX_COLUMNS = 2000

_IntArray = NDArray[np.intp]
_FloatArray = NDArray[np.float64]


class Dependence:
    """Dependence between units that holds in all observed rows.

    Parameters
    ----------
    codes : int array of shape (n_rows, n_columns)
        Integer codes of the values, in their order.
    unit_codes : int array of shape (n_rows, n_units)
        Integer codes of the joint values of units.
    unit_of : int array of shape (n_columns,)
        Unit of each column.
    numbers : float array of shape (n_rows, n_columns)
        Values of numeric columns; NaN in others.

    Attributes
    ----------
    blocks : int array of shape (n_units,)
        Units that determine each other, directly or through others, share a block.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> X[:, 2] = X[:, 0]
    >>> codes = X.argsort(axis=0).argsort(axis=0)
    >>> dependence = Dependence(codes, codes, np.arange(3), X)
    >>> dependence.blocks.tolist()
    [0, 1, 0]
    >>> dependence.determined(np.array([5]), np.array([[True, False, False]])).tolist()
    [[False, False, True]]
    """

    def __init__(
        self,
        codes: _IntArray,
        unit_codes: _IntArray,
        unit_of: _IntArray,
        numbers: _FloatArray,
    ) -> None:
        self._codes, self._unit_codes, self._unit_of = codes, unit_codes, unit_of
        n_columns, n_units = codes.shape[1], unit_codes.shape[1]
        self._evidence = rows = _rows_of_evidence(codes)
        affordable = max(_MAX_CELLS // (n_columns * n_units), 1)
        self._is_wide = affordable < min(_MIN_ROWS, len(rows))
        if len(rows) > affordable:
            rows = np.random.default_rng(0).permutation(rows)[:affordable]
        self._rows = rows
        self._frequency = [np.bincount(c, minlength=c.max() + 1) / len(c) for c in unit_codes.T]
        #: Expected share of row pairs that differ in a unit.
        self._spread = np.array([1.0 - (p**2).sum() for p in self._frequency])
        #: Columns that have a frequent value.
        self._is_discrete = np.array([np.bincount(c).max() >= MIN_EXPECTED for c in codes.T])
        self._determines = np.zeros((n_columns, n_units), dtype=bool)
        self._implied: dict[int, BoolArray] = {}
        if not self._is_wide:
            for column in range(n_columns):
                self._compare(column)
        self._relations = np.empty((0, n_columns))
        if n_columns <= _MAX_COLUMNS:
            self._relations = linear_relations(numbers[self._evidence])
        self.blocks = self._connect()
        self._block_columns = [
            np.flatnonzero(self.blocks[unit_of] == block)
            for block in np.flatnonzero(np.bincount(self.blocks) > 1)
        ]

    def determined(self, rows: _IntArray, masks: BoolArray) -> BoolArray:
        """Hidden units whose values follow from the revealed ones, of shape (n, n_units).

        Parameters
        ----------
        rows : int array of shape (n,)
        masks : bool array of shape (n, n_columns)
            What is revealed of each row.
        """
        found = masks.astype(np.float32) @ self._determines.astype(np.float32) > 0
        for column, implied in self._implied.items():
            shown = masks[:, column]
            found[shown] |= implied[self._codes[rows[shown], column]]
        distinct, inverse = np.unique(masks, axis=0, return_inverse=True)
        for k, mask in enumerate(distinct):
            chosen = np.flatnonzero(inverse.reshape(-1) == k)
            found[chosen] |= self._implied_jointly(rows[chosen], mask)
            found[chosen] |= self._linearly_determined(mask)
        hidden = np.zeros((len(masks), self._unit_codes.shape[1]), dtype=bool)
        for column, unit in enumerate(self._unit_of):
            hidden[:, unit] |= ~masks[:, column]
        return np.asarray(found & hidden)

    def complete(
        self,
        rows: _IntArray,
        masks: BoolArray,
        sources: _IntArray,
        determined: BoolArray,
        rng: np.random.Generator,
    ) -> _IntArray:
        """Change probes such that they respect the dependence, where observed rows show how.

        Determined values are those of the row. If a probe changes a unit of a block, all hidden
        units of the block come from one row that agrees with the revealed ones. Where there is no
        such row, as in a continuous sum, the hidden units are left as they are.

        Parameters
        ----------
        rows : int array of shape (n,)
        masks : bool array of shape (n, n_columns)
        sources : int array of shape (n, n_columns)
            Source rows of the probes (see `suwr.auditing.background`).
        determined : bool array of shape (n, n_units)
            As returned by `determined`.
        rng : numpy.random.Generator
        """
        kept = masks | determined[:, self._unit_of]
        sources = np.where(kept, rows[:, None], sources)
        for columns in self._block_columns:
            touched = sources[:, columns] != rows[:, None]
            changed = np.flatnonzero(touched.any(axis=1))
            if not len(changed):
                continue
            patterns, inverse = np.unique(kept[changed][:, columns], axis=0, return_inverse=True)
            for k, shown in enumerate(patterns):
                probes = changed[inverse.reshape(-1) == k]
                donors = sources[probes, columns[touched[probes].argmax(axis=1)]]
                donors = self._agreeing(rows[probes], donors, columns[shown], rng)
                possible = donors >= 0
                cells = np.ix_(probes[possible], columns[~shown])
                sources[cells] = donors[possible, None]
        return sources

    def _compare(self, column: int) -> None:
        """Find the units that follow from a column, and from single values of it."""
        codes, rows = self._codes[:, column], self._rows
        rows = rows[np.argsort(codes[rows], kind="stable")]
        keys = codes[rows]
        n_keys = int((np.diff(keys) > 0).sum()) + 1
        # How many exceptions would be expected, if this is more than a few rows per key.
        repeated = (len(keys) - n_keys) * self._spread >= MIN_EXPECTED
        repeated &= len(keys) >= _MIN_ROWS_PER_KEY * n_keys
        varies = len(rows) * self._spread >= MIN_EXPECTED
        varies[self._unit_of[column]] = False
        few = slice(None, None, max(1, len(rows) // 128))
        units = np.flatnonzero(
            varies & _is_function(keys[few], self._unit_codes[rows[few]], repeated)
        )
        if len(units):
            values = self._unit_codes[np.ix_(rows, units)]
            found = _is_function(keys, values, repeated[units])
            self._determines[column, units[found]] = True
        implied = self._implications(keys, rows, int(codes.max()) + 1)
        if implied is not None:
            implied[:, self._unit_of[column]] = False
            self._implied[column] = implied

    def _implications(self, keys: _IntArray, rows: _IntArray, n_keys: int) -> BoolArray | None:
        """Units that have a single value in all rows of a key, of shape (n_keys, n_units).

        ``keys`` are sorted.
        """
        count = np.bincount(keys, minlength=n_keys)
        frequent = count[keys] >= MIN_EXPECTED
        if not frequent.any():
            return None
        keys, rows = keys[frequent], rows[frequent]
        low, high = _ranges(keys, self._unit_codes[rows])
        keys = np.unique(keys)
        usual = np.stack([p[v] for p, v in zip(self._frequency, low.T, strict=True)], axis=1)
        found = (low == high) & (count[keys, None] * (1.0 - usual) >= MIN_EXPECTED)
        implied = np.zeros((n_keys, low.shape[1]), dtype=bool)
        implied[keys] = found
        return implied if found.any() else None

    def _implied_jointly(self, rows: _IntArray, mask: BoolArray) -> BoolArray:
        """Units that have a single value in all rows that agree on the revealed discrete values."""
        none = np.zeros((len(rows), self._unit_codes.shape[1]), dtype=bool)
        columns = np.flatnonzero(mask & self._is_discrete)
        if len(columns) < 2 or self._is_wide:
            return none
        group = group_rows(self._codes[:, columns])
        relevant = np.zeros(group.max() + 1, dtype=bool)
        relevant[group[rows]] = True
        chosen = self._rows[relevant[group[self._rows]]]
        chosen = chosen[np.argsort(group[chosen], kind="stable")]
        implied = self._implications(group[chosen], chosen, len(relevant))
        return none if implied is None else implied[group[rows]]

    def _linearly_determined(self, mask: BoolArray) -> BoolArray:
        """Units all of whose hidden columns are linear functions of the revealed ones."""
        involved = np.any(self._relations != 0, axis=0)
        known = mask.copy()
        hidden = np.flatnonzero(involved & ~mask)
        if len(hidden):
            relations = self._relations[:, hidden]
            projection = np.linalg.pinv(relations, rcond=1e-9) @ relations
            known[hidden] = np.diag(projection) > 1.0 - 1e-6
        unknown = np.bincount(self._unit_of, weights=~known, minlength=self._unit_codes.shape[1])
        return np.asarray(unknown == 0)

    def _connect(self) -> _IntArray:
        """Blocks of units that determine each other."""
        n_units = self._unit_codes.shape[1]
        first, second = np.nonzero(self._determines)
        edges = [(self._unit_of[first], second)]
        for relation in self._relations:
            units = self._unit_of[np.flatnonzero(relation)]
            edges.append((np.full(len(units), units[0]), units))
        i, j = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        graph = coo_array((np.ones(len(i)), (i, j)), shape=(n_units, n_units))
        return connected_components(graph, directed=False)[1].astype(np.intp)

    def _agreeing(
        self,
        rows: _IntArray,
        donors: _IntArray,
        shown: _IntArray,
        rng: np.random.Generator,
    ) -> _IntArray:
        """The donors, replaced where they disagree on ``shown``; -1 if no other row agrees."""
        group = group_rows(self._codes[:, shown])
        order = np.argsort(group, kind="stable")
        count = np.bincount(group)
        start = np.cumsum(count) - count
        own = group[rows]
        drawn = order[start[own] + (rng.random(len(rows)) * count[own]).astype(np.intp)]
        donors = np.where(group[donors] == own, donors, drawn)
        n_agreeing = np.bincount(group[self._evidence], minlength=len(count))
        return np.where(n_agreeing[own] > 1, donors, -1)


def linear_relations(numbers: _FloatArray) -> _FloatArray:
    """Exact linear relations between columns, found on half of the rows and verified on the others.

    Returns
    -------
    float array of shape (n_relations, n_columns)
        Coefficients of columns of unit variance whose sum is constant. Columns that are constant
        or have missing values take no part.

    Examples
    --------
    >>> a, b = np.random.default_rng(0).normal(size=(2, 100))
    >>> abs(linear_relations(np.stack([a, b, a + b], axis=1))).round(1).tolist()
    [[0.7, 0.8, 1.0]]
    """
    none = np.empty((0, numbers.shape[1]))
    usable = np.flatnonzero(np.isfinite(numbers).all(axis=0))
    with np.errstate(over="ignore"):  # of huge values: their deviation is infinite
        scale = numbers[:, usable].std(axis=0)
    usable = usable[(scale > 0) & np.isfinite(scale)]
    first, second = numbers[::2, usable], numbers[1::2, usable]
    if len(usable) < 2 or len(first) <= len(usable) + 1:
        return none
    scale = numbers[:, usable].std(axis=0)
    first, second = first / scale, second / scale
    centre = first.mean(axis=0)
    triangle, order = qr(first - centre, mode="r", pivoting=True)
    size = abs(np.diag(triangle))
    rank = int((size > _RANK_TOLERANCE * size[0]).sum())
    if rank == len(usable):
        return none
    pivots, others = order[:rank], order[rank:]
    coefficients = np.linalg.solve(triangle[:rank, :rank], triangle[:rank, rank:])
    coefficients[abs(coefficients) < _TOLERANCE] = 0.0
    residuals = second[:, others] - centre[others]
    residuals -= (second[:, pivots] - centre[pivots]) @ coefficients
    exact = abs(residuals).max(axis=0) <= _TOLERANCE * (1.0 + abs(coefficients).sum(axis=0))
    found = []
    for k in np.flatnonzero(exact):
        count = np.unique(second[:, others[k]], return_counts=True)[1]
        spread = 1.0 - ((count / len(second)) ** 2).sum()
        if len(second) * spread >= MIN_EXPECTED:
            relation = np.zeros(numbers.shape[1])
            relation[usable[pivots]] = -coefficients[:, k]
            relation[usable[others[k]]] = 1.0
            found.append(relation)
    return np.array(found) if found else none


def group_rows(codes: _IntArray) -> _IntArray:
    """Assign a group index to each row; equal rows share a group.

    Examples
    --------
    >>> group_rows(np.array([[1, 2], [0, 0], [1, 2]])).tolist()
    [1, 0, 1]
    """
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.intp)
    # Fold the columns into one integer, renumbered after each column so that it cannot overflow.
    # Columns with many values come first, because the loop ends once all groups are singletons.
    n_levels = codes.max(axis=0) + 1
    group = np.zeros(len(codes), dtype=np.int64)
    for j in np.argsort(-n_levels, kind="stable"):
        if n_levels[j] > 1:
            group = np.unique(group * int(n_levels[j]) + codes[:, j], return_inverse=True)[1]
        if group.max() == len(codes) - 1:
            break
    return group.astype(np.intp)


def _rows_of_evidence(codes: _IntArray) -> _IntArray:
    """All rows, or the first copy of each if a column is continuous: copies are no evidence."""
    group = group_rows(codes)
    first = np.unique(group, return_index=True)[1].astype(np.intp)
    n_levels = codes.max(axis=0) + 1
    continuous = bool((n_levels > max(MIN_EXPECTED, len(first) / 2)).any())
    return np.sort(first) if continuous else np.arange(len(codes))


def _ranges(keys: _IntArray, values: _IntArray) -> tuple[_IntArray, _IntArray]:
    """Smallest and largest values of each key; ``keys`` are sorted."""
    start = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    return np.minimum.reduceat(values, start), np.maximum.reduceat(values, start)


def _is_function(keys: _IntArray, values: _IntArray, repeated: BoolArray) -> BoolArray:
    """Which columns have one value per key, in the order of the keys or of their reverse.

    Columns whose values are ``repeated`` often enough need no order; ``keys`` are sorted.
    """
    low, high = _ranges(keys, values)
    monotone = (high[:-1] <= low[1:]).all(axis=0) | (low[:-1] >= high[1:]).all(axis=0)
    return np.asarray((low == high).all(axis=0) & (monotone | repeated))
