"""The display of narratives in notebooks: HTML without scripts, for light and dark themes.

Everything from the data (columns, classes, values, row labels) passes through `escape`.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from suwr._utils.text import counted, format_number, percent, percent_of, printable

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation, Narrative, Prediction

__all__ = ["escape", "explanation_html", "narrative_html"]

# Rows of an explanation that are displayed.
MAX_ROWS = 20
# Classes displayed per step.
MAX_CLASSES = 3

# Notebook themes may differ from the system's; text and background colours are inherited.
_LIGHT = "--suwr-bar:#0072B2;--suwr-stop:#8A8A8A;--suwr-line:#C8C8C8;--suwr-soft:#5F5F5F"
_DARK = "--suwr-bar:#56B4E9;--suwr-stop:#A0A0A0;--suwr-line:#5A5A5A;--suwr-soft:#A8A8A8"
STYLE = (
    f".suwr{{{_LIGHT};font-size:14px;line-height:1.4;color:inherit;max-width:60em}}"
    f"@media (prefers-color-scheme:dark){{.suwr{{{_DARK}}}}}"
    f"[data-jp-theme-light=true] .suwr,.vscode-light .suwr{{{_LIGHT}}}"
    f"[data-jp-theme-light=false] .suwr,.vscode-dark .suwr{{{_DARK}}}"
    ".suwr table{border-collapse:collapse;color:inherit;background:none;margin:.4em 0}"
    ".suwr th,.suwr td{text-align:left;vertical-align:top;padding:.25em .9em .25em 0;border:0;"
    "border-bottom:1px solid var(--suwr-line);background:none;font-weight:normal}"
    ".suwr thead th,.suwr .suwr-soft{color:var(--suwr-soft)}"
    ".suwr b{font-weight:600}"
    ".suwr summary{cursor:pointer;padding:.2em 0}"
    ".suwr .suwr-bar{display:inline-block;vertical-align:middle;width:6em;height:.6em;"
    "margin-right:.5em;border:1px solid var(--suwr-line)}"
    ".suwr .suwr-bar i{display:block;height:100%;background:var(--suwr-bar)}"
    ".suwr .suwr-stop i{background:var(--suwr-stop)}"
)


def escape(value: Any) -> str:
    """Return a value from the data as HTML text.

    Examples
    --------
    >>> escape("<script>")
    '&lt;script&gt;'
    """
    return html.escape(printable(value), quote=True)


def narrative_html(narrative: Narrative) -> str:
    """Return a narrative as a table with one line per step."""
    return _page(f"<p>{_summary(narrative)}</p>{_steps(narrative)}")


def explanation_html(explanation: Explanation) -> str:
    """Return an explanation as a list of rows that expand into their narratives."""
    shown = explanation[:MAX_ROWS]
    parts = [f"<p><b>{escape(repr(explanation))}</b></p>"]
    parts += [
        f"<details><summary>{_summary(narrative)}</summary>{_steps(narrative)}</details>"
        for narrative in shown
    ]
    if len(explanation) > len(shown):
        more = counted(len(explanation) - len(shown), "more row")
        parts.append(f'<p class="suwr-soft">… and {more}.</p>')
    return _page("".join(parts))


def _page(content: str) -> str:
    return f'<div class="suwr"><style>{STYLE}</style>{content}</div>'


def _summary(narrative: Narrative) -> str:
    used = f"{narrative.n_used} of {narrative.n_units} features"
    final = (
        format_number(narrative.prediction[0], 4)
        if narrative.classes is None
        else f"{escape(narrative.label)}</b>, {percent(max(narrative.prediction))}<b>"
    )
    return f'Row {escape(narrative.row)}: <b>{final}</b> <span class="suwr-soft">from {used}</span>'


def _steps(narrative: Narrative) -> str:
    # Narratives of `suwr.SUWRExplainer` end with the output of the explained model.
    comparison = getattr(narrative, "comparison", "")
    lines = [
        _line("", "nothing revealed", narrative, narrative.start, narrative.stop_probabilities[0])
    ]
    lines += [
        _line(
            str(number),
            narrative.description.revealed_text(step.revealed),
            narrative,
            step.prediction,
            step.stop_probability,
        )
        for number, step in enumerate(narrative.steps, start=1)
    ]
    return (
        '<table><thead><tr><th scope="col">Step</th><th scope="col">Revealed</th>'
        '<th scope="col">Prediction</th><th scope="col">Stop probability</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
        f'<p class="suwr-soft">{escape(narrative.ending)}</p>'
        + (f"<p>{escape(comparison)}</p>" if comparison else "")
    )


def _line(
    number: str, revealed: str, narrative: Narrative, prediction: Prediction, stop: float
) -> str:
    return (
        f'<tr><th scope="row">{number}</th><td>{escape(revealed)}</td>'
        f"<td>{_prediction(narrative, prediction)}</td>"
        f"<td>{_bar(stop, 'suwr-bar suwr-stop')}{percent(stop)}</td></tr>"
    )


def _prediction(narrative: Narrative, prediction: Prediction) -> str:
    if narrative.classes is None:
        return format_number(prediction[0], 4)
    ranked = sorted(zip(prediction, narrative.classes, strict=True), key=lambda pair: -pair[0])
    lines = [
        _bar(p, "suwr-bar") + percent_of(escape(label), p) for p, label in ranked[:MAX_CLASSES]
    ]
    return "<br>".join(lines)


def _bar(p: float, kind: str) -> str:
    """Return a bar; it repeats a number in the text, so it is hidden from screen readers."""
    return f'<span class="{kind}" aria-hidden="true"><i style="width:{100 * p:.1f}%"></i></span>'
