"""The HTTP service, without a network."""

import asyncio
import json
import logging
import re
import sys
import time

import numpy as np
import pytest

import suwr
from helpers.tables import WRONG_TYPES, mixed_table, poisoned_rows
from suwr import SUWRClassifier
from suwr.deploy import Limits, create_app
from suwr.deploy.service import Service
from suwr.exceptions import MissingExtraError

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
import httpx

from helpers.services import Client, in_parts

# Values that occur in no other text.
MARKER, NUMBER = "zqx-secret-answer", 918273.645


@pytest.fixture(scope="module")
def client(grouped):
    return Client(create_app(grouped[0]))


def ask_everything(client, row, **options):
    """Answer every question from a row; return the final response and the order of columns."""
    answers = {}
    while True:
        response = client.post("/next", json={"answers": answers, **options})
        assert response.status_code == 200, response.text
        state = response.json()
        if state["done"]:
            return state, list(answers)
        for column in state["question"]["columns"]:
            answers[column["name"]] = row[column["name"]]


def error(response, status):
    assert response.status_code == status, response.text
    return response.json()["error"]


def test_questions_are_those_of_the_narrative(client, grouped, rows):
    model, X = grouped
    asked = set()
    for row, narrative in zip(rows[:15], model.explain(X[:15]), strict=True):
        state, order = ask_everything(client, row)
        assert order == [name for step in narrative.steps for name in step.columns]
        answer = state["answer"]
        assert answer["prediction"] == narrative.label
        assert tuple(answer["probabilities"]) == narrative.prediction
        assert answer["narrative"].splitlines()[1:] == narrative.text().splitlines()[1:]
        receipt = suwr.Receipt.from_json(json.dumps(answer["receipt"]))
        assert str(suwr.verify(receipt, model)).startswith("verified")
        assert answer["certificate"] is None
        asked.add(tuple(order))
    assert len(asked) > 2


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certificate_is_part_of_the_answer(grouped, rows):
    certified = grouped[0].certify(mixed_table(160)[0], level=0.3)
    client = Client(create_app(certified))
    answer = ask_everything(client, rows[0])[0]["answer"]
    assert answer["certificate"] == json.loads(json.dumps(certified.certificate_.to_dict()))
    assert certified.certificate_.sentence in answer["narrative"]
    assert client.get("/model").json()["certificate"] == certified.certificate_.sentence


def test_question_describes_its_columns(client, grouped):
    model, _ = grouped
    described = {c["name"]: c for c in client.get("/model").json()["columns"]}
    assert described["age"]["usual_range"][0] >= 18
    assert described["age"]["whole"]
    assert described["city"]["allowed_values"] == ["Oslo", "Rome"]
    assert described["city"]["others_allowed"]
    assert not described["member"]["others_allowed"]
    question = client.post("/next", json={}).json()["question"]
    assert question["columns"] == [described[c["name"]] for c in question["columns"]]
    stop = model.acquire().stop_probability
    assert question["stop_probability"] == stop
    # ζ_stop = sigmoid(-gain / temperature)
    assert (question["expected_gain"] > 0) == (stop < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.02, (0.005, 0.08)])
def test_expected_gain_is_the_reduction_of_the_objective(weight):
    """The loss is ln 2 without x0 and almost 0 with it."""
    rng = np.random.RandomState(0)
    X = rng.choice([-1.0, 1.0], (400, 2))
    model = SUWRClassifier(sparsity_weight=weight, training={"hidden_size": 16}, random_state=0)
    model.fit(X, (X[:, 0] > 0).astype(int))
    client = Client(create_app(model))
    question = client.post("/next", json={"answers": {}}).json()["question"]
    assert question["unit"] == "x0"
    assert question["expected_gain"] == pytest.approx(1 - 0.02 / np.log(2), rel=0.05)


@pytest.fixture(scope="module")
def asking(grouped, rows):
    """Answers after which each unit is asked for, with their row."""
    model, X = grouped
    found = {}
    for row, narrative in zip(rows, model.explain(X), strict=True):
        answers = {}
        for step in narrative.steps:
            found.setdefault(step.unit, (dict(answers), row))
            answers |= {name: row[name] for name in step.columns}
    return found


