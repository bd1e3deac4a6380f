"""Background rows: the data of an audit, from which counterfactual probes are sampled.

A probe keeps the revealed values of one row and takes the hidden values from background rows. It
is represented by its *source rows*: entry (i, j) of an integer array is the row of ``X`` that
supplies column j of probe i. Values are looked up only when the selector is queried, in the
container of ``X``, so that data frames, categories and strings reach the selector unchanged.

Every sampling scheme keeps the revealed values of a row and draws each hidden unit as a whole from
the background rows, so that a one-hot group remains a valid one-hot code. Unless all combinations
of values are possible, values that the revealed ones determine in all background rows are kept,
and units that determine each other are drawn together (`Dependence`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from suwr._utils.validation import must_error
from suwr.data.frame import column_names, column_values, gather_rows, take_rows
from suwr.data.parse import is_missing
from suwr.data.stored import as_rows
from suwr.data.units import Patches, resolve_units
from suwr.exceptions import TableError
from suwr.selector import BoolArray

IntArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]
Groups = Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]


def _column_names(X: Any, feature_names: Sequence[str] | None) -> list[str]:
    """Column names: ``feature_names``, those of the data frame, or x0, x1, ..."""
    if feature_names is not None:
        if len(feature_names) != X.shape[1]:
            must = f"have one name per column ({X.shape[1]})"
            raise must_error("feature_names", "audit", must, f"{len(feature_names)} names")
        return [str(name) for name in feature_names]
    names = column_names(X)
    return [f"x{j}" for j in range(X.shape[1])] if names is None else [str(n) for n in names]


def encode(values: NDArray[Any]) -> IntArray:
    """Encode values as integers: sorted if they can be sorted, missing values last.

    Two codes are equal if and only if the values are; all missing values share one code.

    Examples
    --------
    >>> encode(np.array([2.5, np.nan, 1.0, np.nan])).tolist()
    [1, 2, 0, 2]
    >>> encode(np.array(["b", None, "a"], dtype=object)).tolist()
    [1, 2, 0]
    """
    if values.dtype.kind in "biufmM":
        return np.unique(values, return_inverse=True)[1].astype(np.intp)
    keys = [None if is_missing(v) else (type(v).__name__, v) for v in values]
    try:
        distinct = dict.fromkeys(k for k in keys if k is not None)
    except TypeError:
        raise TableError(
            "An audit needs columns of numbers, strings or dates. Got a column that holds "
            f"{next(type(v).__name__ for v in values if not is_missing(v))} objects."
        ) from None
    try:
        levels = sorted(distinct)
    except TypeError:  # values of a type without an order
        levels = list(distinct)
    code: dict[Any, int] = {level: i for i, level in enumerate(levels)}
    code[None] = len(levels)
    return np.array([code[k] for k in keys], dtype=np.intp)


def _is_numeric(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "O":
        return values.dtype.kind in "iufmMb"
    # pandas' nullable numbers are converted to object arrays.
    return all(is_missing(value) or isinstance(value, Number) for value in values)


def unit_layout(
    names: Sequence[str], groups: Groups | None
) -> tuple[IntArray, list[str], BoolArray | None]:
    """Assign each column to the unit with which it is resampled.

    Columns outside all groups are units of their own. A pixel of overlapping patches is assigned
    to the patch with the nearest centre, while revealing a patch reveals all of its pixels.

    Returns
    -------
    unit_of : int array of shape (n_columns,)
    unit_names : list of str
    membership : bool array of shape (n_units, n_columns) or None
        Columns that each unit reveals; None without groups.

    Examples
    --------
    >>> unit_of, names, _ = unit_layout(["age", "de", "fr"], {"country": ["de", "fr"]})
    >>> unit_of.tolist(), names
    ([0, 1, 1], ['age', 'country'])
    """
    if groups is None:
        return np.arange(len(names)), list(names), None
    units = resolve_units(groups, None, names, owner="audit")
    unit = groups.tiles() if isinstance(groups, Patches) else units.membership.argmax(axis=0)
    return unit.astype(np.intp), list(units.names), units.membership


def reveals_whole_units(masks: BoolArray, membership: BoolArray | None) -> bool:
    """Whether every mask is a union of units.

    Parameters
    ----------
    masks : bool array of shape (n_rows, n_columns)
    membership : bool array of shape (n_units, n_columns) or None
        Columns that each unit reveals; None if every column is a unit.

    Examples
    --------
    >>> membership = np.array([[True, True, False], [False, True, True]])
    >>> reveals_whole_units(np.array([[True, True, False]]), membership)
    True
    >>> reveals_whole_units(np.array([[True, False, True]]), membership)
    False
    """
    if membership is None:
        return True
    distinct = np.unique(masks, axis=0)
    members = membership.astype(np.float32)
    contained = (~distinct).astype(np.float32) @ members.T == 0
    return bool(((contained.astype(np.float32) @ members > 0) == distinct).all())


# Independent columns have no exception with a probability of at most exp(-20), about 2e-9.
MIN_EXPECTED = 20.0
_MIN_ROWS_PER_KEY = 4
_RANK_TOLERANCE = 1e-5
_TOLERANCE = 1e-6
# Rows × columns × units that are compared; wide data are compared on fewer rows, or not at all.
_MAX_CELLS = 100_000_000
_MIN_ROWS = 200
_MAX_COLUMNS = 2000


class Dependence:
    """Dependence between units that holds in all observed rows: copies, one-hot codes, sums.

    A leak concerns rows of positive probability only, and a probe that violates such a dependence
    is no such row. Found are functions of one column, values that occur with a single value of
    another unit, and exact linear relations; other dependence remains undetected. Evidence is the
    absence of exceptions where at least ``MIN_EXPECTED`` would be expected of independent columns.

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
        codes: IntArray,
        unit_codes: IntArray,
        unit_of: IntArray,
        numbers: FloatArray,
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

    def determined(self, rows: IntArray, masks: BoolArray) -> BoolArray:
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
        return np.asarray(found & in_units(~masks, self._unit_of, found.shape[1]))

    def complete(
        self,
        rows: IntArray,
        masks: BoolArray,
        sources: IntArray,
        determined: BoolArray,
        rng: np.random.Generator,
    ) -> IntArray:
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

    def _implications(self, keys: IntArray, rows: IntArray, n_keys: int) -> BoolArray | None:
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

    def _implied_jointly(self, rows: IntArray, mask: BoolArray) -> BoolArray:
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

    def _connect(self) -> IntArray:
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
        rows: IntArray,
        donors: IntArray,
        shown: IntArray,
        rng: np.random.Generator,
    ) -> IntArray:
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


