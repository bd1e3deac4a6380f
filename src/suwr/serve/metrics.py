"""Counters of one process in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict

__all__ = ["CONTENT_TYPE", "Metrics"]

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
