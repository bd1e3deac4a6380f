"""Dates as numbers: year, month, day, weekday, hour and minute.

Every cell is parsed by itself, with what `DateParts.fit` has learned about its column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, datetime
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from suwr._utils.text import check_unicode
from suwr._utils.validation import check_choice, parameter_error
from suwr.data.frame import column_names, is_frame, row_labels, series_cells
from suwr.data.parse import INVALID, MISSING_TEXTS, describe_cell, is_missing
from suwr.exceptions import TableError

#: The parts of a date, in the order of their columns.
PARTS = ("year", "month", "day", "weekday", "hour", "minute")
#: Names of the numbers of weekdays, as in ISO 8601.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKDAYS = dict(enumerate(_DAYS, start=1))
_EXAMPLES = {"ymd": "2024-12-31", "dmy": "31.12.2024", "mdy": "12/31/2024"}
_ORDERS = tuple(_EXAMPLES)
_TIME = (
    r"(?:[T ]+(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::[0-9]{2}(?:[.,][0-9]+)?)?"
    r" ?(?P<half>[AaPp][Mm])?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR_FIRST = re.compile(r"([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})" + _TIME)
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})" + _TIME)
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")


def parse_date(value: Any, order: str) -> Any:
    """Parse one cell.

    Parameters
    ----------
    value : object
        A `datetime.date` or `datetime.datetime`, text such as '2024-03-01 13:45', or a number such
        as 20240301. Offsets from UTC are ignored: the parts are those of the time as written.
    order : {'ymd', 'dmy', 'mdy'}
        The order of day, month and year in texts.

    Returns
    -------
    datetime, None or INVALID
        None for a missing value.

    Examples
    --------
    >>> parse_date("2024-03-01", "ymd").month, parse_date("1.3.2024 09:30", "dmy").month
    (3, 3)
    >>> parse_date("", "ymd") is None, parse_date("soon", "ymd"), parse_date("2024-02-30", "ymd")
    (True, INVALID, INVALID)
    """
    try:
        return _parse(value, order)
    except Exception:  # a cell may be any object, and its methods may raise anything
        return INVALID


def _parse(value: Any, order: str) -> Any:
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        if not MINYEAR <= value.astype("datetime64[Y]").astype(int) + 1970 <= MAXYEAR:
            return INVALID
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        # The years of pandas have no limit.
        return value if value.year <= MAXYEAR else INVALID
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.0f}" if 0 < value < 1e8 and value == int(value) else ""
        return _parse_text(value, order) if value else INVALID
    if not isinstance(value, str):
        return INVALID
    text = value.strip()
    return None if text in MISSING_TEXTS else _parse_text(text, order)


def _parse_text(text: str, order: str) -> Any:
    match = (_YEAR_FIRST if order == "ymd" else _YEAR_LAST).fullmatch(text)
    if match is not None:
        first, second, third = (int(match[group]) for group in (1, 3, 4))
        clock = match.groupdict()
        two_digits = order != "ymd" and len(match[4]) == 2
    elif order == "ymd" and (match := _COMPACT.fullmatch(text)):
        first, second, third = (int(match[group]) for group in (1, 2, 3))
        clock, two_digits = {}, False
    else:
        return INVALID
    year, month, day = {
        "ymd": (first, second, third),
        "dmy": (third, second, first),
        "mdy": (third, first, second),
    }[order]
    if two_digits:
        # As `time.strptime`: 69 to 99 are years of the twentieth century.
        year += 1900 if year >= 69 else 2000
    hour, minute = (int(clock.get(name) or 0) for name in ("hour", "minute"))
    if half := clock.get("half"):
        if not 1 <= hour <= 12:
            return INVALID
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return INVALID


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, and the columns that replace it.

    Attributes
    ----------
    name : str
        The column of dates. The columns of its parts are ``'NAME year'``, ``'NAME month'``, ...
    order : {'ymd', 'dmy', 'mdy'}
    parts : tuple of str
        Of 'year', 'month', 'day', 'weekday' (1 is Monday), 'hour' and 'minute'.
    """

    name: str
    order: str
    parts: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the parts."""
        return [f"{self.name} {part}" for part in self.parts]

    @property
    def expected(self) -> str:
        """What a cell must be, in words."""
        return f"a date such as {_EXAMPLES[self.order]}"

    def values(self, cell: Any) -> list[float | None] | None:
        """Return the parts of a cell; None if it is not a date. Parts may be missing."""
        found = parse_date(cell, self.order)
        return None if found is INVALID else _parts_of(found, self.parts)

    def expand(self, cells: Sequence[Any]) -> list[list[Any]]:
        """Return the columns of the parts.

        The parts of a cell that is not a date are texts that say so, which a model refuses if it
        reveals them. Nothing else happens, since the cell may be hidden.
        """
        rows: list[list[Any]] = []
        for cell in cells:
            parts: Any = self.values(cell)
            rows.append(parts or [f"{describe_cell(cell)} (not a date)"] * len(self.parts))
        columns = [list(column) for column in zip(*rows, strict=True)]
        return columns or [[] for _ in self.parts]


def _parts_of(found: datetime | None, parts: Sequence[str]) -> list[float | None]:
    if found is None:
        return [None] * len(parts)
    numbers = {part: getattr(found, part) for part in PARTS if part != "weekday"}
    numbers["weekday"] = found.isoweekday()
    return [float(numbers[part]) for part in parts]


class DateParts(TransformerMixin, BaseEstimator):
    """Replace columns of dates by their year, month, day, weekday, hour and minute.

    Parts that are the same in all rows of `fit` are left out. Missing dates have missing parts.

    Parameters
    ----------
    columns : sequence of str
        The columns of dates.
    order : {'auto', 'ymd', 'dmy', 'mdy'}, default='auto'
        The order of day, month and year in texts. 'auto' is the one in which all texts of a column
        are dates.

    Attributes
    ----------
    dates_ : tuple of DateColumn
        What was learned about each column.
    groups_ : dict of str to list of str
        The columns of the parts of each date, for the ``groups`` parameter of the estimators: the
        parts of a date are revealed together, at one cost.

    Examples
    --------
    >>> import pandas as pd
    >>> from suwr import DateParts
    >>> X = pd.DataFrame({"sold": ["2024-03-01", "2023-03-02"], "price": [10.0, 20.0]})
    >>> dates = DateParts(["sold"]).fit(X)
    >>> dates.transform(X).columns.tolist()
    ['sold year', 'sold day', 'sold weekday', 'price']
    >>> dates.groups_
    {'sold': ['sold year', 'sold day', 'sold weekday']}
    """

    def __init__(
        self, columns: Sequence[str], *, order: Literal["auto", "ymd", "dmy", "mdy"] = "auto"
    ) -> None:
        self.columns = columns
        self.order = order

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the order of day, month and year, and which parts vary.

        Parameters
        ----------
        X : data frame
        y : object, default=None
            Not used.

        Returns
        -------
        self
        """
        check_choice(self.order, "order", "DateParts", ("auto", *_ORDERS))
        names = self._check_columns(X)
        frame, labels = nw.from_native(X, eager_only=True), row_labels(X, len(X))
        found = []
        for name in names:
            cells = series_cells(frame.get_column(name))
            order = _find_order(cells, name, labels) if self.order == "auto" else self.order
            found.append(_fit_column(cells, name, order, labels))
        taken = set(map(str, frame.columns)).difference(names)
        for column in (column for dates in found for column in dates.columns):
            if column in taken:
                raise TableError(f"'X' must not have a column named {column!r}: a part of a date.")
            taken.add(column)
        self.dates_ = tuple(found)
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        return self

    def transform(self, X: Any) -> Any:
        """Replace the columns of dates by those of their parts.

        Parameters
        ----------
        X : data frame

        Returns
        -------
        data frame
            Cells that are not dates are texts that say so; a model refuses them if it reveals them.
        """
        check_is_fitted(self, "dates_")
        self._check_columns(X)
        frame = nw.from_native(X, eager_only=True)
        parts: list[Any] = []
        for dates in self.dates_:
            cells = dates.expand(series_cells(frame.get_column(dates.name)))
            for column, values in zip(dates.columns, cells, strict=True):
                number = not any(isinstance(value, str) for value in values)
                # Frames other than those of pandas have one type per column.
                shown = values if number else [None if v is None else str(v) for v in values]
                kind = nw.Float64() if number else nw.String()
                parts.append(nw.new_series(column, shown, kind, backend=frame.implementation))
        order = self.get_feature_names_out(frame.columns).tolist()
        return frame.with_columns(*parts).select(*order).to_native()

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : sequence of str, optional
            The columns of ``X``; by default those of `fit`.

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self, "dates_")
        names = self.feature_names_in_ if input_features is None else input_features
        parts = {column.name: column.columns for column in self.dates_}
        return np.array([new for name in names for new in parts.get(name, [name])], dtype=object)

    @property
    def groups_(self) -> dict[str, list[str]]:
        """The columns of the parts of each date."""
        check_is_fitted(self, "dates_")
        return {column.name: column.columns for column in self.dates_}

    def sources(self, names: Sequence[str]) -> list[str]:
        """Return the columns that `transform` needs to make ``names``, in order."""
        source = {part: column.name for column in self.dates_ for part in column.columns}
        return list(dict.fromkeys(source.get(name, name) for name in names))

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain values, for model files."""
        check_is_fitted(self, "dates_")
        return [{"name": c.name, "order": c.order, "parts": list(c.parts)} for c in self.dates_]

    @classmethod
    def from_list(cls, state: Sequence[Mapping[str, Any]]) -> DateParts:
        """Create a fitted transformer from the output of `to_list`."""
        found = tuple(DateColumn(str(c["name"]), c["order"], tuple(c["parts"])) for c in state)
        for column in found:
            if column.order not in _ORDERS or not column.parts or set(column.parts) - set(PARTS):
                raise ValueError(f"The parts of the dates {column.name!r} are invalid.")
        restored = cls([column.name for column in found])
        restored.dates_ = found
        return restored

    def _check_columns(self, X: Any) -> list[str]:
        names = list(self.columns) if not isinstance(self.columns, str) else []
        if not names or not all(isinstance(name, str) for name in names):
            raise parameter_error("columns", "DateParts", "a sequence of names", self.columns)
        if len(set(names)) < len(names):
            raise parameter_error("columns", "DateParts", "distinct names", self.columns)
        check_unicode(names, "Names of columns")
        if not is_frame(X):
            raise TableError("DateParts requires a data frame, whose columns have names.")
        present = column_names(X) or []
        missing = [name for name in names if name not in present]
        if missing:
            raise TableError(f"'X' has no column {missing[0]!r}, which holds dates.")
        return names


def _find_order(cells: Sequence[Any], name: str, labels: Sequence[Any]) -> str:
    """Return the order in which all cells are dates."""
    parsed = {order: [parse_date(cell, order) for cell in cells] for order in _ORDERS}
    invalid = {order: sum(p is INVALID for p in parsed[order]) for order in _ORDERS}
    complete = [order for order in _ORDERS if not invalid[order]]
    if not complete:
        # The error names the first cell that is not a date in the most likely order.
        return min(_ORDERS, key=lambda order: invalid[order])
    if "ymd" in complete or len(complete) == 1:
        return complete[0]
    different = [a != b for a, b in zip(parsed["dmy"], parsed["mdy"], strict=True)]
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not any(different) or all("." in text for text in texts if text.strip()):
        # Only days are separated from months by dots.
        return "dmy"
    row = different.index(True)
    raise TableError(
        f"The order of day and month in column {name!r} is ambiguous: row "
        f"{describe_cell(labels[row])} is {describe_cell(cells[row])}. Set it to 'dmy' or 'mdy' "
        "('order', or --date-order)."
    )


def _fit_column(cells: Sequence[Any], name: str, order: str, labels: Sequence[Any]) -> DateColumn:
    rows = []
    for label, cell in zip(labels, cells, strict=True):
        found = parse_date(cell, order)
        if found is INVALID:
            raise TableError(
                f"Row {describe_cell(label)} of column {name!r} must be a date such as "
                f"{_EXAMPLES[order]}. Got {describe_cell(cell)} instead."
            )
        if found is not None:
            rows.append(_parts_of(found, PARTS))
    columns = zip(PARTS, zip(*rows, strict=True), strict=False)
    varying = [part for part, values in columns if len(set(values)) > 1]
    return DateColumn(name, order, tuple(varying) or ("year",))
