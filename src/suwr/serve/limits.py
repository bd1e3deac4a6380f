"""Limits of a request, and the log of requests: method, path, status and time, nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from suwr._utils.validation import Interval, check_parameters
from suwr.serve.metrics import Metrics

__all__ = ["Guard", "Limits"]

log = logging.getLogger("suwr.serve")

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
    >>> from suwr.serve import Limits
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
