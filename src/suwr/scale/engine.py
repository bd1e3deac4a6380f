"""Where parallel work runs: this machine, or a Dask cluster behind the same joblib calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from joblib import parallel_config

from suwr._utils.optional import require

__all__ = ["engine"]

# Seconds to wait for a scheduler, and then for its first worker.
PATIENCE = 10


@contextmanager
def engine(scheduler: str | None = None) -> Iterator[None]:
    """Send every joblib call inside the block to a Dask cluster.

    Parameters
    ----------
    scheduler : str or None, default=None
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``. None stays on this machine
        and changes nothing.

    Raises
    ------
    MissingExtraError
        Dask is not installed; the message names the extra.
    ConnectionError
        No scheduler answers at that address, or it has no workers.

    Examples
    --------
    >>> with engine(None):
    ...     print("as usual")
    as usual
    """
    if scheduler is None:
        yield
        return
    distributed = require("distributed", "dask", "Running on a cluster")
    from suwr.scale.cluster import ClusterBackend

    try:
        client = distributed.Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            "The scheduler must be the address of a running Dask scheduler, such as "
            f"'tcp://10.0.0.1:8786'. Got {scheduler!r} instead: {error}"
        ) from error
    with client, parallel_config(backend=ClusterBackend(client, PATIENCE), n_jobs=-1):
        yield
