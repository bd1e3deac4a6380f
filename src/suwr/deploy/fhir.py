"""Adaptive questionnaires of FHIR R4: ``$next-question`` of Structured Data Capture.

The columns of the model are the items of a Questionnaire. A QuestionnaireResponse with the answers
so far is answered by the same QuestionnaireResponse, whose contained Questionnaire has the next
item; when the model stops, its status is 'completed' and it holds the prediction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from suwr._utils.text import format_label, printable
from suwr.data.descriptions import Question
from suwr.deploy.service import (
    Answers,
    Finish,
    Replay,
    RequestError,
    Service,
    check_object,
    read_json,
)

CONTENT_TYPE = "application/fhir+json"
CANONICAL = "urn:sha256:"
UNIT = "http://hl7.org/fhir/StructureDefinition/questionnaire-unit"
# Kinds of answers that are a single JSON value, with its types.
PRIMITIVES: dict[str, tuple[type, ...]] = {
    "valueBoolean": (bool,), "valueDecimal": (int, float), "valueInteger": (int,),
    "valueString": (str,), "valueDate": (str,), "valueDateTime": (str,), "valueTime": (str,),
    "valueUri": (str,),
}  # fmt: skip
# Read-only items that the service adds when the questionnaire is complete.
RESULTS = ("prediction", "narrative", "receipt")


def questionnaire(service: Service) -> dict[str, Any]:
    """Return the Questionnaire of all columns of a model."""
    numbers = range(len(service.questions))
    return _questionnaire(service, "suwr", [_item(service, number) for number in numbers])


def next_questions(service: Service, bodies: Sequence[bytes]) -> list[Any]:
    """Answer requests for the next question: by a resource, or by an exception each.

    The resource is Parameters if the request is.
    """
    return service.answer_sessions(bodies, partial(_read, service))


def _read(service: Service, body: bytes) -> tuple[Answers, Finish]:
    """Read a QuestionnaireResponse, or Parameters with one named 'questionnaire-response'."""
    request = read_json(body, finite=True)
    given = _resource(request)
    if not isinstance(given, dict) or given.get("resourceType") != "QuestionnaireResponse":
        raise RequestError("The resource must be a QuestionnaireResponse.", "resourceType")
    if not isinstance(given.get("contained", []), list):
        raise RequestError("'contained' must be a list.", "QuestionnaireResponse.contained")

    def finish(replay: Replay) -> dict[str, Any]:
        response = _update(service, given, replay)
        if given is request:
            return response
        parameter = {"name": "return", "resource": response}
        return {"resourceType": "Parameters", "parameter": [parameter]}

    return Answers(_answers(service, given.get("item", []))), finish


def operation_outcome(error: RequestError) -> dict[str, Any]:
    """Return an error as a resource."""
    issue: dict[str, Any] = {"severity": "error", "code": "invalid", "diagnostics": error.message}
    if error.field:
        issue["expression"] = [printable(error.field)]
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def _resource(request: dict[str, Any]) -> Any:
    if request.get("resourceType") != "Parameters":
        return request
    parameters = request.get("parameter")
    for parameter in parameters if isinstance(parameters, list) else []:
        if isinstance(parameter, dict) and parameter.get("name") == "questionnaire-response":
            return parameter.get("resource")
    raise RequestError(
        "'Parameters' must have a parameter 'questionnaire-response'.", "Parameters.parameter"
    )


def _update(service: Service, given: dict[str, Any], replay: Replay) -> dict[str, Any]:
    numbers = {name: number for number, name in enumerate(service.questions)}
    narrative, known = replay.narrative, dict[str, Any]()
    if narrative is not None:
        known |= {} if narrative.given is None else narrative.given.known
        known |= {k: v for step in narrative.steps for k, v in step.values.items()}
    known |= replay.partial
    asked = [*known, *replay.next_columns]
    shown = [_item(service, numbers[name]) for name in asked]
    items = [_response_item(numbers[name], service.questions[name], known[name])
             for name in known]  # fmt: skip
    if replay.done and narrative is not None:
        final = service.final(narrative)
        prediction = final["prediction"]
        number = service.model.target_.labels is None
        results = {
            "prediction": {"valueDecimal": prediction} if number
            else {"valueString": format_label(prediction)},
            "narrative": {"valueString": final["narrative"]},
            "receipt": {"valueString": json.dumps(final["receipt"], ensure_ascii=False)},
        }  # fmt: skip
        for link, answer in results.items():
            kind = "decimal" if "valueDecimal" in answer else "text"
            shown.append({"linkId": link, "text": link.capitalize(), "type": kind,
                          "readOnly": True})  # fmt: skip
            items.append({"linkId": link, "text": link.capitalize(), "answer": [answer]})
    identifier = _contained_id(given)
    others = [
        r for r in given.get("contained", [])
        if not (isinstance(r, dict) and r.get("resourceType") == "Questionnaire")
    ]  # fmt: skip
    contained = _questionnaire(service, identifier, shown)
    contained["derivedFrom"] = [CANONICAL + service.digest]
    response = {
        **{k: v for k, v in given.items() if k != "item"},
        "contained": [*others, contained],
        "questionnaire": f"#{identifier}",
        "status": "completed" if replay.done else "in-progress",
    }
    return response | ({"item": items} if items else {})


def _contained_id(given: dict[str, Any]) -> str:
    """Return the id of the contained Questionnaire."""
    reference = given.get("questionnaire")
    if isinstance(reference, str) and reference.startswith("#") and len(reference) > 1:
        return reference[1:]
    return "suwr"


def _questionnaire(
    service: Service, identifier: str, items: list[dict[str, Any]]
) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "resourceType": "Questionnaire",
        "id": identifier,
        "url": CANONICAL + service.digest,
        "version": service.digest[:12],
        "status": "active",
        "subjectType": ["Patient"],
    }
    target = service.model.target_name_
    if target:
        resource["title"] = _text(target)
    return resource | ({"item": items} if items else {})


def _item(service: Service, number: int) -> dict[str, Any]:
    """Describe a column as an item of a Questionnaire."""
    question = list(service.questions.values())[number]
    item: dict[str, Any] = {"linkId": _link(number), "text": _text(question.name)}
    if question.values is None:
        unit = _unit(service, question)
        coding = {"code": unit, "display": unit}
        item |= {"extension": [{"url": UNIT, "valueCoding": coding}]} if unit else {}
        return item | {"type": "integer" if question.integer else "decimal"}
    if question.type == "boolean":
        return item | {"type": "boolean"}
    options = _category_answers(question)
    kind = "open-choice" if question.type == "text" else "choice"
    return item | {"type": kind} | ({"answerOption": options} if options else {})


def _unit(service: Service, question: Question) -> str | None:
    """Return the unit of measurement that the model states for a column."""
    unit = service.description.column(question.name).unit
    return None if unit is None else _text(unit)


def _category_answers(question: Question) -> list[dict[str, Any]]:
    """Return the answer that stands for each category of a column."""
    values = question.values or ()
    if question.type == "boolean":
        return [{"valueBoolean": value} for value in values]
    whole = all(isinstance(v, int) and abs(v) < 2**31 for v in values)
    if question.type == "numeric category" and whole:
        return [{"valueInteger": value} for value in values]
    texts = [_text(value) for value in values]
    if len(set(texts)) == len(texts):
        return [{"valueString": text} for text in texts]
    # Some categories differ only in what no text of FHIR can hold, such as spaces at the end.
    return [
        {"valueCoding": {"code": f"category-{i}", "display": f"'{printable(value)}'"}}
        for i, value in enumerate(values)
    ]


def _response_item(number: int, question: Question, value: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"linkId": _link(number), "text": _text(question.name)}
    if value is None:
        return item
    if question.values is not None and value in question.values:
        answer = _category_answers(question)[question.values.index(value)]
    elif isinstance(value, bool):
        answer = {"valueBoolean": value}
    elif isinstance(value, int) and (question.integer or question.values) and abs(value) < 2**31:
        answer = {"valueInteger": value}
    elif isinstance(value, int | float):
        answer = {"valueDecimal": value}
    else:
        answer = {"valueString": _text(value)}
    return item | {"answer": [answer]}


def _answers(service: Service, items: Any) -> dict[str, Any]:
    """Return the answers by column; an item without an answer is a missing value."""
    links = {_link(number): name for number, name in enumerate(service.questions)}
    answers: dict[str, Any] = {}
    for item in items if isinstance(items, list) else [items]:
        link = check_object(item, "QuestionnaireResponse.item").get("linkId")
        if link in RESULTS:
            continue
        if not isinstance(link, str) or link not in links:
            raise RequestError("'linkId' must be one of the Questionnaire.", "linkId")
        name = links[link]
        if name in answers:
            raise RequestError(f"{link!r} is answered twice.", link)
        answers[name] = _value(service, name, link, item.get("answer", []))
    return answers


def _value(service: Service, name: str, link: str, given: Any) -> Any:
    if not isinstance(given, list) or len(given) > 1:
        raise RequestError(f"{link!r} must have at most one answer.", link)
    if not given:
        return None
    answer = check_object(given[0], link)
    kinds = [kind for kind in answer if kind.startswith("value")]
    if len(kinds) != 1:
        raise RequestError(f"The answer to {link!r} must have one value.", link)
    [kind] = kinds
    question, value = service.questions[name], answer[kind]
    if kind == "valueQuantity":
        return _quantity(question, link, check_object(value, link), _unit(service, question))
    if kind == "valueCoding":
        return _coding(question, link, check_object(value, link))
    if not isinstance(value, PRIMITIVES.get(kind, ())) or (
        isinstance(value, bool) and kind != "valueBoolean"
    ):
        raise RequestError(
            f"The answer to {link!r} must be a Quantity, a Coding or one of "
            f"{', '.join(PRIMITIVES)}, with a value of its type.",
            link,
        )
    return _category(question, link, [value]) if isinstance(value, str) else value


def _quantity(question: Question, link: str, quantity: dict[str, Any], unit: str | None) -> float:
    """Return the value of a Quantity; its unit must be that of the column, letter by letter."""
    value = quantity.get("value")
    if question.type not in ("number", "numeric category"):
        raise RequestError(f"The answer to {link!r} must not be a Quantity.", link)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RequestError(f"The Quantity of {link!r} must have a number as its value.", link)
    if "comparator" in quantity:
        raise RequestError(
            f"The Quantity of {link!r} must be an exact value, without a comparator.", link
        )
    stated = [quantity[key] for key in ("code", "unit") if key in quantity]
    # '1' is the code of numbers without a unit.
    if unit is None and any(text != "1" for text in stated):
        raise RequestError(
            f"The Quantity of {link!r} must have no unit, because the model states none with which "
            "it could be compared.",
            link,
        )
    if unit is not None and not (stated and all(text == unit for text in stated)):
        raise RequestError(
            f"The Quantity of {link!r} must have the unit {unit!r}, in each of 'code' and 'unit' "
            "that it has. Units are not converted.",
            link,
        )
    return value


def _coding(question: Question, link: str, coding: dict[str, Any]) -> Any:
    texts = [coding[key] for key in ("code", "display") if key in coding]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise RequestError(f"The Coding of {link!r} must have a code or a display text.", link)
    if question.values is None:
        raise RequestError(f"The answer to {link!r} must be a number, not a Coding.", link)
    return _category(question, link, texts)


def _category(question: Question, link: str, texts: list[str]) -> Any:
    """Return the category that the first possible text stands for; the last text if none does."""
    meant: dict[str, list[Any]] = {}
    for value, answer in zip(question.values or (), _category_answers(question), strict=True):
        names = {_text(value), *answer.get("valueCoding", {}).values()}
        for name in names:
            meant.setdefault(name, []).append(value)
    for text in texts:
        found = meant.get(_text(text), [])
        if len(found) > 1:
            raise RequestError(
                f"The answer to {link!r} could be several categories: answer with a code of the "
                "Questionnaire.",
                link,
            )
        if found:
            return found[0]
    # As in the response, so that it is read in the same way when it comes back.
    return _text(texts[-1]) if texts[-1].strip() else ""


def _link(number: int) -> str:
    return f"column-{number}"


def _text(value: Any) -> str:
    """Return a text that FHIR allows: not empty, without spaces around it or control characters."""
    return " ".join(printable(value).split()) or "∅"
