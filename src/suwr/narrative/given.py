"""What the prediction of a row was given: known values, unavailable units, costs and a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from suwr._utils.text import format_number, printable
from suwr.data.descriptions import NO_DESCRIPTION

# Costs that a sentence lists.
MAX_COSTS = 12


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
    costs : dict or None
        Costs of this row by unit; None if they are those of the model.

    Examples
    --------
    >>> from suwr.narrative.given import Given
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
    costs: dict[str, float] | None = None

    def __bool__(self) -> bool:
        limits = (self.max_cost, self.costs)
        return bool(self.known or self.unavailable or limits != (None, None))

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
        if self.costs is not None:
            items = list(self.costs.items())
            shown = [f"{printable(unit)} {format_number(c, 6)}" for unit, c in items[:MAX_COSTS]]
            shown += [f"… ({len(items)} in all)"] if len(items) > MAX_COSTS else []
            lines.append(f"Costs of this row: {', '.join(shown)}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = {**asdict(self), "unavailable": list(self.unavailable)}
        if self.costs is None:
            del state["costs"]
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Given:
        """Create it from the output of `to_dict`."""
        most, costs = state["max_cost"], state.get("costs")
        return cls(
            dict(state["known"]),
            tuple(str(unit) for unit in state["unavailable"]),
            None if most is None else float(most),
            bool(state["exactly"]),
            None if costs is None else {str(unit): float(cost) for unit, cost in costs.items()},
        )
