"""Forms as files: HTML, XLSForm, SurveyJS and the graph language of Graphviz."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.text import plain_decimal, printable
from suwr._utils.validation import check_choice
from suwr.deploy.forms import Answer, Form, Page, value_text

# What is said about the columns that the model always knows.
KNOWN = "known at the start"
STYLE = """
:root { color-scheme: light dark; }
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto;
       padding: 0 1rem; }
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
    """Return the page; see `suwr.deploy.write_form`."""
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


NOT_AVAILABLE = "na"
OTHER = "other"
# The calculated value of SurveyJS that is an opening brace.
BRACE = "brace"


class Choice(NamedTuple):
    """An option of a question; the value is a name without spaces."""

    value: str
    text: str


@dataclass(frozen=True)
class Item:
    """A question or a result of a survey.

    Attributes
    ----------
    name : str
    kind : {'integer', 'decimal', 'choice', 'result'}
    text : str
        The name of the column, or the prediction.
    shown_if : tuple of (str, str, object)
        Comparisons ``(name, operator, value)``, of which all hold where the item is shown; the
        operator is 'answered' (without a value), '>', '<=' or 'in'.
    choices : tuple of Choice
    """

    name: str
    kind: str
    text: str
    shown_if: tuple[tuple[str, str, Any], ...] = ()
    choices: tuple[Choice, ...] = ()


def survey_items(form: Form) -> Iterator[Item]:
    """Yield the items of a form, every question before those that depend on it."""
    yield from _items(form, form.pages[0], ())


def _items(form: Form, page: Page, shown_if: tuple[Any, ...]) -> Iterator[Item]:
    name = f"q{page.number}"
    if page.column is None:
        text = form.result(page) + ("" if page.complete else " (the model would ask for more)")
        yield Item(f"r{page.number}", "result", text, shown_if)
        return
    text = printable(page.column)
    code = form.codes[page.column]
    if code.categories is None:
        if any(branch.answer.missing for branch in page.branches):
            known = (Choice("yes", "yes"), Choice(NOT_AVAILABLE, "not available"))
            yield Item(f"{name}_known", "choice", f"{text}: is it available?", shown_if, known)
            shown_if = ((f"{name}_known", "in", ["yes"]),)
        yield Item(name, "integer" if code.integer else "decimal", text, shown_if)
    else:
        choices = [Choice(f"v{i}", value_text(v)) for i, v in enumerate(code.categories)]
        for branch in page.branches:
            if branch.answer.missing or branch.answer.other:
                value = NOT_AVAILABLE if branch.answer.missing else OTHER
                choices.append(Choice(value, branch.answer.text))
        yield Item(name, "choice", text, shown_if, tuple(choices))
    for branch in page.branches:
        condition = _condition(name, branch.answer, code.categories)
        yield from _items(form, form.pages[branch.page - 1], condition)


def _condition(
    name: str, answer: Answer, values: tuple[Any, ...] | None
) -> tuple[tuple[str, str, Any], ...]:
    if values is None and not answer.missing:
        # An empty answer is in no interval.
        bounds = [(name, ">", answer.low), (name, "<=", answer.high)]
        return ((name, "answered", None), *(bound for bound in bounds if bound[2] is not None))
    if answer.missing:
        return ((f"{name}_known" if values is None else name, "in", [NOT_AVAILABLE]),)
    chosen = [f"v{(values or ()).index(value)}" for value in answer.values or ()]
    return ((name, "in", [OTHER] if answer.other else chosen),)


def _expression(item: Item, variable: str, answered: str) -> str:
    """Return when an item is shown, in the language of a survey tool.

    Parameters
    ----------
    item : Item
    variable, answered : str
        Formats of the answer to a question, and of the condition that there is one.
    """
    parts = []
    for name, operator, value in item.shown_if:
        if operator == "answered":
            parts.append(answered.format(name))
        elif operator == "in":
            equal = " or ".join(f"{variable.format(name)} = '{v}'" for v in value)
            parts.append(equal if len(value) == 1 else f"({equal})")
        else:
            parts.append(f"{variable.format(name)} {operator} {plain_decimal(value)}")
    return " and ".join(parts)


