"""Services of models that know columns at the start, or whose cells may be unrecorded."""

import json

import numpy as np
import pytest

import suwr
from helpers.models import randomize
from helpers.tables import WRONG_TYPES, mixed_table, poisoned_rows
from suwr import SUWRClassifier
from suwr.deploy import create_app
from suwr.deploy.service import Service

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
from helpers.services import Client

SMALL = {"max_epochs": 1, "training": {"hidden_size": 8}, "max_steps": 3, "random_state": 0}
ASK, FHIR = "/next", "/Questionnaire/$next-question"
EMPTY = {"resourceType": "QuestionnaireResponse", "status": "in-progress"}
pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


def as_rows(X):
    records = X.astype(object).where(X.notna(), None).to_dict("records")
    return [{k: getattr(v, "item", lambda v=v: v)() for k, v in row.items()} for row in records]


def fit_random(X, y, **params):
    model = SUWRClassifier(**SMALL, **params).fit(X, y)
    return randomize(
        model,
        lambda: (
            len({tuple(u for s in n.steps for u in s.units) for n in model.explain(X[:20])}) > 3
        ),
    )


@pytest.fixture(scope="module")
def started():
    """A model that always knows 'age' and 'city', and 'size' in half of the rows."""
    X, y = mixed_table(80)
    model = fit_random(X, y, known_at_start={"age": 1.0, "city": 1.0, "size": 0.5})
    return model, X[:20]


@pytest.fixture(scope="module")
def client(started):
    return Client(create_app(started[0]))


@pytest.fixture(scope="module")
def unrecorded():
    """A model of cells that may be unrecorded, and rows with such cells."""
    X, y = mixed_table(80)
    rng = np.random.RandomState(0)
    X = X.drop(columns=["member", "level"]).assign(a=rng.randn(80), b=rng.randn(80))
    X = X.mask(rng.rand(*X.shape) < 0.3)
    return fit_random(X, y, missing="unrecorded", groups={"g": ["age", "size"]}), X[:20]


def ask(client, row, **options):
    """Answer every question; return the final response and the questions."""
    answers, questions = {}, []
    while True:
        response = client.post(ASK, json={"answers": answers, **options})
        assert response.status_code == 200, response.text
        state = response.json()
        if state["done"]:
            return state, questions
        questions.append(state["question"])
        answers |= {c["name"]: row[c["name"]] for c in state["question"]["columns"]}


def check_answer(answer, narrative, model):
    assert tuple(answer["probabilities"]) == narrative.prediction
    assert answer["narrative"].splitlines()[1:] == narrative.text().splitlines()[1:]
    receipt = suwr.Receipt.from_json(json.dumps(answer["receipt"]))
    assert str(suwr.verify(receipt, model)).startswith("verified")


def error(response):
    assert response.status_code == 422, response.text
    return response.json()["error"]


def test_next_starts_from_known_columns_and_asks_for_those_that_lack(started, client):
    model, X = started
    lengths = set()
    for row, narrative in zip(as_rows(X)[:8], model.explain(X)[:8], strict=True):
        known = {name: row[name] for name in ("age", "city")}
        state, questions = ask(client, row, known=known)
        assert state["start_distance"] == 0
        units = [u for step in narrative.steps for u in step.units]
        assert [q["unit"] for q in questions] == units
        check_answer(state["answer"], narrative, model)
        assert "Known at the start: age is" in state["answer"]["narrative"]
        # Without them, the same questions follow one for what is always known.
        for part in ({}, {"city": row["city"]}):
            other, (first, *rest) = ask(client, row, known=part)
            assert other == state
            assert rest == questions
            assert first["unit"] is first["expected_gain"] is first["stop_probability"] is None
            lacking = [name for name in known if name not in part]
            assert [c["name"] for c in first["columns"]] == lacking
        lengths.add(len(units))
    assert len(lengths) > 1
    assert client.get("/model").json()["known_at_start"] == {"age": 1, "city": 1, "size": 0.5}


