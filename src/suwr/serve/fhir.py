"""Adaptive questionnaires of FHIR R4: ``$next-question`` of Structured Data Capture.

The columns of the model are the items of a Questionnaire. A QuestionnaireResponse with the answers
so far is answered by the same QuestionnaireResponse, whose contained Questionnaire has the next
item; when the model stops, its status is 'completed' and it holds the prediction.
"""

from __future__ import annotations

import json
from typing import Any

from suwr._utils.text import format_label, printable
from suwr.data.questions import Question
from suwr.serve.messages import Fields, RequestError, check_fields
from suwr.serve.service import Answers, Replay, Service

__all__ = [
    "CONTENT_TYPE",
    "next_question",
    "operation_outcome",
    "questionnaire",
    "read_response",
]

CONTENT_TYPE = "application/fhir+json"
CANONICAL = "urn:sha256:"
# Read-only items that the service adds when the questionnaire is complete.
RESULTS = ("prediction", "narrative", "receipt")


def questionnaire(service: Service) -> dict[str, Any]:
    """Return the Questionnaire of all columns of a model."""
    numbers = range(len(service.questions))
    return _questionnaire(service, "suwr", [_item(service, number) for number in numbers])


def read_response(service: Service, request: Fields) -> Answers:
    """Read a QuestionnaireResponse, or Parameters with one named 'questionnaire-response'."""
    given = _resource(request)
    if not isinstance(given, Fields) or given.get("resourceType") != "QuestionnaireResponse":
        raise RequestError("The resource must be a QuestionnaireResponse.", "resourceType")
    if not isinstance(given.get("contained", []), list):
        raise RequestError("'contained' must be a list.", "QuestionnaireResponse.contained")
    return Answers(_answers(service, given.get("item", [])))


def next_question(service: Service, request: Fields, replay: Replay) -> dict[str, Any]:
    """Return the updated resource; in Parameters if the request was.

    Parameters
    ----------
    service : Service
    request : Fields
    replay : Replay
        Of the answers that `read_response` returns.
    """
    response = _update(service, _resource(request), replay)
    if request.get("resourceType") != "Parameters":
        return response
    parameter = {"name": "return", "resource": response}
    return {"resourceType": "Parameters", "parameter": [parameter]}


def operation_outcome(error: RequestError) -> dict[str, Any]:
    """Return an error as a resource."""
    issue: dict[str, Any] = {"severity": "error", "code": "invalid", "diagnostics": error.message}
    if error.field:
        issue["expression"] = [printable(error.field)]
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def _resource(request: Fields) -> Any:
    if request.get("resourceType") != "Parameters":
        return request
    parameters = request.get("parameter")
    for parameter in parameters if isinstance(parameters, list) else []:
        if isinstance(parameter, dict) and parameter.get("name") == "questionnaire-response":
            return parameter.get("resource")
    raise RequestError(
        "'Parameters' must have a parameter 'questionnaire-response'.", "Parameters.parameter"
    )


def _update(service: Service, given: Fields, replay: Replay) -> dict[str, Any]:
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
        number = service.model._class_labels() is None
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


def _contained_id(given: Fields) -> str:
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
        return item | {"type": "integer" if question.integer else "decimal"}
    if question.type == "boolean":
        return item | {"type": "boolean"}
    whole = all(isinstance(v, int) and abs(v) < 2**31 for v in question.values)
    if question.type == "numeric category" and whole:
        options = [{"valueInteger": v} for v in question.values]
    else:
        options = [{"valueString": _text(v)} for v in question.values]
    kind = "open-choice" if question.type == "text" else "choice"
    return item | {"type": kind} | ({"answerOption": options} if options else {})


def _response_item(number: int, question: Question, value: Any) -> dict[str, Any]:
    item: dict[str, Any] = {"linkId": _link(number), "text": _text(question.name)}
    if value is None:
        return item
    if isinstance(value, bool):
        answer: dict[str, Any] = {"valueBoolean": value}
    elif isinstance(value, int) and question.integer and abs(value) < 2**31:
        answer = {"valueInteger": value}
    elif isinstance(value, int | float) and question.values is None:
        answer = {"valueDecimal": value}
    elif isinstance(value, int) and abs(value) < 2**31:
        answer = {"valueInteger": value}
    else:
        answer = {"valueString": _text(value)}
    return item | {"answer": [answer]}


def _answers(service: Service, items: Any) -> dict[str, Any]:
    """Return the answers by column; an item without an answer is a missing value."""
    links = {_link(number): name for number, name in enumerate(service.questions)}
    answers: dict[str, Any] = {}
    for item in items if isinstance(items, list) else [items]:
        link = check_fields(item, "QuestionnaireResponse.item").get("linkId")
        if link in RESULTS:
            continue
        if not isinstance(link, str) or link not in links:
            raise RequestError("'linkId' must be one of the Questionnaire.", "linkId")
        name = links[link]
        if name in answers:
            raise RequestError(f"{link!r} is answered twice.", link)
        answers[name] = _value(service.questions[name], link, item.get("answer", []))
    return answers


def _value(question: Question, link: str, given: Any) -> Any:
    if not isinstance(given, list) or len(given) > 1:
        raise RequestError(f"{link!r} must have at most one answer.", link)
    if not given:
        return None
    answer = given[0]
    values = [v for k, v in answer.items() if k.startswith("value")] if isinstance(
        answer, dict) else []  # fmt: skip
    if len(values) != 1:
        raise RequestError(f"The answer to {link!r} must have one value.", link)
    value = values[0]
    if isinstance(value, dict):
        # A Coding or a Quantity.
        value = value.get("code", value.get("value", value.get("display")))
    texts = {_text(v): v for v in question.values or ()}
    return texts.get(value, value) if isinstance(value, str) else value


def _link(number: int) -> str:
    return f"column-{number}"


def _text(value: Any) -> str:
    """Return a text that FHIR allows: not empty, without spaces around it or control characters."""
    return " ".join(printable(value).split()) or "∅"