def test_unit_can_be_answered_in_parts(client, asking):
    answers, row = asking["where"]
    part = client.post("/next", json={"answers": answers | {"city": row["city"]}}).json()
    assert part["question"]["unit"] == "where"
    assert [c["name"] for c in part["question"]["columns"]] == ["code"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"answers": {MARKER: 1}}, 422, MARKER),
        ({"answer": {}}, 422, "answer"),
        ({"answers": [1]}, 422, "answers"),
        ({"unasked": "keep"}, 422, "unasked"),
        ({"model": "0" * 64}, 409, "model"),
        ([1, 2], 400, None),
        ("text", 400, None),
    ],
)
def test_wrong_requests_name_the_field(client, body, status, field):
    assert error(client.post("/next", json=body), status)["field"] == field


def test_invalid_json_is_refused_without_quoting_it(client):
    for body in (b"{", MARKER.encode(), b"\xff", b"[" * 100_000):
        found = error(client.post("/next", content=body), 400)
        assert MARKER not in json.dumps(found)


def test_wrong_type_names_the_column_but_not_the_value(client, asking):
    for unit, wrong in (("age", MARKER), ("member", MARKER), ("size", [NUMBER])):
        answers, _ = asking[unit]
        found = error(client.post("/next", json={"answers": answers | {unit: wrong}}), 422)
        assert found["field"] == unit
        assert unit in found["message"]
        assert MARKER not in found["message"]
        assert str(NUMBER) not in found["message"]


def test_contradictory_answers_are_refused(client, rows):
    first = client.post("/next", json={}).json()["question"]["columns"][0]["name"]
    body = f'{{"answers": {{"{first}": null, "{first}": 1}}}}'
    found = error(client.post("/next", content=body), 422)
    assert found["field"] == first
    assert "twice" in found["message"]


def test_unasked_answers_are_an_error_or_dropped_unread(client, grouped, rows):
    model, X = grouped
    narrative = model.explain(X[:1])[0]
    used = {name for step in narrative.steps for name in step.columns}
    other = next(name for name in rows[0] if name not in used)
    answers = {name: rows[0][name] for name in used}
    found = error(client.post("/next", json={"answers": answers | {other: MARKER}}), 422)
    assert found["field"] == other
    expected = client.post("/next", json={"answers": answers}).json()
    for wrong in WRONG_TYPES:
        body = json.dumps({"answers": answers | {other: wrong}, "unasked": "drop"})
        state = client.post("/next", content=body).json()
        assert state.pop("dropped") == [other]
        assert state == {k: v for k, v in expected.items() if k != "dropped"}


def test_changed_answer_replays_from_there(client, rows):
    state, order = ask_everything(client, rows[0])
    answers = {name: rows[0][name] for name in order}
    for row in rows:
        changed = answers | {order[0]: row[order[0]]}
        state = client.post("/next", json={"answers": changed, "unasked": "drop"}).json()
        if state["dropped"]:
            break
    else:
        raise AssertionError("No change of the first answer changes the questions.")
    kept = {k: v for k, v in changed.items() if k not in state["dropped"]}
    alone = client.post("/next", json={"answers": kept}).json()
    assert alone | {"dropped": state["dropped"]} == state


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_rows_agree_with_python_and_hidden_cells_do_not_matter(path, client, grouped, rows):
    model, X = grouped
    expected = client.post(path, json={"rows": rows})
    assert expected.status_code == 200
    found = expected.json()["predictions" if path == "/predict" else "narratives"]
    assert [p["prediction"] for p in found] == model.predict(X).tolist()
    mask = model.select(X)
    for seed in range(len(WRONG_TYPES)):
        poisoned = poisoned_rows(rows, mask, seed)
        body = json.dumps({"rows": poisoned})
        assert client.post(path, content=body).content == expected.content
    # Digits that Python refuses to convert, and absent cells.
    huge = json.dumps({"rows": poisoned}).replace(str(10**30), "1" * 5000)
    assert client.post(path, content=huge).content == expected.content
    shown = [{n: v for j, (n, v) in enumerate(r.items()) if mask[i, j]} for i, r in enumerate(rows)]
    assert client.post(path, json={"rows": shown, "model": None}).content == expected.content


def test_explanations_have_receipts(client, grouped, rows):
    found = client.post("/explain", json={"rows": rows[:2]}).json()["narratives"][1]
    receipt = suwr.Receipt.from_json(json.dumps(found["receipt"]))
    assert str(suwr.verify(receipt, grouped[0])).startswith("verified")
    assert found["steps"] == json.loads(json.dumps(
        grouped[0].explain(grouped[1][:2])[1].to_dict()["steps"]
    ))  # fmt: skip


