"""Verdicts that need no statistical test: finite supports and stated probabilities.

If all possible rows can be queried, the answers form a table ζ(h | x), and `suwr.exact.leakage`
applies the paper's definitions to it. Otherwise, for a selector that states the probabilities of
its masks, ζ(h | x) is compared with ζ(h | x') for counterfactual rows x'. Stated probabilities can
prove a leak but not its absence: whether the sampled masks follow them
(`suwr.auditing.stochastic`), and whether the sampled masks leak, is tested separately.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    UNIFORM_SCHEMES,
    BackgroundData,
    IntArray,
    RowSampler,
    disagreements,
    observed_partners,
)
from suwr.auditing.dependence import MIN_EXPECTED
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.witness import Witness, confirm, make_witness
from suwr.exact import FiniteProblem, PolicyTable, leakage
from suwr.selector import BoolArray, all_masks

_MAX_ROWS = 4096
_MAX_TABLE_SIZE = 2**20
# Larger than the rounding errors of single-precision products over a dozen steps.
_ABSOLUTE_TOLERANCE = 1e-5
_RELATIVE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ExactResult:
    """Verdict on a finite support.

    Attributes
    ----------
    leaks : bool
    witness : Witness or None
    is_observed : bool
        Whether all of these rows were observed.
    n_rows : int
        Number of possible rows, all of which were queried.
    bits : dict
        Mutual information, in bits, between the selection and the hidden "features" and, with
        labels, the "label", given the revealed values.
    """

    leaks: bool
    witness: Witness | None
    is_observed: bool
    n_rows: int
    bits: dict[str, float]


@dataclass
class ProbabilityResult:
    """Result of the comparison of stated probabilities.

    Attributes
    ----------
    witness : Witness or None
    n_uniform, n_uniform_changed : int
        Uniform probes, and how many of them changed the probability.
    n_adaptive : int
        Probes from the other sampling schemes.
    n_impossible : int
        Sampled masks whose stated probability is zero.
    """

    witness: Witness | None = None
    n_uniform: int = 0
    n_uniform_changed: int = 0
    n_adaptive: int = 0
    n_impossible: int = 0


def distinct_rows(background: BackgroundData) -> tuple[IntArray, IntArray]:
    """Position of the first copy of each distinct row, and the distinct row of every row."""
    _, first, inverse = np.unique(background.codes, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.intp), inverse.reshape(-1).astype(np.intp)


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
    codes = background.codes_of(sources).tolist()
    first, _ = distinct_rows(background)
    observed = {tuple(background.codes[row].tolist()): row for row in first}
    rows = np.array([observed.get(tuple(code), -1) for code in codes])
    sources = np.where(rows[:, None] < 0, sources, rows[:, None])
    if background.full_support:
        return sources
    shares = np.meshgrid(*(count / background.n_rows for *_, count in values), indexing="ij")
    expected = background.n_rows * np.prod(shares, axis=0).reshape(-1)
    return sources[(rows >= 0) | (expected < MIN_EXPECTED)]


def finite_rows(
    background: BackgroundData, support: str, max_rows: int = _MAX_ROWS
) -> IntArray | None:
    """Source rows of the whole support, if it has at most ``max_rows`` rows."""
    max_rows = min(max_rows, _MAX_ROWS)
    if support != "empirical":
        return product_rows(background, max_rows)
    first, _ = distinct_rows(background)
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
) -> ExactResult | None:
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
    ExactResult or None
        None if there are too many masks, if their probabilities do not sum to one, or if the
        masks could not be reproduced.
    """
    n_columns = queries.background.n_columns
    if stochastic and (
        not queries.selector.has_probability
        or n_columns > 20
        or len(sources) * 2**n_columns > _MAX_TABLE_SIZE
    ):
        return None
    is_observed = bool(are_observed(sources).all())
    known_labels = problem is not None or (labels is not None and is_observed)
    if problem is None:
        problem, sources = _as_problem(
            queries.background, sources, labels if known_labels else None
        )
    if stochastic:
        masks = all_masks(n_columns)
        probabilities = queries.mask_probabilities(sources, masks)
        total = probabilities.sum(axis=1, keepdims=True)
        if (abs(total - 1) > _RELATIVE_TOLERANCE).any():
            return None
        used = (probabilities > 0).any(axis=0)
        policy = PolicyTable(problem, masks[used], probabilities[:, used] / total)
        found = leakage(problem, policy, tolerance=_ABSOLUTE_TOLERANCE)
    else:
        chosen = queries.select(sources)
        policy = PolicyTable.deterministic(problem, chosen)
        found = leakage(problem, policy, tolerance=1e-9)
    bits = {"features": found.feature.bits}
    if known_labels:
        bits["label"] = found.label.bits
    witness = None
    w = found.condition.witness
    if w is not None and stochastic:
        i, j = (int(np.flatnonzero((x == problem.X).all(axis=1))[0]) for x in (w.x, w.x_other))
        witness = make_witness(
            queries, sources[i], sources[j], w.mask, w.mask, w.probability, w.probability_other
        )
    elif w is not None:
        i, j = _closest_disagreement(queries.background.codes_of(sources), chosen, sources)
        if confirm(queries, sources[i], sources[j]):
            witness = make_witness(queries, sources[i], sources[j], chosen[i], chosen[j])
    if found.condition.leaks and witness is None:  # the masks were not reproduced
        return None
    return ExactResult(found.condition.leaks, witness, is_observed, len(sources), bits)


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


