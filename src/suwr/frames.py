"""Explanations as pandas frames: one line per revealed column, and the step before any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suwr._utils.validation import require
from suwr.data.descriptions import NO_DESCRIPTION, TableDescription
from suwr.explanation import Explanation, Narrative, Prediction, Step
from suwr.given import Given

__all__ = ["explanation_frame", "read_explanation_frame"]

_FRAME_COLUMNS = ("row", "step", "unit", "column", "value", "stop_probability")


def explanation_frame(explanation: Explanation) -> Any:
    """Return the frame of an explanation; see `Explanation.to_frame`."""
    pandas = require("pandas", "tables", "Explanation.to_frame")
    first = explanation[0] if len(explanation) else None
    classes = None if first is None else first.classes
    names = [*_FRAME_COLUMNS, *_prediction_columns(classes), "ended"]
    lines = [line for narrative in explanation for line in _lines(narrative)]
    frame = pandas.DataFrame(lines, columns=names)
    frame["value"] = pandas.Series([line["value"] for line in lines], dtype=object)
    frame.attrs["suwr"] = {
        "classes": None if classes is None else list(classes),
        "n_units": 0 if first is None else first.n_units,
        "certificate": "" if first is None else first.certificate,
        "description": explanation.description.restrict(explanation).to_dict(),
    }
    if any(n.given is not None for n in explanation):
        given = {n.row: n.given.to_dict() for n in explanation if n.given is not None}
        frame.attrs["suwr"]["given"] = given
    if first is not None and first.visit_cost:
        frame.attrs["suwr"]["visit_cost"] = first.visit_cost
    return frame


def read_explanation_frame(frame: Any) -> list[Narrative]:
    """Return the narratives of a frame; see `Explanation.from_frame`."""
    facts = frame.attrs["suwr"]
    classes = None if facts["classes"] is None else tuple(facts["classes"])
    description = NO_DESCRIPTION
    if "description" in facts:
        description = TableDescription.from_dict(facts["description"])
    narratives = []
    for row, lines in frame.groupby("row", sort=False):
        given = facts.get("given", {}).get(row)
        (_, start), *parts = lines.groupby("step", sort=True)
        predictions = [_prediction(start, classes)]
        steps = []
        for _, part in parts:
            revealed: dict[str, dict[str, Any]] = {}
            for unit, column, value in zip(
                part["unit"], part["column"], part["value"], strict=True
            ):
                revealed.setdefault(unit, {})[column] = value
            predictions.append(_prediction(part, classes))
            stop = float(part["stop_probability"].iloc[0])
            steps.append(Step(revealed, stop, *predictions[-2:]))
        narratives.append(
            Narrative(
                row.item() if hasattr(row, "item") else row,
                predictions[0],
                float(start["stop_probability"].iloc[0]),
                tuple(steps),
                str(start["ended"].iloc[0]),
                classes,
                facts["n_units"],
                facts.get("certificate", ""),
                description=description,
                given=None if given is None else Given.from_dict(given),
                visit_cost=float(facts.get("visit_cost", 0.0)),
            )
        )
    return narratives


def _prediction_columns(classes: tuple[Any, ...] | None) -> list[str]:
    return ["prediction"] if classes is None else [f"probability of {c}" for c in classes]


def _prediction(lines: Any, classes: tuple[Any, ...] | None) -> Prediction:
    return tuple(float(lines[name].iloc[0]) for name in _prediction_columns(classes))


def _lines(narrative: Narrative) -> Iterator[dict[str, Any]]:
    names = _prediction_columns(narrative.classes)
    cells: Iterator[tuple[Any, Any, Any]]
    for number, (stop, prediction) in enumerate(
        zip(narrative.stop_probabilities, narrative.predictions, strict=True)
    ):
        if number == 0:
            cells = iter([(None, None, None)])
        else:
            revealed = narrative.steps[number - 1].revealed
            cells = ((u, c, v) for u, values in revealed.items() for c, v in values.items())
        facts = dict(zip(names, prediction, strict=True)) | {"ended": narrative.ended}
        for cell in cells:
            line = (narrative.row, number, *cell, stop)
            yield dict(zip(_FRAME_COLUMNS, line, strict=True)) | facts
