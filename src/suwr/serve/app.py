"""The FastAPI application, and the server that `suwr serve` starts."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import suwr
from suwr._utils.validation import require
from suwr.estimators.files import load
from suwr.serve import fhir, metrics
from suwr.serve.documentation import OPERATIONS, description
from suwr.serve.limits import Guard, Limits
from suwr.serve.messages import RequestError, read_json
from suwr.serve.service import Service
from suwr.serve.worker import Worker

__all__ = ["create_app", "create_app_from_environment", "run_server"]

# Settings of the processes of a server, as JSON.
SETTINGS = "SUWR_SERVE_SETTINGS"


def create_app(
    model: Any, *, mean_features: float | None = None, limits: Limits | None = None
) -> Any:
    """Return the ASGI application that serves a fitted model.

    It keeps no state between requests, so any number of processes can serve the same model. Only
    the method, the path, the status and the time of a request are logged.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    mean_features : float, optional
        As in ``acquire``, for a model that was fitted for a range.
    limits : Limits, optional

    Returns
    -------
    fastapi.FastAPI

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.serve import create_app
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> app = create_app(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> "/next" in app.openapi()["paths"]
    True
    """
    fastapi = require("fastapi", "serve", "The HTTP service")
    responses = require("fastapi.responses", "serve", "The HTTP service")
    limits = limits or Limits()
    service = Service(model, mean_features, limits.max_rows)
    counters = metrics.Metrics(service.digest, suwr.__version__)
    worker = Worker(service, limits.waiting)
    # The interactive documentation of FastAPI would load scripts from another host.
    app = fastapi.FastAPI(
        title="suwr", version=suwr.__version__, description=description(service),
        docs_url=None, redoc_url=None,
    )  # fmt: skip

    def reply(content: Any, status: int = 200, kind: str = "application/json") -> Any:
        # ASCII, since names may contain anything.
        text = json.dumps(content, allow_nan=False)
        return responses.Response(text, status, media_type=kind)

    def endpoint(compute: Callable[[bytes], Any], failed: Any, kind: str) -> Callable[..., Any]:
        """Return an endpoint that sends what ``compute`` returns for the body of a request."""

        async def respond(request: Any) -> Any:
            try:
                return reply(await compute(await request.body()), kind=kind)
            except RequestError as error:
                return reply(failed(error), error.status, kind)

        # FastAPI passes the request to a parameter of this type.
        respond.__annotations__ = {"request": fastapi.Request}
        return respond

    def in_thread(compute: Callable[[Any], Any]) -> Callable[..., Any]:
        """Return an endpoint that computes in the thread."""

        async def run(body: bytes) -> Any:
            return await worker.run(lambda: compute(read_json(body)))

        return endpoint(run, _error, "application/json")

    async def next(body: bytes) -> Any:
        answers = service.read_next(read_json(body))
        found = await worker.replay(answers, service.next)
        counters.count("answers" if found["done"] else "questions")
        return found

    async def next_question(body: bytes) -> Any:
        request = read_json(body, finite=True)
        answers = fhir.read_response(service, request)
        return await worker.replay(
            answers, lambda replay: fhir.next_question(service, request, replay)
        )

    def add(path: str, endpoint: Any, method: str = "POST", **options: Any) -> None:
        app.add_api_route(path, endpoint, methods=[method], response_model=None,
                          **OPERATIONS[path], **options)  # fmt: skip

    add("/next", endpoint(next, _error, "application/json"))
    add("/predict", in_thread(service.predict))
    add("/explain", in_thread(service.explain))
    add("/Questionnaire/$next-question",
        endpoint(next_question, fhir.operation_outcome, fhir.CONTENT_TYPE))  # fmt: skip

    async def whole_questionnaire() -> Any:
        return reply(fhir.questionnaire(service), kind=fhir.CONTENT_TYPE)

    async def page() -> Any:
        return responses.HTMLResponse(await worker.run(lambda: service.page))

    async def columns() -> Any:
        return reply(service.describe())

    async def health() -> Any:
        return reply({"status": "ok", "model": service.digest})

    async def counted() -> Any:
        return responses.Response(counters.text(), media_type=metrics.CONTENT_TYPE)

    for path, respond in {
        "/": page, "/model": columns, "/healthz": health, "/metrics": counted,
        "/Questionnaire": whole_questionnaire,
    }.items():  # fmt: skip
        add(path, respond, "GET")
    paths = frozenset([*OPERATIONS, "/openapi.json"])
    app.add_middleware(Guard, limits=limits, metrics=counters, paths=paths)
    return app


def _error(error: RequestError) -> dict[str, Any]:
    return {"error": {"field": error.field, "message": error.message}}


def create_app_from_environment() -> Any:
    """Return the application of a process that `run_server` started."""
    settings = json.loads(os.environ[SETTINGS])
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("suwr.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if settings["quiet"] else logging.INFO)
    return create_app(
        load(settings["model"]),
        mean_features=settings["mean_features"],
        limits=Limits(**settings["limits"]),
    )


def run_server(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    mean_features: float | None = None,
    limits: Limits | None = None,
    quiet: bool = False,
) -> None:
    """Serve a model file until the process is stopped.

    Parameters
    ----------
    model : Path
    host, port
        Where to listen.
    workers : int, default=1
        Number of processes.
    mean_features, limits
        As in `create_app`.
    quiet : bool, default=False
        Log errors only.
    """
    uvicorn = require("uvicorn", "serve", "The HTTP service")
    require("fastapi", "serve", "The HTTP service")
    # Fail here, not in every process.
    Service(load(model), mean_features)
    os.environ[SETTINGS] = json.dumps({
        "model": str(model.resolve()), "mean_features": mean_features,
        "limits": asdict(limits or Limits()), "quiet": quiet,
    })  # fmt: skip
    uvicorn.run(
        "suwr.serve.app:create_app_from_environment", factory=True, host=host, port=port,
        workers=workers, access_log=False, log_level="warning", server_header=False,
    )  # fmt: skip
