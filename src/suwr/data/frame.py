"""Tables as suwr reads them: data frames of pandas and polars (through narwhals), and NumPy arrays.

`read_table` infers the types of the columns for ``fit``. After it, the types are those of the
fitted model, which parses the `raw_columns`; see `suwr.data.parse`. The other functions give
audits and exact problems access to raw columns and rows, so that no other module has to distinguish
the kinds of frames.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_into_dataframe
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from suwr._utils.validation import require
from suwr.data.parse import INVALID, describe_cell, plain_cell
from suwr.exceptions import TableError


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
    invalid : dict of int to ndarray of object
        For each column with cells that cannot be parsed: the `suwr.data.parse.InvalidCell` at
        these cells, which are missing in ``columns``, and None at all others.
    """

    columns: list[NDArray[Any]]
    n_rows: int
    invalid: dict[int, NDArray[Any]] = field(default_factory=dict)

    def value(self, row: int, column: int) -> Any:
        """Return one cell as a plain Python value; None if it is missing."""
        return plain_value(self.columns[column][row])

    def values(self, rows: NDArray[np.intp], column: int) -> list[Any]:
        """Return `value` of several cells of a column."""
        return [plain_value(cell) for cell in self.columns[column][rows].tolist()]

    def take(self, rows: NDArray[np.intp] | slice) -> Table:
        """Return the table of the given rows."""
        columns = [c[rows] for c in self.columns]
        invalid = {number: cells[rows] for number, cells in self.invalid.items()}
        return Table(columns, len(columns[0]) if columns else 0, invalid)

    def check_revealed(self, mask: NDArray[np.bool_], *, quote: bool = True) -> None:
        """Raise a `TableError` if a revealed cell could not be parsed.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_rows, n_columns)
            The revealed cells. All others may be invalid.
        quote : bool, default=True
            Whether the message may contain the value of the cell.
        """
        found = [
            (row, number)
            for number, cells in self.invalid.items()
            for row in np.flatnonzero(mask[:, number])
            if cells[row] is not None
        ]
        if found:
            row, number = min(found)
            raise self.invalid[number][row].error(quote)


def plain_value(cell: Any) -> Any:
    """Return a cell as a plain Python value, in the form in which it is shown; None if missing."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float):
        if math.isnan(cell):
            return None
        # Display integers without '.0'; floats beyond 2**53 are not exact integers.
        return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
    return cell


def read_table(X: Any) -> Table:
    """Read a data frame or a two-dimensional array, and infer the type of each column.

    Numeric columns stay numeric; strings, categories and booleans become objects. No column is
    encoded, and the type of a column does not depend on any other column.

    Parameters
    ----------
    X : data frame or array-like of shape (n_rows, n_columns)

    Returns
    -------
    Table
    """
    columns = raw_columns(X)
    if is_frame(X):
        frame = _narwhals(X)
        kinds = [series.dtype in (nw.Categorical, nw.Enum) for series in frame.iter_columns()]
        named = zip(columns, frame.columns, kinds, strict=True)
        return Table([_infer_column(c, str(name), kind) for c, name, kind in named], len(frame))
    array = np.asarray(X)
    if array.dtype.kind == "b":
        columns = [c.astype(np.float64) for c in columns]
    return Table([_infer_column(c, f"x{i}") for i, c in enumerate(columns)], len(array))


def raw_columns(X: Any) -> list[NDArray[Any]]:
    """Return the columns of a data frame or two-dimensional array, without changing any value.

    Returns
    -------
    list of ndarray of shape (n_rows,)
        Numbers and booleans without missing values, floats, or objects.
    """
    if is_frame(X):
        return [_raw_series(series) for series in _narwhals(X).iter_columns()]
    # Fortran order makes each column contiguous.
    return list(np.asfortranarray(X).T)


def arrow_to_pandas(table: Any, **options: Any) -> Any:
    """Convert a pyarrow table to pandas, whatever its cells contain.

    Integers stay integers if some are missing. Bytes that are no UTF-8 are replaced. Times of day,
    which no column of a model holds, are truncated to microseconds: Python cannot represent shorter
    times. An index that pandas stored is restored, but not the types that it recorded, since those
    of the table may differ.
    """
    arrow = require("pyarrow", "tables", "Reading Parquet files")
    for number, (column, name) in enumerate(zip(table.columns, table.column_names, strict=True)):
        kind = column.type
        if str(kind) == "time64[ns]":
            table = table.set_column(number, name, column.cast("time64[us]", safe=False))
        elif "string" in str(kind) and not arrow.types.is_nested(kind):
            try:
                column.validate(full=True)
            except ValueError:
                texts = arrow.array(_decode(column), "large_string")
                table = table.set_column(number, name, texts)
    # Dates as those of NumPy, which have any year.
    options |= {"integer_object_nulls": True, "date_as_object": False}
    table = table.replace_schema_metadata(_index_metadata(table.schema.metadata))
    try:
        return table.to_pandas(**options)
    except (KeyError, TypeError, ValueError, NotImplementedError):
        # The recorded index does not fit the table.
        return table.to_pandas(**options | {"ignore_metadata": True})


def _index_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """What pandas recorded about the index of a table, without the types of other columns."""
    try:
        stored = json.loads((metadata or {})[b"pandas"])
        names = [name for name in stored["index_columns"] if isinstance(name, str)]
        columns = [column for column in stored["columns"] if column["field_name"] in names]
    except (KeyError, TypeError, ValueError):
        return None
    return {b"pandas": json.dumps(stored | {"columns": columns}).encode()}


def is_frame(X: Any) -> bool:
    """Whether ``X`` is an eager data frame that narwhals supports, such as pandas or polars."""
    return is_into_dataframe(X)


def unmasked(X: Any) -> Any:
    """Return a masked array as an array in which masked cells are missing; all else unchanged."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if X.dtype.kind in "bf":
        return np.ma.filled(X.astype(np.float64), np.nan)
    return np.ma.filled(X.astype(object), None)


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


