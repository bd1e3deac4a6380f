"""Formatting of probabilities and revealed values as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["format_revealed", "format_value", "percent"]

# A patch may have hundreds of pixels; show at most this many values of a unit.
MAX_VALUES = 12


def percent(p: float) -> str:
    """Format a probability; only 0 and 1 themselves are shown as '0 %' and '100 %'.

    Examples
    --------
    >>> [percent(p) for p in (0.5, 0.001, 0.9999, 1.0)]
    ['50 %', 'under 1 %', 'over 99 %', '100 %']
    >>> percent(0.005), percent(0.125)
    ('1 %', '13 %')
    """
    if 0.0 < p < 0.005:
        return "under 1 %"
    if 0.995 <= p < 1.0:
        return "over 99 %"
    # Round half up, as JavaScript does on the HTML page; Python rounds half to even.
    hundred = 100 * float(p)
    whole = math.floor(hundred)
    return f"{whole + (hundred - whole >= 0.5)} %"


def format_value(value: Any) -> str:
    """Format a revealed value; None is 'missing'."""
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_revealed(revealed: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the units and values that a step reveals.

    Examples
    --------
    >>> format_revealed({"age": {"age": 71}, "panel": {"a": 1, "b": None}})
    'age is 71; panel: a is 1, b is missing'
    """
    parts = []
    for unit, values in revealed.items():
        facts = ", ".join(
            f"{name} is {format_value(value)}" for name, value in list(values.items())[:MAX_VALUES]
        )
        if len(values) > MAX_VALUES:
            facts += f", … ({len(values)} columns)"
        parts.append(facts if list(values) == [unit] else f"{unit}: {facts}")
    return "; ".join(parts)
