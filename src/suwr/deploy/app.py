"""The FastAPI application and its server: endpoints, their description, limits and counters."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import suwr
from suwr._utils.validation import Interval, check_parameters, require
from suwr.deploy import fhir
from suwr.deploy.messages import RequestError, read_json
from suwr.deploy.service import Service, Worker
from suwr.estimators.files import load

__all__ = [
    "CONTENT_TYPE", "OPERATIONS", "Guard", "Limits", "Metrics", "create_app",
    "create_app_from_environment", "description", "run_server",
]  # fmt: skip

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Upper bounds of the histogram of durations, in seconds.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by path and status, their duration, and what was asked and answered.

    Parameters
    ----------
    model : str
        Digest of the model file.
    version : str
        Version of suwr.

    Examples
    --------
    >>> metrics = Metrics("0f", "1.0")
    >>> metrics.observe("/next", 200, 0.02)
    >>> print(metrics.text().splitlines()[2])
    suwr_requests_total{path="/next",status="200"} 1
    """

    def __init__(self, model: str, version: str) -> None:
        self._model, self._version = model, version
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._events: Counter[str] = Counter({"questions": 0, "answers": 0})

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self._requests[path, status] += 1
            buckets = self._buckets.setdefault(path, [0] * len(BOUNDS))
            for number, bound in enumerate(BOUNDS):
                buckets[number] += seconds <= bound
            self._seconds[path] += seconds

    def count(self, event: str) -> None:
        """Count a next question ('questions') or a final answer ('answers')."""
        with self._lock:
            self._events[event] += 1

    def text(self) -> str:
        """Return all values."""
        with self._lock:
            lines = ["# HELP suwr_requests_total Requests.", "# TYPE suwr_requests_total counter"]
            lines += [
                f'suwr_requests_total{{path="{path}",status="{status}"}} {n}'
                for (path, status), n in sorted(self._requests.items())
            ]
            lines += [
                "# HELP suwr_request_seconds Time until a request was answered.",
                "# TYPE suwr_request_seconds histogram",
            ]
            for path, buckets in sorted(self._buckets.items()):
                n = sum(c for (other, _), c in self._requests.items() if other == path)
                label = f'path="{path}"'
                lines += [
                    f'suwr_request_seconds_bucket{{{label},le="{bound:g}"}} {count}'
                    for bound, count in zip(BOUNDS, buckets, strict=True)
                ]
                lines += [
                    f'suwr_request_seconds_bucket{{{label},le="+Inf"}} {n}',
                    f"suwr_request_seconds_sum{{{label}}} {self._seconds[path]:.6f}",
                    f"suwr_request_seconds_count{{{label}}} {n}",
                ]
            for event, n in sorted(self._events.items()):
                name = f"suwr_{event}_total"
                lines += [f"# HELP {name} Next questions and final answers that were given.",
                          f"# TYPE {name} counter", f"{name} {n}"]  # fmt: skip
            lines += [
                "# HELP suwr_model_info The model file and the version of suwr.",
                "# TYPE suwr_model_info gauge",
                f'suwr_model_info{{sha256="{self._model}",version="{self._version}"}} 1',
            ]
        return "\n".join(lines) + "\n"


