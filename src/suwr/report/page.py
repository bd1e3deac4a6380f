"""One HTML file that holds everything: data, style, script and, if wanted, the model."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import suwr
from suwr.exceptions import UnsupportedModelError
from suwr.report.data import derive_layout, page_data
from suwr.report.source import PageModel

if TYPE_CHECKING:
    from suwr.explanation import Explanation

__all__ = ["MOST_WEIGHT_BYTES", "page_html"]

# 'auto' leaves out a model whose weights are larger than this: a page should fit into a mail.
MOST_WEIGHT_BYTES = 3 * 2**20
# In this order; together they are one script.
SCRIPTS = ("format.js", "model.js", "dom.js", "charts.js", "image.js", "list.js", "story.js",
           "app.js")  # fmt: skip
STYLES = ("page.css", "parts.css")


def page_html(
    explanation: Explanation,
    *,
    title: str = "How these predictions came about",
    y: Sequence[Any] | None = None,
    model: bool | Literal["auto"] = "auto",
    hidden_values: bool = False,
) -> str:
    """The page as text; `Explanation.to_html` writes it and explains the parameters."""
    if len(explanation) == 0:
        raise ValueError("A page needs at least one narrative. Got an empty explanation.")
    if any(n.classes != explanation[0].classes for n in explanation):
        raise ValueError("A page needs narratives of one model. Got several sets of classes.")
    truth = None if y is None else list(y)
    if truth is not None and len(truth) != len(explanation):
        raise ValueError(
            f"'y' must hold the truth of each of the {len(explanation)} rows. "
            f"Got {len(truth)} values instead."
        )
    carried, why_not = _choose_model(explanation, model)
    source = explanation.source
    layout = derive_layout(explanation) if source is None else source.layout()
    cells = None
    if source is not None and hidden_values and (carried is not None or layout.image is not None):
        cells = [source.values(i) for i in range(len(explanation))]
    data = page_data(explanation, layout, cells, carried, truth)
    data |= {"title": title, "version": suwr.__version__, "without_model": why_not}
    return _assemble(title, data)


def _choose_model(
    explanation: Explanation, wanted: bool | Literal["auto"]
) -> tuple[PageModel | None, str]:
    """The model to carry, or None and the reason in words."""
    if wanted not in (True, False, "auto"):
        raise ValueError(f"'model' must be True, False or 'auto'. Got {wanted!r} instead.")
    if wanted is False:
        return None, "This page was made without the model."
    source = explanation.source
    if source is None:
        reason = "These narratives were read from a file, without the model that told them."
    else:
        try:
            model = source.model()
        except UnsupportedModelError as error:
            reason = str(error)
        else:
            size = model.weights.nbytes
            if wanted is True or size <= MOST_WEIGHT_BYTES:
                return model, ""
            reason = f"The model was left out for its size: {size / 2**20:.1f} MB of weights."
    if wanted is True:
        raise UnsupportedModelError(f"'model' cannot be True here. {reason}")
    return None, reason


def _assemble(title: str, data: dict[str, Any]) -> str:
    style = "".join(_asset(name) for name in STYLES)
    script = '"use strict";\n(() => {\n' + "".join(_asset(name) for name in SCRIPTS) + "})();\n"
    parts = {
        "title": html.escape(title),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": _json_in_html(data),
    }
    # One pass, so that nothing inside the data can be taken for a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("suwr.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What the content security policy knows a script or style by: no other one can run."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _json_in_html(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever names and values say."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Text from Python may hold halves of surrogate pairs, which no file can.
    return text.encode("utf-8", "backslashreplace").decode()
