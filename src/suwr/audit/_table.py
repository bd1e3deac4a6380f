"""The user's rows, as a deck of values to redraw from.

Every probe keeps some values of a row and takes the others from other rows. So a probe is a
matrix of *source rows*: entry (i, j) says from which row of ``X`` value j of probe i comes. The
values themselves are only looked up when the selector is asked, in the user's own container, so
that data frames, categories and strings go through untouched.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.units import Patches, resolve_units
from suwr.exceptions import TableError
from suwr.selector import BoolArray

IntArray = NDArray[np.intp]
Groups = Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]


def column_values(X: Any, j: int) -> NDArray[Any]:
    """Column ``j`` of an array or data frame, as a NumPy array."""
    if isinstance(X, np.ndarray):
        return X[:, j]
    if hasattr(X, "iloc"):
        return np.asarray(X.iloc[:, j])
    return np.asarray(X.to_series(j).to_numpy())


def column_names(X: Any, feature_names: Sequence[str] | None) -> list[str]:
    """Names of the columns: the given ones, those of the data frame, or x0, x1, ..."""
    if feature_names is not None:
        if len(feature_names) != X.shape[1]:
            raise ValueError(
                "The 'feature_names' parameter of audit must have one name per column "
                f"({X.shape[1]}). Got {len(feature_names)} names instead."
            )
        return [str(name) for name in feature_names]
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    return [f"x{j}" for j in range(X.shape[1])]


def encode(values: NDArray[Any]) -> IntArray:
    """Equal values get equal codes, in sorted order where there is one; missing equals missing.

    Examples
    --------
    >>> encode(np.array([2.5, np.nan, 1.0, np.nan])).tolist()
    [1, 2, 0, 2]
    >>> encode(np.array(["b", None, "a"], dtype=object)).tolist()
    [1, 2, 0]
    """
    if values.dtype.kind in "biufmM":
        return np.unique(values, return_inverse=True)[1].astype(np.intp)
    # "!=" itself finds every kind of NaN; pandas' NA has no truth value, hence the identity test.
    keys = [None if _is_missing(v) else (type(v).__name__, v) for v in values]
    try:
        distinct = dict.fromkeys(k for k in keys if k is not None)
    except TypeError:
        raise TableError(
            "An audit needs columns of plain values: numbers, strings, dates. Got a column that "
            f"holds {next(type(v).__name__ for v in values if not _is_missing(v))} objects."
        ) from None
    try:
        levels = sorted(distinct)
    except TypeError:  # values without an order
        levels = list(distinct)
    code: dict[Any, int] = {level: i for i, level in enumerate(levels)}
    code[None] = len(levels)
    return np.array([code[k] for k in keys], dtype=np.intp)


def _is_numeric(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "O":
        return values.dtype.kind in "iufmMb"
    # Numbers beside pandas' NA come as objects.
    return all(_is_missing(value) or isinstance(value, Number) for value in values)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def unit_layout(
    names: Sequence[str], groups: Groups | None
) -> tuple[IntArray, list[str], BoolArray | None]:
    """Unit of each column, the names of the units, and what a unit reveals.

    Columns that no group names are units of their own. Patches may overlap: a pixel then belongs
    to the patch whose centre is nearest, and what a patch reveals is more than the pixels that
    belong to it.

    Examples
    --------
    >>> unit, names, _ = unit_layout(["age", "de", "fr"], {"country": ["de", "fr"]})
    >>> unit.tolist(), names
    ([0, 1, 1], ['age', 'country'])
    """
    if groups is None:
        return np.arange(len(names)), list(names), None
    units = resolve_units(groups, None, names, owner="audit")
    unit = groups.tiles() if isinstance(groups, Patches) else units.membership.argmax(axis=0)
    return unit.astype(np.intp), list(units.names), units.membership


class Table:
    """Rows of ``X`` with names, units and codes; builds probes in the container of ``X``.

    Parameters
    ----------
    X : array, pandas or polars data frame of shape (n_rows, n_columns)
    feature_names : sequence of str, optional
    groups : dict, list of lists or Patches, optional
        Columns that are revealed together and, when hidden, redrawn together.
    rows : int array, optional
        Positions of the rows to keep; all by default.

    Examples
    --------
    >>> table = Table(np.array([[1, 10], [2, 20]]))
    >>> table.build(np.array([[0, 1]])).tolist()
    [[1, 20]]
    """

    def __init__(
        self,
        X: Any,
        feature_names: Sequence[str] | None = None,
        groups: Groups | None = None,
        rows: IntArray | None = None,
    ) -> None:
        self.X = as_rows(X)
        self.positions = np.arange(len(self.X)) if rows is None else rows
        if rows is not None:
            self.X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        self.n_rows, self.n_columns = self.X.shape
        if self.n_rows < 2 or self.n_columns < 1:
            raise TableError(
                f"An audit needs at least 2 rows and 1 column. Got X of shape {self.X.shape}."
            )
        self.names = column_names(self.X, feature_names)
        self.unit_of, self.unit_names, self.membership = unit_layout(self.names, groups)

    @property
    def n_units(self) -> int:
        """Number of units: columns, or groups of columns."""
        return len(self.unit_names)

    @cached_property
    def codes(self) -> IntArray:
        """Values as dense ranks; two values are equal just when their codes are."""
        columns = [encode(column_values(self.X, j)) for j in range(self.n_columns)]
        return np.stack(columns, axis=1)

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """Whether each column is made of numbers, so that its codes have a natural order."""
        return np.array([_is_numeric(column_values(self.X, j)) for j in range(self.n_columns)])

    @cached_property
    def unit_codes(self) -> IntArray:
        """Values of whole units, as codes: a group's code stands for its joint value."""
        columns = []
        for u in range(self.n_units):
            members = np.flatnonzero(self.unit_of == u)
            if len(members) == 1:
                columns.append(self.codes[:, members[0]])
            else:
                joint = np.unique(self.codes[:, members], axis=0, return_inverse=True)[1]
                columns.append(joint.reshape(-1).astype(np.intp))
        return np.stack(columns, axis=1)

    def itself(self, rows: IntArray) -> IntArray:
        """Sources of unchanged rows."""
        return np.repeat(np.asarray(rows, dtype=np.intp)[:, None], self.n_columns, axis=1)

    def codes_at(self, sources: IntArray) -> IntArray:
        """Codes of the probes with the given sources."""
        return np.take_along_axis(self.codes, sources, axis=0)

    def build(self, sources: IntArray) -> Any:
        """The probes with the given sources, in the same container as ``X``."""
        if isinstance(self.X, np.ndarray):
            return np.take_along_axis(self.X, sources, axis=0)
        if hasattr(self.X, "iloc"):
            taken = {j: self.X.iloc[:, j].array.take(sources[:, j]) for j in range(self.n_columns)}
            frame = type(self.X)(taken)
            frame.columns = self.X.columns
            return frame
        series = self.X.get_columns()
        return type(self.X)([s.gather(sources[:, j]) for j, s in enumerate(series)])


def as_rows(X: Any) -> Any:
    """The rows as they are, if they are a data frame; else as an array of two dimensions."""
    is_frame = hasattr(X, "iloc") or (hasattr(X, "get_columns") and hasattr(X, "to_series"))
    rows = X if is_frame else np.asarray(X)
    if rows.ndim != 2 if hasattr(rows, "ndim") else len(rows.shape) != 2:
        raise TableError(
            f"Expected 2D array, got {getattr(rows, 'ndim', 0)}D array instead. Flatten images "
            "to one row each."
        )
    return rows
