"""The display of highlighted texts: in notebooks, and as a page without scripts.

Everything from the data passes through `escape`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import suwr
from suwr._utils.text import counted, printable
from suwr.report.notebook import escape
from suwr.report.page import asset, content_hash

if TYPE_CHECKING:
    from suwr.texts.highlight import Highlight, Passage

__all__ = ["highlight_html", "texts_page"]


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
