"""Search for leaks of selectors whose masks depend on the other rows of a batch.

A batch is treated as a single row: all values that its masks reveal are kept, all hidden values are
resampled, and no mask of the batch may change. Size and order of the batch stay the same, so that
dependence on revealed values of other rows is no leak, while dependence on their hidden values is.
"""

from dataclasses import dataclass

import numpy as np

from suwr.audit.background import IntArray
from suwr.audit.queries import SelectorQueries
from suwr.audit.sampling import UNIFORM_SCHEMES, RowSampler
from suwr.audit.witness import Witness, make_witness
from suwr.selector import BoolArray

_SIZES = (2, 3, 8, 32, 100, 400)
_N_REPEATS = 6
_MAX_CONFIRMATIONS = 10


@dataclass
class BatchResult:
    """Result of the search in fixed batches.

    Attributes
    ----------
    leaks : bool
    witness : Witness or None
        A row whose own hidden values change its mask; None if only those of other rows do.
    finding : str
        Description of the leak.
    n_batches, n_rows : int
        Batches whose hidden values were resampled, and the rows in them.
    """

    leaks: bool = False
    witness: Witness | None = None
    finding: str = ""
    n_batches: int = 0
    n_rows: int = 0


def search_batches(
    queries: SelectorQueries, sampler: RowSampler, n_batches: int, rng: np.random.Generator
) -> BatchResult:
    """Resample the hidden values of whole batches and compare their masks.

    Parameters
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    n_batches : int
    rng : numpy.random.Generator
    """
    result = BatchResult()
    background = queries.background
    largest = min(sampler.n_rows, queries.max_batch_size)
    sizes = [size for size in _SIZES if size < largest] + [largest]
    n_attempts = 0
    for k in range(n_batches):
        if queries.out_of_time or n_attempts >= _MAX_CONFIRMATIONS:
            break
        rows = rng.permutation(sampler.n_rows)[: sizes[k % len(sizes)]]
        batch = background.unchanged(rows)
        masks = queries.select_together(batch)
        scheme = UNIFORM_SCHEMES[k % len(UNIFORM_SCHEMES)]
        other = scheme(sampler, rows, masks, rng)
        changed = (queries.select_together(other) != masks).any(axis=1)
        result.n_batches += 1
        result.n_rows += len(rows)
        if not changed.any():
            continue
        n_attempts += 1
        if confirm_batches(queries, batch, other, rng) is None:
            continue
        result.leaks = True
        result.finding = (
            f"in a batch of {len(rows)} rows, the masks change with hidden values of the batch"
        )
        _find_own_leak(queries, result, batch, other, np.flatnonzero(changed), rng)
        return result
    return result


def _find_own_leak(
    queries: SelectorQueries,
    result: BatchResult,
    batch: IntArray,
    other: IntArray,
    changed: IntArray,
    rng: np.random.Generator,
) -> None:
    """Search for a row of the batch whose mask changes with its own hidden values alone."""
    for i in changed[:_MAX_CONFIRMATIONS]:
        single = batch.copy()
        single[i] = other[i]
        answers = confirm_batches(queries, batch, single, rng)
        if answers is None or (answers[0][i] == answers[1][i]).all():
            continue
        mask, mask_other = answers[0][i], answers[1][i]
        result.witness = make_witness(queries, batch[i], other[i], mask, mask_other)
        result.finding = (
            f"the masks of the witness were returned for the row at position {i} of a batch of "
            f"{len(batch)} rows, all others unchanged"
        )
        return
    result.finding += "; the hidden values of one row change the mask of another"


def confirm_batches(
    queries: SelectorQueries, batch: IntArray, other: IntArray, rng: np.random.Generator
) -> tuple[BoolArray, BoolArray] | None:
    """Masks of two batches if they differ and are the same whenever queried again, else None.

    The batches are queried in random order, so that a selector that changes from call to call does
    not appear to depend on their values. All values that the masks of the first reveal must agree.
    """
    answers: tuple[list[BoolArray], list[BoolArray]] = ([], [])
    for which in rng.permutation(np.repeat([0, 1], _N_REPEATS)):
        answers[which].append(queries.select_together(other if which else batch))
        if (answers[which][-1] != answers[which][0]).any():
            return None
    first, second = answers[0][0], answers[1][0]
    codes = queries.background.codes_of(batch), queries.background.codes_of(other)
    equal = codes[0] == codes[1]
    # Batches whose values are all equal, such as 0.0 and -0.0, are the same batch.
    agree = bool(equal[first].all()) and not bool(equal.all())
    return (first, second) if agree and (first != second).any() else None