def test_the_start_may_be_answered_in_parts(started, client):
    row = as_rows(started[1])[0]
    state = client.post(ASK, json={"answers": {"age": row["age"]}}).json()
    assert [c["name"] for c in state["question"]["columns"]] == ["city"]
    assert state["prediction"] is None
    for name, value in (("age", "zqx"), ("city", [1])):
        found = error(client.post(ASK, json={"answers": {name: value}}))
        assert found["field"] == name
        assert "zqx" not in found["message"]
    assert error(client.post(ASK, json={"answers": {"code": "1"}}))["field"] == "code"
    dropped = client.post(ASK, json={"answers": {"code": "1"}, "unasked": "drop"}).json()
    assert dropped["dropped"] == ["code"]
    for field in ("answers", "known"):
        body = json.dumps({field: {"age": 1, "city": "\ud800"}, "max_cost": 0})
        assert error(client.post(ASK, content=body))["field"] == "city"


def test_other_starts_are_those_of_sessions(started, client):
    model, X = started
    row = as_rows(X)[0]
    always = {name: row[name] for name in ("age", "city")}
    state, questions = ask(client, row, known={"size": row["size"], **always})
    session = model.acquire(known={"size": row["size"], **always})
    while not session.done:
        session.observe({name: row[name] for name in session.next_columns})
    assert state["start_distance"] == 0
    assert [q["unit"] for q in questions] == [u for step in session.steps for u in step.units]
    check_answer(state["answer"], session.narrative(), model)
    # What cannot be had is not asked for.
    state = client.post(ASK, json={"answers": {"city": "Oslo"}, "unavailable": ["age"]}).json()
    assert state["start_distance"] == 1
    assert "age" not in [c["name"] for c in state.get("question", {"columns": []})["columns"]]


@pytest.mark.parametrize("path", ["/predict", "/explain"])
@pytest.mark.parametrize("name", ["started", "unrecorded"])
def test_rows_agree_with_python_and_hidden_cells_do_not_matter(path, name, request):
    model, X = request.getfixturevalue(name)
    client, rows, mask = Client(create_app(model)), as_rows(X), model.select(X)
    assert (~mask).sum() > 20
    expected = client.post(path, json={"rows": rows})
    assert expected.status_code == 200, expected.text
    found = expected.json()["predictions" if path == "/predict" else "narratives"]
    for answer, narrative in zip(found, model.explain(X), strict=True):
        assert tuple(answer["probabilities"]) == narrative.prediction
        if path == "/predict":
            assert answer.get("known", []) == list(narrative.given.known if narrative.given else ())
    for seed in range(len(WRONG_TYPES)):
        poisoned = poisoned_rows(rows, mask, seed)
        body = json.dumps({"rows": poisoned})
        assert client.post(path, content=body).content == expected.content
    shown = [{n: v for j, (n, v) in enumerate(r.items()) if mask[i, j]} for i, r in enumerate(rows)]
    assert client.post(path, json={"rows": shown}).content == expected.content


def test_rows_without_a_known_column_are_refused(started, client):
    row = {k: v for k, v in as_rows(started[1])[0].items() if k != "city"}
    found = error(client.post("/predict", json={"rows": [row]}))
    assert found["message"] == "Row 0 lacks column 'city', which is needed."
    usual = as_rows(started[1])[0]
    found = client.post("/predict", json={"rows": [usual | {"age": 1e9}]}).json()
    assert {"row": 0, "column": "age"}.items() <= found["unusual"][0].items()


