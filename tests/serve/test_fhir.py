"""``$next-question``: valid resources of FHIR R4B, with the questions of the narrative."""

import json

import pytest

import suwr
from suwr.serve import create_app

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("fhir.resources")
from asgi_client import Client
from fhir.resources.R4B.operationoutcome import OperationOutcome
from fhir.resources.R4B.parameters import Parameters
from fhir.resources.R4B.questionnaire import Questionnaire
from fhir.resources.R4B.questionnaireresponse import QuestionnaireResponse

PATH = "/Questionnaire/$next-question"
EMPTY = {"resourceType": "QuestionnaireResponse", "status": "in-progress"}


@pytest.fixture(scope="module")
def client(grouped):
    return Client(create_app(grouped[0]))


def valid(response):
    """Return a valid QuestionnaireResponse as JSON types."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/fhir+json")
    QuestionnaireResponse.model_validate_json(response.text)
    state = response.json()
    contained = next(r for r in state["contained"] if r["resourceType"] == "Questionnaire")
    Questionnaire.model_validate(contained)
    assert state["questionnaire"] == f"#{contained['id']}"
    return state, contained.get("item", [])


def answer_item(item, value):
    key = {
        "decimal": "valueDecimal", "integer": "valueInteger", "boolean": "valueBoolean",
        "open-choice": "valueString", "choice": "valueInteger",
    }[item["type"]]  # fmt: skip
    value = int(value) if key == "valueInteger" else value
    return {"linkId": item["linkId"], "answer": [{key: value}]}


def fill(client, row, start):
    """Answer until the questionnaire is completed; return it and the order of the questions."""
    state, items = valid(client.post(PATH, json=start))
    order = []
    while state["status"] == "in-progress":
        given = [i["linkId"] for i in state.get("item", [])]
        new = [i for i in items if i["linkId"] not in given]
        assert new
        order += [i["text"] for i in new]
        answers = [answer_item(i, row[i["text"]]) for i in new]
        filled = state | {"item": [*state.get("item", []), *answers]}
        QuestionnaireResponse.model_validate_json(json.dumps(filled))
        state, items = valid(client.post(PATH, json=filled))
    return state, order


def test_whole_questionnaire_is_valid(client, grouped):
    response = client.get("/Questionnaire")
    Questionnaire.model_validate_json(response.text)
    items = {item["text"]: item for item in response.json()["item"]}
    assert {name: item["type"] for name, item in items.items()} == {
        "age": "decimal", "member": "boolean", "code": "open-choice", "city": "open-choice",
        "level": "choice", "size": "decimal",
    }  # fmt: skip
    assert items["city"]["answerOption"] == [{"valueString": "Oslo"}, {"valueString": "Rome"}]
    assert items["level"]["answerOption"][0] == {"valueInteger": 1}


def test_questions_are_those_of_the_narrative(client, grouped, rows):
    model, X = grouped
    for row, narrative in zip(rows[:6], model.explain(X[:6]), strict=True):
        state, order = fill(client, row, EMPTY | {"subject": {"reference": "Patient/1"}})
        assert order == [name for step in narrative.steps for name in step.columns]
        assert state["status"] == "completed"
        assert state["subject"] == {"reference": "Patient/1"}
        results = {i["linkId"]: i["answer"][0] for i in state["item"]}
        assert results["prediction"] == {"valueString": narrative.label}
        assert narrative.text().splitlines()[-1] in results["narrative"]["valueString"]
        receipt = suwr.Receipt.from_json(results["receipt"]["valueString"])
        assert str(suwr.verify(receipt, model)).startswith("verified")
        # A completed questionnaire is answered by itself.
        assert client.post(PATH, json=state).json() == state


def test_parameters_and_other_contained_resources_are_kept(client):
    start = EMPTY | {
        "questionnaire": "#mine",
        "contained": [
            {"resourceType": "Patient", "id": "p"},
            {"resourceType": "Questionnaire", "id": "mine", "status": "active"},
        ],
    }
    body = {
        "resourceType": "Parameters",
        "parameter": [{"name": "questionnaire-response", "resource": start}],
    }
    response = client.post(PATH, json=body)
    Parameters.model_validate_json(response.text)
    found = response.json()["parameter"][0]
    assert found["name"] == "return"
    resources = {r["id"]: r["resourceType"] for r in found["resource"]["contained"]}
    assert resources == {"p": "Patient", "mine": "Questionnaire"}


def test_item_without_an_answer_is_a_missing_value(client, grouped):
    _, (item, *_) = valid(client.post(PATH, json=EMPTY))
    response = client.post(PATH, json=EMPTY | {"item": [{"linkId": item["linkId"]}]})
    _, after = valid(response)
    session = grouped[0].acquire()
    session.observe(dict.fromkeys(session.next_columns))
    expected = [item["text"], *session.next_columns]
    assert [i["text"] for i in after][: len(expected)] == expected
    assert response.json()["item"][0] == {"linkId": item["linkId"], "text": item["text"]}


@pytest.mark.parametrize(
    "change",
    [
        {"resourceType": "Patient"},
        {"resourceType": "Parameters"},
        {"item": [{"linkId": "column-99"}]},
        {"item": ["text"]},
        {"item": [{"linkId": "column-5"}, {"linkId": "column-5"}]},
        {"item": [{"linkId": "column-5", "answer": [{"valueString": "zqx"}, {}]}]},
        {"item": [{"linkId": "column-5", "answer": ["zqx"]}]},
        {"item": [{"linkId": "column-5", "answer": [{"valueString": "zqx"}]},
                  *({"linkId": f"column-{i}"} for i in range(5))]},
    ],
)  # fmt: skip
def test_errors_are_operation_outcomes_without_values(client, change):
    response = client.post(PATH, json=EMPTY | change)
    assert response.status_code == 422
    OperationOutcome.model_validate_json(response.text)
    assert "zqx" not in response.text
