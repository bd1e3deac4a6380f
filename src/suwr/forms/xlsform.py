"""A form as an XLSForm: the Excel workbook that ODK, KoboToolbox and others read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from xml.sax.saxutils import escape

from suwr._utils.text import plain_decimal, printable
from suwr.forms.form import Form
from suwr.forms.survey import Item, survey_items

__all__ = ["form_xlsx"]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEADER = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
# The date of every member of the archive, so that equal forms are equal files.
_DATE = (2000, 1, 1, 0, 0, 0)


def form_xlsx(form: Form, note: str = "") -> bytes:
    """Return the workbook; see `suwr.forms.write_form`."""
    survey = [["type", "name", "label", "required", "relevant"]]
    choices = [["list_name", "name", "label"]]
    if note:
        survey.append(["note", "about", _label(note), "", ""])
    for item in survey_items(form):
        relevant = " and ".join(_relevant(*part) for part in item.shown_if)
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


def _relevant(name: str, operator: str, value: object) -> str:
    if operator == "answered":
        return f"${{{name}}} != ''"
    if operator == "in":
        assert isinstance(value, list)
        parts = [f"${{{name}}} = '{v}'" for v in value]
        return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"
    if operator == "=":
        return f"${{{name}}} = '{value}'"
    assert isinstance(value, float)
    return f"${{{name}}} {operator} {plain_decimal(value)}"


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
