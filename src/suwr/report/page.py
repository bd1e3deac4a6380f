"""The self-contained HTML page: data, style, script and, optionally, the model in one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import suwr
from suwr._utils.text import format_label, printable
from suwr.exceptions import UnsupportedModelError
from suwr.narrative.explanation import ENDINGS, Layout, PageModel

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation, Narrative

FORMAT = 3
# With model='auto', larger models are not embedded, so that a page can be sent by mail.
MAX_WEIGHT_BYTES = 3 * 2**20
# Concatenated in this order into one script.
SCRIPTS = ("format.js", "words.js", "parse.js", "model.js", "check.js", "dom.js", "charts.js",
           "image.js", "list.js", "narrative.js", "summary.js", "receipt.js", "app.js")  # fmt: skip
STYLES = ("page.css", "parts.css")
# From here on, integers are not exact in JavaScript.
_INEXACT = 2**53


def page_html(
    explanation: Explanation,
    *,
    title: str = "Predictions, step by step",
    y: Sequence[Any] | None = None,
    model: bool | Literal["auto"] = "auto",
    hidden_values: bool = False,
    context: bool = True,
) -> str:
    """Return the page as text; see `Explanation.to_html` for the parameters."""
    if len(explanation) == 0:
        raise ValueError("A page requires at least one narrative. Got an empty explanation.")
    if any(n.classes != explanation[0].classes for n in explanation):
        raise ValueError("The narratives of a page must have the same classes.")
    truth = None if y is None else list(y)
    if truth is not None and len(truth) != len(explanation):
        raise ValueError(
            f"The 'y' parameter must have {len(explanation)} values, one per row. "
            f"Got {len(truth)} instead."
        )
    embedded, reason = _choose_model(explanation, model)
    source = explanation.source
    layout = derive_layout(explanation) if source is None else source.layout()
    cells = None
    if source is not None and hidden_values and (embedded is not None or layout.image is not None):
        cells = [source.values(i) for i in range(len(explanation))]
    data = page_data(explanation, layout, cells, embedded, truth, context=context)
    data |= {"version": suwr.__version__, "without_model": reason}
    return _assemble(printable(title), data)


def page_data(
    explanation: Explanation,
    layout: Layout,
    cells: Sequence[dict[int, Any]] | None,
    model: PageModel | None,
    truth: Sequence[Any] | None,
    *,
    context: bool = True,
) -> dict[str, Any]:
    """Return the JSON-compatible data that the script of the page reads.

    Parameters
    ----------
    explanation : Explanation
    layout : Layout
    cells : sequence of dict or None
        Rows by column number; if None, only revealed values are included.
    model : PageModel or None
    truth : sequence or None
        True class or value of each row.
    context : bool, default=True
        Whether the page says where numbers lie among the training values.
    """
    first = explanation[0]
    unit_number = {unit: i for i, unit in enumerate(_keys(layout))}
    column_number = {name: i for i, name in enumerate(layout.columns)}
    rows = []
    for i, narrative in enumerate(explanation):
        row = _row(narrative, unit_number, column_number)
        if cells is not None:
            values = {number: _plain(value) for number, value in cells[i].items()}
            # A list is shorter than a mapping.
            row["cells"] = list(values.values()) if len(values) == len(layout.columns) else values
        if truth is not None:
            row["truth"] = _plain(truth[i])
            if narrative.classes is not None:
                row["truth"] = _class_text(narrative, truth[i])
                row["correct"] = bool(narrative.label == truth[i])
                # Labels may be equal although their texts differ, as 1 and 1.0.
                row["truth_class"] = _position(narrative.classes, truth[i])
        rows.append(row)
    return {
        "format": FORMAT,
        "columns": layout.columns,
        "descriptions": _descriptions(explanation, layout, model is not None, context),
        "units": [_unit(name, columns, explanation) for name, columns in layout.units],
        "n_units": first.n_units,
        "classes": first.classes and [_class_text(first, label) for label in first.classes],
        "movement": _movement(explanation) if model is None else model.description["movement"],
        "endings": ENDINGS,
        "certificate": printable(first.certificate),
        "visits": first.visit_cost > 0,
        "image": None if layout.image is None else list(layout.image),
        "hidden_values": cells is not None,
        "sampled": explanation.source is not None and explanation.source.sampled,
        "rows": rows,
        "model": None if model is None else _model(model),
        "receipts": None if model is None else model.receipts,
    }


def _class_text(narrative: Narrative, label: Any) -> Any:
    """Return the display name of a class if it has one, otherwise its label."""
    text, plain = narrative.description.class_text(label), _label(label)
    return plain if text == format_label(label) else text


def _movement(explanation: Explanation) -> str | None:
    """Say what counts as a movement of the prediction; see `UsualEffect`."""
    effects = (step.usual for narrative in explanation for step in narrative.steps)
    return next((effect.movement for effect in effects if effect is not None), None)


def derive_layout(explanation: Explanation) -> Layout:
    """Return the columns and units of narratives without a source, in order of appearance."""
    columns: dict[str, int] = {}
    units: dict[tuple[str, tuple[int, ...]], None] = {}
    for narrative in explanation:
        for step in narrative.steps:
            for unit, values in step.revealed.items():
                numbers = tuple(columns.setdefault(name, len(columns)) for name in values)
                units.setdefault((unit, numbers))
    return Layout(list(columns), [(name, list(numbers)) for name, numbers in units])


def _unit(name: str, columns: list[int], explanation: Explanation) -> dict[str, Any]:
    unit = {"name": name, "columns": columns}
    patches = explanation.description.units
    return unit | {"label": patches[name]} if name in patches else unit


def _descriptions(
    explanation: Explanation, layout: Layout, with_model: bool, context: bool
) -> list[dict[str, Any] | None]:
    """Describe every column if the page contains the model, otherwise the revealed ones."""
    known = explanation.description
    if not with_model:
        known = known.restrict(explanation)
    described: list[dict[str, Any] | None] = []
    for name in layout.columns:
        column = known.columns.get(name)
        state = None if column is None else column.to_dict()
        if state is not None:
            if "labels" in state:
                state["labels"] = [[_plain(value), text] for value, text in state["labels"]]
            if "categories" in state:
                state["categories"] = [_plain(value) for value in state["categories"]]
            if not context:
                state.pop("quantiles", None)
        described.append(state)
    return described


def _keys(layout: Layout) -> list[tuple[str, tuple[int, ...]]]:
    # Narratives without a model may use one name for different sets of columns.
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
        facts: list[Any] = [numbers, _rounded(step.stop_probability), _prediction(step.prediction)]
        usual, others = step.usual, list(step.alternatives)
        if usual is not None or others:
            facts += [None if usual is None else [usual.n_moved, usual.n_rows], others]
        steps.append(facts)
    row = {
        "label": _label(narrative.row),
        "start": _prediction(narrative.start),
        "stop": _rounded(narrative.start_stop_probability),
        "steps": steps,
        "ended": narrative.ended,
        "cells": known,
    }
    if narrative.given is not None:
        names = [name for name in narrative.given.known if name in column_number]
        known.update({column_number[n]: _plain(narrative.given.known[n]) for n in names})
        row["given"] = narrative.given.sentences()
        row["n_known"] = len(narrative.given.known)
    # Narratives of `suwr.SUWRExplainer` end with the output of the explained model.
    comparison = getattr(narrative, "comparison", None)
    return row if comparison is None else row | {"comparison": comparison}


def _model(model: PageModel) -> dict[str, Any]:
    codes = [
        {**code, "categories": [_plain(c) for c in code["categories"]]}
        if "categories" in code
        else code
        for code in model.description["codes"]
    ]
    references = [
        {"cells": [_plain(v) for v in row["cells"]], "prediction": row["prediction"]}
        for row in model.description["references"]
    ]
    weights = base64.b64encode(model.weights.astype("<f4").tobytes()).decode()
    return {**model.description, "codes": codes, "references": references, "weights": weights}


def _prediction(prediction: Sequence[float]) -> list[float | None]:
    # Predicted values are not rounded: their spread may be small compared with their mean.
    if len(prediction) == 1:
        return [p if math.isfinite(p) else None for p in prediction]
    return [_rounded(p) for p in prediction]


def _rounded(number: float) -> float | None:
    """Round to seven significant digits, the precision of float32."""
    return float(f"{number:.7g}") if math.isfinite(number) else None


def _position(classes: Sequence[Any], label: Any) -> int | None:
    return next((number for number, known in enumerate(classes) if known == label), None)


def _label(value: Any) -> Any:
    """Return a label, which the page shows as Python's ``str`` does."""
    plain = _plain(value)
    return str(plain) if isinstance(plain, float) else plain