@pytest.mark.parametrize("name", ["started", "unrecorded"])
def test_answers_that_were_dropped_are_not_read(name, request):
    """Hidden cells that are sent along change no byte of any response."""
    model, X = request.getfixturevalue(name)
    client = Client(create_app(model))
    for i, (row, narrative) in enumerate(zip(as_rows(X)[:4], model.explain(X)[:4], strict=True)):
        answers = {n: row[n] for n in (narrative.given.known if narrative.given else ())}
        states = [dict(answers)]
        for step in narrative.steps:
            answers |= {n: row[n] for n in step.columns}
            states.append(dict(answers))
        asked_later = [n for n in row if n not in answers]
        for known in states:
            expected, bodies = client.post(ASK, json={"answers": known}).json(), set()
            for seed in range(len(WRONG_TYPES)):
                wrong = {
                    n: WRONG_TYPES[(i + j + seed) % len(WRONG_TYPES)]
                    for j, n in enumerate(asked_later)
                }
                body = json.dumps({"answers": {**wrong, **known}, "unasked": "drop"})
                bodies.add(client.post(ASK, content=body).content)
            [found] = bodies
            assert json.loads(found) == expected | {"dropped": asked_later}


def test_null_of_an_unrecorded_cell_reveals_nothing_as_in_sessions(unrecorded):
    model, X = unrecorded
    client, in_vain = Client(create_app(model)), 0
    assert client.get("/model").json()["missing"] == "unrecorded"
    for row, narrative in zip(as_rows(X)[:10], model.explain(X)[:10], strict=True):
        state, questions = ask(client, row)
        assert [q["unit"] for q in questions] == [u for s in narrative.steps for u in s.units]
        assert [c["name"] for q in questions for c in q["columns"]] == [
            name for step in narrative.steps for name in step.columns
        ]
        check_answer(state["answer"], narrative, model)
        in_vain += any(v is None for step in narrative.steps[:-1] for v in step.values.values())
    assert in_vain > 1


@pytest.mark.parametrize("name", ["started", "unrecorded"])
def test_fhir_asks_for_the_start_first(name, request):
    resource = pytest.importorskip("fhir.resources.R4B.questionnaireresponse")
    model, X = request.getfixturevalue(name)
    client = Client(create_app(model))
    keys = {"decimal": "valueDecimal", "boolean": "valueBoolean", "open-choice": "valueString",
            "choice": "valueInteger"}  # fmt: skip
    for row, narrative in zip(as_rows(X)[:4], model.explain(X)[:4], strict=True):
        state, order = EMPTY, []
        while state["status"] == "in-progress":
            response = client.post(FHIR, json=state)
            assert response.status_code == 200, response.text
            resource.QuestionnaireResponse.model_validate_json(response.text)
            state = response.json()
            given = [item["linkId"] for item in state.get("item", [])]
            items = [i for i in state["contained"][0]["item"] if i["linkId"] not in given]
            order += [item["text"] for item in items]
            new = []
            for item in items:
                value = row[item["text"]]
                answer = [] if value is None else [{keys[item["type"]]: value}]
                new.append({"linkId": item["linkId"]} | ({"answer": answer} if answer else {}))
            state = state | ({"item": [*state.get("item", []), *new]} if new else {})
        known = list(narrative.given.known) if narrative.given else []
        assert order == known + [name for step in narrative.steps for name in step.columns]
        results = {i["linkId"]: i.get("answer", [None])[0] for i in state["item"]}
        assert results["prediction"] == {"valueString": narrative.label}
        receipt = suwr.Receipt.from_json(results["receipt"]["valueString"])
        assert str(suwr.verify(receipt, model)).startswith("verified")
        # A completed questionnaire is answered by itself.
        assert client.post(FHIR, json=state).json() == state


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certified_models_start_from_what_they_always_know(started):
    model, X = started
    certified = model.certify(mixed_table(80)[0], level=0.4)
    client, row = Client(create_app(certified)), as_rows(X)[0]
    always = {name: row[name] for name in ("age", "city")}
    for options in ({}, {"known": always}):
        answer = ask(client, row, **options)[0]["answer"]
        check_answer(answer, certified.explain(X[:1])[0], certified)
    for options in ({"known": {"size": 1.0}}, {"unavailable": ["age"]}, {"max_cost": 3}):
        assert error(client.post(ASK, json=options))["field"] == next(iter(options))


def test_the_page_starts_from_known_columns(started):
    assert "Known at the start: age is" in Service(started[0]).page