def object_column(cells: Sequence[Any]) -> NDArray[Any]:
    """Return objects as an array of one dimension, even if they are sequences of equal length."""
    column = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        column[row] = cell
    return column


def series_cells(series: nw.Series[Any]) -> list[Any]:
    """Return the cells of a column, each converted by itself.

    The type of the column stands for cells that Python cannot represent, such as dates beyond the
    year 9999, and for all cells of types that no model has: one of them would make the conversion
    of the whole column fail.
    """
    native = series.to_native()
    if str(getattr(native, "dtype", "")).endswith("[pyarrow]"):  # pandas
        series = nw.from_native(native.array.__arrow_array__(), series_only=True)
    if str(getattr(series.to_native(), "type", "")) == "date64[ms]":  # narwhals has no such type
        series = nw.from_native(series.to_native().cast("timestamp[ms]"), series_only=True)
    dtype = series.dtype
    if dtype in (nw.Date, nw.Datetime):
        # In UTC, as integers.
        pandas = series.implementation.is_pandas_like()
        stamps = native.to_numpy("datetime64[s]") if pandas else series.to_numpy()
        missing = np.isnat(stamps)
        years = stamps.astype("datetime64[Y]").astype(np.int64) + 1970
        # Without the last day, which may be in the year 10000 elsewhere.
        fits = ~missing & (years > datetime.MINYEAR) & (years < datetime.MAXYEAR)
        cells = object_column([dtype] * len(fits))
        cells[missing] = None
        if fits.any():
            cells[fits] = object_column(series.filter(fits.tolist()).to_list())
        return cells.tolist()
    if dtype.is_temporal() or dtype.is_decimal() or dtype.is_nested():
        return [None if missing else dtype for missing in series.is_null().to_list()]
    try:
        return series.to_list()
    except UnicodeDecodeError:
        native = series.to_native()
        return _decode(native if hasattr(native, "chunks") else native.array.__arrow_array__())


def _decode(column: Any) -> list[str | None]:
    """Return the texts of a pyarrow column, with replacements for bytes that are no UTF-8."""
    cells = column.cast("large_binary").to_pylist()
    return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]


def _raw_series(series: nw.Series[Any]) -> NDArray[Any]:
    if series.dtype.is_float() or series.dtype.is_integer() or series.dtype == nw.Boolean:
        values = series.to_numpy()
        # Integers with missing values would become floats, which represent fewer integers.
        if values.dtype.kind == "f" if series.dtype.is_float() else values.dtype.kind in "biu":
            return values
    return object_column(series_cells(series))


def _infer_column(values: NDArray[Any], name: str, category: bool = False) -> NDArray[Any]:
    """Convert a column to float64, or to objects with None for missing values."""
    if values.dtype.kind in "iuf" and not category:
        return values.astype(np.float64)
    if values.dtype.kind == "b":
        return values.astype(object)
    out = np.empty(len(values), dtype=object)
    first: dict[str, int] = {}
    cells = values.tolist() if values.dtype.kind in "biufOUST" else list(values)
    for row, value in enumerate(cells):
        out[row] = plain = plain_cell(value)
        if plain is INVALID:
            raise TableError(
                f"Row {row} of column {name!r} is {describe_cell(value)}, which is not supported. "
                + (
                    "Replace dates by year, month and weekday: with suwr.DateParts, or suwr fit "
                    "--dates."
                    if isinstance(value, datetime.date | np.datetime64 | nw.Date | nw.Datetime)
                    else "Use numbers, strings, categories or booleans."
                )
            )
        if plain is not None:
            first.setdefault(_kind(plain), row)
    if len(first) > 1:
        rows = ", ".join(
            f"row {row} is the {kind} {describe_cell(out[row])}" for kind, row in first.items()
        )
        kinds = " and ".join(sorted({"string": "text"}.get(kind, f"{kind}s") for kind in first))
        raise TableError(
            f"Column {name!r} mixes {kinds}: {rows}. Convert it to a single type, for example text."
        )
    if category or not first.keys() <= {"number"}:
        return out
    # Numbers stored as objects, or a column without any value.
    return np.array([_to_float(v, row, name) for row, v in enumerate(out)], dtype=np.float64)


def _kind(plain: Any) -> str:
    if isinstance(plain, bool):
        return "boolean"
    return "string" if isinstance(plain, str) else "number"


def _to_float(value: Any, row: int, name: str) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        raise TableError(
            f"Row {row} of column {name!r} is {describe_cell(value)}, which is too large for a "
            "number."
        ) from None


def row_labels(X: Any, n_rows: int) -> Sequence[Any]:
    """Return the index of a pandas frame in types that JSON can represent, or positions."""
    if not hasattr(X, "iloc"):
        return range(n_rows)
    labels = [i.item() if isinstance(i, np.generic) else i for i in X.index]
    return [label if isinstance(label, int | str) else str(label) for label in labels]
