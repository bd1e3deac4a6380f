"""Reading a table, whatever it came as: one array per column, with names where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exceptions import TableError

__all__ = ["Table", "column_names", "is_frame", "read_table"]


@dataclass(frozen=True)
class Table:
    """Columns of one length.

    Attributes
    ----------
    columns : list of ndarray
        Numeric columns are float64 with NaN for 'missing'; all others are object arrays with None
        for 'missing'.
    n_rows : int
    """

    columns: list[NDArray[Any]]
    n_rows: int

    def value(self, row: int, column: int) -> Any:
        """One cell as a plain Python value; None where it is missing."""
        cell = self.columns[column][row]
        if isinstance(cell, np.generic):
            cell = cell.item()
        if isinstance(cell, float):
            if np.isnan(cell):
                return None
            # Whole numbers read better without '.0'; beyond 2**53 floats are not exact.
            return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
        return cell

    def take(self, rows: NDArray[np.intp] | slice) -> Table:
        """The table of some rows."""
        columns = [c[rows] for c in self.columns]
        return Table(columns, len(columns[0]) if columns else 0)


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a pandas or polars data frame."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def column_names(X: Any) -> list[Any] | None:
    """Names of a frame's columns, each of them once; None for an array."""
    if not is_frame(X):
        return None
    names = list(X.columns)
    if len(set(names)) != len(names):
        double = next(n for n in names if names.count(n) > 1)
        raise TableError(f"'X' must not have two columns of one name. Got {double!r} twice.")
    return names


def read_table(X: Any) -> Table:
    """Read a pandas or polars frame, or a two-dimensional array.

    Numbers stay numbers. Text, categories and booleans become objects; nothing is encoded here.
    """
    if is_frame(X):
        series = X.get_columns() if hasattr(X, "get_columns") else [X[name] for name in X.columns]
        columns = [
            _read_column(_to_numpy(s), str(name), _is_category(s))
            for name, s in zip(X.columns, series, strict=True)
        ]
        return Table(columns, len(X))
    array = np.asarray(X)
    if array.dtype.kind in "biuf":
        # Fortran order makes each column contiguous.
        columns = list(np.asfortranarray(array, dtype=np.float64).T)
    else:
        columns = [_read_column(array[:, i], f"x{i}") for i in range(array.shape[1])]
    return Table(columns, array.shape[0])


def _is_category(series: Any) -> bool:
    return str(series.dtype).startswith(("category", "Categorical", "Enum"))


def _to_numpy(series: Any) -> NDArray[Any]:
    """Values of a series; nullable numbers become floats with NaN."""
    dtype = series.dtype
    if _is_category(series):
        return np.asarray(series.to_numpy(), dtype=object)
    if hasattr(dtype, "na_value") and getattr(dtype, "kind", "") in ("i", "u", "f"):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(series.to_numpy())


def _missing(value: Any) -> bool:
    # pandas.NA and NaT are the only values that are not equal to themselves besides NaN.
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True  # the truth of pandas.NA is undefined
    except ValueError:
        return False  # an array in a cell; reported as unreadable below


def _read_column(values: NDArray[Any], name: str, category: bool = False) -> NDArray[Any]:
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "b":
        return values.astype(object)
    if values.dtype.kind not in "OUSTV" or values.dtype.kind == "V":
        raise TableError(
            f"Column {name!r} has the type {values.dtype}, which cannot be read. "
            "Use numbers, text, categories or booleans."
        )
    out = np.empty(len(values), dtype=object)
    kinds = set()
    for i, value in enumerate(values):
        if _missing(value):
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
                f"Column {name!r} holds a value of type {type(plain).__name__}, which cannot be "
                "read. Use numbers, text, categories or booleans."
            )
        out[i] = plain
    if len(kinds) > 1:
        raise TableError(
            f"Column {name!r} mixes {' and '.join(sorted(kinds))}. Give it one type, "
            "for example all text."
        )
    if not category and kinds <= {"numbers"}:
        # Numbers that came as objects, or a column with nothing in it.
        return np.array([np.nan if v is None else v for v in out], dtype=np.float64)
    return out
