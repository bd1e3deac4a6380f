"""The OpenAPI description agrees with what the service accepts and answers."""

import json

import pytest

from suwr import SUWRRegressor

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
from helpers.services import Client
from suwr.deploy import create_app, service

FHIR = "/Questionnaire/$next-question"
FHIR_TYPE = "application/fhir+json"
EMPTY = {"resourceType": "QuestionnaireResponse", "status": "in-progress"}


@pytest.fixture(scope="module")
def client(grouped):
    return Client(create_app(grouped[0]))


@pytest.fixture(scope="module")
def description(client):
    return client.get("/openapi.json").json()


def body_schema(description, path):
    content = description["paths"][path]["post"]["requestBody"]["content"]
    return content["application/json"]["schema"]


def test_description_is_of_version_3_1(description):
    assert description["openapi"].startswith("3.1")
    # A keyword of version 3.0.
    assert '"nullable"' not in json.dumps(description)
    schemas = description["components"]["schemas"]
    assert {"NextResponse", "Predictions", "Explanations", "ModelDescription"} <= set(schemas)
    for operations in description["paths"].values():
        for operation in operations.values():
            assert set(operation["responses"]) >= {"200", "413", "500", "504"}
            for status in ("413", "500", "504"):
                assert list(operation["responses"][status]["content"]) == ["application/json"]


@pytest.mark.parametrize(
    ("method", "path", "body", "model"),
    [
        ("POST", "/next", {"model": None}, service.NextResponse),
        ("POST", "/predict", {"rows": 2}, service.Predictions),
        ("POST", "/explain", {"rows": 2}, service.Explanations),
        ("POST", FHIR, EMPTY, service.FhirResource),
        ("GET", "/model", None, service.ModelDescription),
        ("GET", "/healthz", None, service.Health),
        ("GET", "/Questionnaire", None, service.FhirResource),
        ("GET", "/metrics", None, None),
        ("GET", "/", None, None),
    ],
)
def test_answers_have_the_documented_types(client, description, rows, method, path, body, model):
    if body is not None and "rows" in body:
        body = {"rows": rows[: body["rows"]]}
    response = client.request(method, path, json=body)
    assert response.status_code == 200, response.text
    documented = description["paths"][path][method.lower()]["responses"]["200"]["content"]
    [kind] = documented
    assert response.headers["content-type"].startswith(kind)
    if model is not None:
        assert documented[kind]["schema"]["$ref"].endswith(f"/{model.__name__}")
        model.model_validate_json(response.text, strict=True)


def test_final_answers_have_the_documented_fields(client, rows):
    answers, state = {}, {"done": False}
    while not state["done"]:
        response = client.post("/next", json={"answers": answers})
        state = service.NextResponse.model_validate_json(response.text, strict=True).model_dump()
        if not state["done"]:
            answers |= {c["name"]: rows[0][c["name"]] for c in state["question"]["columns"]}
    assert state["answer"]["narrative"].startswith("Row")


def test_answers_of_a_regression_have_the_documented_fields(rows, grouped):
    model = SUWRRegressor(max_epochs=1, training={"hidden_size": 8}, random_state=0)
    client = Client(create_app(model.fit(grouped[1], range(len(rows)))))
    for path, kind in (("/predict", service.Predictions), ("/explain", service.Explanations)):
        response = client.post(path, json={"rows": rows[:3]})
        kind.model_validate_json(response.text, strict=True)
    service.ModelDescription.model_validate_json(client.get("/model").text, strict=True)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/next", {"more": 1}),
        ("/next", {"model": 7}),
        ("/next", {"answers": None}),
        ("/next", {"unavailable": None}),
        ("/next", {"max_cost": -0.5}),
        ("/next", {"unasked": None}),
        ("/predict", {"rows": []}),
        ("/predict", {"rows": [1]}),
        ("/predict", {}),
        ("/predict", {"rows": [{}], "more": 1}),
        ("/explain", {"rows": None}),
        (FHIR, {}),
        (FHIR, {"resourceType": "Patient"}),
    ],
)
def test_errors_have_the_documented_type(client, description, path, body):
    response = client.post(path, json=body)
    assert response.status_code == 422
    documented = description["paths"][path]["post"]["responses"]["422"]["content"]
    [kind] = documented
    assert response.headers["content-type"].startswith(kind)
    model = service.FhirResource if path == FHIR else service.ErrorResponse
    assert documented[kind]["schema"]["$ref"].endswith(f"/{model.__name__}")
    model.model_validate_json(response.text, strict=True)


def test_schemas_of_requests_have_their_limits(client, description, grouped):
    schema = body_schema(description, "/next")
    assert schema["additionalProperties"] is False
    assert schema["properties"]["model"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    columns = [c["name"] for c in client.get("/model").json()["columns"]]
    for name in ("answers", "known"):
        assert schema["properties"][name]["propertyNames"] == {"enum": columns}
    assert schema["properties"]["unavailable"]["items"] == {"enum": list(grouped[0].units_.names)}
    rows = body_schema(description, "/predict")["properties"]["rows"]
    assert (rows["minItems"], rows["maxItems"]) == (1, 1000)
    assert set(description["paths"][FHIR]["post"]["requestBody"]["content"]) == {
        FHIR_TYPE, "application/json",
    }  # fmt: skip
