"""The FastAPI application and its server: endpoints, their description, limits and counters."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, Info, generate_latest
from pydantic import BaseModel

import suwr
from suwr._utils.validation import Interval, check_parameters
from suwr.deploy import fhir, service
from suwr.deploy.service import ErrorResponse, NextRequest, RequestError, RowsRequest, Worker
from suwr.estimators.base import SUWRModel
from suwr.estimators.files import load


class Metrics:
    """Requests by path and status, their duration, and what was asked and answered.

    Parameters
    ----------
    model : str
        Digest of the model file.
    """

    def __init__(self, model: str) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("suwr_requests", "Requests.", ["path", "status"], registry=registry)
        text = "Time until a request was answered."
        self.seconds = Histogram("suwr_request_seconds", text, ["path"], registry=registry)
        text = "Next questions that were given."
        self.questions = Counter("suwr_questions", text, registry=registry)
        self.answers = Counter("suwr_answers", "Final answers that were given.", registry=registry)
        info = Info("suwr_model", "The model file and the version.", registry=registry)
        info.info({"sha256": model, "version": suwr.__version__})


log = logging.getLogger("suwr.deploy")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """Limits of one process of the service.

    Attributes
    ----------
    max_bytes : int, default=1,000,000
        Size of the body of a request.
    max_rows : int, default=1000
        Rows per request.
    seconds : float, default=30
        Time until a request is answered, including its transfer and waiting.
    waiting : int, default=1000
        Requests that may wait; more are refused with status 503.

    Examples
    --------
    >>> from suwr.deploy import Limits
    >>> Limits(max_rows=10).seconds
    30.0
    """

    max_bytes: int = 1_000_000
    max_rows: int = 1000
    seconds: float = 30.0
    waiting: int = 1000

    def __post_init__(self) -> None:
        constraints = {name: [Interval(Integral, 1)] for name in vars(self)}
        constraints["seconds"] = [Interval(Real, 0, None, closed="neither")]
        check_parameters("Limits", constraints, vars(self))


class Guard:
    """ASGI middleware that enforces `Limits` and keeps values out of every log.

    No exception passes it: a server would log the message, which may quote an answer.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    metrics : Metrics
    paths : collection of str
        The known paths; any other path or method may contain values and is logged as 'other'.
    """

    def __init__(self, app: Any, limits: Limits, metrics: Metrics, paths: Collection[str]) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self.paths else "other"
        method = scope["method"] if scope["method"] in METHODS else "other"
        start, status = time.perf_counter(), 0

        async def record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", []), (b"cache-control", b"no-store")]
                message = {**message, "headers": headers}
            await send(message)

        problem = None
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await self._body(scope, receive)
                if body is None:
                    problem = (413, f"The body must have at most {self.limits.max_bytes} bytes.")
                else:
                    await self.app(scope, _once(body), record)
        except TimeoutError:
            problem = (504, f"The request took longer than {self.limits.seconds:g} seconds.")
        except Exception as error:
            # Only the type: messages may quote values.
            log.error("%s in the answer to %s %s", type(error).__name__, method, path)
            problem = (500, "Internal error.")
        if problem is not None and status == 0:
            await _refuse(record, *problem)
        seconds = time.perf_counter() - start
        self.metrics.requests.labels(path, status).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        log.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    async def _body(self, scope: Message, receive: Receive) -> bytes | None:
        """Return the body; None if it is too long."""
        for name, value in scope["headers"]:
            declared = int(value[:20]) if name == b"content-length" and value.isdigit() else 0
            if declared > self.limits.max_bytes:
                return None
        parts, size = [], 0
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size > self.limits.max_bytes:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


def _once(body: bytes) -> Receive:
    """Return a receiver of the complete body, and of nothing after it."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _refuse(send: Send, status: int, message: str) -> None:
    content = json.dumps({"error": {"field": None, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class AsciiResponse(JSONResponse):
    """JSON in ASCII, since names may contain anything."""

    def render(self, content: Any) -> bytes:
        """Return the text."""
        return json.dumps(content, allow_nan=False).encode()


class FhirResponse(AsciiResponse):
    """A resource of FHIR."""

    media_type = fhir.CONTENT_TYPE


# Three units, of which one is revealed.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="#0072b2">'
    '<path d="M1 2h14v3H1zM1 11h14v3H1z"/><path fill="#0072b2" d="M1 6.5h14v3H1z"/></svg>'
)

_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}
# Errors of every operation, also by `Guard`.
_ERRORS: dict[int | str, dict[str, Any]] = {
    413: {"description": "Too many bytes or rows.", "content": _ERROR},
    500: {"description": "An error of the service.", "content": _ERROR},
    504: {"description": "The time limit.", "content": _ERROR},
}


def _body_errors(kind: type[BaseModel] = ErrorResponse) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of operations that have a body."""
    texts = {
        400: "The body is not a JSON object.",
        409: "The request is for another model.",
        422: "A field is wrong.",
        503: "Too many requests are waiting.",
    }
    return {status: {"description": text, "model": kind} for status, text in texts.items()}


def _request_body(
    kind: type[BaseModel], *types: str, **bounds: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Describe the body of a request; ``bounds`` are added to the schemas of its fields."""
    schema = kind.model_json_schema()
    for name, more in bounds.items():
        schema["properties"][name] |= more
    content = {media_type: {"schema": schema} for media_type in types or ("application/json",)}
    return {"requestBody": {"required": True, "content": content}}


FHIR_PATH = "/Questionnaire/$next-question"
# Settings of the processes of a server, as JSON.
SETTINGS = "SUWR_SERVE_SETTINGS"


def create_app(
    model: SUWRModel, *, mean_features: float | None = None, limits: Limits | None = None
) -> FastAPI:
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
    >>> from suwr.deploy import create_app
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> app = create_app(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> "/next" in app.openapi()["paths"]
    True
    """
    limits = limits or Limits()
    served = service.Service(model, mean_features, limits.max_rows)
    questionnaires = fhir.Questionnaires(served)
    metrics, worker = Metrics(served.digest), Worker(limits.waiting)
    columns, units = list(served.codes), list(model.units_.names)
    by_column = {"propertyNames": {"enum": columns}, "maxProperties": len(columns)}
    # The interactive documentation of FastAPI would load scripts from another host.
    app = FastAPI(
        title="suwr",
        version=suwr.__version__,
        description=f"Predicts {model.target_name_ or 'the target'} from as few of {len(columns)} "
        f"columns as possible. The service keeps no state. Model file: SHA-256 {served.digest}.",
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        default_response_class=AsciiResponse,
        responses=_ERRORS,
    )

    @app.exception_handler(RequestError)
    async def refuse(request: Request, error: RequestError) -> Response:
        if request.url.path == FHIR_PATH:
            return FhirResponse(fhir.operation_outcome(error), error.status)
        problem = {"field": error.field, "message": error.message}
        return AsciiResponse({"error": problem}, error.status)

    @app.post(
        "/next",
        summary="The next question after all answers so far, or the final answer with narrative, "
        "receipt and certificate.",
        response_model=service.NextResponse,
        responses=_body_errors(),
        openapi_extra=_request_body(
            NextRequest,
            answers=by_column,
            known=by_column,
            unavailable={"items": {"enum": units}, "maxItems": len(units)},
        ),
    )
    async def next(request: Request) -> Response:
        found = await worker.run(served.next, await request.body())
        (metrics.answers if found["done"] else metrics.questions).inc()
        return AsciiResponse(found)

    rows = _request_body(RowsRequest, rows={"maxItems": limits.max_rows})

    @app.post(
        "/predict",
        summary="Predict rows from the columns that the model asks for.",
        response_model=service.Predictions,
        responses=_body_errors(),
        openapi_extra=rows,
    )
    async def predict(request: Request) -> Response:
        return AsciiResponse(await worker.run(served.predict, await request.body()))

    @app.post(
        "/explain",
        summary="Narratives and receipts of rows.",
        response_model=service.Explanations,
        responses=_body_errors(),
        openapi_extra=rows,
    )
    async def explain(request: Request) -> Response:
        return AsciiResponse(await worker.run(served.explain, await request.body()))

    @app.post(
        FHIR_PATH,
        summary="FHIR R4, Structured Data Capture: the next question of an adaptive questionnaire.",
        response_class=FhirResponse,
        response_model=service.FhirResource,
        responses=_body_errors(service.FhirResource),
        openapi_extra=_request_body(service.FhirRequest, fhir.CONTENT_TYPE, "application/json"),
    )
    async def next_question(request: Request) -> Response:
        return FhirResponse(await worker.run(questionnaires.next_questions, await request.body()))

    @app.get(
        "/Questionnaire",
        summary="FHIR R4: all columns of the model as a Questionnaire.",
        response_class=FhirResponse,
        response_model=service.FhirResource,
    )
    async def questionnaire() -> Response:
        return FhirResponse(questionnaires.complete())

    @app.get(
        "/",
        summary="The page with the model, which runs in the browser.",
        response_class=HTMLResponse,
    )
    async def page() -> Response:
        return HTMLResponse(await worker.run(served.pages))

    @app.get(
        "/model",
        summary="Columns, units and classes of the model.",
        response_model=service.ModelDescription,
    )
    async def describe() -> Response:
        return AsciiResponse(served.describe())

    @app.get("/healthz", summary="Whether the process can answer.", response_model=service.Health)
    async def health() -> Response:
        return AsciiResponse({"status": "ok", "model": served.digest})

    @app.get(
        "/metrics",
        summary="Counters of this process in the text format of Prometheus.",
        response_class=PlainTextResponse,
    )
    async def count() -> Response:
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(ICON, media_type="image/svg+xml")

    paths = frozenset([*app.openapi()["paths"], "/favicon.ico", "/openapi.json"])
    app.add_middleware(Guard, limits=limits, metrics=metrics, paths=paths)
    return app


def create_app_from_environment() -> FastAPI:
    """Return the application of a process that `run_server` started."""
    settings = json.loads(os.environ[SETTINGS])
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.WARNING if settings["quiet"] else logging.INFO)
    return create_app(
        load(settings["model"]),
        mean_features=settings["mean_features"],
        limits=Limits(**settings["limits"]),
    )


def run_server(
    model: Path,
    *,
    mean_features: float | None = None,
    limits: Limits | None = None,
    quiet: bool = False,
    **server: Any,
) -> None:
    """Serve a model file until the process is stopped.

    Parameters
    ----------
    model : Path
    mean_features, limits
        As in `create_app`.
    quiet : bool, default=False
        Log errors only.
    **server
        Parameters of ``uvicorn.run``: ``host``, ``port`` and the number of processes, ``workers``.
    """
    # Fail here, not in every process.
    service.Service(load(model), mean_features)
    settings = {"model": str(model.resolve()), "mean_features": mean_features, "quiet": quiet}
    os.environ[SETTINGS] = json.dumps(settings | {"limits": asdict(limits or Limits())})
    server |= {"access_log": False, "log_level": "warning", "server_header": False}
    uvicorn.run("suwr.deploy.app:create_app_from_environment", factory=True, **server)
