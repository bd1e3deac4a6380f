"""Narratives as a data frame, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suwr._utils.optional import require
from suwr.explanation import Explanation, Narrative, Prediction, Step

__all__ = ["from_frame", "to_frame"]


def to_frame(explanation: Explanation) -> Any:
    """See `Explanation.to_frame`."""
    pandas = require("pandas", "tables", "Explanation.to_frame")
    lines = [line for narrative in explanation for line in _lines(narrative)]
    first = explanation[0] if len(explanation) else None
    frame = pandas.DataFrame(lines, columns=_frame_columns(first))
    frame["value"] = pandas.Series([line["value"] for line in lines], dtype=object)
    frame.attrs["suwr"] = {
        "classes": None if first is None or first.classes is None else list(first.classes),
        "n_units": 0 if first is None else first.n_units,
    }
    return frame


def from_frame(frame: Any) -> Explanation:
    """Undo `to_frame`."""
    facts = frame.attrs["suwr"]
    classes = None if facts["classes"] is None else tuple(facts["classes"])
    names = _prediction_columns(classes)
    narratives = []
    for row, lines in frame.groupby("row", sort=False):
        start: Prediction = ()
        before: Prediction = ()
        steps: list[Step] = []
        ended, start_stop = "", 0.0
        for number, part in lines.groupby("step", sort=True):
            head = part.iloc[0]
            prediction = tuple(float(head[name]) for name in names)
            if number == 0:
                start, start_stop = prediction, float(head["stop_probability"])
                ended = str(head["ended"])
            else:
                revealed: dict[str, dict[str, Any]] = {}
                for unit, column, value in zip(
                    part["unit"], part["column"], part["value"], strict=True
                ):
                    revealed.setdefault(unit, {})[column] = value
                stop = float(head["stop_probability"])
                steps.append(Step(revealed, stop, before, prediction))
            before = prediction
        row = row.item() if hasattr(row, "item") else row
        narratives.append(
            Narrative(row, start, start_stop, tuple(steps), ended, classes, facts["n_units"])
        )
    return Explanation(narratives)


def _prediction_columns(classes: tuple[Any, ...] | None) -> list[str]:
    return ["prediction"] if classes is None else [f"probability of {c}" for c in classes]


def _frame_columns(narrative: Narrative | None) -> list[str]:
    classes = None if narrative is None else narrative.classes
    return [
        "row", "step", "unit", "column", "value", "stop_probability",
        *_prediction_columns(classes), "ended",
    ]  # fmt: skip


def _lines(narrative: Narrative) -> Iterator[dict[str, Any]]:
    names = _prediction_columns(narrative.classes)

    def line(step: int, unit: Any, column: Any, value: Any, stop: float, p: Prediction) -> Any:
        return {
            "row": narrative.row, "step": step, "unit": unit, "column": column, "value": value,
            "stop_probability": stop, **dict(zip(names, p, strict=True)), "ended": narrative.ended,
        }  # fmt: skip

    yield line(0, None, None, None, narrative.start_stop_probability, narrative.start)
    for number, step in enumerate(narrative.steps, start=1):
        for unit, values in step.revealed.items():
            for column, value in values.items():
                yield line(number, unit, column, value, step.stop_probability, step.prediction)