def _as_problem(
    background: BackgroundData, sources: IntArray, labels: IntArray | None
) -> tuple[FiniteProblem, IntArray]:
    """Build a problem over the codes of the given rows; return the sources in its order."""
    codes = background.codes_of(sources)
    if labels is None:
        problem = FiniteProblem(codes, np.zeros(len(codes), dtype=int), loss="zero_one")
    else:
        first, inverse = distinct_rows(background)
        counts = np.zeros((len(first), int(labels.max()) + 1))
        np.add.at(counts, (inverse, labels), 1.0)
        total = counts.sum(axis=1)
        problem = FiniteProblem(
            codes, counts / total[:, None], total / total.sum(), loss="zero_one"
        )
    position = {tuple(row): i for i, row in enumerate(codes.tolist())}
    order = np.array([position[tuple(int(v) for v in row)] for row in problem.X])
    return problem, sources[order]


def probabilities_differ(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether probabilities differ by more than rounding errors.

    Examples
    --------
    >>> probabilities_differ(np.array([0.5, 0.5]), np.array([0.5000001, 0.51])).tolist()
    [False, True]
    """
    return abs(p - q) > _ABSOLUTE_TOLERANCE + _RELATIVE_TOLERANCE * np.maximum(p, q)


def compare_probabilities(
    queries: SelectorQueries, sampler: RowSampler, n_probes: int, rng: np.random.Generator
) -> ProbabilityResult:
    """Compare ζ(h | x) with ζ(h | x'), where x' resamples the units of x that h hides.

    Observed rows that agree on what h reveals are compared first.

    Parameters
    ----------
    queries : SelectorQueries
        The selector must have ``mask_probability``.
    sampler : RowSampler
    n_probes : int
        Query budget.
    rng : numpy.random.Generator
    """
    result = ProbabilityResult()
    background = queries.background
    size = min(sampler.n_rows, 500, n_probes)
    while result.n_uniform + result.n_adaptive < n_probes and not queries.out_of_time:
        uniform = result.n_uniform <= result.n_adaptive
        rows = rng.permutation(sampler.n_rows)[:size]
        sources = background.unchanged(rows)
        masks = queries.select(sources)
        p = queries.mask_probability(sources, masks)
        result.n_impossible += int((p <= 0).sum())
        if not result.n_uniform and not background.full_support:
            k, partners = observed_partners(background.codes, rows, masks, rng)
            others = background.unchanged(partners)
            _compare_pairs(queries, result, sources[k], others, masks[k], p[k])
            if result.witness is not None:
                return result
        schemes = UNIFORM_SCHEMES if uniform else PROPOSAL_SCHEMES
        scheme = schemes[rng.integers(len(schemes))]
        others = scheme(sampler, rows, masks, rng)
        n_changed = _compare_pairs(queries, result, sources, others, masks, p)
        if uniform:
            result.n_uniform += len(rows)
            result.n_uniform_changed += n_changed
        else:
            result.n_adaptive += len(rows)
        if result.witness is not None:
            return result
    return result


def _compare_pairs(
    queries: SelectorQueries,
    result: ProbabilityResult,
    sources: IntArray,
    others: IntArray,
    masks: BoolArray,
    p: NDArray[np.float64],
) -> int:
    """Count the pairs whose stated probabilities differ, and record the first that is confirmed."""
    q = queries.mask_probability(others, masks)
    changed = probabilities_differ(p, q)
    for k in np.argsort(-abs(p - q), kind="stable")[:10]:
        if changed[k] and _differ_individually(queries, sources[k], others[k], masks[k]):
            result.witness = make_witness(
                queries, sources[k], others[k], masks[k], masks[k], float(p[k]), float(q[k])
            )
            break
    return int(changed.sum())


def _differ_individually(
    queries: SelectorQueries, source: IntArray, other: IntArray, mask: BoolArray
) -> bool:
    """Whether the probabilities of a mask also differ when each row is queried alone."""
    p = queries.mask_probability(source[None], mask[None])
    q = queries.mask_probability(other[None], mask[None])
    return bool(probabilities_differ(p, q)[0])
