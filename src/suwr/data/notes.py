"""Columns that are probably not meant as they are read: identifiers, dates, free text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import printable
from suwr._utils.validation import warn_caller
from suwr.data.frame import column_names, raw_columns
from suwr.data.parse import describe_cell, is_missing, parse_cell
from suwr.exceptions import ColumnWarning

# Fewer rows do not suffice to recognise an identifier.
MIN_ROWS = 20
# Share of distinct values from which a text column is an identifier.
DISTINCT = 0.95
# Share of the values of a text column that must look like dates or numbers.
ALIKE = 0.9
# Share of the rows of a text column with a value of their own from which it is reported.
SINGLE = 0.5
# Bad cells of a column that are quoted.
MAX_QUOTED = 3
_NAME = re.compile(r"(?:^|[\W_])(?:id|ids|uid|uuid|guid|index|key)$|[a-z]I[Dd]$|^Unnamed: \d+$")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?: .*)?"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def warn_columns(X: Any) -> None:
    """Warn about columns of a data frame that are probably not meant as they are read."""
    notes = column_notes(X, identifier_columns(X))
    if notes:
        warn_caller(" ".join(notes), ColumnWarning)


def identifier_columns(X: Any) -> list[str]:
    """Return the columns of a data frame that probably number or name the rows.

    Text of which almost all values are distinct, integers that count the rows, and distinct
    integers in a column with a name such as 'patient_id'.
    """
    named = zip(column_names(X) or (), raw_columns(X), strict=True)
    return [str(name) for name, column in named if _is_identifier(str(name), column)]


def column_notes(X: Any, identifiers: Collection[str]) -> list[str]:
    """Return sentences about identifiers, and about dates, times and numbers read as text."""
    notes = []
    for name, column in zip(column_names(X) or (), raw_columns(X), strict=True):
        shown = repr(printable(name))
        if name in identifiers:
            notes.append(
                f"Column {shown} looks like an identifier, which cannot help on new rows: leave it "
                "out ('suwr fit --drop-identifiers')."
            )
        elif note := _text_note(column):
            notes.append(f"Column {shown} {note.replace('NAME', shown)}")
    return notes


def _texts(column: NDArray[Any]) -> dict[int, str]:
    """Return the values of a column of texts by row; none if it is of another type."""
    if column.dtype != object:
        return {}
    present = {row: cell for row, cell in enumerate(column) if not is_missing(cell)}
    return present if all(isinstance(cell, str) for cell in present.values()) else {}


def _is_identifier(name: str, column: NDArray[Any]) -> bool:
    if len(column) < MIN_ROWS:
        return False
    if column.dtype.kind in "iu":
        values = np.unique(column)
        counts = int(values[-1]) - int(values[0]) == len(column) - 1
        return len(values) == len(column) and (counts or bool(_NAME.search(name)))
    texts = list(_texts(column).values())
    distinct = len(set(texts)) >= DISTINCT * len(texts)
    return len(texts) >= MIN_ROWS and distinct and not _alike(texts, _DATE)


def _alike(texts: Collection[str], pattern: re.Pattern[str]) -> bool:
    """Whether most of the texts match."""
    return sum(bool(pattern.fullmatch(text.strip())) for text in texts) >= ALIKE * len(texts)


def _text_note(column: NDArray[Any]) -> str | None:
    present = _texts(column)
    texts = list(present.values())
    if not texts:
        return None
    first = describe_cell(texts[0])
    if _alike(texts, _DATE):
        return (
            f"contains dates such as {first}, which are used as text: use their year, month, day "
            "and weekday with suwr.DateParts ('suwr fit' has --dates NAME)."
        )
    if _alike(texts, _TIME):
        return (
            f"contains times such as {first}, which are used as text: replace it by a number, for "
            "example the hour."
        )
    bad = {row: text for row, text in present.items() if not _is_number(text)}
    if 0 < len(bad) <= (1 - ALIKE) * len(texts):
        rows: dict[str, int] = {}
        for row, text in bad.items():
            rows.setdefault(text, row)
        cells = [f"row {row} is {describe_cell(text)}" for text, row in rows.items()]
        quoted, patterns = ", ".join(cells[:MAX_QUOTED]), dict.fromkeys(map(_pattern, rows))
        return (
            f"is used as text, since {len(bad)} of its {len(texts)} values are not numbers: "
            f"{quoted}. If they mean 'missing', replace them by NaN ('suwr fit' has "
            f"--missing-values {','.join(patterns)!r})."
        )
    if not bad and _alike(texts, _DECIMAL_COMMA):
        return (
            f"contains texts such as {first}: if the comma is a decimal separator, read the file "
            "with decimal=',' ('suwr fit' has --decimal ',')."
        )
    single = sum(number == 1 for number in Counter(texts).values())
    if len(texts) >= MIN_ROWS and single >= SINGLE * len(texts):
        return (
            f"is text, and {single} of its {len(texts)} values occur once, which cannot help on "
            "new rows: use suwr.TextUnits, replace it by categories, or leave it out ('suwr fit' "
            "has --drop)."
        )
    return None


def _is_number(text: str) -> bool:
    """Whether a text is a number, with a decimal point or a decimal comma."""
    comma = _DECIMAL_COMMA.fullmatch(text.strip()) is not None
    return comma or isinstance(parse_cell(text, "number"), float)


def _pattern(text: str) -> str:
    """The text as --missing-values accepts it: a limit of detection stands for all."""
    return f"{text[0]}*" if text[0] in "<>" else text.strip()