log = logging.getLogger("suwr.deploy")

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
        whole = [Interval(Integral, 1)]
        constraints = {
            "max_bytes": whole, "max_rows": whole, "waiting": whole,
            "seconds": [Interval(Real, 0, None, closed="neither")],
        }  # fmt: skip
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
        The known paths; any other path may contain values and is logged as 'other'.
    """

    def __init__(self, app: Any, limits: Limits, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self.paths else "other"
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
            log.error("%s in the answer to %s %s", type(error).__name__, scope["method"], path)
            problem = (500, "Internal error.")
        if problem is not None and status == 0:
            await _refuse(record, *problem)
        seconds = time.perf_counter() - start
        self.metrics.observe(path, status, seconds)
        log.info("%s %s %d %.1f ms", scope["method"], path, status, 1000 * seconds)

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


_MODEL = {
    "type": "string",
    "description": "Digest of the model file; with it, another model is an error.",
}
_ERROR = {
    "description": "The message names the field that is wrong, never a value.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "error": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string", "nullable": True},
                            "message": {"type": "string"},
                        },
                    }
                },
            }
        }
    },
}
_ERRORS = dict.fromkeys((400, 409, 413, 422, 503, 504), _ERROR)


def _operation(
    summary: str, properties: dict[str, Any] | None = None, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    options: dict[str, Any] = {"summary": summary}
    if properties is None:
        return options
    schema = {"type": "object", "properties": properties, "required": list(required)}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return options | {"openapi_extra": {"requestBody": body}, "responses": _ERRORS}


_ROWS = {
    "model": _MODEL,
    "rows": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Values by column. Cells that the model does not ask for may be absent or "
        "anything: they are not used.",
    },
}

#: Options of the route of each path.
OPERATIONS: dict[str, dict[str, Any]] = {
    "/next": _operation(
        "The next question after all answers so far, or the final answer with narrative, receipt "
        "and certificate.",
        {
            "model": _MODEL,
            "answers": {
                "type": "object",
                "additionalProperties": True,
                "description": "Values by column; null is a missing value.",
            },
            "known": {
                "type": "object",
                "additionalProperties": True,
                "description": "Values by column that are known in advance: they cost nothing, "
                "and the model reads them before its first question. Send the same in every "
                "request of a session. Columns that the model always knows may be among the "
                "answers instead; it asks for those that lack, with null as the unit.",
            },
            "unavailable": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Units that cannot be had: the model does not ask for them.",
            },
            "max_cost": {
                "type": "number",
                "minimum": 0,
                "description": "Largest total cost of the questions.",
            },
            "unasked": {
                "type": "string",
                "enum": ["error", "drop"],
                "default": "error",
                "description": "What to do with answers that the model does not ask for, for "
                "example after an earlier answer was changed.",
            },
        },
    ),
    "/predict": _operation("Predict rows from the columns that the model asks for.", _ROWS,
                           ("rows",)),
    "/explain": _operation("Narratives and receipts of rows.", _ROWS, ("rows",)),
    "/Questionnaire/$next-question": _operation(
        "FHIR R4, Structured Data Capture: the next question of an adaptive questionnaire.",
        {
            "resourceType": {"type": "string", "enum": ["QuestionnaireResponse", "Parameters"]},
        },
        ("resourceType",),
    ),
    "/Questionnaire": _operation("FHIR R4: all columns of the model as a Questionnaire."),
    "/": _operation("The page with the model, which runs in the browser."),
    "/model": _operation("Columns, units and classes of the model."),
    "/healthz": _operation("Whether the process can answer."),
    "/metrics": _operation("Counters of this process in the text format of Prometheus."),
}  # fmt: skip


def description(service: Service) -> str:
    """Return the description of the service."""
    target = service.model.target_name_ or "the target"
    return (
        f"Predicts {target} from as few of {len(service.questions)} columns as possible. The "
        f"service keeps no state. Model file: SHA-256 {service.digest}."
    )


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
    >>> from suwr.deploy import create_app
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> app = create_app(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> "/next" in app.openapi()["paths"]
    True
    """
    fastapi = require("fastapi", "serve", "The HTTP service")
    responses = require("fastapi.responses", "serve", "The HTTP service")
    limits = limits or Limits()
    service = Service(model, mean_features, limits.max_rows)
    counters = Metrics(service.digest, suwr.__version__)
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
        return responses.Response(counters.text(), media_type=CONTENT_TYPE)

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
    logger = logging.getLogger("suwr.deploy")
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
        "suwr.deploy.app:create_app_from_environment", factory=True, host=host, port=port,
        workers=workers, access_log=False, log_level="warning", server_header=False,
    )  # fmt: skip
