"""HTML output: the self-contained interactive page and the notebook display."""

from suwr.narrative.explanation import Layout, PageModel, Source
from suwr.report.notebook import (
    explanation_html,
    fidelity_html,
    highlight_html,
    narrative_html,
    texts_page,
)
from suwr.report.page import page_html

__all__ = [
    "Layout",
    "PageModel",
    "Source",
    "explanation_html",
    "fidelity_html",
    "highlight_html",
    "narrative_html",
    "page_html",
    "texts_page",
]
