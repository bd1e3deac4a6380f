"""Parsing of single cells by the type of their column.

A fitted model knows the type of every column. At prediction time each cell is parsed by that type
alone: neither other cells nor the type of the array, frame or file that holds the cell have an
influence. A cell that cannot be parsed is kept as an `InvalidCell`, which is an error only if the
cell is revealed. The file ``tests/data/parsing_cases.json`` lists texts with their results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suwr.exceptions import TableError

ColumnType = Literal["number", "boolean", "text", "numeric category"]

#: Texts that mean 'missing', except for a text column that has the text as a category.
MISSING_TEXTS = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)  # fmt: skip

#: The result of parsing a cell that has no meaning in its column.
INVALID: Any = type("Invalid", (), {"__repr__": lambda self: "INVALID"})()

#: The cell of a column that a table lacks; it has no meaning in any column.
ABSENT: Any = type("Absent", (), {})()

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTH = {"true": True, "false": False}
_SPACE = " \t\r\n\f\v"
#: What a cell of each type must be, for error messages.
EXPECTED: dict[ColumnType, str] = {
    "number": "a finite number",
    "boolean": "true or false",
    "text": "text",
    "numeric category": "a finite number",
}


@dataclass(frozen=True)
class InvalidCell:
    """A cell that cannot be parsed.

    Attributes
    ----------
    row : object
        Label of the row; its position in the table unless the table has an index.
    column : str
    type : {'number', 'boolean', 'text', 'numeric category'}
        The type of the column in ``fit``.
    value : object
        The cell.
    """

    row: Any
    column: str
    type: ColumnType
    value: Any

    def error(self, quote: bool) -> TableError:
        """Return the error for this cell; ``quote`` only if the policy has asked for its value."""
        if self.value is ABSENT:
            return TableError(f"Row {describe_cell(self.row)} lacks column {self.column!r}.")
        got = f" Got {describe_cell(self.value)} instead." if quote else ""
        where = f"Row {describe_cell(self.row)} of column {self.column!r}"
        return TableError(f"{where} must be {EXPECTED[self.type]}, as in fit.{got}")


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
    except Exception:  # an array, a signalling NaN, or any other object
        return False


def describe_cell(value: Any) -> str:
    """Return a short description of a cell, for error messages."""
    if isinstance(value, str | bytes):
        return repr(value[:60]) + ("…" if len(value) > 60 else "")
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, int | float | np.number):
        return str(value)
    return f"a value of the type {type(value).__name__}"


def plain_cell(value: Any) -> Any:
    """Return a cell as a bool, int, float or str; None if missing, `INVALID` for another type."""
    try:
        return _plain_cell(value)
    except Exception:  # a cell may be any object, and its methods may raise anything
        return INVALID


def _plain_cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        # The items of datetime64 and timedelta64 may be integers.
        if isinstance(value, np.bool_ | np.integer | np.str_ | np.bytes_):
            value = value if isinstance(value, np.timedelta64) else value.item()
        elif isinstance(value, np.floating):
            value = float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # Subclasses may have other methods.
    if isinstance(value, float):
        number = float.__float__(value)
        return None if number != number else number
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    return None if is_missing(value) else INVALID


def _parse_number(cell: Any, _: Collection[Any] = ()) -> Any:
    if isinstance(cell, str):
        text = cell.strip(_SPACE)
        if text in MISSING_TEXTS:
            return None
        if not _NUMBER.fullmatch(text):
            return float(_TRUTH[text.lower()]) if text.lower() in _TRUTH else INVALID
        number = float(text)
    else:
        try:
            number = float(cell)
        except OverflowError:
            return INVALID
    return number if np.isfinite(number) else INVALID


def _parse_boolean(cell: Any, _: Collection[Any] = ()) -> Any:
    number = _parse_number(cell)
    if number is None or number is INVALID:
        return number
    return bool(number) if number in (0.0, 1.0) else INVALID


def _parse_text(cell: Any, categories: Collection[Any]) -> Any:
    if isinstance(cell, str):
        return None if cell in MISSING_TEXTS and cell not in categories else cell
    # A reader that infers types may have turned the text of a category into a number or boolean.
    if isinstance(cell, float) and not np.isfinite(cell):
        return INVALID
    try:
        whole = isinstance(cell, float) and cell.is_integer()
        text = str(int(cell)) if whole else str(cell)
    except ValueError:  # integers of more than 4,300 digits
        return INVALID
    if text in categories:
        return text
    if isinstance(cell, bool):
        alike = [c for c in categories if c.lower() == text.lower()]
    else:
        alike = [c for c in categories if _NUMBER.fullmatch(c) and float(c) == cell]
    return alike[0] if len(alike) == 1 else text


def _parse_numeric_category(cell: Any, _: Collection[Any] = ()) -> Any:
    number = _parse_number(cell)
    # Integers beyond 2**53 are distinct categories.
    return cell if isinstance(cell, int) and number is not INVALID else number


_PARSERS: dict[ColumnType, Callable[[Any, Collection[Any]], Any]] = {
    "number": _parse_number,
    "boolean": _parse_boolean,
    "text": _parse_text,
    "numeric category": _parse_numeric_category,
}


def parse_cell(value: Any, type: ColumnType, categories: Collection[Any] = ()) -> Any:
    """Parse one cell.

    Parameters
    ----------
    value : object
        Text, a number, a boolean, or a missing value.
    type : {'number', 'boolean', 'text', 'numeric category'}
        The type of the column.
    categories : collection of str, optional
        The categories of a text column.

    Returns
    -------
    float, bool, str, int, None or INVALID
        None for a missing value.

    Examples
    --------
    >>> [parse_cell(text, "number") for text in ("1.5e3", " 2 ", "NA", "1_000", "inf")]
    [1500.0, 2.0, None, INVALID, INVALID]
    >>> [parse_cell(cell, "boolean") for cell in ("TRUE", 0, "maybe")]
    [True, False, INVALID]
    >>> [parse_cell(cell, "text", {"1", "x"}) for cell in ("1", 1, 1.0, "NA")]
    ['1', '1', '1', None]
    """
    cell = plain_cell(value)
    if cell is None or cell is INVALID:
        return cell
    return _PARSERS[type](cell, categories)


def parse_column(
    values: NDArray[Any],
    type: ColumnType,
    name: str,
    categories: Collection[Any] = (),
    rows: Sequence[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Parse a column, each cell by itself.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Of any type.
    type, categories
        As in `parse_cell`.
    name : str
        Name of the column, for errors.
    rows : sequence, optional
        Labels of the rows, for errors; their positions by default.

    Returns
    -------
    column : ndarray of float64 or object
        In the representation of `suwr.data.frame.Table`; missing where a cell is invalid.
    invalid : ndarray of object, or None
        The `InvalidCell` at each invalid cell and None elsewhere; None if all cells are valid.
    """
    cells = values.tolist() if values.dtype.kind in "biufOUST" else list(values)
    if type == "number":
        column = _parse_numbers(values, cells)
    else:
        memory: dict[str, Any] = {}
        column = np.empty(len(cells), dtype=object)
        for i, cell in enumerate(cells):
            if not _is_str(cell):
                column[i] = parse_cell(cell, type, categories)
                continue
            if cell not in memory:
                memory[cell] = parse_cell(cell, type, categories)
            column[i] = memory[cell]
    bad = [i for i, cell in enumerate(column) if cell is INVALID] if column.dtype == object else []
    if not bad:
        return column, None
    invalid = np.full(len(column), None, dtype=object)
    for i in bad:
        invalid[i] = InvalidCell(i if rows is None else rows[i], name, type, cells[i])
        column[i] = None
    if type == "number":
        column = column.astype(np.float64)
    return column, invalid


def _is_str(cell: Any) -> bool:
    return type(cell) is str


def _parse_numbers(values: NDArray[Any], cells: list[Any]) -> NDArray[Any]:
    """Return float64; objects with `INVALID` if any cell is invalid."""
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            column = values.astype(np.float64)
        if np.isinf(column).any():
            return np.where(np.isinf(column), INVALID, column.astype(object))
        return column
    try:
        joined = "".join(cells)
        # `float` accepts more than `_NUMBER`: underscores, other digits and other spaces.
        if joined.isascii() and joined.isprintable() and "_" not in joined:
            column = np.array([float(cell) for cell in cells])
            if np.isfinite(column).all():
                return column
    except Exception:  # not only texts of numbers
        pass
    parsed = [parse_cell(cell, "number") for cell in cells]
    if any(cell is INVALID for cell in parsed):
        column = np.empty(len(parsed), dtype=object)
        column[:] = parsed
        return column
    return np.array([np.nan if cell is None else cell for cell in parsed], dtype=np.float64)