def test_revealed_cells_must_be_valid(client, grouped, rows):
    name = client.post("/next", json={}).json()["question"]["columns"][0]["name"]
    for cell in ({}, [1], "\ud800"):
        body = json.dumps({"rows": [rows[0] | {name: cell}]})
        assert name in error(client.post("/explain", content=body), 422)["message"]
    lacking = {k: v for k, v in rows[0].items() if k != name}
    found = error(client.post("/predict", json={"rows": [lacking]}), 422)
    assert found["message"] == f"Row 0 lacks column {name!r}, which is needed."


def test_unusual_values_are_named_without_a_warning(client, asking, recwarn):
    _, row = asking["age"]
    found = client.post("/predict", json={"rows": [row | {"age": 1e9}]}).json()
    assert [(u["row"], u["column"]) for u in found["unusual"]] == [(0, "age")]
    assert len(recwarn) == 0


def test_no_value_is_logged(grouped, rows, caplog, capfd, monkeypatch):
    caplog.set_level(logging.DEBUG)
    # The client of this test logs the addresses of its requests.
    monkeypatch.setattr(logging.getLogger("httpx"), "disabled", True)
    read_next = Service.read_next

    def read_or_fail(self, body):
        if b'"fail"' in body:
            raise RuntimeError(f"{MARKER} {NUMBER} {body}")
        return read_next(self, body)

    monkeypatch.setattr(Service, "read_next", read_or_fail)
    client = Client(create_app(grouped[0]))
    secret = {name: NUMBER if name in ("age", "size") else MARKER for name in rows[0]}
    ask_everything(client, rows[0] | {"city": MARKER, "code": MARKER, "age": NUMBER})
    for path, body in {
        "/next": {"answers": secret},
        "/predict": {"rows": [secret]},
        "/explain": {"rows": [secret, MARKER]},
        "/Questionnaire/$next-question": {"resourceType": MARKER},
        f"/{MARKER}?x={NUMBER}": {"answers": {}},
    }.items():
        client.post(path, json=body)
        client.post(path, content=json.dumps(body)[:-3])
        client.put(path, json=body)
        client.request(MARKER.upper(), path)

    failed = client.post("/next", json={"answers": secret, "fail": MARKER})
    assert error(failed, 500)["message"] == "Internal error."
    logged = caplog.text + "".join(capfd.readouterr())
    assert "POST /next 200" in logged
    assert "RuntimeError in the answer to POST /next" in logged
    assert "POST other 404" in logged
    assert "other /next 405" in logged
    assert MARKER not in logged
    assert MARKER.upper() not in logged
    assert str(NUMBER) not in logged


def test_limits(grouped, rows, monkeypatch):
    client = Client(create_app(grouped[0], limits=Limits(max_bytes=2000, max_rows=3)))
    assert client.post("/predict", json={"rows": rows[:3]}).status_code == 200
    assert error(client.post("/predict", json={"rows": rows[:4]}), 413)["field"] == "rows"
    long = b'{"answers": {}' + b" " * 2000 + b"}"
    assert "2000 bytes" in error(client.post("/next", content=long), 413)["message"]
    # Without a declared length.
    parts = in_parts(long, 100)
    assert "2000 bytes" in error(client.post("/next", content=parts), 413)["message"]
    monkeypatch.setattr(Service, "predict", lambda *_: [time.sleep(0.5)])
    client = Client(create_app(grouped[0], limits=Limits(seconds=0.1)))
    assert "0.1 seconds" in error(client.post("/predict", json={"rows": []}), 504)["message"]


def test_sessions_that_wait_are_answered_together(grouped, rows, monkeypatch):
    model, X = grouped
    app, sizes, replay = create_app(model), [], Service.replay

    def slow_replay(self, sessions):
        sizes.append(len(sessions))
        if any("fail" in s.values.values() for s in sessions):
            raise RuntimeError
        time.sleep(0.05)
        return replay(self, sessions)

    monkeypatch.setattr(Service, "replay", slow_replay)
    narratives = model.explain(X)
    bodies = [
        {"answers": {c: row[c] for step in narrative.steps for c in step.columns}}
        for row, narrative in zip(rows, narratives, strict=True)
    ]
    found = Client(app).post_all("/next", [{"answers": {"nothing": 1}}, *bodies])
    assert [r.status_code for r in found] == [422] + [200] * len(bodies)
    assert max(sizes) > 10
    for response, narrative in zip(found[1:], narratives, strict=True):
        assert tuple(response.json()["answer"]["probabilities"]) == narrative.prediction
    # A session that cannot be computed does not fail the others.
    found = Client(app).post_all(
        "/next", [*bodies[:5], {"answers": {"city": "fail"}}, *bodies[5:9]]
    )
    assert [r.status_code for r in found] == [200] * 5 + [500] + [200] * 4