def _plain(value: Any) -> Any:
    """Return a value that JSON and JavaScript represent exactly; anything else as text."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and abs(value) >= _INEXACT:
        return str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _choose_model(
    explanation: Explanation, wanted: bool | Literal["auto"]
) -> tuple[PageModel | None, str]:
    """Return the model to embed, or None and the reason."""
    if wanted not in (True, False, "auto"):
        raise ValueError(
            f"The 'model' parameter must be True, False or 'auto'. Got {wanted!r} instead."
        )
    if wanted is False:
        return None, "This page was created without the model."
    source = explanation.source
    if source is None:
        reason = "These narratives were read from a file without their model."
    else:
        try:
            model = source.model()
        except UnsupportedModelError as error:
            reason = str(error)
        else:
            size = model.weights.nbytes
            if wanted is True or size <= MAX_WEIGHT_BYTES:
                return model, ""
            reason = f"The model is too large to embed: {size / 2**20:.1f} MB of weights."
    if wanted is True:
        raise UnsupportedModelError(f"The 'model' parameter cannot be True. {reason}")
    return None, reason


def _assemble(title: str, data: dict[str, Any]) -> str:
    style = "".join(asset(name) for name in STYLES)
    script = '"use strict";\n(() => {\n' + "".join(asset(name) for name in SCRIPTS) + "})();\n"
    parts = {
        "title": html.escape(title),
        "style": style,
        "style_hash": content_hash(style),
        "script": script,
        "script_hash": content_hash(script),
        "data": _json_in_html(data),
    }
    # A single pass, so that placeholders inside the data are not substituted.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], asset("page.html"))


def asset(name: str) -> str:
    """Return the text of a file of `suwr.report.assets`."""
    return (files("suwr.report") / "assets" / name).read_text(encoding="utf-8")


def content_hash(text: str) -> str:
    """Return the hash by which the content security policy allows a script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _json_in_html(data: Any) -> str:
    """Return JSON that is safe inside an HTML element, whatever names and values contain."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Python strings may contain lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "backslashreplace").decode()
