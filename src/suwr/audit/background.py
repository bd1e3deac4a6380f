"""Background rows: the data of an audit, from which counterfactual probes are built.

A probe keeps the revealed values of one row and takes the hidden values from background rows. It
is represented by its *source rows*: entry (i, j) of an integer array is the row of ``X`` that
supplies column j of probe i. Values are looked up only when the selector is queried, in the
container of ``X``, so that data frames, categories and strings reach the selector unchanged.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.audit.dependence import Dependence
from suwr.data.frame import as_rows, column_names, column_values, gather_rows, take_rows
from suwr.data.parse import is_missing
from suwr.data.units import Patches, resolve_units
from suwr.exceptions import TableError
from suwr.selector import BoolArray

IntArray = NDArray[np.intp]
Groups = Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]


def _column_names(X: Any, feature_names: Sequence[str] | None) -> list[str]:
    """Column names: ``feature_names``, those of the data frame, or x0, x1, ..."""
    if feature_names is not None:
        if len(feature_names) != X.shape[1]:
            raise ValueError(
                "The 'feature_names' parameter of audit must have one name per column "
                f"({X.shape[1]}). Got {len(feature_names)} names instead."
            )
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
        columns = []
        for u in range(self.n_units):
            members = np.flatnonzero(self.unit_of == u)
            if len(members) == 1:
                columns.append(self.codes[:, members[0]])
            else:
                joint = np.unique(self.codes[:, members], axis=0, return_inverse=True)[1]
                columns.append(joint.reshape(-1).astype(np.intp))
        return np.stack(columns, axis=1)

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

    def codes_of(self, sources: IntArray) -> IntArray:
        """Integer codes of the probes with the given source rows."""
        return np.take_along_axis(self.codes, sources, axis=0)

    def build(self, sources: IntArray) -> Any:
        """Probes with the given source rows, in the container of ``X``."""
        return gather_rows(self.X, sources)
