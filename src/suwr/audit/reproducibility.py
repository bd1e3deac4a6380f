"""Whether the mask of a row is the same in every call: repeated, individually and in other batches.

Counterfactual probes compare masks of different calls, so that a mask must be a function of the row
alone. A selector for which this does not hold is tested in each way in which it can be called.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from suwr.audit.background import IntArray
from suwr.audit.queries import SelectorQueries
from suwr.selector import BoolArray

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
    receives one row per call, and in fixed batches (`suwr.audit.batches`).
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
