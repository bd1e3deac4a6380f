"""HTML output: the self-contained interactive page and the notebook display."""

from suwr.narrative.explanation import Layout, PageModel, Source
from suwr.report.notebook import explanation_html, narrative_html
from suwr.report.page import page_html

__all__ = ["Layout", "PageModel", "Source", "explanation_html", "narrative_html", "page_html"]