def linear_relations(numbers: FloatArray) -> FloatArray:
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
    [[0.7, 0.7, 1.0]]
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


def group_rows(codes: IntArray) -> IntArray:
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


def _rows_of_evidence(codes: IntArray) -> IntArray:
    """All rows, or the first copy of each if a column is continuous: copies are no evidence."""
    group = group_rows(codes)
    first = np.unique(group, return_index=True)[1].astype(np.intp)
    n_levels = codes.max(axis=0) + 1
    continuous = bool((n_levels > max(MIN_EXPECTED, len(first) / 2)).any())
    return np.sort(first) if continuous else np.arange(len(codes))


def _ranges(keys: IntArray, values: IntArray) -> tuple[IntArray, IntArray]:
    """Smallest and largest values of each key; ``keys`` are sorted."""
    start = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
    return np.minimum.reduceat(values, start), np.maximum.reduceat(values, start)


def _is_function(keys: IntArray, values: IntArray, repeated: BoolArray) -> BoolArray:
    """Which columns have one value per key, in the order of the keys or of their reverse.

    Columns whose values are ``repeated`` often enough need no order; ``keys`` are sorted.
    """
    low, high = _ranges(keys, values)
    monotone = (high[:-1] <= low[1:]).all(axis=0) | (low[:-1] >= high[1:]).all(axis=0)
    return np.asarray((low == high).all(axis=0) & (monotone | repeated))


