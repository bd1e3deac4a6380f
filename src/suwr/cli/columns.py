"""Notes on the columns of a training table that are probably not meant as they are read."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from suwr._utils.text import printable
from suwr.data.parse import describe_cell, parse_cell

__all__ = ["column_notes", "identifier_columns"]

# Fewer rows do not suffice to recognise an identifier.
MIN_ROWS = 20
# Share of distinct values from which a text column is an identifier.
DISTINCT = 0.95
# Share of the values of a text column that must look like dates or numbers.
ALIKE = 0.9
# Share of the rows of a text column with a value of their own from which it is reported.
SINGLE = 0.5
_NAME = re.compile(r"(?:^|[\W_])(?:id|ids|uid|uuid|guid|index|key)$|[a-z]I[Dd]$|^Unnamed: \d+$")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?: .*)?"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def identifier_columns(frame: Any) -> list[str]:
    """Return the columns that probably number or name the rows.

    Text of which almost all values are distinct, integers that count the rows, and distinct
    integers in a column with a name such as 'patient_id'.

    Parameters
    ----------
    frame : pandas.DataFrame
        The training table without the target.
    """
    return [] if len(frame) < MIN_ROWS else [n for n in frame if _is_identifier(frame[n])]


def column_notes(frame: Any, identifiers: Collection[str]) -> list[str]:
    """Return sentences about identifiers, and about dates, times and numbers read as text.

    Parameters
    ----------
    frame : pandas.DataFrame
        The training table without the target.
    identifiers : collection of str
        See `identifier_columns`.
    """
    notes = []
    for name in frame:
        if name in identifiers:
            notes.append(
                f"Column {printable(name)!r} looks like an identifier, which cannot help on new "
                "rows. Leave it out with --drop or --drop-identifiers."
            )
        elif frame[name].dtype.kind not in "biuf":
            note = _text_note(printable(name), frame[name])
            notes += [note] if note else []
    return notes


def _is_identifier(column: Any) -> bool:
    present = column.dropna()
    if len(present) < MIN_ROWS:
        return False
    if column.dtype.kind in "iu":
        values = np.sort(present.to_numpy())
        distinct = bool((np.diff(values) > 0).all())
        counts = distinct and int(values[-1]) - int(values[0]) == len(values) - 1
        return counts or (distinct and bool(_NAME.search(str(column.name))))
    if column.dtype.kind in "bfc" or not all(isinstance(v, str) for v in present):
        return False
    return present.nunique() >= DISTINCT * len(present) and not _dates(present)


def _dates(texts: Any) -> bool:
    return _alike(texts, _DATE)


def _alike(texts: Any, pattern: re.Pattern[str]) -> bool:
    """Whether most of the texts match."""
    return bool(np.mean([bool(pattern.fullmatch(t.strip())) for t in texts]) >= ALIKE)


def _text_note(name: str, column: Any) -> str | None:
    present = column.dropna()
    if len(present) == 0 or not all(isinstance(v, str) for v in present):
        return None
    if _dates(present):
        return (
            f"Column {name!r} contains dates such as {describe_cell(present.iloc[0])}, which are "
            f"used as text. Use their year, month, day and weekday with --dates {name!r}."
        )
    if _alike(present, _TIME):
        return (
            f"Column {name!r} contains times such as {describe_cell(present.iloc[0])}, which are "
            "used as text. Replace it by a number, for example the hour."
        )
    if _alike(present, _DECIMAL_COMMA):
        return (
            f"Column {name!r} contains texts such as {describe_cell(present.iloc[0])}. If the "
            "comma is a decimal separator, pass --decimal ','."
        )
    other = [not isinstance(parse_cell(t, "number"), float) for t in present]
    if 0 < np.mean(other) <= 1 - ALIKE:
        row = int(np.flatnonzero(other)[0])
        return (
            f"Column {name!r} is used as text, since {sum(other)} of its {len(present)} values are "
            f"not numbers: row {present.index[row]} is {describe_cell(present.iloc[row])}."
        )
    single = int((present.value_counts() == 1).sum())
    if len(present) >= MIN_ROWS and single >= SINGLE * len(present):
        return (
            f"Column {name!r} is text, and {single} of its {len(present)} values occur once. Such "
            "values cannot help on new rows. Leave it out with --drop, or replace it by categories."
        )
    return None
