"""Columns as questions: what a value must be, for services and forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suwr.data.encoding import ColumnCode
from suwr.data.parsing import EXPECTED, ColumnType

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """A column, as one who is asked for its value needs to know it.

    Attributes
    ----------
    name : str
    type : {'number', 'boolean', 'text', 'numeric category'}
    values : tuple or None
        The categories of the column; None for a number. Another text is valid too: it is treated
        as any other category.
    low, high : float or None
        The central 90 % of the training values of a number.
    whole : bool
        Whether the quantiles of the training values of a number are integers.
    discrete : bool
        Whether the column has so few distinct numbers that all of them are known.
    integer : bool
        Whether all training values of a number are known, and are integers of at most nine digits:
        surveys and FHIR have no integers of more than 32 bits.

    Examples
    --------
    >>> Question.of("colour", ColumnCode(categories=("blue", "red"))).values
    ('blue', 'red')
    """

    name: str
    type: ColumnType
    values: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    whole: bool = False
    discrete: bool = False
    integer: bool = False

    @classmethod
    def of(cls, name: str, code: ColumnCode) -> Question:
        """Describe a column by its encoding."""
        if code.categories is not None:
            return cls(name, code.type, code.categories)
        if code.summary is None:
            return cls(name, code.type)
        quantiles = code.summary.quantiles
        whole = all(abs(q) < 2**53 and q == int(q) for q in quantiles)
        values = code.summary.values
        integer = values is not None and all(abs(v) < 1e9 and v == int(v) for v in values)
        return cls(
            name, code.type, None, quantiles[1], quantiles[-2], whole, values is not None, integer
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state: dict[str, Any] = {"name": self.name, "type": self.type, "missing_allowed": True}
        if self.values is not None:
            return state | {"allowed_values": list(self.values), "others_allowed": self.open}
        if self.low is not None:
            state |= {"usual_range": [self.low, self.high], "whole": self.whole}
        return state

    @property
    def open(self) -> bool:
        """Whether a value that is none of the categories is valid."""
        return self.type in ("text", "numeric category")

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        return EXPECTED[self.type]
