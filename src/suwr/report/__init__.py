"""HTML output: the self-contained interactive page and the notebook display."""

from suwr.report.notebook import explanation_html, narrative_html
from suwr.report.page import page_html

__all__ = ["explanation_html", "narrative_html", "page_html"]
