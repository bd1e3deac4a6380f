"""Execution of joblib calls on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import parallel_config

from suwr._utils.validation import require

__all__ = ["engine"]

# Seconds to wait for a scheduler, and then for its first worker.
TIMEOUT = 10
# Arguments of at least this many bytes are replicated on all workers once; smaller ones are part of
# every task.
LARGE = 1_000_000


@contextmanager
def engine(scheduler: str | None = None) -> Iterator[None]:
    """Run every joblib call inside the block on a Dask cluster.

    The death of a worker does not end the computation: its tasks run on another worker.

    Parameters
    ----------
    scheduler : str or None, default=None
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``. With None, the block runs
        on this machine as it would without `engine`.

    Raises
    ------
    MissingExtraError
        Dask is not installed; the message names the extra.
    ConnectionError
        There is no scheduler at that address, or it has no workers.

    Examples
    --------
    >>> with engine(None):
    ...     print("local")
    local
    """
    if scheduler is None:
        yield
        return
    require("distributed", "dask", "Running on a cluster")
    client = _connect(scheduler)
    with client, parallel_config(backend="dask", client=client, n_jobs=-1):
        yield


async def _identity(value: Any) -> Any:
    return value


def _connect(scheduler: str) -> Any:
    import dask
    from dask.sizeof import sizeof
    from distributed import Client

    class ReplicatingClient(Client):
        """Client whose scattered data survives the death of a worker.

        joblib's backend scatters each argument to a single worker. If that worker dies, Dask
        cancels all tasks that need the argument, which ends the whole search.
        """

        def scatter(self, data: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("asynchronous") and sizeof(data) < LARGE:
                return _identity(data)
            return super().scatter(data, *args, **{**kwargs, "broadcast": True})

    default = dask.config.get("scheduler", None)
    try:
        client = ReplicatingClient(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        # A client that fails to connect remains the default scheduler of this process.
        dask.config.set(scheduler=default)
        raise ConnectionError(
            "The scheduler must be the address of a running Dask scheduler, such as "
            f"'tcp://10.0.0.1:8786'. Got {scheduler!r} instead: {error}"
        ) from error
    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError as error:
        client.close()
        raise ConnectionError(
            f"The scheduler at {scheduler!r} has no workers after {TIMEOUT} seconds."
        ) from error
    return client