class BackgroundData:
    """Background rows with their names, units and integer codes.

    Parameters
    ----------
    X : array, pandas or polars data frame of shape (n_rows, n_columns)
    feature_names : sequence of str, optional
    groups : dict, list of lists or Patches, optional
        Columns that are revealed together and, while hidden, resampled together.
    rows : int array, optional
        Positions of the rows to keep; all by default.
    full_support : bool, default=False
        Whether all combinations of values are possible. If not, units that determine each other
        in all observed rows are resampled together.

    Examples
    --------
    >>> background = BackgroundData(np.array([[1, 10], [2, 20]]))
    >>> background.build(np.array([[0, 1]])).tolist()
    [[1, 20]]
    """

    def __init__(
        self,
        X: Any,
        feature_names: Sequence[str] | None = None,
        groups: Groups | None = None,
        rows: IntArray | None = None,
        full_support: bool = False,
    ) -> None:
        self.full_support = full_support
        self.X = as_rows(X)
        self.positions = np.arange(len(self.X)) if rows is None else rows
        if rows is not None:
            self.X = take_rows(self.X, rows)
        self.n_rows, self.n_columns = self.X.shape
        if self.n_rows < 2 or self.n_columns < 1:
            raise TableError(
                f"An audit needs at least 2 rows and 1 column. Got X of shape {self.X.shape}."
            )
        self.names = _column_names(self.X, feature_names)
        self.unit_of, self.unit_names, self.membership = unit_layout(self.names, groups)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.unit_names)

    @cached_property
    def codes(self) -> IntArray:
        """Integer codes of the values, of shape (n_rows, n_columns); see `encode`."""
        columns = [encode(column_values(self.X, j)) for j in range(self.n_columns)]
        return np.stack(columns, axis=1)

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """Which columns are numeric, so that the order of their codes is meaningful."""
        return np.array([_is_numeric(column_values(self.X, j)) for j in range(self.n_columns)])

    @cached_property
    def dependence(self) -> Dependence | None:
        """Dependence that holds in all rows; None if all combinations of values are possible."""
        if self.full_support:
            return None
        numbers = np.full(self.codes.shape, np.nan)
        for j in range(self.n_columns):
            if not self.numeric[j]:
                continue
            values = column_values(self.X, j)
            if values.dtype.kind in "biuf":
                numbers[:, j] = values
            elif values.dtype.kind == "O":
                numbers[:, j] = [np.nan if is_missing(value) else value for value in values]
        return Dependence(self.codes, self.unit_codes, self.unit_of, numbers)

    @property
    def blocks(self) -> IntArray:
        """Block of each unit; units of a block are resampled together."""
        return np.arange(self.n_units) if self.dependence is None else self.dependence.blocks

    @cached_property
    def unit_codes(self) -> IntArray:
        """Integer codes of the joint values of units, of shape (n_rows, n_units)."""
        columns = [self.codes[:, self.unit_of == u] for u in range(self.n_units)]
        joint = [np.unique(column, axis=0, return_inverse=True)[1] for column in columns]
        return np.stack([code.reshape(-1) for code in joint], axis=1).astype(np.intp)

    def position_of(self, source: IntArray) -> int | None:
        """Position of a probe in the audited data; None if it is not one of the observed rows."""
        code = self.codes_of(source[None])[0]
        rows = np.flatnonzero((self.codes == code).all(axis=1))
        if not len(rows):
            return None
        row = source[0] if source[0] in rows else rows[0]
        return int(self.positions[row])

    def unchanged(self, rows: IntArray) -> IntArray:
        """Source rows of probes that equal the given rows."""
        return np.repeat(np.asarray(rows, dtype=np.intp)[:, None], self.n_columns, axis=1)

    @cached_property
    def distinct(self) -> tuple[IntArray, IntArray]:
        """Position of the first copy of each distinct row, and the distinct row of every row."""
        _, first, inverse = np.unique(self.codes, axis=0, return_index=True, return_inverse=True)
        return first.astype(np.intp), inverse.reshape(-1).astype(np.intp)

    def codes_of(self, sources: IntArray) -> IntArray:
        """Integer codes of the probes with the given source rows."""
        return np.take_along_axis(self.codes, sources, axis=0)

    def build(self, sources: IntArray) -> Any:
        """Probes with the given source rows, in the container of ``X``."""
        return gather_rows(self.X, sources)


