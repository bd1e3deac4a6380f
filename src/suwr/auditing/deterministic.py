"""Search for a witness against a deterministic selector, or one whose masks depend on the batch.

The search ends with the first confirmed witness. Pairs of observed rows prove a leak and require no
queries beyond their confirmation. A row that combines values of several is a proof only if such
rows are possible. Uniform probes of all rows give the statistical guarantee, the detectable leak
rate; some of them are queried individually. Adaptive probes concentrate on rows and values for
which a surrogate model of the selector predicts a change of the mask.

A batch is treated as a single row: all values that its masks reveal are kept, all hidden values are
resampled, and no mask of the batch may change. Size and order of the batch stay the same, so that
dependence on revealed values of other rows is no leak, while dependence on their hidden values is.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    UNIFORM_SCHEMES,
    IntArray,
    RowSampler,
    disagreements,
    hidden_units,
    n_agreeing_rows,
    revealed_units,
)
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.witness import Witness, confirm, make_witness, minimize_changes
from suwr.selector import BoolArray

_N_SWEEPS = 6
_N_INDIVIDUAL = 128
_CANDIDATES_PER_PROBE = 6
_MAX_CONFIRMATIONS = 20
_MAX_TRAINING_ROWS = 12_000
_MAX_CELLS = 10_000_000
_MAX_OUTPUTS = 12
_MAX_INPUTS = 64


class Surrogate:
    """Forest that predicts the masks, or random projections of them, from complete rows.

    It detects a dependence of the masks on hidden values from few queries and thereby directs the
    search. It does not affect the verdict.

    Parameters
    ----------
    n_columns : int
    rng : numpy.random.Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(10, size=(200, 3))
    >>> masks = np.repeat(codes[:, :1] > 4, 3, axis=1)
    >>> surrogate = Surrogate(3, rng).fit(codes, masks)
    >>> rows = np.array([[9, 0, 0], [1, 0, 0]])
    >>> change = surrogate.predicted_change(rows, np.zeros((2, 3), dtype=bool))
    >>> bool(change[0] > change[1])
    True
    """

    def __init__(self, n_columns: int, rng: np.random.Generator) -> None:
        self._rng = rng
        if n_columns <= _MAX_OUTPUTS:
            self._projection = np.eye(n_columns)
        else:
            self._projection = rng.normal(size=(n_columns, _MAX_OUTPUTS)) / np.sqrt(n_columns)
        # Use a random subset of the columns of wide data such as images, to bound the fitting time.
        size = min(n_columns, _MAX_INPUTS)
        self._inputs = np.sort(rng.choice(n_columns, size=size, replace=False))
        self._forest: ExtraTreesRegressor | None = None

    def fit(self, codes: IntArray, masks: BoolArray) -> "Surrogate":
        """Fit the forest to rows, as integer codes, and the masks of the selector."""
        self._forest = ExtraTreesRegressor(
            n_estimators=8,
            max_features=1.0,
            min_samples_leaf=1,
            random_state=int(self._rng.integers(2**31)),
        )
        self._forest.fit(codes[:, self._inputs], masks @ self._projection)
        return self

    def predicted_change(self, codes: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """Distance between the predicted mask of each row and the given one."""
        assert self._forest is not None
        predicted = self._forest.predict(codes[:, self._inputs]).reshape(len(codes), -1)
        return np.linalg.norm(predicted - masks @ self._projection, axis=1)


@dataclass
class SearchResult:
    """Result of the search against a deterministic selector.

    Attributes
    ----------
    witness : Witness or None
    n_agreeing_rows : int
        Rows that agree with a different row on everything they reveal; only these can be tested
        on the empirical support.
    n_uniform, n_uniform_changed : int
        Uniform probes, and how many of them changed the mask.
    n_adaptive : int
        Adaptive probes.
    n_unconfirmed : int
        Changed masks that could not be reproduced.
    influence : dict
        For each unit, the share of probes in which resampling it alone, while hidden, changed the
        mask. Empty without a leak.
    """

    witness: Witness | None = None
    n_agreeing_rows: int = 0
    n_uniform: int = 0
    n_uniform_changed: int = 0
    n_adaptive: int = 0
    n_unconfirmed: int = 0
    influence: dict[str, float] = field(default_factory=dict)


def search(
    queries: SelectorQueries,
    sampler: RowSampler,
    support: str,
    n_probes: int,
    rng: np.random.Generator,
) -> SearchResult:
    """Search for a witness; the module docstring describes the stages.

    Parameters
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    support : {"auto", "empirical", "product"}
    n_probes : int
        Query budget, without the queries that confirm and explain a leak.
    rng : numpy.random.Generator
    """
    result = SearchResult()
    if support != "product":
        result.n_agreeing_rows = n_agreeing_rows(queries.background.codes, sampler.masks)
        _test_observed_pairs(queries, result, sampler.masks, rng)
    if support == "empirical":
        return result
    with queries.stop_at_limit():
        _probe_uniformly(queries, sampler, result, n_probes, rng)
        _probe_adaptively(queries, sampler, result, n_probes - result.n_uniform, rng)
        if result.witness is not None:
            result.influence = unit_influence(queries, sampler, rng, limit=max(n_probes // 2, 100))
    return result


def _test_observed_pairs(
    queries: SelectorQueries, result: SearchResult, masks: BoolArray, rng: np.random.Generator
) -> None:
    codes = queries.background.codes
    pairs = rng.permutation(disagreements(codes, masks))
    # Prefer pairs that differ in few columns: they are easier to interpret.
    n_different = (codes[pairs[:, 0]] != codes[pairs[:, 1]]).sum(axis=1)
    for i, j in pairs[np.argsort(n_different, kind="stable")][:_MAX_CONFIRMATIONS]:
        source, other = queries.background.unchanged(np.array([i, j]))
        if confirm(queries, source, other):
            result.witness = make_witness(queries, source, other, masks[i], masks[j])
            return
        result.n_unconfirmed += 1


def _probe_uniformly(
    queries: SelectorQueries,
    sampler: RowSampler,
    result: SearchResult,
    n_probes: int,
    rng: np.random.Generator,
) -> None:
    """Probe all rows in random order, several times, with at most half of the query budget.

    The first probes are queried individually, since a selector may treat single rows differently.
    """
    remaining = max(n_probes // 2, 1)
    for sweep in range(_N_SWEEPS):
        rows = rng.permutation(sampler.n_rows)[:remaining]
        remaining -= len(rows)
        scheme = UNIFORM_SCHEMES[sweep % len(UNIFORM_SCHEMES)]
        sources = scheme(sampler, rows, sampler.masks[rows], rng)
        n_individual = min(_N_INDIVIDUAL, len(rows)) if sweep == 0 else 0
        masks = np.concatenate(
            [
                queries.select_individually(sources[:n_individual]),
                queries.select(sources[n_individual:]),
            ]
        )
        changed = (masks != sampler.masks[rows]).any(axis=1)
        result.n_uniform += len(rows)
        result.n_uniform_changed += int(changed.sum())
        _confirm_candidates(queries, result, rows[changed], sources[changed], rng)
        if result.witness is not None or remaining == 0:
            return


def _probe_adaptively(
    queries: SelectorQueries,
    sampler: RowSampler,
    result: SearchResult,
    n_probes: int,
    rng: np.random.Generator,
) -> None:
    """Propose many probes per round and query those with the largest predicted change."""
    background = queries.background
    weights = row_weights(sampler)
    seen_codes, seen_masks = [background.codes], [sampler.masks]
    round_size = int(np.clip(n_probes // 5, 200, 4000))
    while n_probes > 0 and result.witness is None:
        size = min(round_size, n_probes)
        n_probes -= size
        surrogate = Surrogate(background.n_columns, rng).fit(
            np.concatenate(seen_codes)[-_MAX_TRAINING_ROWS:],
            np.concatenate(seen_masks)[-_MAX_TRAINING_ROWS:],
        )
        n_candidates = min(size * _CANDIDATES_PER_PROBE, _MAX_CELLS // background.n_columns)
        rows, sources = _proposals(sampler, weights, max(n_candidates, size), rng)
        score = surrogate.predicted_change(background.codes_of(sources), sampler.masks[rows])
        best = np.argsort(-score, kind="stable")[: (3 * size) // 4]
        # Choose a quarter at random, in case the surrogate misses the leak.
        rest = rng.choice(np.setdiff1d(np.arange(len(rows)), best), size - len(best), replace=False)
        chosen = np.concatenate([best, rest])
        rows, sources = rows[chosen], sources[chosen]
        masks = queries.select(sources)
        result.n_adaptive += len(rows)
        changed = (masks != sampler.masks[rows]).any(axis=1)
        _confirm_candidates(queries, result, rows[changed], sources[changed], rng)
        seen_codes.append(background.codes_of(sources))
        seen_masks.append(masks)


def _confirm_candidates(
    queries: SelectorQueries,
    result: SearchResult,
    rows: IntArray,
    sources: IntArray,
    rng: np.random.Generator,
) -> None:
    """Confirm probes that changed the mask until one is a witness, then simplify it."""
    if result.witness is not None:
        return
    with queries.ignore_limit():
        for k in rng.permutation(len(rows))[:_MAX_CONFIRMATIONS]:
            source = queries.background.unchanged(rows[k : k + 1])[0]
            if not confirm(queries, source, sources[k]):
                result.n_unconfirmed += 1
                continue
            simplified = minimize_changes(queries, source, sources[k], rng)
            other = simplified if confirm(queries, source, simplified) else sources[k]
            mask, mask_other = queries.select(np.stack([source, other]))
            result.witness = make_witness(queries, source, other, mask, mask_other)
            return


def _proposals(
    sampler: RowSampler, weights: NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    rows = rng.choice(sampler.n_rows, size=size, p=weights)
    kind = rng.integers(len(PROPOSAL_SCHEMES), size=size)
    sources = np.empty((size, len(sampler.unit_of)), dtype=np.intp)
    for k, scheme in enumerate(PROPOSAL_SCHEMES):
        of_kind = kind == k
        sources[of_kind] = scheme(sampler, rows[of_kind], sampler.masks[rows[of_kind]], rng)
    return rows, sources


def row_weights(
    sampler: RowSampler, n_neighbors: int = 10, max_rows: int = 2000
) -> NDArray[np.float64]:
    """Sampling weights of the rows in the adaptive stage.

    Large for rows with many hidden units, with a rare mask, or whose nearest neighbours have
    different masks or labels.
    """
    hidden = hidden_units(sampler.masks, sampler.unit_of, sampler.n_units).mean(axis=1)
    rarity = 1.0 / np.sqrt(np.bincount(sampler.mask_id)[sampler.mask_id])
    points = sampler.unit_codes / (sampler.unit_codes.max(axis=0) + 1.0)
    neighbors = _nearest_neighbors(points, points[: min(sampler.n_rows, max_rows)], n_neighbors)
    boundary = (sampler.mask_id[neighbors] != sampler.mask_id[:, None]).mean(axis=1)
    interest = 0.25 + rarity + boundary
    if sampler.labels is not None:
        interest += 0.5 * (sampler.labels[neighbors] != sampler.labels[:, None]).mean(axis=1)
    weights = hidden * interest
    total = weights.sum()
    return weights / total if total > 0 else np.full(sampler.n_rows, 1.0 / sampler.n_rows)


def _nearest_neighbors(points: NDArray[np.float64], pool: NDArray[np.float64], k: int) -> IntArray:
    square = (pool**2).sum(axis=1)
    k = min(k, len(pool) - 1)
    parts = []
    for start in range(0, len(points), 1000):
        distance = square - 2.0 * points[start : start + 1000] @ pool.T
        parts.append(np.argpartition(distance, k, axis=1)[:, :k])
    return np.concatenate(parts)


def unit_influence(
    queries: SelectorQueries,
    sampler: RowSampler,
    rng: np.random.Generator,
    per_unit: int = 100,
    limit: int = 6000,
) -> dict[str, float]:
    """Share of probes in which resampling a hidden unit alone changed the mask, per unit.

    Units that determine each other change together, and count alike.
    """
    background = queries.background
    rows = rng.integers(sampler.n_rows, size=min(per_unit * sampler.n_units, limit))
    sources = sampler.single(rows, sampler.masks[rows], rng)
    moved = revealed_units(sources != rows[:, None], background.unit_of, sampler.n_units)
    any_moved = moved.any(axis=1)
    moved, masks = moved[any_moved], sampler.masks[rows[any_moved]]
    changed = (queries.select(sources[any_moved]) != masks).any(axis=1)
    total, hits = moved.sum(axis=0), moved[changed].sum(axis=0)
    share = hits / np.maximum(total, 1)
    order = np.argsort(-share, kind="stable")
    names = background.unit_names
    return {names[u]: float(share[u]) for u in order if hits[u] and total[u] >= 10}


_SIZES = (2, 3, 8, 32, 100, 400)
_N_REPEATS = 6
_MAX_BATCH_CONFIRMATIONS = 10


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
        if queries.out_of_time or n_attempts >= _MAX_BATCH_CONFIRMATIONS:
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
    for i in changed[:_MAX_BATCH_CONFIRMATIONS]:
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