def test_too_many_waiting_requests_are_refused(grouped):
    client = Client(create_app(grouped[0], limits=Limits(waiting=2)))
    statuses = [r.status_code for r in client.post_all("/next", [{}] * 6)]
    assert set(statuses) == {200, 503}


def test_limits_are_validated():
    with pytest.raises(ValueError, match="'max_rows' parameter of Limits"):
        Limits(max_rows=0)
    with pytest.raises(ValueError, match="'seconds' parameter of Limits"):
        Limits(seconds=0)


def test_metrics(grouped, rows):
    client = Client(create_app(grouped[0]))
    ask_everything(client, rows[0])
    client.get("/nowhere")
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    # A line is a comment or 'name{labels} value'.
    pattern = re.compile(r'(\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})?) ([0-9.e+-]+)')
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    values = dict(pattern.fullmatch(line).groups() for line in lines)
    values = {name: float(value) for name, value in values.items()}
    n_asked = values["suwr_questions_total"]
    assert n_asked >= 1
    assert values["suwr_answers_total"] == 1
    assert values['suwr_requests_total{path="/next",status="200"}'] == n_asked + 1
    assert values['suwr_requests_total{path="other",status="404"}'] == 1
    assert values['suwr_request_seconds_bucket{le="+Inf",path="/next"}'] == n_asked + 1
    digest = grouped[0].explain(grouped[1][:1])[0].receipt().model
    version = suwr.__version__
    assert values[f'suwr_model_info{{sha256="{digest}",version="{version}"}}'] == 1


