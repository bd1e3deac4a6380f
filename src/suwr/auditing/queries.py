"""Queries to the selector, counted and limited in time; reproducibility and witnesses of its masks.

Counterfactual probes compare masks of different calls, so that a mask must be a function of the row
alone. A selector for which this does not hold is tested in each way in which it can be called. A
witness of a deterministic selector is reported only if repeated queries, in batches of different
composition and size, return the same two masks every time. Neither sampling noise nor
floating-point differences between batch sizes can produce one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from suwr.auditing.background import BackgroundData, IntArray
from suwr.auditing.report import Witness
from suwr.data.frame import column_values, object_column
from suwr.selector import BoolArray, WrappedSelector

_MAX_PROBABILITIES = 2**18
_MIN_ROWS = 20
_N_REPEATS = 8


class TimeLimitError(Exception):
    """``max_seconds`` has passed; raised and caught within `SelectorQueries.stop_at_limit`."""


class SelectorQueries:
    """Evaluates a selector on probes, in batches.

    Parameters
    ----------
    selector : WrappedSelector
    background : BackgroundData
    rng : numpy.random.Generator
        Source of randomness of the audit, and of selectors that accept one.
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
        self.rng = rng
        self.n_calls = 0
        self.n_rows = 0
        self.batch_size = self.max_batch_size = batch_size
        self._on_query = on_query
        self._max_seconds = max_seconds
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._seconds_per_row = 0.0
        self._raise_at_limit = False

    @property
    def out_of_time(self) -> bool:
        """Whether ``max_seconds`` have passed."""
        return self._deadline is not None and time.monotonic() > self._deadline

    @contextmanager
    def stop_at_limit(self) -> Iterator[None]:
        """Leave this context at the first query after the time limit."""
        with suppress(TimeLimitError), self._limit(True):
            yield

    def ignore_limit(self) -> AbstractContextManager[None]:
        """Allow the few queries that confirm a leak to exceed the time limit."""
        return self._limit(False)

    @contextmanager
    def _limit(self, enforced: bool) -> Iterator[None]:
        before, self._raise_at_limit = self._raise_at_limit, enforced
        try:
            yield
        finally:
            self._raise_at_limit = before

    @contextmanager
    def one_row_per_call(self) -> Iterator[None]:
        """Query every row in its own call within this context."""
        before, self.batch_size = self.batch_size, 1
        try:
            yield
        finally:
            self.batch_size = before

    def select(self, sources: IntArray, batch_size: int | None = None) -> BoolArray:
        """Masks of the probes with the given source rows, in calls of ``batch_size`` rows."""

        def select(rows: Any, _: slice) -> BoolArray:
            return self.selector.sample(rows, self.rng)

        size = self._affordable_batch() if batch_size is None else batch_size
        return self._in_batches(sources, size, select, np.empty((0, sources.shape[1]), dtype=bool))

    def mask_probability(self, sources: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) of each probe and its own mask, or for masks of shape (1, m, d) each of them."""
        shared = masks.ndim == 3
        size = max(1, _MAX_PROBABILITIES // masks.shape[1]) if shared else self._affordable_batch()

        def state(rows: Any, batch: slice) -> NDArray[np.float64]:
            return self.selector.mask_probability(rows, masks if shared else masks[batch])

        return self._in_batches(sources, size, state, np.empty((0, *masks.shape[1:-1])))

    def affordable_rows(self, max_seconds: float) -> int:
        """Number of background rows that a slow selector can process in a tenth of the time."""
        few = self.background.unchanged(np.arange(min(4, self.background.n_rows)))
        for _ in range(2):  # the first call may include loading or compilation
            self.select(few)
        return max(_MIN_ROWS, int(0.1 * max_seconds / max(self._seconds_per_row, 1e-9)))

    def _affordable_batch(self) -> int:
        if self._max_seconds is None or not self._seconds_per_row:
            return self.batch_size
        # A call takes at most a tenth of the time limit, which is checked between calls.
        return int(np.clip(0.1 * self._max_seconds / self._seconds_per_row, 1, self.batch_size))

    def _in_batches(
        self,
        sources: IntArray,
        size: int,
        ask: Callable[[Any, slice], NDArray[Any]],
        nothing: NDArray[Any],
    ) -> NDArray[Any]:
        parts = [nothing]
        for start in range(0, len(sources), size):
            batch = slice(start, start + size)
            if self._raise_at_limit and self.out_of_time:
                raise TimeLimitError
            n_rows = len(sources[batch])
            self.n_calls += 1
            self.n_rows += n_rows
            if self._on_query is not None:
                self._on_query(n_rows)
            started = time.monotonic()
            try:
                parts.append(ask(self.background.build(sources[batch]), batch))
            except Exception as error:
                error.add_note(
                    f"Raised by the selector when suwr.audit queried {n_rows} rows. Unless "
                    "support='empirical', the hidden values of these rows come from other rows "
                    "of X."
                )
                raise
            self._seconds_per_row = (time.monotonic() - started) / n_rows
        return np.concatenate(parts)

    def confirm(self, source: IntArray, source_other: IntArray) -> bool:
        """Query two probes again and return whether they are a witness every time.

        They are queried individually, as a pair in either order, and in a batch of eight copies
        each. A selector that is occasionally random or depends on the batch fails this test.
        """
        pair = np.stack([source, source_other])
        first = self.select(pair, 1)
        answers = [self.select(pair), self.select(pair[::-1])[::-1]]
        copies = self.select(np.repeat(pair, _N_REPEATS, axis=0))
        answers += [copies[[i, _N_REPEATS + i]] for i in range(_N_REPEATS)]
        if any((answer != first).any() for answer in answers):
            return False
        return self.agree(source, source_other, first[0]) and bool((first[0] != first[1]).any())

    def agree(self, source: IntArray, source_other: IntArray, mask: BoolArray) -> bool:
        """Whether different probes, of rows or of batches, have equal revealed values."""
        codes = self.background.codes_of(np.atleast_2d(source))
        equal = codes == self.background.codes_of(np.atleast_2d(source_other))
        # Rows whose values are all equal, such as 0.0 and -0.0, are the same row.
        return bool(equal[np.atleast_2d(mask)].all()) and not bool(equal.all())

    def witness(
        self,
        source: IntArray,
        source_other: IntArray,
        mask: BoolArray,
        mask_other: BoolArray | None = None,
        probability: float | None = None,
        probability_other: float | None = None,
    ) -> Witness:
        """Look up the values of two probes; without ``mask_other`` they share the mask."""
        background = self.background
        rows = background.build(np.stack([source, source_other]))
        return Witness(
            x=_row_values(rows, 0),
            x_other=_row_values(rows, 1),
            mask=mask,
            mask_other=mask if mask_other is None else mask_other,
            row=background.position_of(source),
            row_other=background.position_of(source_other),
            columns=background.names,
            rows=rows,
            probability=probability,
            probability_other=probability_other,
        )

    def minimize_changes(self, source: IntArray, source_other: IntArray) -> IntArray:
        """Reduce the number of hidden units in which the second probe differs from the first.

        Units that determine each other are restored together.
        """
        unit_of = self.background.blocks[self.background.unit_of]
        mask = self.select(source[None])[0]
        codes = self.background.codes_of(np.stack([source, source_other]))
        units = np.unique(unit_of[codes[0] != codes[1]])
        singles = np.stack([np.where(unit_of == u, source_other, source) for u in units])
        hits = np.flatnonzero((self.select(singles) != mask).any(axis=1))
        if len(hits):
            return singles[self.rng.choice(hits)]
        # No single unit suffices: restore random subsets, of decreasing size, while masks differ.
        share = 0.5
        for _ in range(60):
            restored = units[self.rng.random(len(units)) < share]
            trial = np.where(np.isin(unit_of, restored), source, source_other)
            if len(restored) < len(units) and (self.select(trial[None])[0] != mask).any():
                source_other = trial
                units = np.setdiff1d(units, restored)
            else:
                share = max(share * 0.7, 1.0 / max(len(units), 1))
        return source_other


def _row_values(rows: Any, i: int) -> NDArray[Any]:
    if isinstance(rows, np.ndarray):
        return rows[i]
    values = [column_values(rows, j)[i] for j in range(rows.shape[1])]
    is_numeric = all(isinstance(value, int | float | np.number) for value in values)
    return np.array(values, dtype=float) if is_numeric else object_column(values)


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


def check_reproducibility(queries: SelectorQueries) -> Reproducibility:
    """Query all background rows twice, then individually and in shuffled batches of several sizes.

    A batch-dependent selector is not a function of the row. It is audited as the selector that
    receives one row per call, and in fixed batches (`suwr.auditing.proofs`).
    """
    background = queries.background
    sources = background.unchanged(np.arange(background.n_rows))
    masks = queries.select(sources)
    if (queries.select(sources) != masks).any():
        result = Reproducibility(masks, stochastic=True)
        _check_draws(queries, result)
        return result
    alone, together = _changes_by_batch(queries, masks)
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


def _check_draws(queries: SelectorQueries, result: Reproducibility) -> None:
    """Repeat a call and test whether the number of rows that reveal a column is overdispersed.

    Tests of leakage remain valid for dependent draws but lose power, which smaller calls restore.
    """
    n_rows = min(_N_ROWS_PER_CALL, queries.batch_size, len(result.masks))
    rows = queries.rng.permutation(len(result.masks))[:n_rows]
    if n_rows < 2 or queries.out_of_time:
        return
    sources = queries.background.unchanged(rows)
    samples = np.stack([queries.select(sources, n_rows) for _ in range(_N_CALLS)])
    # The variance of the number of rows that reveal a column, over calls, and if independent.
    variance = samples.sum(axis=1).var(axis=0, ddof=1)
    expected = samples.var(axis=0, ddof=1).sum(axis=0)
    varies = expected > 0
    if not varies.any():
        return
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


def _changes_by_batch(queries: SelectorQueries, masks: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Whether each queried row changed its mask individually, and in shuffled batches."""
    order = queries.rng.permutation(len(masks))
    alone = [np.zeros(0, dtype=bool)]
    together = [changed_rows(queries, masks, order)]
    start = 0
    for size, n_batches in _BATCHES:
        if size > len(masks) or queries.out_of_time:
            break
        for _ in range(min(n_batches, len(masks))):
            rows = order.take(np.arange(start, start + size), mode="wrap")
            start += size
            (alone if size == 1 else together).append(changed_rows(queries, masks, rows))
    return np.concatenate(alone), np.concatenate(together)


def changed_rows(queries: SelectorQueries, masks: BoolArray, rows: IntArray) -> BoolArray:
    """Which of the background rows ``rows`` receive another mask when queried again."""
    again = queries.select(queries.background.unchanged(rows))
    return np.asarray((again != masks[rows]).any(axis=1))
