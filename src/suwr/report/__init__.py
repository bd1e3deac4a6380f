"""The self-contained HTML page: narratives to step through, with the model inside."""

from suwr.report.page import page_html
from suwr.report.source import Layout, PageModel, Source

__all__ = ["Layout", "PageModel", "Source", "page_html"]
