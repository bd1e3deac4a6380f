"""A joblib backend over Dask that survives the death of a worker.

joblib's own ``"dask"`` backend puts each large argument on one worker. When that worker dies, the
calls that need the argument are cancelled and the whole search is lost. Here every worker gets a
copy, and a cancelled call is submitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dask.sizeof import sizeof
from distributed import Client, Future
from joblib import parallel_config
from joblib.parallel import ParallelBackendBase

__all__ = ["ClusterBackend"]

# Arguments of more bytes than this are sent ahead once, smaller ones with each call.
LARGE = 1_000_000
# How often a call that was lost is submitted again. Dask itself retries the usual death of a
# worker; this is for calls whose data died with it.
MOST_ATTEMPTS = 5

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def run_calls(calls: list[Call]) -> list[Any]:
    """What a worker does: the calls of one batch, with nothing parallel inside them."""
    with parallel_config(backend="sequential"):
        return [function(*args, **kwargs) for function, args, kwargs in calls]


class ClusterBackend(ParallelBackendBase):
    """Runs joblib's batches as tasks of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    patience : float
        Seconds to wait for the first worker.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, client: Client, patience: float = 10) -> None:
        super().__init__()
        self.client = client
        self.patience = patience
        self._placed: dict[int, tuple[Any, Future]] = {}
        self._open: set[Future] = set()

    def effective_n_jobs(self, n_jobs: int) -> int:
        """As many as the cluster has threads, whatever was asked for; two at least."""
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError as error:
            raise ConnectionError(
                f"The scheduler of {self.client!r} has no workers after {self.patience} seconds."
            ) from error
        # Of a single job joblib would think that it may as well run here.
        return max(2, sum(self.client.nthreads().values()))

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None,
        **backend_kwargs: Any,
    ) -> int:  # fmt: skip
        """Called by joblib before the first batch."""
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Called by joblib with a batch; ``callback`` gets the finished future."""
        return self._submit(func.items, callback, 1)

    def apply_async(self, func: Any, callback: Any = None) -> Any:
        """The name of `submit` in older versions of joblib."""
        return self.submit(func, callback)

    def retrieve_result_callback(self, out: Any) -> Any:
        """The results of a batch, or the error that it raised."""
        return out.result()

    def stop_call(self) -> None:
        """Let go of the arguments that were sent ahead."""
        self._placed.clear()
        self._open.clear()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Called by joblib after an error: what has not started need not."""
        waiting, self._open = list(self._open), set()
        self.client.cancel(waiting)

    def _submit(self, calls: list[Call], callback: Callable[[Future], None], n: int) -> Future:
        ready = [
            (function, self._place(tuple(args)), {k: self._place(v) for k, v in kwargs.items()})
            for function, args, kwargs in calls
        ]
        future = self.client.submit(run_calls, ready, pure=False)
        self._open.add(future)
        future.add_done_callback(partial(self._finish, calls, callback, n))
        return future

    def _finish(
        self, calls: list[Call], callback: Callable[[Future], None], n: int, future: Future
    ) -> None:
        if future not in self._open:
            return  # aborted
        self._open.discard(future)
        if future.status in ("cancelled", "lost") and n < MOST_ATTEMPTS:
            self._submit(calls, callback, n + 1)
        else:
            callback(future)

    def _place(self, value: Any) -> Any:
        """The value, or a future of its copies where it is large."""
        if isinstance(value, tuple):
            return tuple(self._place(part) for part in value)
        if sizeof(value) < LARGE:
            return value
        # The object is kept with its future, so that its id stays its own.
        _, future = self._placed.get(id(value), (None, None))
        if future is None or future.status != "finished":
            future = self.client.scatter(value, broadcast=True, hash=False)
            self._placed[id(value)] = (value, future)
        return future
