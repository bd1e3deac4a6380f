"""The one door to the selector: counts every question, keeps to the budget of time."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
from numpy.typing import NDArray

from suwr.audit._table import IntArray, Table
from suwr.selector import BoolArray, WrappedSelector

Tick = Callable[[int], None]
_MAX_PROBABILITIES = 2**18


class OutOfTimeError(Exception):
    """The time that the user allowed is over; raised only within :meth:`Oracle.until_late`."""


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
    seconds_per_row : float
        Of the last call.
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
        self.seconds_per_row = 0.0
        self._stops_when_late = False

    @property
    def out_of_time(self) -> bool:
        """Whether the time that the user allowed has passed."""
        return self._deadline is not None and time.monotonic() > self._deadline

    @contextmanager
    def until_late(self) -> Iterator[None]:
        """Questions within this context end it when the time is over."""
        try:
            with self._stopping(True):
                yield
        except OutOfTimeError:
            pass

    def at_any_time(self) -> AbstractContextManager[None]:
        """Questions within this context are asked though the time may be over: few, but needed."""
        return self._stopping(False)

    @contextmanager
    def _stopping(self, when_late: bool) -> Iterator[None]:
        before, self._stops_when_late = self._stops_when_late, when_late
        try:
            yield
        finally:
            self._stops_when_late = before

    def _batch_size(self) -> int:
        """Rows per call; fewer for a slow selector, so that the clock is looked at often."""
        if self._max_seconds is None or not self.seconds_per_row:
            return self.batch_size
        return int(np.clip(0.1 * self._max_seconds / self.seconds_per_row, 1, self.batch_size))

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
            part = masks[start : start + len(batch)]
            with self._asking(len(batch)):
                parts.append(self.selector.mask_probability(self.table.build(batch), part))
            start += len(batch)
        return np.concatenate(parts) if parts else np.empty(0)

    def probability_of_each(self, sources: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) of each probe with each of the masks, of shape (n_probes, n_masks)."""
        parts = []
        size = max(1, _MAX_PROBABILITIES // len(masks))
        for start in range(0, len(sources), size):
            batch = sources[start : start + size]
            with self._asking(len(batch)):
                parts.append(self.selector.mask_probability(self.table.build(batch), masks[None]))
        return np.concatenate(parts)

    def _select_batch(self, sources: IntArray) -> BoolArray:
        with self._asking(len(sources)):
            return self.selector.sample(self.table.build(sources), self._rng)

    @contextmanager
    def _asking(self, n_rows: int) -> Iterator[None]:
        """Count the question, take the time, and say where an error of the selector comes from."""
        if self._stops_when_late and self.out_of_time:
            raise OutOfTimeError
        self.n_calls += 1
        self.n_rows += n_rows
        if self._tick is not None:
            self._tick(n_rows)
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            error.add_note(
                f"The selector was asked by suwr.audit about {n_rows} rows. Unless "
                "support='empirical', hidden values of such rows come from other rows of X."
            )
            raise
        self.seconds_per_row = (time.monotonic() - started) / max(n_rows, 1)

    def _batches(self, sources: IntArray) -> list[IntArray]:
        size = self._batch_size()
        return [sources[i : i + size] for i in range(0, len(sources), size)]