def form_surveyjs(form: Form, note: str = "") -> bytes:
    """Return the form as the JSON of SurveyJS; see `suwr.deploy.write_form`."""
    pages = []
    for item in survey_items(form):
        element: dict[str, Any] = {"name": item.name}
        if item.kind == "result":
            # Names in braces are replaced before the text is read as HTML.
            text = html.escape(item.text).replace("{", "&#123;")
            element |= {"type": "html", "html": f"<p>{text}</p>"}
        elif item.kind == "choice":
            options = [{"value": c.value, "text": _literal(c.text)} for c in item.choices]
            element |= {"type": "radiogroup", "title": _literal(item.text), "choices": options}
        else:
            element |= {"type": "text", "inputType": "number", "title": _literal(item.text)}
            if item.kind == "decimal":
                element["step"] = "any"
        if item.kind != "result":
            element["isRequired"] = True
        page: dict[str, Any] = {"name": f"page_{item.name}", "elements": [element]}
        if item.shown_if:
            page["visibleIf"] = _expression(item, "{{{}}}", "{{{}}} notempty")
        pages.append(page)
    content: dict[str, Any] = {"title": _literal(f"Form: {form.target}")}
    if note:
        content["description"] = _literal(note)
    content |= {
        # An answer counts only while it is asked for: an earlier one may be changed.
        "clearInvisibleValues": "onHiddenContainer",
        "calculatedValues": [{"name": BRACE, "expression": "'{'"}],
        "pages": pages,
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _literal(text: str) -> str:
    """Return a text in which SurveyJS replaces no name in braces by an answer."""
    return printable(text).replace("{", f"{{{BRACE}}}")


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEADER = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
# The date of every member of the archive, so that equal forms are equal files.
_DATE = (2000, 1, 1, 0, 0, 0)


def form_xlsx(form: Form, note: str = "") -> bytes:
    """Return the workbook; see `suwr.deploy.write_form`."""
    survey = [["type", "name", "label", "required", "relevant"]]
    choices = [["list_name", "name", "label"]]
    if note:
        survey.append(["note", "about", _label(note), "", ""])
    for item in survey_items(form):
        relevant = _expression(item, "${{{}}}", "${{{}}} != ''")
        required = "" if item.kind == "result" else "yes"
        survey.append([_type(item), item.name, _label(item.text), required, relevant])
        choices += [[f"list_{item.name}", c.value, _label(c.text)] for c in item.choices]
    title = _label(f"Form: {form.target}")
    settings = [["form_title", "form_id"], [title, "suwr_form"]]
    return _workbook({"survey": survey, "choices": choices, "settings": settings})


def _type(item: Item) -> str:
    kinds = {"result": "note", "choice": f"select_one list_{item.name}"}
    return kinds.get(item.kind, item.kind)


def _label(text: str) -> str:
    # A dollar with a brace would be a reference to another question.
    return printable(text).replace("${", "$ {")


def _workbook(sheets: dict[str, Sequence[Sequence[str]]]) -> bytes:
    """Return a minimal workbook of sheets of texts."""
    numbered = list(enumerate(sheets, start=1))
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{_TYPES}.worksheet+xml"/>'
        for i, _ in numbered
    )
    listed = "".join(f'<sheet name="{n}" sheetId="{i}" r:id="rId{i}"/>' for i, n in numbered)
    targets = "".join(
        f'<Relationship Id="rId{i}" Type="{_DOCUMENT}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i, _ in numbered
    )
    parts = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.'
            'relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPES}.sheet.main+xml"/>'
            f"{overrides}</Types>"
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" '
            f'Type="{_DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_DOCUMENT}"><sheets>{listed}</sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{_RELATIONS}">{targets}</Relationships>'
        ),
        **{f"xl/worksheets/sheet{i}.xml": _sheet(sheets[name]) for i, name in numbered},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), _HEADER + content)
    return buffer.getvalue()


def _sheet(rows: Sequence[Sequence[str]]) -> str:
    def cell(text: str) -> str:
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'

    body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'


def form_dot(form: Form, note: str = "") -> bytes:
    """Return the form as a graph in the DOT language, one node per page."""
    lines = ["digraph form {", f"  label={_quote(note)};", "  node [fontname=sans];"]
    for page in form.pages:
        if page.column is None:
            label = form.result(page) + ("" if page.complete else " …")
            lines.append(f"  p{page.number} [shape=box, label={_quote(label)}];")
            continue
        label = f"{page.number}. {printable(page.column)}?"
        lines.append(f"  p{page.number} [shape=ellipse, label={_quote(label)}];")
        lines += [
            f"  p{page.number} -> p{branch.page} [label={_quote(branch.answer.text)}];"
            for branch in page.branches
        ]
    return "\n".join([*lines, "}\n"]).encode()


def _quote(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


#: Writers by the name of the format.
FORMATS: dict[str, Callable[[Form, str], bytes]] = {
    "html": form_html,
    "xlsform": form_xlsx,
    "surveyjs": form_surveyjs,
    "dot": form_dot,
}


def write_form(
    form: Form, path: str | os.PathLike[str], format: str = "html", *, note: str = ""
) -> None:
    """Write a form to a file.

    Parameters
    ----------
    form : Form
    path : path
        An existing file is replaced atomically.
    format : {'html', 'xlsform', 'surveyjs', 'dot'}, default='html'
        A printable page; an Excel workbook for ODK, KoboToolbox and others; JSON for SurveyJS; a
        graph for Graphviz.
    note : str, default=""
        A text for readers of the form, such as its measured regret.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy import ModelPolicy, make_form, write_form
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_form(make_form(ModelPolicy(clf)), Path(folder) / "iris.dot", "dot")
    ...     (Path(folder) / "iris.dot").read_text().split()[0]
    'digraph'
    """
    check_choice(format, "format", "write_form", tuple(FORMATS))
    check_writable(path)
    write_atomic(path, FORMATS[format](form, note))