def test_page_health_and_documentation(client, grouped):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert '"weights"' in page.text
    assert "https://" not in re.sub(r"https?://www\.w3\.org", "", page.text)
    digest = grouped[0].explain(grouped[1][:1])[0].receipt().model
    assert client.get("/healthz").json() == {"status": "ok", "model": digest}
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/next", "/predict", "/explain", "/healthz", "/metrics", "/"} <= set(paths)
    schema = paths["/next"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == {
        "answers", "known", "max_cost", "model", "unasked", "unavailable",
    }  # fmt: skip
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("package", ["fastapi", "prometheus_client", "uvicorn"])
def test_missing_extra_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[serve\]'"):
        from suwr.deploy import create_app  # noqa: F401


def ask_session(client, session, row, **options):
    """Ask the service what a session in Python asks, and compare both after every answer."""
    answers = {}
    while True:
        response = client.post("/next", json={"answers": answers, **options})
        assert response.status_code == 200, response.text
        state = response.json()
        assert state["done"] == session.done
        if session.done:
            return state
        asked = tuple(column["name"] for column in state["question"]["columns"])
        assert asked == session.next_columns
        assert state["question"]["stop_probability"] == session.stop_probability
        values = {name: row[name] for name in asked}
        session.observe(values)
        answers |= values


@pytest.mark.filterwarnings("ignore::suwr.exceptions.StartWarning")
@pytest.mark.parametrize(
    ("known", "unavailable", "max_cost"),
    [
        (["age"], [], None),
        (["city", "age"], ["size"], None),
        ([], ["where", "age"], None),
        (["size"], [], 1),
        ([], [], 2.0),
        ([], [], 10**399),
        (["age", "member", "size", "code", "city"], [], None),
    ],
)
def test_sessions_with_known_values(client, grouped, rows, known, unavailable, max_cost):
    model, _ = grouped
    for row in rows[:6]:
        values = {name: row[name] for name in known}
        limit = None if max_cost is None else float(min(max_cost, 1e9))
        session = model.acquire(known=values or None, unavailable=unavailable, max_cost=limit)
        options = {"known": values, "unavailable": unavailable, "max_cost": max_cost}
        state = ask_session(client, session, row, **options)
        answer = state["answer"]
        expected = session.narrative()
        assert answer["ended"] == expected.ended
        assert tuple(answer["probabilities"]) == expected.prediction
        assert answer["narrative"].splitlines()[1:] == expected.text().splitlines()[1:]
        receipt = suwr.Receipt.from_json(json.dumps(answer["receipt"]))
        assert str(suwr.verify(receipt, model)).startswith("verified")
        assert ("start_distance" in state) == bool(known)


def test_starts_do_not_influence_other_sessions(grouped, rows):
    service = Service(grouped[0])
    given = service.read_next(b'{"known": {"age": 40}, "unavailable": ["size"]}')
    plain = service.read_next(b"{}")
    alone, together = service.replay([plain]), service.replay([given, plain])
    assert alone[0].narrative == together[1].narrative
    assert alone[0].next_columns == together[1].next_columns
    assert together[1].start_distance is None
    assert service.state(together[1]) == service.state(alone[0])
    assert together[0].start_distance in (0, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"known": [1]}, "known"),
        ({"known": {MARKER: 1}}, MARKER),
        ({"known": {"age": MARKER}}, "age"),
        ({"known": {"age": 30}, "answers": {"age": 31}}, "age"),
        ({"unavailable": "size"}, "unavailable"),
        ({"unavailable": [{"size": 1}]}, "unavailable"),
        ({"unavailable": ["code"]}, "unavailable"),
        ({"known": {"age": 30}, "unavailable": ["age"]}, "unavailable"),
        ({"max_cost": -1}, "max_cost"),
        ({"max_cost": True}, "max_cost"),
        ({"max_cost": "2"}, "max_cost"),
        ({"max_cost": float("nan")}, "max_cost"),
    ],
)
def test_wrong_starts(client, body, field):
    found = error(client.post("/next", content=json.dumps(body)), 422)
    assert found["field"] == field
    if field != MARKER:
        assert MARKER not in json.dumps(found)


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certified_models_refuse_starts(grouped):
    client = Client(create_app(grouped[0].certify(mixed_table(160)[0], level=0.3)))
    for field, value in (("known", {"age": 30}), ("unavailable", ["size"]), ("max_cost", 2)):
        assert error(client.post("/next", json={field: value}), 422)["field"] == field
    assert client.post("/next", json={"known": {}, "unavailable": []}).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"answers": {f"a{i}": {} for i in range(60_000)}}, "a0"),
        ({"known": {f"a{i}": {} for i in range(60_000)}}, "a0"),
        ({"unavailable": ["where"] * 75_000}, "unavailable"),
        ({"answers": [{}] * 330_000}, "answers"),
        ({f"a{i}": {} for i in range(60_000)}, "a0"),
    ],
)
def test_requests_with_many_entries_do_not_block_the_others(client, body, field):
    content = json.dumps(body, separators=(",", ":")).encode()
    assert len(content) < 1_000_000
    statuses, pauses = [], []

    async def send():
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:
            waiting = asyncio.gather(*(http.post("/next", content=content) for _ in range(4)))
            while not waiting.done():
                start = time.perf_counter()
                await asyncio.sleep(0.001)
                pauses.append(time.perf_counter() - start)
            statuses.extend(waiting.result())

    asyncio.run(send())
    assert [error(response, 422)["field"] for response in statuses] == [field] * 4
    assert max(pauses) < 2


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_rows_of_requests_that_wait_are_answered_together(path, grouped, rows, monkeypatch):
    app, sizes, explain = create_app(grouped[0]), [], Service._explain_table

    def slow_explain(self, table, labels):
        sizes.append(table.n_rows)
        time.sleep(0.05)
        return explain(self, table, labels)

    parts = [rows[:1], rows[1:4], *([row] for row in rows[4:])]
    alone = [Client(app).post(path, json={"rows": part}).content for part in parts]
    monkeypatch.setattr(Service, "_explain_table", slow_explain)
    wrong = [{"rows": [{}]}, {"rows": []}, {"rows": [rows[0]], "more": 1}, {"model": None}]
    found = Client(app).post_all(path, [{"rows": part} for part in parts] + wrong)
    assert [r.status_code for r in found] == [200] * len(parts) + [422] * 4
    assert [response.content for response in found[: len(parts)]] == alone
    assert "Row 0 lacks column" in found[-4].json()["error"]["message"]
    assert max(sizes) > 20
    # A request that cannot be answered takes a few attempts, and does not fail the others.
    assert len(sizes) < 20


def test_next_questions_do_not_wait_for_all_predictions(grouped, rows, monkeypatch):
    app, order, explain = create_app(grouped[0]), [], Service._explain_table

    def slow_explain(self, table, labels):
        time.sleep(0.02)
        return explain(self, table, labels)

    monkeypatch.setattr(Service, "_explain_table", slow_explain)

    async def send():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as http:

            async def post(path, body):
                response = await http.post(path, json=body)
                assert response.status_code == 200
                order.append(path)

            # More rows than a batch has.
            predictions = [post("/predict", {"rows": rows * 20}) for _ in range(10)]
            await asyncio.gather(*predictions, post("/next", {}))

    asyncio.run(send())
    assert order.index("/next") <= 2


def test_browsers_find_an_icon(client):
    response = client.get("/favicon.ico")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("image/")
