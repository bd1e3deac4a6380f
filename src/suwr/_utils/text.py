"""Numbers and steps in words, for whoever tells a story."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["percent", "reading", "short"]

# A patch may have hundreds of pixels; nobody reads more values than these.
MOST_VALUES = 12


def percent(p: float) -> str:
    """A probability without false certainty: never '0 %' or '100 %' unless it is.

    Examples
    --------
    >>> percent(0.5), percent(0.001), percent(0.9999), percent(1.0)
    ('50 %', 'under 1 %', 'over 99 %', '100 %')
    >>> percent(0.005), percent(0.125)
    ('1 %', '13 %')
    """
    if 0.0 < p < 0.005:
        return "under 1 %"
    if 0.995 <= p < 1.0:
        return "over 99 %"
    # Halves go up, as in the page; formatting alone would make 0 of 0.5.
    hundred = 100 * float(p)
    whole = math.floor(hundred)
    return f"{whole + (hundred - whole >= 0.5)} %"


def short(value: Any) -> str:
    """A revealed value; None is 'missing'."""
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def reading(revealed: Mapping[str, Mapping[str, Any]]) -> str:
    """'age is 71', or for a group 'panel: a is 1, b is missing'.

    Examples
    --------
    >>> reading({"age": {"age": 71}, "panel": {"a": 1, "b": None}})
    'age is 71; panel: a is 1, b is missing'
    """
    parts = []
    for unit, values in revealed.items():
        facts = ", ".join(
            f"{name} is {short(value)}" for name, value in list(values.items())[:MOST_VALUES]
        )
        if len(values) > MOST_VALUES:
            facts += f", … ({len(values)} columns)"
        parts.append(facts if list(values) == [unit] else f"{unit}: {facts}")
    return "; ".join(parts)
