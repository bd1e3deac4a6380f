"""Columns of dates on the command line: parameters of a model, and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suwr.data.dates import WEEKDAYS, DateColumn, DateParts

__all__ = ["date_of", "date_parameters", "read_date"]


def date_parameters(
    dates: DateParts, groups: Mapping[str, Sequence[str]], columns: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return ``groups`` and ``columns`` for a table in which dates are replaced by their parts.

    Parameters
    ----------
    dates : DateParts
        Fitted.
    groups : mapping of str to sequence of str
        The value of --group. A date in a group stands for its parts; any other date is a unit.
    columns : mapping or None
        The value of --columns. The label of a date precedes the names of its parts.
    """
    parts = dates.groups_
    resolved = {
        unit: [part for name in names for part in parts.get(name, [name])]
        for unit, names in groups.items()
    }
    grouped = {name for names in groups.values() for name in names}
    resolved |= {name: own for name, own in parts.items() if name not in grouped}
    described = {name: value for name, value in (columns or {}).items() if name not in parts}
    for date in dates.dates_:
        label = dict((columns or {}).get(date.name) or {}).get("label")
        for part, column in zip(date.parts, date.columns, strict=True):
            own: dict[str, Any] = {} if label is None else {"label": f"{label} {part}"}
            if part == "weekday":
                own["categories"] = WEEKDAYS
            if own:
                described.setdefault(column, own)
    return {"groups": resolved, "columns": described or None}


def date_of(model: Any, columns: Sequence[str]) -> DateColumn | None:
    """Return the date whose parts are the first of the columns that are asked for, if any."""
    for date in () if model.dates_ is None else model.dates_.dates_:
        if list(columns[: len(date.columns)]) == date.columns:
            found: DateColumn = date
            return found
    return None


def read_date(date: DateColumn, text: str) -> dict[str, float | None]:
    """Return the parts of a date that was typed, by column.

    Raises
    ------
    ValueError
        The text is not a date.
    """
    values = date.values(text)
    if values is None:
        raise ValueError(f"Please enter {date.expected}. Got {text!r}.")
    return dict(zip(date.columns, values, strict=True))
