"""Queries to the selector, counted and limited in time, and whether its masks are reproducible.

Counterfactual probes compare masks of different calls, so that a mask must be a function of the row
alone. A selector for which this does not hold is tested in each way in which it can be called.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from suwr.auditing.background import BackgroundData, IntArray
from suwr.selector import BoolArray, WrappedSelector

_MAX_PROBABILITIES = 2**18
_MIN_ROWS = 20


class TimeLimitError(Exception):
    """``max_seconds`` has passed; raised and caught within `SelectorQueries.stop_at_limit`."""


class SelectorQueries:
    """Evaluates a selector on probes, in batches.

    Parameters
    ----------
    selector : WrappedSelector
    background : BackgroundData
    rng : numpy.random.Generator
        Source of randomness for selectors that accept one.
    batch_size : int
        Maximum number of rows per call.
    max_seconds : float, optional
        Time after which `out_of_time` is true.
    on_query : callable, optional
        Called with the number of rows of each query, for example by a progress bar.

    Attributes
    ----------
    n_calls, n_rows : int
        Calls of the selector so far, and the rows in them.
    seconds_per_row : float
        Duration of the last call, per row.
    max_batch_size : int
        The given ``batch_size``; the attribute of that name is 1 while rows are queried one by one.
    """

    def __init__(
        self,
        selector: WrappedSelector,
        background: BackgroundData,
        rng: np.random.Generator,
        batch_size: int = 4096,
        max_seconds: float | None = None,
        on_query: Callable[[int], None] | None = None,
    ) -> None:
        self.selector = selector
        self.background = background
        self.n_calls = 0
        self.n_rows = 0
        self.batch_size = self.max_batch_size = batch_size
        self._rng = rng
        self._on_query = on_query
        self._max_seconds = max_seconds
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self.seconds_per_row = 0.0
        self._raise_at_limit = False

    @property
    def out_of_time(self) -> bool:
        """Whether ``max_seconds`` have passed."""
        return self._deadline is not None and time.monotonic() > self._deadline

    @contextmanager
    def stop_at_limit(self) -> Iterator[None]:
        """Leave this context at the first query after the time limit."""
        try:
            with self._limit(True):
                yield
        except TimeLimitError:
            pass

    def ignore_limit(self) -> AbstractContextManager[None]:
        """Allow the few queries that confirm a leak to exceed the time limit."""
        return self._limit(False)

    @contextmanager
    def one_row_per_call(self) -> Iterator[None]:
        """Query every row in its own call within this context."""
        before, self.batch_size = self.batch_size, 1
        try:
            yield
        finally:
            self.batch_size = before

    @contextmanager
    def _limit(self, enforced: bool) -> Iterator[None]:
        before, self._raise_at_limit = self._raise_at_limit, enforced
        try:
            yield
        finally:
            self._raise_at_limit = before

    def select(self, sources: IntArray) -> BoolArray:
        """Masks of the probes with the given source rows."""
        parts = [self._select_batch(batch) for batch in self._batches(sources)]
        return np.concatenate(parts) if parts else np.empty((0, self.background.n_columns), bool)

    def select_together(self, sources: IntArray) -> BoolArray:
        """Masks of the probes, queried in one call whatever their number."""
        return self._select_batch(sources)

    def select_individually(self, sources: IntArray) -> BoolArray:
        """Masks of the probes, each queried in its own call."""
        parts = [self._select_batch(sources[i : i + 1]) for i in range(len(sources))]
        return np.concatenate(parts) if parts else np.empty((0, self.background.n_columns), bool)

    def mask_probability(self, sources: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) of each probe and its own mask, of shape (n_probes,)."""
        parts = []
        start = 0
        for batch in self._batches(sources):
            part = masks[start : start + len(batch)]
            with self._query(len(batch)):
                parts.append(self.selector.mask_probability(self.background.build(batch), part))
            start += len(batch)
        return np.concatenate(parts) if parts else np.empty(0)

    def mask_probabilities(self, sources: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) of each probe and every mask, of shape (n_probes, n_masks)."""
        parts = []
        size = max(1, _MAX_PROBABILITIES // len(masks))
        for start in range(0, len(sources), size):
            rows = self.background.build(sources[start : start + size])
            with self._query(len(rows)):
                parts.append(self.selector.mask_probability(rows, masks[None]))
        return np.concatenate(parts)

    def _select_batch(self, sources: IntArray) -> BoolArray:
        with self._query(len(sources)):
            return self.selector.sample(self.background.build(sources), self._rng)

    @contextmanager
    def _query(self, n_rows: int) -> Iterator[None]:
        if self._raise_at_limit and self.out_of_time:
            raise TimeLimitError
        self.n_calls += 1
        self.n_rows += n_rows
        if self._on_query is not None:
            self._on_query(n_rows)
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            error.add_note(
                f"Raised by the selector when suwr.audit queried {n_rows} rows. Unless "
                "support='empirical', the hidden values of these rows come from other rows of X."
            )
            raise
        self.seconds_per_row = (time.monotonic() - started) / max(n_rows, 1)

    def _batches(self, sources: IntArray) -> list[IntArray]:
        size = self.batch_size
        if self._max_seconds is not None and self.seconds_per_row:
            # A call takes at most a tenth of the time limit, which is checked between calls.
            affordable = 0.1 * self._max_seconds / self.seconds_per_row
            size = int(np.clip(affordable, 1, self.batch_size))
        return [sources[i : i + size] for i in range(0, len(sources), size)]


def affordable_rows(queries: SelectorQueries, max_seconds: float) -> int:
    """Number of background rows that a slow selector can process in a tenth of the time limit."""
    background = queries.background
    few = background.unchanged(np.arange(min(4, background.n_rows)))
    for _ in range(2):  # the first call may include loading or compilation
        queries.select(few)
    return max(_MIN_ROWS, int(0.1 * max_seconds / max(queries.seconds_per_row, 1e-9)))


#: Sizes of the batches in which rows are queried again, and the number of batches of each size.
_BATCHES = ((1, 64), (2, 8), (3, 8), (7, 4), (32, 2))
#: Smaller shares of changed masks are attributed to rounding errors that depend on the batch size.
_MAX_ROUNDING_SHARE = 0.01
_N_CALLS, _N_ROWS_PER_CALL = 30, 40
_DEPENDENCE_LEVEL = 1e-4
_SMALL_BATCH = 32


@dataclass
class Reproducibility:
    """Whether a selector returns the same masks when queried again.

    Attributes
    ----------
    masks : bool array of shape (n_rows, n_columns)
        Masks of the background rows.
    stochastic : bool
        Whether an identical call returned different masks.
    batch_dependent : bool
        Whether masks changed with the other rows of the batch.
    independent : bool
        Whether masks that are drawn in one call appear to be independent.
    cautions : list of str
    """

    masks: BoolArray
    stochastic: bool = False
    independent: bool = True
    batch_dependent: bool = False
    cautions: list[str] = field(default_factory=list)


def check_reproducibility(queries: SelectorQueries, rng: np.random.Generator) -> Reproducibility:
    """Query all background rows twice, then individually and in shuffled batches of several sizes.

    A batch-dependent selector is not a function of the row. It is audited as the selector that
    receives one row per call, and in fixed batches (`suwr.auditing.deterministic`).
    """
    background = queries.background
    sources = background.unchanged(np.arange(background.n_rows))
    masks = queries.select(sources)
    if (queries.select(sources) != masks).any():
        return _check_draws(queries, Reproducibility(masks, stochastic=True), rng)
    alone, together = _changes_by_batch(queries, masks, rng)
    if not alone.any() and not together.any():
        return Reproducibility(masks)
    dependent = any(
        changed.mean() > _MAX_ROUNDING_SHARE and changed.sum() > 1 for changed in (alone, together)
    )
    result = Reproducibility(masks, batch_dependent=dependent)
    result.cautions.append(
        "The masks depend on the batch: when queried again, "
        f"{100 * alone.mean():.2g} % of {len(alone)} rows received a different mask individually, "
        f"and {100 * together.mean():.2g} % of {len(together):,} in other batches."
    )
    if dependent:
        queries.batch_size = 1
        result.masks = queries.select(sources)
        if (queries.select(sources) != result.masks).any():
            result.stochastic = True
        else:
            result.cautions.append(
                "The selector was therefore queried one row at a time, and in fixed batches."
            )
    return result


def _check_draws(
    queries: SelectorQueries, result: Reproducibility, rng: np.random.Generator
) -> Reproducibility:
    """Repeat a call and test whether the number of rows that reveal a column is overdispersed.

    Tests of leakage remain valid for dependent draws but lose power, which smaller calls restore.
    """
    n_rows = min(_N_ROWS_PER_CALL, queries.batch_size, len(result.masks))
    rows = rng.permutation(len(result.masks))[:n_rows]
    if n_rows < 2 or queries.out_of_time:
        return result
    sources = queries.background.unchanged(rows)
    samples = np.stack([queries.select_together(sources) for _ in range(_N_CALLS)])
    # The variance of the number of rows that reveal a column, over calls, and if independent.
    variance = samples.sum(axis=1).var(axis=0, ddof=1)
    expected = samples.var(axis=0, ddof=1).sum(axis=0)
    varies = expected > 0
    if not varies.any():
        return result
    # Counts of rare masks are too skewed for the approximation by a normal distribution.
    ratio = (_N_CALLS - 1) * variance[varies] / np.maximum(expected[varies], 1.0)
    p_value = float(chi2.sf(ratio, _N_CALLS - 1).min()) * int(varies.sum())
    if p_value < _DEPENDENCE_LEVEL:
        result.independent = False
        queries.batch_size = min(queries.batch_size, _SMALL_BATCH)
        result.cautions.append(
            "Masks that are drawn in the same call depend on each other, so that the power of the "
            "tests is unknown."
        )
    return result


def _changes_by_batch(
    queries: SelectorQueries, masks: BoolArray, rng: np.random.Generator
) -> tuple[BoolArray, BoolArray]:
    """Whether each queried row changed its mask individually, and in shuffled batches."""
    order = rng.permutation(len(masks))
    alone: list[BoolArray] = []
    together = [_changed(queries, masks, order)]
    start = 0
    for size, n_batches in _BATCHES:
        if size > len(masks) or queries.out_of_time:
            break
        for _ in range(min(n_batches, len(masks))):
            rows = order.take(np.arange(start, start + size), mode="wrap")
            start += size
            (alone if size == 1 else together).append(_changed(queries, masks, rows))
    return np.concatenate([np.zeros(0, dtype=bool), *alone]), np.concatenate(together)


def _changed(queries: SelectorQueries, masks: BoolArray, rows: IntArray) -> BoolArray:
    again = queries.select(queries.background.unchanged(rows))
    return np.asarray((again != masks[rows]).any(axis=1))


def drifted(queries: SelectorQueries, masks: BoolArray) -> bool:
    """Whether the background rows receive other masks than at the beginning of the audit."""
    if queries.out_of_time:
        return False
    return bool(_changed(queries, masks, np.arange(len(masks))).any())
