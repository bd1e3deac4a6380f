"""Bodies of requests: JSON that no cell can break, and errors that name a field but no value."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.descriptions import Question
from suwr.data.frame import Table
from suwr.data.parse import INVALID, InvalidCell
from suwr.estimators.fitted import FittedPolicy
from suwr.estimators.limits import largest_budget
from suwr.exceptions import TableError
from suwr.narrative.given import Given

__all__ = ["RequestError", "check_fields", "parse_rows", "read_given", "read_json", "read_rows"]

# Integers of more digits are kept as text: converting them takes quadratic time.
MAX_DIGITS = 400


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    message : str
        Names no value of the request.
    field : str or None
        The field that is wrong.
    status : int
        The HTTP status.
    """

    def __init__(self, message: str, field: str | None = None, status: int = 422) -> None:
        super().__init__(message)
        self.message, self.field, self.status = message, field, status


class Fields(dict[str, Any]):
    """A JSON object that remembers the names that occur twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated = sorted(name for name, n in counts.items() if n > 1)


def read_json(body: bytes, *, finite: bool = False) -> Fields:
    """Parse the body of a request, which must be an object.

    What a nested value contains is not checked: a cell of a row may be anything that JSON can
    represent, and matters only if the model asks for it.

    Parameters
    ----------
    body : bytes
    finite : bool, default=False
        Whether to refuse numbers that are no finite floats, wherever they are, because the response
        repeats the body.
    """
    to_float, to_integer = (_finite_float, _finite_integer) if finite else (float, _integer)
    try:
        content = json.loads(
            body, object_pairs_hook=Fields, parse_int=to_integer, parse_float=to_float,
            parse_constant=to_float,
        )  # fmt: skip
    except (ValueError, RecursionError):
        # The message of the parser may quote the body.
        raise RequestError("The body must be a JSON object.", status=400) from None
    if not isinstance(content, Fields):
        raise RequestError("The body must be a JSON object.", status=400)
    return content


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RequestError("Every number of a resource must be finite, and at most 1.8e308.")
    return number


def _finite_integer(text: str) -> int:
    _finite_float(text)
    return int(text)


def check_fields(content: Any, what: str, allowed: set[str] | None = None) -> Fields:
    """Return an object whose names are unique and, if ``allowed`` is given, among these."""
    if not isinstance(content, Fields):
        raise RequestError(f"{what!r} must be an object.", what)
    if content.repeated:
        name = content.repeated[0]
        raise RequestError(f"{name!r} is given twice in {what!r}.", name)
    unknown = [name for name in content if allowed is not None and name not in allowed]
    if unknown:
        raise RequestError(
            f"Unknown field {unknown[0]!r} of {what!r}. "
            f"Known fields: {', '.join(sorted(allowed or ()))}.",
            unknown[0],
        )
    return content


def read_given(model: FittedPolicy, questions: Mapping[str, Question], request: Fields) -> Given:
    """Read the fields 'known', 'unavailable' and 'max_cost' of a request.

    Parameters
    ----------
    model : FittedPolicy
    questions : mapping
        The question of each column.
    request : Fields
    """
    known = check_fields(request.get("known", Fields([])), "known")
    unavailable = request.get("unavailable", [])
    max_cost = request.get("max_cost")
    codes = dict(zip(model.names, model.encoder.codes, strict=True))
    for name, value in known.items():
        if name not in questions:
            raise RequestError(f"The model has no column {name[:80]!r}.", name[:80])
        if codes[name].parse(value) is INVALID:
            expected = questions[name].expected
            raise RequestError(f"The value of {name!r} must be {expected}, or null.", name)
    if not isinstance(unavailable, list) or not all(isinstance(u, str) for u in unavailable):
        raise RequestError("'unavailable' must be a list of units.", "unavailable")
    for unit in unavailable:
        if unit not in model.units.names:
            raise RequestError(f"The model has no unit {unit[:80]!r}.", "unavailable")
        columns = model.units.columns_of(model.units.names.index(unit))
        if all(model.names[c] in known for c in columns):
            raise RequestError(f"{unit!r} is known: it cannot be unavailable.", "unavailable")
    is_number = isinstance(max_cost, int | float) and not isinstance(max_cost, bool)
    if max_cost is not None and not (is_number and max_cost >= 0):
        raise RequestError("'max_cost' must be a number of at least 0.", "max_cost")
    # Integers may be too large for a float, and no sum of costs is.
    limit = float(max_cost) if max_cost is not None and max_cost < 1e300 else None
    largest = largest_budget(model.policy.inputs)
    if largest is not None and max_cost is not None and max_cost > largest:
        raise RequestError(
            f"'max_cost' must be at most {largest:g}, the largest budget that the model was fitted "
            "for.",
            "max_cost",
        )
    given = Given(
        dict(known), tuple(dict.fromkeys(unavailable)), largest if limit is None else limit
    )
    other = known.keys() - set(model.always_known)
    limited = bool(other or unavailable or limit is not None)
    if limited and model.guarantee:
        field = "known" if other else "unavailable" if unavailable else "max_cost"
        raise RequestError(
            "The model is certified for one policy on whole rows: 'known' (except for columns that "
            "it always knows), 'unavailable' and 'max_cost' are not possible.",
            field,
        )
    return given


@dataclass(frozen=True)
class _UnquotedCell(InvalidCell):
    """An invalid cell whose error does not contain its value."""

    def error(self, quote: bool) -> TableError:
        """See `InvalidCell`."""
        if self.value is _ABSENT:
            return TableError(f"Row {self.row} lacks column {self.column!r}, which is needed.")
        return super().error(False)


_ABSENT = type("Absent", (), {})()


def read_rows(encoder: Any, rows: Any, most: int) -> Table:
    """Parse rows, given as a list of objects.

    A cell that the model does not ask for may be anything or absent, and other fields are ignored.

    Parameters
    ----------
    encoder : TableEncoder
    rows : list of Fields
    most : int
        Maximum number of rows.
    """
    if not isinstance(rows, list) or not rows:
        raise RequestError("'rows' must be a list of at least one object.", "rows")
    if len(rows) > most:
        raise RequestError(
            f"'rows' must have at most {most} objects. Got {len(rows)}.", "rows", 413
        )
    for number, row in enumerate(rows):
        if not isinstance(row, Fields):
            raise RequestError(f"Row {number} must be an object.", "rows")
        twice = [name for name in row.repeated if name in encoder.names]
        if twice:
            raise RequestError(f"{twice[0]!r} is given twice in row {number}.", twice[0])
    return parse_rows(encoder, rows)


def parse_rows(encoder: Any, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Parse rows of which any cell may be absent; absent cells are invalid."""
    columns: list[NDArray[Any]] = []
    for name in encoder.names:
        column = np.empty(len(rows), dtype=object)
        for number, row in enumerate(rows):
            column[number] = row.get(name, _ABSENT)
        columns.append(column)
    table: Table = encoder.parse(columns)
    for cells in table.invalid.values():
        for number, cell in enumerate(cells):
            if cell is not None:
                cells[number] = _UnquotedCell(cell.row, cell.column, cell.type, cell.value)
    return table