class RowSampler:
    """Samples the hidden units of rows from background rows.

    Sampling schemes take the positions of the rows and their masks, and return the source rows of
    one probe per row (see `suwr.auditing.background`).

    Parameters
    ----------
    background : BackgroundData
    masks : bool array of shape (n_rows, n_columns)
        Mask that the selector gives to each background row.
    rng : numpy.random.Generator
    labels : int array of shape (n_rows,), optional
    """

    def __init__(
        self,
        background: BackgroundData,
        masks: BoolArray,
        rng: np.random.Generator,
        labels: IntArray | None = None,
    ) -> None:
        self.dependence = background.dependence
        self.unit_codes = background.unit_codes
        self.unit_of = background.unit_of
        self.masks = masks
        self.labels = labels
        self.n_rows, self.n_units = self.unit_codes.shape
        self.order = np.argsort(self.unit_codes, axis=0, kind="stable")
        self.mask_id = np.unique(masks, axis=0, return_inverse=True)[1].reshape(-1)
        self._rng = rng

    def joint(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Take all hidden units from one background row, which preserves their dependence."""
        return self._replace(rows, masks, self._rng.integers(self.n_rows, size=(len(rows), 1)))

    def marginal(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Take every hidden unit from its own background row: the product of the marginals."""
        return self._replace(rows, masks, self._background_rows(rows))

    def single(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Resample one random hidden unit only."""
        background_rows = self._background_rows(rows)
        hidden = in_units(~masks, self.unit_of, self.n_units)
        score = np.where(hidden, self._rng.random(hidden.shape), -1.0)
        chosen = np.arange(self.n_units) == score.argmax(axis=1)[:, None]
        return self._replace(rows, masks, background_rows, chosen)

    def subset(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Resample each hidden unit with probability one half."""
        chosen = self._rng.random((len(rows), self.n_units)) < 0.5
        return self._replace(rows, masks, self._background_rows(rows), chosen)

    def extreme(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Set some hidden units to values among the lowest or highest 1 %."""
        tail = max(1, self.n_rows // 100)
        place = self._rng.integers(tail, size=(len(rows), self.n_units))
        place = np.where(self._rng.random(place.shape) < 0.5, place, self.n_rows - 1 - place)
        share = self._rng.random(place.shape)
        chosen = share < self._rng.choice([0.1, 0.3, 1.0], (len(rows), 1))
        return self._replace(rows, masks, np.take_along_axis(self.order, place, axis=0), chosen)

    def other_mask(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Take the hidden units from a row with a different mask; rare masks are preferred."""
        weight = 1.0 / np.bincount(self.mask_id)[self.mask_id]
        shape = (len(rows), 8)
        candidates = self._rng.choice(self.n_rows, size=shape, p=weight / weight.sum())
        return self._replace(rows, masks, _first_different(self.mask_id, rows, candidates))

    def other_label(self, rows: IntArray, masks: BoolArray) -> IntArray:
        """Take the hidden units from a row with a different label."""
        if self.labels is None:
            return self.joint(rows, masks)
        candidates = self._rng.integers(self.n_rows, size=(len(rows), 8))
        return self._replace(rows, masks, _first_different(self.labels, rows, candidates))

    def _background_rows(self, rows: IntArray) -> IntArray:
        return self._rng.integers(self.n_rows, size=(len(rows), self.n_units)).astype(np.intp)

    @cached_property
    def _determined(self) -> BoolArray:
        """Hidden units that the revealed ones determine, of shape (n_rows, n_units)."""
        assert self.dependence is not None
        return self.dependence.determined(np.arange(self.n_rows), self.masks)

    @property
    def share_determined(self) -> float:
        """Share of the hidden units of all rows that the revealed ones determine."""
        if self.dependence is None:
            return 0.0
        hidden = in_units(~self.masks, self.unit_of, self.n_units)
        return float(self._determined.sum() / max(hidden.sum(), 1))

    def _replace(
        self,
        rows: IntArray,
        masks: BoolArray,
        background_rows: IntArray,
        chosen: BoolArray | None = None,
    ) -> IntArray:
        """Replace the hidden values of the chosen units (by default all) by background values.

        ``background_rows`` has one column per unit, or a single one for all units.
        """
        replaced = ~masks
        if chosen is not None:
            replaced &= chosen[:, self.unit_of]
        background_rows = np.broadcast_to(background_rows, (len(rows), self.n_units))
        sources = np.where(replaced, background_rows[:, self.unit_of], rows[:, None])
        if self.dependence is None:
            return sources
        if np.array_equal(masks, self.masks[rows]):
            determined = self._determined[rows]
        else:
            determined = self.dependence.determined(rows, masks)
        return self.dependence.complete(rows, masks, sources, determined, self._rng)


def _first_different(group: IntArray, rows: IntArray, candidates: IntArray) -> IntArray:
    """The first candidate of each row that is in another group, as a column."""
    differs = group[candidates] != group[rows][:, None]
    return np.take_along_axis(candidates, differs.argmax(axis=1)[:, None], axis=1)


SamplingScheme = Callable[[RowSampler, IntArray, BoolArray], IntArray]
#: Schemes of the uniform probes. They do not depend on previous answers of the selector, so that
#: the share of changed masks is an unbiased estimate.
UNIFORM_SCHEMES: tuple[SamplingScheme, ...] = (RowSampler.joint, RowSampler.marginal)
#: Schemes from which the adaptive search draws its proposals.
PROPOSAL_SCHEMES: tuple[SamplingScheme, ...] = (
    RowSampler.joint,
    RowSampler.marginal,
    RowSampler.single,
    RowSampler.subset,
    RowSampler.extreme,
    RowSampler.other_mask,
    RowSampler.other_label,
)


def in_units(columns: BoolArray, unit_of: IntArray, n_units: int) -> BoolArray:
    """Units of which at least one column is marked, for each row of ``columns``.

    Examples
    --------
    >>> in_units(np.array([[True, True, False]]), np.array([0, 1, 1]), 2).tolist()
    [[True, True]]
    """
    marked = np.zeros((len(columns), n_units), dtype=bool)
    for j, u in enumerate(unit_of):
        marked[:, u] |= columns[:, j]
    return marked


def disagreements(codes: IntArray, masks: BoolArray, limit: int = 1000) -> IntArray:
    """Find pairs of rows (i, j) that agree on everything that i reveals but have different masks.

    Parameters
    ----------
    codes : int array of shape (n_rows, n_columns)
        Integer codes of the values.
    masks : bool array of shape (n_rows, n_columns)
    limit : int
        Maximum number of pairs; each row i is in at most one.

    Returns
    -------
    int array of shape (n_pairs, 2)

    Examples
    --------
    The second row reveals only x0 = 1; the first row has the same x0 but a different mask.

    >>> codes = np.array([[1, 1], [1, 0]])
    >>> disagreements(codes, np.array([[True, True], [True, False]])).tolist()
    [[1, 0]]
    """
    mask_id = group_rows(masks.astype(np.intp))
    found: list[tuple[int, int]] = []
    for m in np.unique(mask_id):
        rows = np.flatnonzero(mask_id == m)
        mask = masks[rows[0]]
        if mask.all():
            continue
        if len(found) >= limit:
            break
        group = group_rows(codes[:, mask])
        other = np.flatnonzero(mask_id != m)
        partner = dict(zip(group[other].tolist(), other.tolist(), strict=True))
        found += [(int(i), partner[int(group[i])]) for i in rows if int(group[i]) in partner]
    return np.array(found[:limit], dtype=np.intp).reshape(-1, 2)


def observed_partners(
    codes: IntArray, rows: IntArray, masks: BoolArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Pair rows with different rows of the data that agree on everything their masks reveal.

    Returns
    -------
    positions : int array
        Positions in ``rows`` of those that have such a partner.
    partners : int array
        A random partner of each.

    Examples
    --------
    >>> codes = np.array([[1, 1], [1, 0], [0, 0]])
    >>> masks = np.array([[True, False], [True, False]])
    >>> observed_partners(codes, np.array([0, 2]), masks, np.random.default_rng(0))
    (array([0]), array([1]))
    """
    row_id = group_rows(codes)
    found = []
    for k, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        agree = (codes[:, mask] == codes[row, mask]).all(axis=1) & (row_id != row_id[row])
        if agree.any():
            found.append((k, rng.choice(np.flatnonzero(agree))))
    positions, partners = np.array(found, dtype=np.intp).reshape(-1, 2).T
    return positions, partners
