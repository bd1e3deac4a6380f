"""A form as an HTML page without scripts: answers are links, and all pages can be printed."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator

from suwr._utils.text import printable
from suwr.forms.form import Form, Page

__all__ = ["form_html"]

# What is said about the columns that the model always knows.
KNOWN = "known at the start"
STYLE = """
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto;
       padding: 0 1rem; color-scheme: light dark; }
section { border: 1px solid #8888; border-radius: .5rem; padding: 0 1.2rem 1rem; margin: 1rem 0; }
h2 { overflow-wrap: anywhere; }
ul { list-style: none; padding: 0; }
li { margin: .4rem 0; }
li a { display: block; padding: .4rem .8rem; border: 1px solid #8888; border-radius: .3rem; }
.note { opacity: .8; font-size: .9rem; }
@media screen {
  @supports selector(:has(a)) {
    section { display: none; }
    section:target, body:not(:has(section:target)) #page-1 { display: block; }
  }
}
@media print {
  section { break-inside: avoid; }
  .screen { display: none; }
  li a { color: inherit; text-decoration: none; }
}
"""


def form_html(form: Form, note: str = "") -> bytes:
    """Return the page; see `suwr.forms.write_form`."""
    title = html.escape(printable(f"Form: {form.target}"))
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    paragraphs = f'<p class="note">{html.escape(printable(note))}</p>\n' if note else ""
    sections = "".join("".join(_section(form, page)) for page in form.pages)
    text = f"{head}<h1>{title}</h1>\n{paragraphs}<main>\n{sections}</main>\n</body>\n</html>\n"
    return text.encode()


def _section(form: Form, page: Page) -> Iterator[str]:
    yield f'<section id="page-{page.number}">\n'
    if page.column is None:
        yield f"<h2>{page.number}. Result</h2>\n"
        yield f'<p class="result">{html.escape(form.result(page))}</p>\n'
        if not page.complete:
            yield '<p class="note">The form ends here; the model would ask for more.</p>\n'
    else:
        unit = "" if page.unit == page.column else f" ({printable(page.unit or KNOWN)})"
        yield f"<h2>{page.number}. {html.escape(printable(page.column) + unit)}</h2>\n<ul>\n"
        for branch in page.branches:
            text = html.escape(branch.answer.text)
            yield f'<li><a href="#page-{branch.page}">{text} → page {branch.page}</a></li>\n'
        yield "</ul>\n"
        if page.unit is not None:
            yield f'<p class="note">Without an answer: {html.escape(form.result(page))}</p>\n'
    if page.number != 1:
        yield '<p class="screen"><a href="#page-1">Start again</a></p>\n'
    yield "</section>\n"
