"""Forms for survey tools, which show a question depending on the answers to earlier ones."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from suwr._utils.text import plain_decimal, printable
from suwr.forms.form import Form, Page
from suwr.forms.split import Answer, value_text

__all__ = ["Choice", "Item", "form_surveyjs", "survey_items"]

NOT_AVAILABLE = "na"
OTHER = "other"
# The calculated value of SurveyJS that is an opening brace.
BRACE = "brace"


@dataclass(frozen=True)
class Choice:
    """An option of a question.

    Attributes
    ----------
    value : str
        A name without spaces.
    text : str
    """

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
        operator is 'answered' (without a value), '>', '<=', '=' or 'in'.
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
    question = form.questions[page.column]
    if question.values is None:
        if any(branch.answer.missing for branch in page.branches):
            known = (Choice("yes", "yes"), Choice(NOT_AVAILABLE, "not available"))
            yield Item(f"{name}_known", "choice", f"{text}: is it available?", shown_if, known)
            shown_if = ((f"{name}_known", "=", "yes"),)
        yield Item(name, "integer" if question.integer else "decimal", text, shown_if)
    else:
        choices = [Choice(f"v{i}", value_text(v)) for i, v in enumerate(question.values)]
        for branch in page.branches:
            if branch.answer.missing or branch.answer.other:
                value = NOT_AVAILABLE if branch.answer.missing else OTHER
                choices.append(Choice(value, branch.answer.text))
        yield Item(name, "choice", text, shown_if, tuple(choices))
    for branch in page.branches:
        condition = _condition(name, branch.answer, question.values)
        yield from _items(form, form.pages[branch.page - 1], condition)


def _condition(
    name: str, answer: Answer, values: tuple[Any, ...] | None
) -> tuple[tuple[str, str, Any], ...]:
    if values is None:
        if answer.missing:
            return ((f"{name}_known", "=", NOT_AVAILABLE),)
        # An empty answer is in no interval.
        bounds = [(name, ">", answer.low), (name, "<=", answer.high)]
        return ((name, "answered", None), *(bound for bound in bounds if bound[2] is not None))
    if answer.missing:
        return ((name, "=", NOT_AVAILABLE),)
    if answer.other:
        return ((name, "=", OTHER),)
    return ((name, "in", [f"v{values.index(v)}" for v in answer.values or ()]),)


def form_surveyjs(form: Form, note: str = "") -> bytes:
    """Return the form as the JSON of SurveyJS; see `suwr.forms.write_form`."""
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
            page["visibleIf"] = " and ".join(_surveyjs(*part) for part in item.shown_if)
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


def _surveyjs(name: str, operator: str, value: Any) -> str:
    if operator == "answered":
        return f"{{{name}}} notempty"
    if operator == "in":
        listed = ", ".join(f"'{v}'" for v in value)
        return f"{{{name}}} anyof [{listed}]"
    if operator == "=":
        return f"{{{name}}} = '{value}'"
    return f"{{{name}}} {operator} {plain_decimal(value)}"
