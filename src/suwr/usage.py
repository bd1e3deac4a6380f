"""How often, when and with what effect the narratives of many rows use each unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from suwr._utils.validation import require

__all__ = ["UnitUsage", "measure_usage", "prediction_change", "usage_frame"]


@dataclass(frozen=True)
class UnitUsage:
    """How the narratives use one unit.

    Attributes
    ----------
    unit : str
    share_of_rows : float
        Share of the rows that reveal the unit.
    mean_position : float
        Mean number of the step that reveals it, counted from 1, over these rows.
    mean_effect : float
        Mean change of the prediction by that step, over these rows; see `prediction_change`.
    """

    unit: str
    share_of_rows: float
    mean_position: float
    mean_effect: float


def prediction_change(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how far a prediction moves.

    The total variation distance of class probabilities, from 0 to 1, or the absolute difference of
    values.

    Examples
    --------
    >>> prediction_change((0.5, 0.5), (0.75, 0.25)), prediction_change((3.0,), (1.0,))
    (0.25, 2.0)
    """
    total = sum(abs(a - b) for a, b in zip(before, after, strict=True))
    return total if len(before) == 1 else total / 2


def measure_usage(narratives: Iterable[Any]) -> list[UnitUsage]:
    """Measure the usage of every unit that some `Narrative` reveals, the most used first.

    The effect of a step that reveals several units is divided equally among them.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    n_rows = 0
    for narrative in narratives:
        n_rows += 1
        for position, step in enumerate(narrative.steps, start=1):
            effect = prediction_change(step.prediction_before, step.prediction)
            for unit in step.units:
                found.setdefault(unit, []).append((position, effect / len(step.units)))
    usage = [
        UnitUsage(
            unit,
            len(uses) / n_rows,
            sum(position for position, _ in uses) / len(uses),
            sum(effect for _, effect in uses) / len(uses),
        )
        for unit, uses in found.items()
    ]
    return sorted(usage, key=lambda u: (-u.share_of_rows, u.mean_position, u.unit))


def usage_frame(narratives: Iterable[Any]) -> Any:
    """Return `measure_usage` as a pandas frame, one row per unit.

    Examples
    --------
    >>> from suwr.explanation import Narrative, Step
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.25, 0.75))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> usage_frame([narrative]).to_dict("records")
    [{'unit': 'age', 'share_of_rows': 1.0, 'mean_position': 1.0, 'mean_effect': 0.25}]
    """
    pandas = require("pandas", "tables", "Explanation.usage")
    names = [field.name for field in fields(UnitUsage)]
    return pandas.DataFrame([asdict(u) for u in measure_usage(narratives)], columns=names)
