"""HTML without scripts: narratives in notebooks, and highlighted texts in notebooks and as a page.

Everything from the data (columns, classes, values, row labels) passes through `escape`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import suwr
from suwr._utils.text import counted, format_number, percent, percent_of, printable
from suwr.report.page import asset, content_hash

if TYPE_CHECKING:
    from suwr.explainer.fidelity import Fidelity
    from suwr.narrative.explanation import Explanation, Narrative, Prediction
    from suwr.texts.highlight import Highlight, Passage

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
        else f"{escape(narrative.outcome)}</b>, {percent(max(narrative.prediction))}<b>"
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
            narrative.says(number),
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
    number: str,
    revealed: str,
    narrative: Narrative,
    prediction: Prediction,
    stop: float,
    says: str = "",
) -> str:
    note = f'<br><span class="suwr-soft">{escape(says)}</span>' if says else ""
    return (
        f'<tr><th scope="row">{number}</th><td>{escape(revealed)}</td>'
        f"<td>{_prediction(narrative, prediction)}{note}</td>"
        f"<td>{_bar(stop, 'suwr-bar suwr-stop')}{percent(stop)}</td></tr>"
    )


def _prediction(narrative: Narrative, prediction: Prediction) -> str:
    if narrative.classes is None:
        return format_number(prediction[0], 4)
    labels = narrative.description.class_texts(narrative.classes) or []
    ranked = sorted(zip(prediction, labels, strict=True), key=lambda pair: -pair[0])
    lines = [
        _bar(p, "suwr-bar") + percent_of(escape(label), p) for p, label in ranked[:MAX_CLASSES]
    ]
    return "<br>".join(lines)


def _bar(p: float, kind: str) -> str:
    """Return a bar; it repeats a number in the text, so it is hidden from screen readers."""
    return f'<span class="{kind}" aria-hidden="true"><i style="width:{100 * p:.1f}%"></i></span>'


def fidelity_html(fidelity: Fidelity) -> str:
    """Return the points of the curves of a comparison as a table."""
    measure = "1 − R²" if fidelity.regression else "KL divergence"
    share = "R²" if fidelity.regression else "Agreement"
    lines = [
        f"<tr><th scope='row'>{escape(name)}</th><td>{cost:.2f}</td><td>{loss:.4f}</td>"
        f"<td>{agreement:.3f}</td></tr>"
        for name, curve in fidelity.curves.items()
        for cost, loss, agreement in zip(curve.cost, curve.divergence, curve.agreement, strict=True)
    ]
    return (
        f"<p>{escape(fidelity.summary().splitlines()[0])}</p><table><thead><tr><th>Method</th>"
        f"<th>Mean cost</th><th>{measure}</th><th>{share}</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def highlight_html(highlight: Highlight) -> str:
    """Return a highlighted text for notebooks."""
    style = asset("texts.css")
    return f'<div class="suwr-text"><style>{style}</style>{_content(highlight)}</div>'


def texts_page(
    highlights: Sequence[Highlight],
    *,
    title: str,
    y: Sequence[Any] | None = None,
    noun: str = "sentence",
    note: str = "",
) -> str:
    """Return a page of highlighted texts; see `TextUnits.to_html`.

    Parameters
    ----------
    highlights : sequence of Highlight
    title : str
    y : sequence, optional
        True class or value of each text.
    noun : str, default='sentence'
        What a unit is called.
    note : str, default=""
        Shown at the end.
    """
    style = asset("page.css") + asset("parts.css") + asset("texts.css")
    articles = []
    for i, highlight in enumerate(highlights):
        truth, narrative = "", highlight.narrative
        if y is not None:
            wrong = narrative.classes is not None and narrative.label != y[i]
            kind = "truth wrong" if wrong else "truth"
            truth = f' · <span class="{kind}">true: {escape(y[i])}</span>'
        row = escape(narrative.row)
        articles.append(
            f'<article class="card suwr-text" aria-labelledby="text-{i}">'
            f'<h2 id="text-{i}">Text {row}{truth}</h2>{_content(highlight)}</article>'
        )
    total = sum(h.narrative.n_used for h in highlights)
    mean = total / max(1, len(highlights))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; base-uri '
        f"'none'; form-action 'none'; style-src '{content_hash(style)}'\">\n"
        f"<title>{html.escape(printable(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{html.escape(printable(title))}</h1>\n"
        f"<p>Marked passages were read, in the order of their numbers; the prediction follows from "
        f"them alone. Mean number of {escape(noun)}s read: {mean:.2f} "
        f"({counted(len(highlights), 'text')}).</p></header>\n"
        f'<main class="suwr-texts">{"".join(articles)}</main>\n'
        f"<footer>{f'<p>{escape(note)}</p>' if note else ''}"
        f"<p>suwr {suwr.__version__}</p></footer>\n</body>\n</html>\n"
    )


def _content(highlight: Highlight) -> str:
    steps = "".join(
        f"<li><b>{escape(units)}</b> → {escape(prediction)}</li>"
        for _, units, prediction in highlight.steps()
    )
    notes = [highlight.absence, highlight.narrative.ending]
    # Narratives of `suwr.SUWRExplainer` end with the output of the explained model.
    notes.append(getattr(highlight.narrative, "comparison", ""))
    passages = "".join(map(_passage, highlight.passages))
    return (
        f'<p class="suwr-result">{escape(highlight.result)}</p>'
        f'<p class="suwr-passages">{passages}</p>'
        + (f"<ol>{steps}</ol>" if steps else "")
        + "".join(f'<p class="suwr-note">{escape(note)}</p>' for note in notes if note)
    )


def _passage(passage: Passage) -> str:
    text = html.escape(printable(passage.text, keep="\n\t"), quote=True)
    if passage.step is None:
        return f"<span>{text}</span>"
    label = f"read in step {passage.step}"
    return f'<mark title="{label}"><sup aria-label="{label}">{passage.step}</sup>{text}</mark>'
