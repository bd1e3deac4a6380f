"""Revealed values that are unlike anything in the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import counted, format_value, printable
from suwr._utils.validation import warn_caller
from suwr.data.descriptions import ColumnDescription
from suwr.data.encoding import ColumnCode, TableEncoder
from suwr.data.tables import Table
from suwr.exceptions import UnusualValueWarning

__all__ = ["UnusualValue", "find_unusual", "warn_unusual"]

# Values that a warning quotes.
_MAX_QUOTED = 3


@dataclass(frozen=True)
class UnusualValue:
    """A revealed value that the training data does not cover.

    Attributes
    ----------
    row : int or str
        Position of the row, or its label.
    column : str
    value : object
    reason : str
    """

    row: int | str
    column: str
    value: Any
    reason: str

    def __str__(self) -> str:
        value = format_value(self.value)
        return f"row {printable(self.row)}: {self.column} is {value} ({self.reason})"


def find_unusual(
    encoder: TableEncoder, table: Table, mask: NDArray[np.bool_]
) -> list[UnusualValue]:
    """Return the revealed values that are far outside the training range, or unknown categories.

    Parameters
    ----------
    encoder : TableEncoder
    table : Table
        Parsed by the encoder.
    mask : ndarray of bool, shape (n_rows, n_columns)
        The revealed cells; no other cell is read.
    """
    found: list[tuple[int, UnusualValue]] = []
    for number in np.flatnonzero(mask.any(axis=0)).tolist():
        name, code = encoder.names[number], encoder.codes[number]
        described = ColumnDescription.of(code)
        for row in _unusual_rows(code, table.columns[number], np.flatnonzero(mask[:, number])):
            value = table.value(int(row), number)
            found.append((int(row), UnusualValue(int(row), name, value, described.unusual(value))))
    return [value for _, value in sorted(found, key=lambda pair: pair[0])]


def warn_unusual(
    encoder: TableEncoder,
    table: Table,
    mask: NDArray[np.bool_],
    owner: str,
    labels: Sequence[int | str],
) -> None:
    """Warn about the values that `find_unusual` returns.

    Parameters
    ----------
    encoder, table, mask
        As in `find_unusual`.
    owner : str
        The method that was called, for the message.
    labels : sequence
        One label per row.
    """
    found = find_unusual(encoder, table, mask)
    if found:
        first = [replace(v, row=labels[int(v.row)]) for v in found[:_MAX_QUOTED]]
        quoted = "; ".join(map(str, first))
        more = f"; and {len(found) - _MAX_QUOTED} more" if len(found) > _MAX_QUOTED else ""
        warn_caller(
            f"{owner} used {counted(len(found), 'value')} unlike the training data: "
            f"{quoted}{more}.",
            UnusualValueWarning,
        )


def _unusual_rows(
    code: ColumnCode, column: NDArray[Any], revealed: NDArray[np.intp]
) -> Sequence[Any] | NDArray[np.intp]:
    if code.categories is not None:
        known = frozenset(code.categories)
        return [r for r in revealed if column[r] is not None and column[r] not in known]
    if code.summary is None:
        return []
    low, high = code.summary.usual_range
    values = column[revealed]
    # Comparisons with NaN, a missing value, are false.
    return revealed[(values < low) | (values > high)]
