"""An explanation as the plain values that the page's script reads."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from suwr.report.source import Layout, PageModel

if TYPE_CHECKING:
    from suwr.explanation import Explanation, Narrative

__all__ = ["FORMAT", "derive_layout", "page_data"]

FORMAT = 1
# Beyond this, JavaScript's numbers are no longer exact.
_MOST_EXACT = 2**53


def page_data(
    explanation: Explanation,
    layout: Layout,
    cells: Sequence[list[Any]] | None,
    model: PageModel | None,
    truth: Sequence[Any] | None,
) -> dict[str, Any]:
    """Everything the page shows.

    Parameters
    ----------
    explanation : Explanation
    layout : Layout
    cells : sequence of list or None
        Whole rows; None keeps to what was revealed.
    model : PageModel or None
    truth : sequence or None
        The true class or value of each row.
    """
    first = explanation[0]
    unit_number = {unit: i for i, unit in enumerate(_keys(layout))}
    column_number = {name: i for i, name in enumerate(layout.columns)}
    rows = []
    for i, narrative in enumerate(explanation):
        row = _row(narrative, unit_number, column_number)
        if cells is not None:
            row["cells"] = [_plain(v) for v in cells[i]]
        if truth is not None:
            row["truth"] = _plain(truth[i])
            if narrative.classes is not None:
                row["right"] = bool(narrative.label == truth[i])
        rows.append(row)
    return {
        "format": FORMAT,
        "columns": layout.columns,
        "units": [{"name": name, "columns": columns} for name, columns in layout.units],
        "n_units": first.n_units,
        "classes": None if first.classes is None else [_plain(c) for c in first.classes],
        "image": None if layout.image is None else list(layout.image),
        "hidden_values": cells is not None,
        "rows": rows,
        "model": None if model is None else _model(model),
    }


def derive_layout(explanation: Explanation) -> Layout:
    """Columns and units in the order in which the narratives reveal them."""
    columns: dict[str, int] = {}
    units: dict[tuple[str, tuple[int, ...]], None] = {}
    for narrative in explanation:
        for step in narrative.steps:
            for unit, values in step.revealed.items():
                numbers = tuple(columns.setdefault(name, len(columns)) for name in values)
                units.setdefault((unit, numbers))
    return Layout(list(columns), [(name, list(numbers)) for name, numbers in units])


def _keys(layout: Layout) -> list[tuple[str, tuple[int, ...]]]:
    # Hand-made narratives may give one name to different sets of columns.
    return [(name, tuple(columns)) for name, columns in layout.units]


def _row(
    narrative: Narrative,
    unit_number: dict[tuple[str, tuple[int, ...]], int],
    column_number: dict[str, int],
) -> dict[str, Any]:
    steps = []
    known: dict[int, Any] = {}
    for step in narrative.steps:
        numbers = []
        for unit, values in step.revealed.items():
            columns = tuple(column_number[name] for name in values)
            numbers.append(unit_number[unit, columns])
            known.update(zip(columns, (_plain(v) for v in values.values()), strict=True))
        steps.append([numbers, _rounded(step.stop_probability), _prediction(step.prediction)])
    return {
        "label": _plain(narrative.row),
        "start": _prediction(narrative.start),
        "stop": _rounded(narrative.start_stop_probability),
        "steps": steps,
        "ended": narrative.ended,
        "cells": known,
    }


def _model(model: PageModel) -> dict[str, Any]:
    codes = [
        {**code, "categories": [_plain(c) for c in code["categories"]]}
        if "categories" in code
        else code
        for code in model.description["codes"]
    ]
    weights = base64.b64encode(model.weights.astype("<f4").tobytes()).decode()
    return {**model.description, "codes": codes, "weights": weights}


def _prediction(prediction: Sequence[float]) -> list[float | None]:
    return [_rounded(p) for p in prediction]


def _rounded(number: float) -> float | None:
    """Seven digits, which is what single precision holds."""
    return float(f"{number:.7g}") if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """A value that JSON and JavaScript hold exactly; anything else as text."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and abs(value) > _MOST_EXACT:
        return str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
