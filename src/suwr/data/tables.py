"""Reading of tables: pandas and polars data frames (through narwhals) and NumPy arrays.

`read_table` is the reader of the estimators. The functions below it give audits and exact problems
access to raw columns and rows, so that no other module has to distinguish the kinds of frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_into_dataframe
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from suwr.exceptions import TableError

__all__ = [
    "Table",
    "as_rows",
    "column_names",
    "column_values",
    "gather_rows",
    "is_frame",
    "is_missing",
    "read_table",
    "select_columns",
    "take_rows",
]


@dataclass(frozen=True)
class Table:
    """Columns of equal length, not yet encoded.

    Attributes
    ----------
    columns : list of ndarray
        Numeric columns are float64 arrays with NaN for missing values; all others are object
        arrays with None for missing values.
    n_rows : int
        Number of rows.
    """

    columns: list[NDArray[Any]]
    n_rows: int

    def value(self, row: int, column: int) -> Any:
        """Return one cell as a plain Python value; None if it is missing."""
        cell = self.columns[column][row]
        if isinstance(cell, np.generic):
            cell = cell.item()
        if isinstance(cell, float):
            if np.isnan(cell):
                return None
            # Display integers without '.0'; floats beyond 2**53 are not exact integers.
            return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
        return cell

    def take(self, rows: NDArray[np.intp] | slice) -> Table:
        """Return the table of the given rows."""
        columns = [c[rows] for c in self.columns]
        return Table(columns, len(columns[0]) if columns else 0)


def read_table(X: Any) -> Table:
    """Read a data frame or a two-dimensional array.

    Numeric columns stay numeric; strings, categories and booleans become objects. No column is
    encoded, and the type of a column does not depend on any other column.

    Parameters
    ----------
    X : data frame or array-like of shape (n_rows, n_columns)

    Returns
    -------
    Table
    """
    if is_frame(X):
        frame = _narwhals(X)
        columns = [_read_series(series) for series in frame.iter_columns()]
        return Table(columns, len(frame))
    array = np.asarray(X)
    if array.dtype.kind in "biuf":
        # Fortran order makes each column contiguous.
        columns = list(np.asfortranarray(array, dtype=np.float64).T)
    else:
        columns = [_read_column(array[:, i], f"x{i}") for i in range(array.shape[1])]
    return Table(columns, array.shape[0])


def is_frame(X: Any) -> bool:
    """Whether ``X`` is an eager data frame that narwhals supports, such as pandas or polars."""
    return is_into_dataframe(X)


def is_missing(value: Any) -> bool:
    """Whether a cell is missing: None, NaN, ``pandas.NA`` or NaT.

    Examples
    --------
    >>> [is_missing(v) for v in (None, float("nan"), np.datetime64("NaT"), 0.0, "")]
    [True, True, True, False, False]
    """
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True  # the truth value of pandas.NA is undefined
    except ValueError:
        return False  # an array in a cell


def as_rows(X: Any) -> Any:
    """Return a data frame unchanged, and anything else as a two-dimensional array.

    Raises
    ------
    TableError
        If ``X`` is not two-dimensional, or a data frame has duplicate column names.
    """
    if is_frame(X):
        _narwhals(X)
        return X
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {rows.ndim}D array instead. Flatten images to one row each."
        )
    return rows


def column_names(X: Any) -> list[Any] | None:
    """Return the unique column names of a data frame; None for an array."""
    return list(_narwhals(X).columns) if is_frame(X) else None


def column_values(X: Any, column: int) -> NDArray[Any]:
    """Return one column of a data frame or two-dimensional array as a NumPy array.

    Values are not converted: missing values of nullable pandas columns remain ``pandas.NA``.
    """
    if is_frame(X):
        frame = _narwhals(X)
        return np.asarray(frame.get_column(frame.columns[column]).to_native())
    return np.asarray(X)[:, column]


def select_columns(X: Any, names: Sequence[str]) -> Any:
    """Return the named columns of a data frame, in the given order."""
    return _narwhals(X).select(*names).to_native()


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return the rows at the given positions, in the container of ``X``."""
    return _narwhals(X)[rows].to_native() if is_frame(X) else np.asarray(X)[rows]


def gather_rows(X: Any, sources: NDArray[np.intp]) -> Any:
    """Combine cells of several rows into new rows.

    Parameters
    ----------
    X : data frame or array of shape (n_rows, n_columns)
    sources : ndarray of int, shape (n, n_columns)
        Entry (i, j) is the row of ``X`` that provides column j of the new row i.

    Returns
    -------
    data frame or array of shape (n, n_columns)
        In the container and with the column types of ``X``. The index of a pandas frame is reset:
        it would otherwise identify the source rows.

    Examples
    --------
    >>> gather_rows(np.array([[1, 10], [2, 20]]), np.array([[0, 1]])).tolist()
    [[1, 20]]
    """
    if not is_frame(X):
        return np.take_along_axis(np.asarray(X), sources, axis=0)
    frame = nw.maybe_reset_index(_narwhals(X))
    taken = {s.name: s[sources[:, j]] for j, s in enumerate(frame.iter_columns())}
    return nw.maybe_reset_index(nw.from_dict(taken)).to_native()


def _narwhals(X: Any) -> nw.DataFrame[Any]:
    """Wrap a data frame; duplicate column names are an error."""
    try:
        return nw.from_native(X, eager_only=True)
    except DuplicateError:
        names = list(X.columns)
        double = next(name for name in names if names.count(name) > 1)
        raise TableError(
            f"'X' must not have duplicate column names. Got {double!r} twice."
        ) from None


def _read_series(series: nw.Series[Any]) -> NDArray[Any]:
    category = series.dtype in (nw.Categorical, nw.Enum)
    values = series.to_numpy()
    return _read_column(values.astype(object) if category else values, str(series.name), category)


def _read_column(values: NDArray[Any], name: str, category: bool = False) -> NDArray[Any]:
    """Convert a column to float64, or to objects with None for missing values."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "b":
        return values.astype(object)
    if values.dtype.kind not in "OUST":
        raise TableError(
            f"Column {name!r} has the unsupported type {values.dtype}. "
            "Use numbers, strings, categories or booleans."
        )
    out = np.empty(len(values), dtype=object)
    kinds = set()
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bytes):
            plain = plain.decode("utf-8", "replace")
        if isinstance(plain, bool):
            kinds.add("booleans")
        elif isinstance(plain, int | float):
            kinds.add("numbers")
        elif isinstance(plain, str):
            kinds.add("text")
        else:
            raise TableError(
                f"Column {name!r} contains a value of the unsupported type "
                f"{type(plain).__name__}. Use numbers, strings, categories or booleans."
            )
        out[i] = plain
    if len(kinds) > 1:
        raise TableError(
            f"Column {name!r} mixes {' and '.join(sorted(kinds))}. Convert it to a single type, "
            "for example text."
        )
    if not category and kinds <= {"numbers"}:
        # Numbers stored as objects, or a column without any value.
        return np.array([np.nan if v is None else v for v in out], dtype=np.float64)
    return out
