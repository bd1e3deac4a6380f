"""Adaptive questionnaires of FHIR R4: ``$next-question`` of Structured Data Capture.

The columns of the model are the items of a Questionnaire. A QuestionnaireResponse with the answers
so far is answered by the same QuestionnaireResponse, whose contained Questionnaire has the next
item; when the model stops, its status is 'completed' and it holds the prediction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suwr._utils.text import format_label, printable
from suwr.data.encode import ColumnCode
from suwr.deploy import service
from suwr.deploy.service import Answers, Finish, Replay, RequestError, check_object

CONTENT_TYPE = "application/fhir+json"
CANONICAL = "urn:sha256:"
UNIT = "http://hl7.org/fhir/StructureDefinition/questionnaire-unit"
# Kinds of answers that are a single JSON value, with its types.
PRIMITIVES: dict[str, tuple[type, ...]] = dict.fromkeys(
    ["valueString", "valueDate", "valueDateTime", "valueTime", "valueUri"], (str,)
) | {"valueBoolean": (bool,), "valueDecimal": (int, float), "valueInteger": (int,)}
# Read-only items that the service adds when the questionnaire is complete.
RESULTS = ("prediction", "narrative", "receipt")


def operation_outcome(error: RequestError) -> dict[str, Any]:
    """Return an error as a resource."""
    issue: dict[str, Any] = {"severity": "error", "code": "invalid", "diagnostics": error.message}
    if error.field:
        issue["expression"] = [printable(error.field)]
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def _text(value: Any) -> str:
    """Return a text that FHIR allows: not empty, without spaces around it or control characters."""
    return " ".join(printable(value).split()) or "∅"


@dataclass(frozen=True)
class Item:
    """A column as an item of Questionnaires and of their responses.

    Attributes
    ----------
    link : str
        Identifies the item.
    text : str
        The name of the column.
    code : ColumnCode
    unit : str or None
        The unit of measurement that the model states.
    """

    link: str
    text: str
    code: ColumnCode
    unit: str | None

    def question(self) -> dict[str, Any]:
        """Return the item of a Questionnaire."""
        item: dict[str, Any] = {"linkId": self.link, "text": self.text}
        if self.code.type == "number":
            coding = {"code": self.unit, "display": self.unit}
            item |= {"extension": [{"url": UNIT, "valueCoding": coding}]} if self.unit else {}
            return item | {"type": "integer" if self.code.integer else "decimal"}
        if self.code.type == "boolean":
            return item | {"type": "boolean"}
        options = self._category_answers()
        kind = "open-choice" if self.code.type == "text" else "choice"
        return item | {"type": kind} | ({"answerOption": options} if options else {})

    def response(self, value: Any) -> dict[str, Any]:
        """Return the item of a response; None is a missing value."""
        item: dict[str, Any] = {"linkId": self.link, "text": self.text}
        categories, short = self.code.categories or (), isinstance(value, int)
        if value is None:
            return item
        if value in categories:
            answer = self._category_answers()[categories.index(value)]
        elif isinstance(value, bool):
            answer = {"valueBoolean": value}
        elif short and (self.code.integer or categories) and abs(value) < 2**31:
            answer = {"valueInteger": value}
        elif isinstance(value, int | float):
            answer = {"valueDecimal": value}
        else:
            answer = {"valueString": _text(value)}
        return item | {"answer": [answer]}

    def read(self, given: Any) -> Any:
        """Return the value of the answers of a response; without one, it is missing."""
        if not isinstance(given, list) or len(given) > 1:
            raise RequestError(f"{self.link!r} must have at most one answer.", self.link)
        if not given:
            return None
        answer = check_object(given[0], self.link)
        kinds = [kind for kind in answer if kind.startswith("value")]
        if len(kinds) != 1:
            raise self._wrong("must have one value")
        [kind] = kinds
        value = answer[kind]
        if kind == "valueQuantity":
            return self._read_quantity(check_object(value, self.link))
        if kind == "valueCoding":
            return self._read_coding(check_object(value, self.link))
        if not isinstance(value, PRIMITIVES.get(kind, ())) or (
            isinstance(value, bool) and kind != "valueBoolean"
        ):
            expected = f"a Quantity, a Coding or one of {', '.join(PRIMITIVES)}"
            raise self._wrong(f"must be {expected}, with a value of its type")
        return self._read_category([value]) if isinstance(value, str) else value

    def _wrong(self, problem: str, part: str = "answer to") -> RequestError:
        return RequestError(f"The {part} {self.link!r} {problem}.", self.link)

    def _category_answers(self) -> list[dict[str, Any]]:
        """Return the answer that stands for each category."""
        values = self.code.categories or ()
        if self.code.type == "boolean":
            return [{"valueBoolean": value} for value in values]
        whole = all(isinstance(v, int) and abs(v) < 2**31 for v in values)
        if self.code.type == "numeric category" and whole:
            return [{"valueInteger": value} for value in values]
        texts = [_text(value) for value in values]
        if len(set(texts)) == len(texts):
            return [{"valueString": text} for text in texts]
        # Some categories differ only in what no text of FHIR can hold, such as spaces at the end.
        return [
            {"valueCoding": {"code": f"category-{i}", "display": f"'{printable(value)}'"}}
            for i, value in enumerate(values)
        ]

    def _read_quantity(self, quantity: dict[str, Any]) -> float:
        """Return the value of a Quantity; its unit must be that of the column, letter by letter."""
        value, unit = quantity.get("value"), self.unit
        if self.code.type not in ("number", "numeric category"):
            raise self._wrong("must not be a Quantity")
        stated = [quantity[key] for key in ("code", "unit") if key in quantity]
        problem = ""
        if not isinstance(value, int | float) or isinstance(value, bool):
            problem = "a number as its value"
        elif "comparator" in quantity:
            problem = "an exact value, without a comparator"
        # '1' is the code of numbers without a unit.
        elif unit is None and any(text != "1" for text in stated):
            problem = "no unit, because the model states none with which it could be compared"
        elif unit is not None and not (stated and all(text == unit for text in stated)):
            problem = f"the unit {unit!r} in 'code' and 'unit', if stated. Units are not converted"
        if problem:
            raise self._wrong(f"must have {problem}", "Quantity of")
        assert value is not None
        return value

    def _read_coding(self, coding: dict[str, Any]) -> Any:
        texts = [coding[key] for key in ("code", "display") if key in coding]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise self._wrong("must have a code or a display text", "Coding of")
        if self.code.categories is None:
            raise self._wrong("must be a number, not a Coding")
        return self._read_category(texts)

    def _read_category(self, texts: list[str]) -> Any:
        """Return the category that the first possible text stands for, or else the last text."""
        meant: dict[str, list[Any]] = {}
        for value, answer in zip(self.code.categories or (), self._category_answers(), strict=True):
            for name in {_text(value), *answer.get("valueCoding", {}).values()}:
                meant.setdefault(name, []).append(value)
        for text in texts:
            found = meant.get(_text(text), [])
            if len(found) > 1:
                raise self._wrong(
                    "could be several categories: answer with a code of the Questionnaire"
                )
            if found:
                return found[0]
        # As in the response, so that it is read in the same way when it comes back.
        return _text(texts[-1]) if texts[-1].strip() else ""


class Questionnaires:
    """Questionnaires of a model.

    Parameters
    ----------
    service : suwr.deploy.service.Service
    """

    def __init__(self, service: service.Service) -> None:
        self.service = service
        self.items: dict[str, Item] = {}
        for number, (name, code) in enumerate(service.codes.items()):
            unit = service.description.column(name).unit
            unit = None if unit is None else _text(unit)
            self.items[name] = Item(f"column-{number}", _text(name), code, unit)

    def complete(self) -> dict[str, Any]:
        """Return the Questionnaire of all columns."""
        return self._questionnaire("suwr", [item.question() for item in self.items.values()])

    def next_questions(self, bodies: Sequence[bytes]) -> list[Any]:
        """Answer requests for the next question: by a resource, or by an exception each.

        The resource is Parameters if the request is.
        """
        return self.service.answer_sessions(bodies, self._read)

    def _read(self, body: bytes) -> tuple[Answers, Finish]:
        """Read a QuestionnaireResponse, or Parameters with one named 'questionnaire-response'."""
        request = service.read_json(body, finite=True)
        given = _resource(request)
        if not isinstance(given, dict) or given.get("resourceType") != "QuestionnaireResponse":
            raise RequestError("The resource must be a QuestionnaireResponse.", "resourceType")
        if not isinstance(given.get("contained", []), list):
            raise RequestError("'contained' must be a list.", "QuestionnaireResponse.contained")

        def finish(replay: Replay) -> dict[str, Any]:
            response = self._update(given, replay)
            if given is request:
                return response
            parameter = {"name": "return", "resource": response}
            return {"resourceType": "Parameters", "parameter": [parameter]}

        return Answers(self._answers(given.get("item", []))), finish

    def _answers(self, given: Any) -> dict[str, Any]:
        """Return the answers by column; an item without an answer is a missing value."""
        names = {item.link: name for name, item in self.items.items()}
        answers: dict[str, Any] = {}
        for item in given if isinstance(given, list) else [given]:
            link = check_object(item, "QuestionnaireResponse.item").get("linkId")
            if link in RESULTS:
                continue
            if not isinstance(link, str) or link not in names:
                raise RequestError("'linkId' must be one of the Questionnaire.", "linkId")
            name = names[link]
            if name in answers:
                raise RequestError(f"{link!r} is answered twice.", link)
            answers[name] = self.items[name].read(item.get("answer", []))
        return answers

    def _update(self, given: dict[str, Any], replay: Replay) -> dict[str, Any]:
        narrative, known = replay.narrative, dict[str, Any]()
        if narrative is not None:
            known |= {} if narrative.given is None else narrative.given.known
            known |= {k: v for step in narrative.steps for k, v in step.values.items()}
        known |= replay.partial
        shown = [self.items[name].question() for name in (*known, *replay.next_columns)]
        items = [self.items[name].response(value) for name, value in known.items()]
        if replay.done and narrative is not None:
            final = self.service.final(narrative)
            texts = {
                "prediction": format_label(final["prediction"]),
                "narrative": final["narrative"],
                "receipt": json.dumps(final["receipt"], ensure_ascii=False),
            }
            for link, text in texts.items():
                kind, answer = "text", {"valueString": text}
                if link == "prediction" and self.service.model.target_.labels is None:
                    kind, answer = "decimal", {"valueDecimal": final["prediction"]}
                named = {"linkId": link, "text": link.capitalize()}
                shown.append(named | {"type": kind, "readOnly": True})
                items.append(named | {"answer": [answer]})
        reference = given.get("questionnaire")
        identifier = "suwr"
        if isinstance(reference, str) and reference.startswith("#") and len(reference) > 1:
            identifier = reference[1:]
        contained = self._questionnaire(identifier, shown)
        contained["derivedFrom"] = [CANONICAL + self.service.digest]
        others = [
            resource
            for resource in given.get("contained", [])
            if not (isinstance(resource, dict) and resource.get("resourceType") == "Questionnaire")
        ]
        response = {
            **{k: v for k, v in given.items() if k != "item"},
            "contained": [*others, contained],
            "questionnaire": f"#{identifier}",
            "status": "completed" if replay.done else "in-progress",
        }
        return response | ({"item": items} if items else {})

    def _questionnaire(self, identifier: str, items: list[dict[str, Any]]) -> dict[str, Any]:
        digest, target = self.service.digest, self.service.model.target_name_
        resource: dict[str, Any] = {
            "resourceType": "Questionnaire",
            "id": identifier,
            "url": CANONICAL + digest,
            "version": digest[:12],
            "status": "active",
            "subjectType": ["Patient"],
        }
        resource |= {"title": _text(target)} if target else {}
        return resource | ({"item": items} if items else {})


def _resource(request: dict[str, Any]) -> Any:
    if request.get("resourceType") != "Parameters":
        return request
    parameters = request.get("parameter")
    for parameter in parameters if isinstance(parameters, list) else []:
        if isinstance(parameter, dict) and parameter.get("name") == "questionnaire-response":
            return parameter.get("resource")
    message = "'Parameters' must have a parameter 'questionnaire-response'."
    raise RequestError(message, "Parameters.parameter")
