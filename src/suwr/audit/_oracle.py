"""The one door to the selector: counts every question, keeps to the budget of time."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from suwr.audit._table import IntArray, Table
from suwr.selector import BoolArray, WrappedSelector

Tick = Callable[[int], None]


class OutOfTimeError(Exception):
    """The time that the user allowed is over; raised only where a search cannot stop half-way."""


class Oracle:
    """Asks a selector about probes, in batches.

    Parameters
    ----------
    selector : WrappedSelector
    table : Table
    rng : numpy.random.Generator
        Randomness handed to selectors that let us choose it.
    batch_size : int
        Most rows in one call.
    max_seconds : float, optional
        After this time :attr:`out_of_time` is true; searches then stop where they are.
    tick : callable, optional
        Called with the number of rows asked, for a progress bar.

    Attributes
    ----------
    n_calls, n_rows : int
        Calls of the selector so far, and rows in them.
    """

    def __init__(
        self,
        selector: WrappedSelector,
        table: Table,
        rng: np.random.Generator,
        batch_size: int = 4096,
        max_seconds: float | None = None,
        tick: Tick | None = None,
    ) -> None:
        self.selector = selector
        self.table = table
        self.n_calls = 0
        self.n_rows = 0
        self.batch_size = batch_size
        self._rng = rng
        self._tick = tick
        self._max_seconds = max_seconds
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._seconds_per_row = 0.0
        self.raise_when_late = False

    @property
    def out_of_time(self) -> bool:
        """Whether the time that the user allowed has passed."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def _batch_size(self) -> int:
        """Rows per call; fewer for a slow selector, so that the clock is looked at often."""
        if self._max_seconds is None or not self._seconds_per_row:
            return self.batch_size
        return int(np.clip(0.1 * self._max_seconds / self._seconds_per_row, 1, self.batch_size))

    def select(self, sources: IntArray) -> BoolArray:
        """Masks of the probes with the given sources."""
        parts = [self._select_batch(batch) for batch in self._batches(sources)]
        return np.concatenate(parts) if parts else np.empty((0, self.table.n_columns), bool)

    def select_alone(self, sources: IntArray) -> BoolArray:
        """As :meth:`select`, but every probe in a call of its own."""
        return np.concatenate([self._select_batch(sources[i : i + 1]) for i in range(len(sources))])

    def probability(self, sources: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) of each probe with the mask beside it."""
        parts = []
        start = 0
        for batch in self._batches(sources):
            self._count(len(batch))
            part = masks[start : start + len(batch)]
            parts.append(self.selector.mask_probability(self.table.build(batch), part))
            start += len(batch)
        return np.concatenate(parts) if parts else np.empty(0)

    def _select_batch(self, sources: IntArray) -> BoolArray:
        if self.raise_when_late and self.out_of_time:
            raise OutOfTimeError
        self._count(len(sources))
        started = time.monotonic()
        masks = self.selector.sample(self.table.build(sources), self._rng)
        self._seconds_per_row = (time.monotonic() - started) / max(len(sources), 1)
        return masks

    def _batches(self, sources: IntArray) -> list[IntArray]:
        size = self._batch_size()
        return [sources[i : i + size] for i in range(0, len(sources), size)]

    def _count(self, n_rows: int) -> None:
        self.n_calls += 1
        self.n_rows += n_rows
        if self._tick is not None:
            self._tick(n_rows)
