"""``$next-question``: valid resources of FHIR R4B, with the questions of the narrative."""

import json

import numpy as np
import pandas as pd
import pytest

import suwr
from suwr import Column, SUWRClassifier
from suwr.deploy import create_app

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("fhir.resources")
from fhir.resources.R4B.operationoutcome import OperationOutcome
from fhir.resources.R4B.parameters import Parameters
from fhir.resources.R4B.questionnaire import Questionnaire
from fhir.resources.R4B.questionnaireresponse import QuestionnaireResponse

from helpers.services import Client

pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")

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


@pytest.fixture(scope="module")
def started():
    """A service that first takes numbers with and without a unit, and categories, in any order."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "glucose": 10 * rng.rand(80),
            "ratio": rng.rand(80),
            "level": pd.Categorical(rng.choice([1, 2, 3], 80)),
            "city": rng.choice(["Oslo", "Rome", "1"], 80),
            "answer": rng.choice(["y", "y ", "n", "", " "], 80),
            "member": rng.rand(80) < 0.5,
            "size": rng.randn(80),
        }
    )
    model = SUWRClassifier(
        columns={"glucose": Column(unit="mmol/L")}, known_at_start=list(X.columns[:6]),
        max_epochs=1, training={"hidden_size": 8}, random_state=0,
    )  # fmt: skip
    return Client(create_app(model.fit(X, rng.rand(80) < 0.5)))


LINKS = {
    name: f"column-{i}"
    for i, name in enumerate(["glucose", "ratio", "level", "city", "answer", "member"])
}


def send(client, name, answer):
    body = EMPTY | {"item": [{"linkId": LINKS[name], "answer": [answer]}]}
    return client.post(PATH, content=json.dumps(body))


def read_back(client, name, answer):
    """The answer as the service read it."""
    [item] = valid(send(client, name, answer))[0]["item"]
    return item.get("answer")


def check_refused(response):
    assert response.status_code == 422, response.text
    OperationOutcome.model_validate_json(response.text)
    return response.json()["issue"][0]["diagnostics"]


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("glucose", {"value": 0.35, "unit": "mmol/L"}),
        ("glucose", {"value": 0.35, "code": "mmol/L"}),
        ("glucose", {"value": 0.35, "unit": "mmol/L", "code": "mmol/L",
                     "system": "http://unitsofmeasure.org"}),
        ("ratio", {"value": 0.35}),
        ("ratio", {"value": 0.35, "code": "1"}),
        ("ratio", {"code": "1", "value": 0.35, "unit": "1"}),
    ],
)  # fmt: skip
def test_value_of_a_quantity_is_read(started, name, quantity):
    assert read_back(started, name, {"valueQuantity": quantity}) == [{"valueDecimal": 0.35}]


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("glucose", {"value": 0.35}),
        ("glucose", {"value": 0.35, "code": "1"}),
        ("glucose", {"value": 63, "unit": "mg/dL"}),
        ("glucose", {"value": 63, "code": "mg/dL", "unit": "mmol/L"}),
        ("glucose", {"value": 63, "code": "mmol/L", "unit": "mg/dL"}),
        ("glucose", {"value": 63, "code": ["mmol/L"]}),
        ("glucose", {"value": 0.35, "unit": "mmol/L", "comparator": "<"}),
        ("glucose", {"unit": "mmol/L", "code": "mmol/L"}),
        ("glucose", {"value": "0.35", "unit": "mmol/L"}),
        ("glucose", {"value": True, "unit": "mmol/L"}),
        ("glucose", {"value": None, "unit": "mmol/L"}),
        ("glucose", 0.35),
        ("ratio", {"value": 0.35, "unit": "%"}),
        ("ratio", {"value": 0.35, "comparator": ">="}),
        ("city", {"value": 1}),
        ("member", {"value": 1}),
    ],
)
def test_other_quantities_are_refused(started, name, quantity):
    message = check_refused(send(started, name, {"valueQuantity": quantity}))
    assert LINKS[name] in message
    assert "mg/dL" not in message


def test_unit_is_stated_with_the_item(started):
    items = {item["text"]: item for item in started.get("/Questionnaire").json()["item"]}
    [extension] = items["glucose"]["extension"]
    assert extension["url"].endswith("/questionnaire-unit")
    assert extension["valueCoding"]["code"] == "mmol/L"
    assert "extension" not in items["ratio"]


@pytest.mark.parametrize(
    ("name", "coding", "expected"),
    [
        ("city", {"code": "Rome", "display": "Oslo"}, {"valueString": "Rome"}),
        ("city", {"code": "R", "display": "Rome"}, {"valueString": "Rome"}),
        ("city", {"display": " Rome"}, {"valueString": "Rome"}),
        ("city", {"code": "1", "value": "Oslo"}, {"valueString": "1"}),
        ("city", {"code": "B", "display": "Bergen"}, {"valueString": "Bergen"}),
        ("level", {"code": "2", "display": "moderate"}, {"valueInteger": 2}),
        ("member", {"code": "true"}, {"valueBoolean": True}),
    ],
)
def test_coding_answers_by_its_code_or_its_display_text(started, name, coding, expected):
    assert read_back(started, name, {"valueCoding": coding}) == [expected]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("glucose", {"valueCoding": {"code": "5"}}),
        ("city", {"valueCoding": {"value": "Rome"}}),
        ("city", {"valueCoding": {"code": 1}}),
        ("city", {"valueCoding": "Rome"}),
        ("city", {"valueString": {"code": "Rome"}}),
        ("city", {"valueString": None}),
        ("city", {"valueReference": {"display": "Rome"}}),
        ("glucose", {"valueDecimal": {"value": 5}}),
        ("glucose", {"valueDecimal": True}),
        ("glucose", {"valueAttachment": {"code": "5"}}),
    ],
)
def test_kind_of_an_answer_is_its_key(started, name, answer):
    assert LINKS[name] in check_refused(send(started, name, answer))


def test_categories_with_equal_texts_are_told_apart(started):
    items = {item["text"]: item for item in started.get("/Questionnaire").json()["item"]}
    options = items["answer"]["answerOption"]
    codings = [option["valueCoding"] for option in options]
    assert len({coding["code"] for coding in codings}) == len(codings) == 5
    assert {coding["display"] for coding in codings} == {"'y'", "'y '", "'n'", "''", "' '"}
    for option in options:
        code, display = option["valueCoding"]["code"], option["valueCoding"]["display"]
        assert read_back(started, "answer", option) == [option]
        assert read_back(started, "answer", {"valueCoding": {"code": code}}) == [option]
        # The texts that are shown are unambiguous, too.
        assert read_back(started, "answer", {"valueCoding": {"display": display}}) == [option]
    for text in ("y", "y ", " y"):
        for answer in ({"valueString": text}, {"valueCoding": {"code": text}}):
            assert "several categories" in check_refused(send(started, "answer", answer))
    [option] = [o for o in options if o["valueCoding"]["display"] == "'n'"]
    assert read_back(started, "answer", {"valueString": "n"}) == [option]


def test_categories_with_equal_texts_are_read_as_themselves(started):
    """The values reach the model: the receipt has them."""
    items = {item["text"]: item for item in started.get("/Questionnaire").json()["item"]}
    for option in items["answer"]["answerOption"]:
        known = {"glucose": {"valueDecimal": 5}, "ratio": {"valueDecimal": 0.5},
                 "level": {"valueInteger": 1}, "city": {"valueString": "Oslo"},
                 "answer": option, "member": {"valueBoolean": True}}  # fmt: skip
        given = [{"linkId": LINKS[name], "answer": [value]} for name, value in known.items()]
        state, asked = valid(started.post(PATH, json=EMPTY | {"item": given}))
        if state["status"] == "in-progress":
            new = [i for i in asked if i["text"] == "size"]
            given += [{"linkId": i["linkId"], "answer": [{"valueDecimal": 0.1}]} for i in new]
            state, _ = valid(started.post(PATH, json=EMPTY | {"item": given}))
        results = {i["linkId"]: i["answer"][0] for i in state["item"]}
        receipt = suwr.Receipt.from_json(results["receipt"]["valueString"])
        assert f"'{receipt.narrative.given.known['answer']}'" == option["valueCoding"]["display"]
        assert started.post(PATH, json=state).json() == state


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 500])
@pytest.mark.parametrize(
    "field",
    [
        '"extension": [{"url": "urn:x", "valueDecimal": %s}]',
        '"contained": [{"resourceType": "Basic", "n": %s}]',
        '"item": [{"linkId": "column-0", "answer": [{"valueDecimal": %s}]}]',
        '"item": [{"linkId": "column-1", "answer": [{"valueQuantity": {"value": %s}}]}]',
    ],
)
def test_numbers_that_are_not_finite_are_refused(started, field, number):
    body = json.dumps(EMPTY)[:-1] + ", " + field % number + "}"
    assert "finite" in check_refused(started.post(PATH, content=body))
    parameters = '{"resourceType": "Parameters", "parameter": [{"name": "x", "valueDecimal": %s}]}'
    check_refused(started.post(PATH, content=parameters % number))


def test_numbers_that_are_no_categories_come_back_as_they_are(started):
    for number in (7, 0.5, 2**31, 10**300):
        [answer] = read_back(started, "level", {"valueDecimal": number})
        assert read_back(started, "level", answer) == [answer]
        assert list(answer.values()) == [number]


def test_repeated_fields_of_an_answer_are_refused(started):
    body = json.dumps(EMPTY)[:-1] + ', "item": [{"linkId": "column-1", "answer": [{%s}]}]}'
    for answer in (
        '"valueDecimal": 1, "valueDecimal": 2',
        '"valueQuantity": {"value": 1, "value": 2}',
    ):
        assert "twice" in check_refused(started.post(PATH, content=body % answer))
