"""Proofs of leakage: witnesses that a search finds, and verdicts on finite supports.

The search ends with the first confirmed witness. Pairs of observed rows prove a leak and require no
queries beyond their confirmation. A row that combines values of several is a proof only if such
rows are possible. Uniform probes of all rows give the statistical guarantee, the detectable leak
rate; some of them are queried individually. Adaptive probes concentrate on rows and values for
which a surrogate model of the selector predicts a change of the mask.

A batch is treated as a single row: all values that its masks reveal are kept, all hidden values are
resampled, and no mask of the batch may change. Size and order of the batch stay the same, so that
dependence on revealed values of other rows is no leak, while dependence on their hidden values is.

If all possible rows can be queried, the answers form a table ζ(h | x), and `suwr.exact.leakage`
applies the paper's definitions to it. Otherwise, for a selector that states the probabilities of
its masks, ζ(h | x) is compared with ζ(h | x') for counterfactual rows x'. Stated probabilities can
prove a leak but not its absence: whether the sampled masks follow them
(`suwr.auditing.stochastic`), and whether the sampled masks leak, is tested separately.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import NearestNeighbors

from suwr.auditing.background import (
    MIN_EXPECTED,
    PROPOSAL_SCHEMES,
    UNIFORM_SCHEMES,
    BackgroundData,
    FloatArray,
    IntArray,
    RowSampler,
    disagreements,
    in_units,
    observed_partners,
)
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.report import Witness
from suwr.exact import FiniteProblem, PolicyTable, leakage
from suwr.selector import BoolArray, all_masks

_N_SWEEPS = 6
_N_INDIVIDUAL = 128
_CANDIDATES_PER_PROBE = 6
_MAX_CONFIRMATIONS = 20
_MAX_TRAINING_ROWS = 12_000
_MAX_CELLS = 10_000_000
_MAX_OUTPUTS = 12
_MAX_INPUTS = 64
_N_NEIGHBORS = 10
_MAX_POOL = 2000
_PROBES_PER_UNIT = 100
# Larger than the rounding errors of single-precision products over a dozen steps.
_ABSOLUTE_TOLERANCE = 1e-5
_RELATIVE_TOLERANCE = 1e-3


@dataclass
class Search:
    """Search for a witness among the masks or the stated probabilities of a selector.

    Attributes
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    support : {"auto", "empirical", "product"}
    witness : Witness or None
    n_uniform, n_uniform_changed : int
        Uniform probes, and how many of them changed the mask or its probability.
    n_adaptive : int
        Other probes.
    n_unconfirmed : int
        Changed masks that could not be reproduced.
    n_impossible : int
        Sampled masks whose stated probability is zero.
    influence : dict
        For each unit, the share of probes in which resampling it alone, while hidden, changed the
        mask. Empty without a leak.
    """

    queries: SelectorQueries
    sampler: RowSampler
    support: str
    witness: Witness | None = None
    n_uniform: int = 0
    n_uniform_changed: int = 0
    n_adaptive: int = 0
    n_unconfirmed: int = 0
    n_impossible: int = 0
    influence: dict[str, float] = field(default_factory=dict)

    def compare_masks(self, n_probes: int) -> "Search":
        """Search against a deterministic selector.

        ``n_probes`` is the query budget, without the queries that confirm and explain a leak.
        """
        if self.support != "product":
            self._test_observed_pairs()
        if self.support == "empirical":
            return self
        with self.queries.stop_at_limit():
            self._probe_uniformly(n_probes)
            self._probe_adaptively(n_probes - self.n_uniform)
            if self.witness is not None:
                limit = max(n_probes // 2, 100)
                self.influence = unit_influence(self.queries, self.sampler, limit)
        return self

    def _test_observed_pairs(self) -> None:
        background, masks = self.queries.background, self.sampler.masks
        pairs = self.queries.rng.permutation(disagreements(background.codes, masks))
        # Prefer pairs that differ in few columns: they are easier to interpret.
        n_different = (background.codes[pairs[:, 0]] != background.codes[pairs[:, 1]]).sum(axis=1)
        for i, j in pairs[np.argsort(n_different, kind="stable")][:_MAX_CONFIRMATIONS]:
            source, other = background.unchanged(np.array([i, j]))
            if self.queries.confirm(source, other):
                self.witness = self.queries.witness(source, other, masks[i], masks[j])
                return
            self.n_unconfirmed += 1

    def _probe_uniformly(self, n_probes: int) -> None:
        """Probe all rows in random order, several times, with at most half of the query budget.

        The first probes are queried individually, as a selector may treat single rows differently.
        """
        remaining = max(n_probes // 2, 1)
        for sweep in range(_N_SWEEPS):
            rows = self.queries.rng.permutation(self.sampler.n_rows)[:remaining]
            remaining -= len(rows)
            scheme = UNIFORM_SCHEMES[sweep % len(UNIFORM_SCHEMES)]
            sources = scheme(self.sampler, rows, self.sampler.masks[rows])
            n_alone = _N_INDIVIDUAL if sweep == 0 else 0
            alone = self.queries.select(sources[:n_alone], 1)
            masks = np.concatenate([alone, self.queries.select(sources[n_alone:])])
            changed = (masks != self.sampler.masks[rows]).any(axis=1)
            self.n_uniform += len(rows)
            self.n_uniform_changed += int(changed.sum())
            self._confirm_candidates(rows[changed], sources[changed])
            if self.witness is not None or remaining == 0:
                return

    def _probe_adaptively(self, n_probes: int) -> None:
        """Propose many probes per round and query those with the largest predicted change."""
        background, sampler, rng = self.queries.background, self.sampler, self.queries.rng
        weights = row_weights(sampler)
        seen_codes, seen_masks = [background.codes], [sampler.masks]
        round_size = int(np.clip(n_probes // 5, 200, 4000))
        while n_probes > 0 and self.witness is None:
            size = min(round_size, n_probes)
            n_probes -= size
            predicted_change = fit_surrogate(
                np.concatenate(seen_codes)[-_MAX_TRAINING_ROWS:],
                np.concatenate(seen_masks)[-_MAX_TRAINING_ROWS:],
                rng,
            )
            n_candidates = min(size * _CANDIDATES_PER_PROBE, _MAX_CELLS // background.n_columns)
            rows, sources = self._proposals(weights, max(n_candidates, size))
            score = predicted_change(background.codes_of(sources), sampler.masks[rows])
            best = np.argsort(-score, kind="stable")[: (3 * size) // 4]
            # Choose a quarter at random, in case the surrogate misses the leak.
            others = np.setdiff1d(np.arange(len(rows)), best)
            chosen = np.concatenate([best, rng.choice(others, size - len(best), replace=False)])
            rows, sources = rows[chosen], sources[chosen]
            masks = self.queries.select(sources)
            self.n_adaptive += len(rows)
            changed = (masks != sampler.masks[rows]).any(axis=1)
            self._confirm_candidates(rows[changed], sources[changed])
            seen_codes.append(background.codes_of(sources))
            seen_masks.append(masks)

    def _proposals(self, weights: FloatArray, size: int) -> tuple[IntArray, IntArray]:
        rows = self.queries.rng.choice(self.sampler.n_rows, size=size, p=weights)
        kind = self.queries.rng.integers(len(PROPOSAL_SCHEMES), size=size)
        sources = np.empty((size, len(self.sampler.unit_of)), dtype=np.intp)
        for k, scheme in enumerate(PROPOSAL_SCHEMES):
            of_kind = rows[kind == k]
            sources[kind == k] = scheme(self.sampler, of_kind, self.sampler.masks[of_kind])
        return rows, sources

    def _confirm_candidates(self, rows: IntArray, sources: IntArray) -> None:
        """Confirm probes that changed the mask until one is a witness, then simplify it."""
        queries = self.queries
        if self.witness is not None:
            return
        with queries.ignore_limit():
            for k in queries.rng.permutation(len(rows))[:_MAX_CONFIRMATIONS]:
                source = queries.background.unchanged(rows[k : k + 1])[0]
                if not queries.confirm(source, sources[k]):
                    self.n_unconfirmed += 1
                    continue
                simplified = queries.minimize_changes(source, sources[k])
                other = simplified if queries.confirm(source, simplified) else sources[k]
                masks = queries.select(np.stack([source, other]))
                self.witness = queries.witness(source, other, *masks)
                return

    def compare_probabilities(self, n_probes: int) -> "Search":
        """Compare ζ(h | x) with ζ(h | x'), where x' resamples the units of x that h hides.

        Observed rows that agree on what h reveals are compared first. The selector must have
        ``mask_probability``.
        """
        queries, sampler, background = self.queries, self.sampler, self.queries.background
        size = min(sampler.n_rows, 500, n_probes)
        while self.n_uniform + self.n_adaptive < n_probes and not queries.out_of_time:
            uniform = self.n_uniform <= self.n_adaptive
            rows = queries.rng.permutation(sampler.n_rows)[:size]
            sources = background.unchanged(rows)
            masks = queries.select(sources)
            p = queries.mask_probability(sources, masks)
            self.n_impossible += int((p <= 0).sum())
            if not self.n_uniform and not background.full_support:
                k, partners = observed_partners(background.codes, rows, masks, queries.rng)
                self._compare_pairs(sources[k], background.unchanged(partners), masks[k], p[k])
                if self.witness is not None:
                    return self
            schemes = UNIFORM_SCHEMES if uniform else PROPOSAL_SCHEMES
            others = schemes[queries.rng.integers(len(schemes))](sampler, rows, masks)
            n_changed = self._compare_pairs(sources, others, masks, p)
            if uniform:
                self.n_uniform += len(rows)
                self.n_uniform_changed += n_changed
            else:
                self.n_adaptive += len(rows)
            if self.witness is not None:
                return self
        return self

    def _compare_pairs(
        self, sources: IntArray, others: IntArray, masks: BoolArray, p: FloatArray
    ) -> int:
        """Count the pairs of different probability, and record the first that is confirmed."""
        q = self.queries.mask_probability(others, masks)
        changed = probabilities_differ(p, q)
        for k in np.argsort(-abs(p - q), kind="stable")[:10]:
            if not changed[k]:
                continue
            alone = [
                self.queries.mask_probability(row[None], masks[k][None])
                for row in (sources[k], others[k])
            ]
            if probabilities_differ(*alone)[0]:
                self.witness = self.queries.witness(
                    sources[k], others[k], masks[k], None, float(p[k]), float(q[k])
                )
                break
        return int(changed.sum())


def probabilities_differ(p: FloatArray, q: FloatArray) -> BoolArray:
    """Whether probabilities differ by more than rounding errors.

    Examples
    --------
    >>> probabilities_differ(np.array([0.5, 0.5]), np.array([0.5000001, 0.51])).tolist()
    [False, True]
    """
    return abs(p - q) > _ABSOLUTE_TOLERANCE + _RELATIVE_TOLERANCE * np.maximum(p, q)


def fit_surrogate(
    codes: IntArray, masks: BoolArray, rng: np.random.Generator
) -> Callable[[IntArray, BoolArray], FloatArray]:
    """Fit a forest that predicts the masks, or random projections of them, from complete rows.

    It detects a dependence of the masks on hidden values from few queries and thereby directs the
    search. It does not affect the verdict.

    Returns
    -------
    callable
        Distance between the predicted masks of rows and the given ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(10, size=(200, 3))
    >>> predicted_change = fit_surrogate(codes, np.repeat(codes[:, :1] > 4, 3, axis=1), rng)
    >>> change = predicted_change(np.array([[9, 0, 0], [1, 0, 0]]), np.zeros((2, 3), dtype=bool))
    >>> bool(change[0] > change[1])
    True
    """
    n_columns = codes.shape[1]
    projection = np.eye(n_columns)
    if n_columns > _MAX_OUTPUTS:
        projection = rng.normal(size=(n_columns, _MAX_OUTPUTS)) / np.sqrt(n_columns)
    # Use a random subset of the columns of wide data such as images, to bound the fitting time.
    inputs = np.sort(rng.choice(n_columns, size=min(n_columns, _MAX_INPUTS), replace=False))
    forest = ExtraTreesRegressor(n_estimators=8, random_state=int(rng.integers(2**31)))
    forest.fit(codes[:, inputs], masks @ projection)

    def predicted_change(codes: IntArray, masks: BoolArray) -> FloatArray:
        predicted = forest.predict(codes[:, inputs]).reshape(len(codes), -1)
        return np.linalg.norm(predicted - masks @ projection, axis=1)

    return predicted_change


def row_weights(sampler: RowSampler) -> FloatArray:
    """Sampling weights of the rows in the adaptive stage.

    Large for rows with many hidden units, with a rare mask, or whose nearest neighbours have
    different masks or labels.
    """
    hidden = in_units(~sampler.masks, sampler.unit_of, sampler.n_units).mean(axis=1)
    rarity = 1.0 / np.sqrt(np.bincount(sampler.mask_id)[sampler.mask_id])
    points = sampler.unit_codes / (sampler.unit_codes.max(axis=0) + 1.0)
    pool = points[:_MAX_POOL]
    search = NearestNeighbors(n_neighbors=min(_N_NEIGHBORS, len(pool) - 1)).fit(pool)
    neighbors = search.kneighbors(points, return_distance=False)
    boundary = (sampler.mask_id[neighbors] != sampler.mask_id[:, None]).mean(axis=1)
    interest = 0.25 + rarity + boundary
    if sampler.labels is not None:
        interest += 0.5 * (sampler.labels[neighbors] != sampler.labels[:, None]).mean(axis=1)
    weights = hidden * interest
    total = weights.sum()
    return weights / total if total > 0 else np.full(sampler.n_rows, 1.0 / sampler.n_rows)


def unit_influence(
    queries: SelectorQueries, sampler: RowSampler, limit: int = 6000
) -> dict[str, float]:
    """Share of probes in which resampling a hidden unit alone changed the mask, per unit.

    Units that determine each other change together, and count alike.
    """
    background = queries.background
    size = min(_PROBES_PER_UNIT * sampler.n_units, limit)
    rows = queries.rng.integers(sampler.n_rows, size=size)
    sources = sampler.single(rows, sampler.masks[rows])
    moved = in_units(sources != rows[:, None], background.unit_of, sampler.n_units)
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


def search_batches(
    queries: SelectorQueries, sampler: RowSampler, n_batches: int
) -> tuple[int, str, Witness | None]:
    """Resample the hidden values of whole batches and compare their masks.

    Returns
    -------
    n_batches : int
        Batches whose hidden values were resampled.
    finding : str
        Description of the leak; empty without one.
    witness : Witness or None
        A row whose own hidden values change its mask; None if only those of other rows do.
    """
    largest = min(sampler.n_rows, queries.max_batch_size)
    sizes = [size for size in _SIZES if size < largest] + [largest]
    n_tested = n_attempts = 0
    for k in range(n_batches):
        if queries.out_of_time or n_attempts >= _MAX_BATCH_CONFIRMATIONS:
            break
        rows = queries.rng.permutation(sampler.n_rows)[: sizes[k % len(sizes)]]
        batch = queries.background.unchanged(rows)
        masks = queries.select(batch, len(batch))
        other = UNIFORM_SCHEMES[k % len(UNIFORM_SCHEMES)](sampler, rows, masks)
        changed = (queries.select(other, len(other)) != masks).any(axis=1)
        n_tested += 1
        n_attempts += bool(changed.any())
        if changed.any() and confirm_batches(queries, batch, other) is not None:
            return n_tested, *_find_own_leak(queries, batch, other, np.flatnonzero(changed))
    return n_tested, "", None


def _find_own_leak(
    queries: SelectorQueries, batch: IntArray, other: IntArray, changed: IntArray
) -> tuple[str, Witness | None]:
    """Search for a row of the batch whose mask changes with its own hidden values alone."""
    for i in changed[:_MAX_BATCH_CONFIRMATIONS]:
        single = batch.copy()
        single[i] = other[i]
        answers = confirm_batches(queries, batch, single)
        if answers is None or (answers[0][i] == answers[1][i]).all():
            continue
        finding = (
            f"the masks of the witness were returned for the row at position {i} of a batch of "
            f"{len(batch)} rows, all others unchanged"
        )
        return finding, queries.witness(batch[i], other[i], answers[0][i], answers[1][i])
    finding = (
        f"in a batch of {len(batch)} rows, the masks change with hidden values of the batch; "
        "the hidden values of one row change the mask of another"
    )
    return finding, None


def confirm_batches(
    queries: SelectorQueries, batch: IntArray, other: IntArray
) -> tuple[BoolArray, BoolArray] | None:
    """Masks of two batches if they differ and are the same whenever queried again, else None.

    The batches are queried in random order, so that a selector that changes from call to call does
    not appear to depend on their values. All values that the masks of the first reveal must agree.
    """
    answers: tuple[list[BoolArray], list[BoolArray]] = ([], [])
    for which in queries.rng.permutation(np.repeat([0, 1], _N_REPEATS)):
        answers[which].append(queries.select(other if which else batch, len(batch)))
        if (answers[which][-1] != answers[which][0]).any():
            return None
    first, second = answers[0][0], answers[1][0]
    return (
        (first, second) if queries.agree(batch, other, first) and (first != second).any() else None
    )


_MAX_ROWS = 4096
_MAX_TABLE_SIZE = 2**20


def product_rows(background: BackgroundData, max_rows: int = _MAX_ROWS) -> IntArray | None:
    """Source rows of all combinations of unit values, or None if there are more than ``max_rows``.

    Unless the background has full support, units that determine each other are combined as they are
    observed, and a combination is left out if it was never observed although it would be expected
    at least twenty times if the units were independent.

    Examples
    --------
    >>> product_rows(BackgroundData(np.array([[0, 5], [1, 6]]))).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    blocks = background.blocks
    values = [
        np.unique(
            background.unit_codes[:, blocks == block], axis=0, return_index=True, return_counts=True
        )
        for block in range(blocks.max() + 1)
    ]
    if prod(len(first) for _, first, _ in values) > max_rows:
        return None
    grid = np.meshgrid(*(first for _, first, _ in values), indexing="ij")
    block_sources = np.stack([g.reshape(-1) for g in grid], axis=1)
    sources = block_sources[:, blocks[background.unit_of]].astype(np.intp)
    observed = {tuple(background.codes[row].tolist()): row for row in background.distinct[0]}
    codes = background.codes_of(sources).tolist()
    rows = np.array([observed.get(tuple(code), -1) for code in codes])
    sources = np.where(rows[:, None] < 0, sources, rows[:, None])
    if background.full_support:
        return sources
    shares = np.meshgrid(*(count / background.n_rows for *_, count in values), indexing="ij")
    expected = background.n_rows * np.prod(shares, axis=0).reshape(-1)
    return sources[(rows >= 0) | (expected < MIN_EXPECTED)]


def finite_rows(background: BackgroundData, support: str, max_rows: int) -> IntArray | None:
    """Source rows of the whole support, if it has at most ``max_rows`` rows."""
    max_rows = min(max_rows, _MAX_ROWS)
    if support != "empirical":
        return product_rows(background, max_rows)
    first, _ = background.distinct
    # Data with few repeated rows are a sample of a larger support.
    discrete = 2 * len(first) <= background.n_rows and len(first) <= max_rows
    return background.unchanged(first) if discrete else None


def are_observed(sources: IntArray) -> BoolArray:
    """Which of the given probes are rows of the background, rather than combinations of several."""
    return np.asarray((sources == sources[:, :1]).all(axis=1))


def exact_verdict(
    queries: SelectorQueries,
    sources: IntArray,
    stochastic: bool,
    labels: IntArray | None = None,
    problem: FiniteProblem | None = None,
) -> tuple[Witness | None, dict[str, float]] | None:
    """Query every possible row and apply the definitions of leakage.

    Parameters
    ----------
    queries : SelectorQueries
    sources : int array of shape (n_possible, n_columns)
        Source rows of all possible rows.
    stochastic : bool
        Whether the selector is stochastic; it must then state the probabilities of its masks.
    labels : int array of shape (n_rows,), optional
        Labels of the background rows; used if all possible rows were observed.
    problem : FiniteProblem, optional
        Problem that the rows come from, in the same order; by default built from the rows.

    Returns
    -------
    witness : Witness or None
        None without a leak.
    bits : dict
        Mutual information, in bits, between the selection and the hidden "features" and, with
        labels, the "label", given the revealed values. No result is returned if there are too many
        masks, if their probabilities do not sum to one, or if the masks could not be reproduced.
    """
    background, n_columns = queries.background, queries.background.n_columns
    if stochastic and (
        not queries.selector.has_probability
        or n_columns > 20
        or len(sources) * 2**n_columns > _MAX_TABLE_SIZE
    ):
        return None
    known_labels = problem is not None or (labels is not None and are_observed(sources).all())
    if problem is None and labels is not None and known_labels:
        order = np.argsort(background.distinct[1], kind="stable")
        problem = FiniteProblem(background.codes[order], labels[order], loss="zero_one")
        sources = background.unchanged(background.distinct[0])
    elif problem is None:
        problem = FiniteProblem(
            background.codes_of(sources), np.zeros(len(sources), dtype=int), loss="zero_one"
        )
    if stochastic:
        masks = all_masks(n_columns)
        probabilities = queries.mask_probability(sources, masks[None])
        total = probabilities.sum(axis=1, keepdims=True)
        if (abs(total - 1) > _RELATIVE_TOLERANCE).any():
            return None
        used = (probabilities > 0).any(axis=0)
        policy = PolicyTable(problem, masks[used], probabilities[:, used] / total)
        found = leakage(problem, policy, tolerance=_ABSOLUTE_TOLERANCE)
    else:
        chosen = queries.select(sources)
        found = leakage(problem, chosen)
    witness = None
    w = found.condition.witness
    if w is not None and stochastic:
        i, j = problem.locate([w.x.tolist(), w.x_other.tolist()])
        witness = queries.witness(
            sources[i], sources[j], w.mask, None, w.probability, w.probability_other
        )
    elif w is not None:
        i, j = _closest_disagreement(background.codes_of(sources), chosen, sources)
        if not queries.confirm(sources[i], sources[j]):
            return None
        witness = queries.witness(sources[i], sources[j], chosen[i], chosen[j])
    bits = {"features": found.feature.bits}
    return witness, bits | ({"label": found.label.bits} if known_labels else {})


def _closest_disagreement(
    codes: IntArray, masks: BoolArray, sources: IntArray, n_rows: int = 20
) -> tuple[int, int]:
    """Two rows that prove the leak, the first observed if possible, that differ in few columns."""
    pairs = disagreements(codes, masks, limit=len(codes))
    observed = are_observed(sources)
    best: tuple[int, int, int] | None = None
    for i in pairs[np.argsort(~observed[pairs[:, 0]], kind="stable")][:n_rows, 0]:
        agree = (codes[:, masks[i]] == codes[i, masks[i]]).all(axis=1)
        others = np.flatnonzero(agree & (masks != masks[i]).any(axis=1))
        distance = (codes[others] != codes[i]).sum(axis=1)
        candidate = (int(distance.min()), int(i), int(others[distance.argmin()]))
        if best is None or (candidate[0] < best[0] and observed[i] >= observed[best[1]]):
            best = candidate
    assert best is not None
    return best[1:]
