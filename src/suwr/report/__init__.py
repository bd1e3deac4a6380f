"""HTML output: the self-contained interactive page and the notebook display."""

from suwr.report.notebook import explanation_html, narrative_html
from suwr.report.page import page_html
from suwr.report.source import Layout, PageModel, Source

__all__ = ["Layout", "PageModel", "Source", "explanation_html", "narrative_html", "page_html"]
