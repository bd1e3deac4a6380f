"""What the prediction of a row was given: known values, units that cannot be had, and a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from suwr._utils.text import format_number, printable
from suwr.data.descriptions import NO_DESCRIPTION

__all__ = ["Given"]


@dataclass(frozen=True)
class Given:
    """The start of a narrative and the limits of what it could acquire.

    Attributes
    ----------
    known : dict
        Values by column that were revealed at no cost before the first decision.
    unavailable : tuple of str
        Units that could not be acquired.
    max_cost : float or None
        Largest cost of the acquired units.
    exactly : bool
        Whether the policy was not allowed to stop while it could afford a further unit.

    Examples
    --------
    >>> from suwr.given import Given
    >>> given = Given({"age": 41}, ("MRI",), 5.0)
    >>> print(*given.sentences(), sep="\\n")
    Known at the start: age is 41.
    Not available: MRI.
    Maximum cost: 5.
    >>> Given.from_dict(given.to_dict()) == given
    True
    """

    known: dict[str, Any] = field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    max_cost: float | None = None
    exactly: bool = False

    def __bool__(self) -> bool:
        return bool(self.known or self.unavailable or self.max_cost is not None)

    def sentences(self) -> list[str]:
        """Return what was given, one sentence each."""
        lines = []
        if self.known:
            facts = NO_DESCRIPTION.revealed_text({n: {n: value} for n, value in self.known.items()})
            lines.append(f"Known at the start: {facts}.")
        if self.unavailable:
            lines.append(f"Not available: {', '.join(map(printable, self.unavailable))}.")
        if self.max_cost is not None:
            what = "Cost to spend" if self.exactly else "Maximum cost"
            lines.append(f"{what}: {format_number(self.max_cost, 6)}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return {**asdict(self), "unavailable": list(self.unavailable)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Given:
        """Create it from the output of `to_dict`."""
        most = state["max_cost"]
        return cls(
            dict(state["known"]),
            tuple(str(unit) for unit in state["unavailable"]),
            None if most is None else float(most),
            bool(state["exactly"]),
        )
