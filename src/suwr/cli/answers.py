"""Reading what somebody typed: a value of a column, 'unknown', or 'undo'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suwr.data.encoding import ColumnCode

__all__ = ["Answer", "UnseenError", "describe", "read_answer"]

UNKNOWN = ("", "?", "unknown", "missing")
UNDO = ("undo",)
# With a colon in front it is a command, even where a category has the same name.
COMMANDS = {":unknown": "unknown", ":undo": "undo"}
# Categories that a hint or an error lists.
MOST_SHOWN = 12
# A number further away than this many usual spreads from the middle is probably a slip.
FAR = 10.0


class UnseenError(ValueError):
    """The answer can be used, but training had nothing like it: a slip of the keyboard?

    Attributes
    ----------
    value : Any
        What it would be read as.
    """

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class Answer:
    """What an answer means.

    Attributes
    ----------
    value : Any
        None for 'unknown'.
    undo : bool
        Take the last answer back instead.
    """

    value: Any = None
    undo: bool = False


def read_answer(text: str, code: ColumnCode) -> Answer:
    """Read one answer.

    Raises
    ------
    UnseenError
        Where it can be read but training saw nothing like it.
    ValueError
        Where it cannot be read; the message says what is expected.

    Examples
    --------
    >>> read_answer("4.5", ColumnCode()), read_answer("unknown", ColumnCode())
    (Answer(value=4.5, undo=False), Answer(value=None, undo=False))
    >>> read_answer("Red", ColumnCode(categories=("blue", "red"))).value
    'red'
    """
    text = text.strip()
    # The data's own words come first: there are columns with a category named 'unknown'.
    category = _category(text, code.categories or ())
    if category is not None:
        return Answer(category)
    word = COMMANDS.get(text.lower(), text.lower())
    if word in UNDO:
        return Answer(undo=True)
    if word in UNKNOWN:
        return Answer(None)
    return Answer(_number(text, code) if code.categories is None else _unseen(text, code))


def describe(code: ColumnCode) -> str:
    """What a column expects, for the question."""
    if code.categories is None:
        low, high = code.center - code.scale, code.center + code.scale
        return f"a number, usually {low:.3g} to {high:.3g}"
    return _listing(code.categories)


def _category(text: str, categories: tuple[Any, ...]) -> Any:
    """The category that was meant: as written, or the only one that differs just in case."""
    for category in categories:
        if text == str(category):
            return category
    alike = [c for c in categories if text.lower() == str(c).lower()]
    return alike[0] if len(alike) == 1 else None


def _number(text: str, code: ColumnCode) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"Please give a number. Got {text!r}.") from None
    if value - value != 0:
        raise ValueError(f"Please give a finite number. Got {text!r}.")
    if abs(value - code.center) > FAR * code.scale:
        raise UnseenError(
            f"{value:g} is far from what the model has learnt from ({describe(code)}). "
            "Give it again to use it.",
            value,
        )
    return value


def _unseen(text: str, code: ColumnCode) -> Any:
    assert code.categories is not None
    message = f"Please answer one of: {_listing(code.categories)}. Got {text!r}."
    if all(isinstance(c, str) for c in code.categories):
        # Rare words share the code of 'any other', so a new one is possible.
        raise UnseenError(f"{message} Give it again to use it as 'any other'.", text)
    raise ValueError(message)


def _listing(categories: tuple[Any, ...]) -> str:
    shown = ", ".join(str(c) for c in categories[:MOST_SHOWN])
    left = len(categories) - MOST_SHOWN
    return shown if left <= 0 else f"{shown}, … ({left} more)"
