"""Answers to questions about single columns, and values known in advance, as they are typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suwr._utils.text import format_number, format_value, printable
from suwr.cli.dates import read_date
from suwr.data.dates import DateParts
from suwr.data.descriptions import ColumnDescription
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.parse import INVALID

__all__ = ["Answer", "UnseenError", "describe", "read_answer", "read_command", "read_known"]

MISSING = ("", "?", "missing", "unknown")
UNDO = ("undo",)
UNAVAILABLE = ("unavailable",)
# With a leading colon, a command is recognised even if a category has the same name.
COMMANDS = {
    ":missing": "missing", ":unknown": "missing", ":undo": "undo", ":unavailable": "unavailable",
}  # fmt: skip
# Categories listed in a question or an error message.
MAX_CATEGORIES = 12
NO_COLUMN_DESCRIPTION = ColumnDescription()


class UnseenError(ValueError):
    """The answer is valid, but unlike anything in the training data, so it may be a typing error.

    Attributes
    ----------
    value : Any
        The value that the answer stands for.
    """

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class Answer:
    """A parsed answer.

    Attributes
    ----------
    value : Any
        The value; None for 'missing'.
    undo : bool
        Whether the previous answer is to be taken back instead.
    unavailable : bool
        Whether the feature cannot be had, so that the model has to do without it.
    """

    value: Any = None
    undo: bool = False
    unavailable: bool = False


def read_answer(
    text: str, code: ColumnCode, column: ColumnDescription = NO_COLUMN_DESCRIPTION
) -> Answer:
    """Parse the answer to a question about one column.

    Parameters
    ----------
    text : str
        The line that was typed.
    code : ColumnCode
        Encoding of the column.
    column : ColumnDescription
        Its labels are answers too.

    Raises
    ------
    UnseenError
        The answer is valid, but unlike anything in the training data.
    ValueError
        The answer is invalid; the message says what is expected.

    Examples
    --------
    >>> read_answer("4.5", ColumnCode()).value, read_answer("missing", ColumnCode()).value
    (4.5, None)
    >>> read_answer("Red", ColumnCode(categories=("blue", "red"))).value
    'red'
    """
    text = text.strip()
    # Categories take precedence over commands: a category may be named 'missing'.
    known = [(str(category), category) for category in code.categories or ()]
    for names in (known, [(label, value) for value, label in column.labels]):
        found = _category(text, names)
        if found is not None:
            return Answer(found)
    command = read_command(text)
    if command is not None:
        return command
    value = code.parse(text)
    if value is None:
        return Answer(None)
    if code.categories is None:
        return Answer(_number(value, text, code))
    return Answer(value if value in code.categories else _unseen(text, code, column))


def read_command(text: str) -> Answer | None:
    """Return what 'missing', 'undo' and 'unavailable' stand for; None for any other text."""
    word = COMMANDS.get(text.lower(), text.lower())
    if word in UNDO:
        return Answer(undo=True)
    if word in UNAVAILABLE:
        return Answer(unavailable=True)
    return Answer(None) if word in MISSING else None


def describe(code: ColumnCode, column: ColumnDescription = NO_COLUMN_DESCRIPTION) -> str:
    """Return what a column expects, for the prompt."""
    if code.categories is not None:
        return _listing([column.value_text(category) for category in code.categories])
    summary = code.summary
    if summary is None:
        low, high = code.center - code.scale, code.center + code.scale
    elif summary.values is not None:
        if not column.labels and _is_long_range(summary.values):
            unit = "" if column.unit is None else f" {printable(column.unit)}"
            return f"a whole number from {summary.values[0]:g} to {summary.values[-1]:g}{unit}"
        return _alternatives([_value_text(column, value) for value in summary.values])
    else:
        # The central 80 % of the training values.
        low, high = summary.quantiles[2], summary.quantiles[-3]
    whole = summary is not None and all(q == int(q) for q in summary.quantiles if abs(q) < 2**53)
    unit = "" if column.unit is None else f" {printable(column.unit)}"
    usual = f"{format_number(low, 3)} to {format_number(high, 3)}{unit}"
    return f"a {'whole ' if whole else ''}number, usually {usual}"


def read_known(
    pairs: Sequence[str], encoder: TableEncoder, dates: DateParts | None = None
) -> dict[str, Any]:
    """Return the values of ``column=value`` pairs by column; dates stand for their parts.

    Examples
    --------
    >>> read_known(["age=41"], TableEncoder(["age"], [ColumnCode()]))
    {'age': 41.0}
    """
    known: dict[str, Any] = {}
    by_name = {} if dates is None else {date.name: date for date in dates.dates_}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if sign and name in by_name:
            date = by_name[name]
            if known.keys() & set(date.columns):
                raise ValueError(f"--known has two values for {name!r}.")
            known |= read_date(date, text)
            continue
        if not sign or name not in encoder.names:
            expected = "COLUMN=VALUE, with a column of the model"
            raise ValueError(f"--known must be {expected}. Got {pair!r}.")
        if name in known:
            raise ValueError(f"--known has two values for {name!r}.")
        try:
            answer = read_answer(text, encoder.codes[encoder.names.index(name)])
        except UnseenError as error:
            answer = Answer(error.value)
        except ValueError as error:
            raise ValueError(f"--known {name}: {error}") from None
        if answer.undo or answer.unavailable:
            raise ValueError(f"--known {name} must be a value. Got {text!r}.")
        known[name] = answer.value
    return known


def _category(text: str, names: Sequence[tuple[str, Any]]) -> Any:
    """Return the category with this name, or the only one with it ignoring case."""
    for name, category in names:
        if text == name:
            return category
    alike = [category for name, category in names if text.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _number(value: Any, text: str, code: ColumnCode) -> float:
    if value is INVALID:
        raise ValueError(f"Please enter a finite number. Got {text!r}.")
    summary = code.summary
    unseen = None
    if code.is_far(value):
        unseen = "is far outside the training data"
    elif summary is not None and summary.values is not None and value not in summary.values:
        unseen = "does not occur in the training data"
    if unseen is not None:
        raise UnseenError(
            f"{format_value(value)} {unseen} ({describe(code)}). Type it again to use it anyway.",
            value,
        )
    return float(value)


def _unseen(text: str, code: ColumnCode, column: ColumnDescription) -> Any:
    assert code.categories is not None
    message = f"Please enter one of: {describe(code, column)}. Got {text!r}."
    if all(isinstance(c, str) for c in code.categories):
        # Rare categories are encoded as 'any other', so an unseen one is valid.
        raise UnseenError(f"{message} Type it again to use it as 'any other'.", text)
    raise ValueError(message)


def _value_text(column: ColumnDescription, value: float) -> str:
    """Return the label of a value that has one; otherwise the number as it is typed."""
    labelled = any(known == value for known, _ in column.labels)
    return column.value_text(value) if labelled else f"{value:g}"


def _is_long_range(values: Sequence[float]) -> bool:
    """Whether the values are more than three consecutive whole numbers."""
    first = values[0]
    return len(values) > 3 and list(values) == [first + i for i in range(len(values))]


def _alternatives(texts: Sequence[str]) -> str:
    """Return '1', '1 or 2', '1, 2 or 3'."""
    *rest, last = texts
    return f"{', '.join(rest)} or {last}" if rest else last


def _listing(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:MAX_CATEGORIES])
    n_more = len(texts) - MAX_CATEGORIES
    return shown if n_more <= 0 else f"{shown}, … ({n_more} more)"
