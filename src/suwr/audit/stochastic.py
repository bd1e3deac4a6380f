"""Tests of stochastic selectors by drawing masks.

Three tests share the false-alarm rate: the pooled independence test (`suwr.audit.pooled`) of masks
drawn in batches, the same test of fewer masks drawn in calls of one row, and a test of single pairs
of rows. Pooling has little power for leaks that are confined to few rows and does not apply to the
empirical support; there, both rows of a pair are queried many times. Pairs of observed rows come
first, since only they show a leak whatever rows are possible. Each test selects its hypotheses on
one set of draws and tests the few that remain on another, with a Bonferroni correction, so that the
adaptive selection does not inflate the false-alarm rate.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from suwr.audit import pooled
from suwr.audit.background import IntArray
from suwr.audit.pooled import one_sided_fisher
from suwr.audit.queries import SelectorQueries
from suwr.audit.sampling import PROPOSAL_SCHEMES, RowSampler, observed_partners
from suwr.audit.witness import Witness, make_witness
from suwr.selector import BoolArray

_N_POOLED = 6
_N_PAIRS = 3
_MAX_PAIRS = 63
_MAX_INDIVIDUAL = 400
_MIN_INDIVIDUAL = 200
#: Shares of the false-alarm rate on the product support.
_POOLED_SHARE, _INDIVIDUAL_SHARE, _PAIR_SHARE = 0.45, 0.1, 0.45


@dataclass
class StochasticResult:
    """Result of the tests of a stochastic selector.

    Attributes
    ----------
    leaks : bool
    on_observed_rows : bool
        Whether the significant result compares observed rows, rather than combinations of them.
    witness : Witness or None
    p_value : float
        Smallest p-value, corrected for the number of tests.
    finding : str
        Description of the significant result.
    n_draws : int
        Number of masks drawn.
    detectable_shift : float or None
        Difference in the probability of a set of masks, between the lower and upper half of the
        values of one hidden unit, that the pooled test detects with 95 % power.
    detectable_shift_individually : float or None
        The same for masks drawn in calls of one row.
    n_untested : int
        Number of units that the pooled test omitted, to save time.
    influence : dict
        For each unit, the largest shift of a probability by its hidden value. Empty without a leak.
    """

    leaks: bool = False
    on_observed_rows: bool = False
    witness: Witness | None = None
    p_value: float = 1.0
    finding: str = ""
    n_draws: int = 0
    detectable_shift: float | None = None
    detectable_shift_individually: float | None = None
    n_untested: int = 0
    influence: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two probes, and the mask whose probability appears to differ between them.

    Attributes
    ----------
    source, other : int array of shape (n_columns,)
        Source rows of the probes.
    mask : bool array of shape (n_columns,) or None
        None before any masks were drawn.
    sign : int
        1 if the mask is more frequent for ``source``, -1 if for ``other``.
    z : float
        Absolute z-score.
    """

    source: IntArray
    other: IntArray
    mask: BoolArray | None = None
    sign: int = 1
    z: float = 0.0


def run_tests(
    queries: SelectorQueries,
    sampler: RowSampler,
    support: str,
    n_draws: int,
    false_alarm_rate: float,
    rng: np.random.Generator,
) -> StochasticResult:
    """Test ζ(h | x) = ζ(h | x') by drawing masks.

    Parameters
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    support : {"auto", "empirical", "product"}
    n_draws : int
        Total number of masks to draw.
    false_alarm_rate : float
        Upper bound of the probability to reject a selector without leakage.
    rng : numpy.random.Generator
    """
    result = StochasticResult()
    start = queries.n_rows
    if support == "empirical":
        pairs = _observed_pairs(queries, sampler, _n_pairs(n_draws), rng)
        _run_pair_tests(queries, result, pairs, n_draws, false_alarm_rate, 1.0, rng)
        result.n_draws = queries.n_rows - start
        return result
    n_pair_draws, pair_share = int(0.4 * n_draws), _PAIR_SHARE
    if support == "auto":
        pairs = _observed_pairs(queries, sampler, _n_pairs(n_pair_draws // 2), rng)
        if pairs:
            n_pair_draws, pair_share = n_pair_draws // 2, _PAIR_SHARE / 2
            _run_pair_tests(queries, result, pairs, n_pair_draws, false_alarm_rate, pair_share, rng)
    if not result.leaks and not queries.out_of_time:
        result.detectable_shift = _run_pooled_test(
            queries, sampler, result, int(0.6 * n_draws), false_alarm_rate, _POOLED_SHARE, rng
        )
    n_individual = min(_MAX_INDIVIDUAL, n_draws // 20)
    individually = n_individual >= _MIN_INDIVIDUAL and queries.batch_size > 1
    if individually and not result.leaks and not queries.out_of_time:
        n_pair_draws -= n_individual
        with queries.one_row_per_call():
            result.detectable_shift_individually = _run_pooled_test(
                queries, sampler, result, n_individual, false_alarm_rate, _INDIVIDUAL_SHARE, rng
            )
        if result.leaks:
            result.finding = f"in calls of one row, {result.finding}"
    if not result.leaks and not queries.out_of_time:
        pairs = _combined_pairs(queries, sampler, _n_pairs(n_pair_draws), rng)
        _run_pair_tests(queries, result, pairs, n_pair_draws, false_alarm_rate, pair_share, rng)
    result.n_draws = queries.n_rows - start
    return result


def _n_pairs(n_draws: int) -> int:
    return int(np.clip(n_draws // 320, 1, _MAX_PAIRS))


def _run_pooled_test(
    queries: SelectorQueries,
    sampler: RowSampler,
    result: StochasticResult,
    n_draws: int,
    false_alarm_rate: float,
    share: float,
    rng: np.random.Generator,
) -> float | None:
    """Run the pooled test at its share of the false-alarm rate; return the detectable shift."""
    half = n_draws // 2
    level = false_alarm_rate * share
    background = queries.background
    units = pooled.units_to_test(background, rng)
    if not half or not len(units):
        return None
    result.n_untested = len(pooled.varying_units(background)) - len(units)
    screening = pooled.IndependentSample(queries, half, units, rng)
    hypotheses, n_screened = pooled.screen_hypotheses(screening, background, _N_POOLED)
    shift = _detectable_shift(half, level, n_screened)
    if not hypotheses:
        return shift
    sample = pooled.IndependentSample(queries, half, units, rng)
    outcomes = [pooled.fisher_test(sample, h) for h in hypotheses]
    best = min(outcomes, key=lambda t: t.p_value)
    result.p_value = min(result.p_value, 1.0, len(outcomes) * best.p_value / share)
    if best.p_value > level / len(outcomes):
        return shift
    result.leaks = True
    result.finding = (
        f"{pooled.describe(best.hypothesis, background.unit_names)}: {best.share:.3f} instead of "
        f"{best.share_other:.3f}"
    )
    result.influence = _probability_shifts(sample, queries)
    result.witness = _pooled_witness(queries, sampler, best.hypothesis, rng)
    return shift


def _detectable_shift(n_draws: int, level: float, n_screened: int) -> float:
    """Shift that is among the screened hypotheses that are tested, and significant, with 95 %.

    Either fails with half of the remaining 5 %. The largest z-scores that are due to chance are
    those of independent hypotheses, which is an upper bound.
    """
    by_chance = norm.isf(min(_N_POOLED / (2.0 * max(n_screened, 1)), 0.5))
    z = max(by_chance, norm.isf(level / _N_POOLED)) + norm.isf(0.025)
    return float(z * np.sqrt(0.25 * 4 / n_draws))


def _probability_shifts(
    sample: pooled.IndependentSample, queries: SelectorQueries
) -> dict[str, float]:
    names = queries.background.unit_names
    shift: dict[str, float] = {}
    for h in pooled.screen_hypotheses(sample, queries.background, 20)[0]:
        if h.contrast.kind == "agrees with" or h.z < 4.0:
            continue
        outcome = pooled.fisher_test(sample, h)
        name = names[h.contrast.unit]
        shift[name] = max(shift.get(name, 0.0), abs(outcome.share - outcome.share_other))
    return dict(sorted(shift.items(), key=lambda item: -item[1]))


def _pooled_witness(
    queries: SelectorQueries,
    sampler: RowSampler,
    hypothesis: pooled.Hypothesis,
    rng: np.random.Generator,
) -> Witness | None:
    """Illustrate a result of the pooled test by two rows that differ in the tested unit only.

    Units that determine each other change together.
    """
    background, unit = queries.background, hypothesis.contrast.unit
    changed = (background.blocks == background.blocks[unit])[background.unit_of]
    ranks = pooled.mid_ranks(sampler.unit_codes)[:, unit]
    pairs = []
    for row in rng.integers(sampler.n_rows, size=40):
        distant = np.argsort(-abs(ranks - ranks[row]), kind="stable")[: max(1, sampler.n_rows // 4)]
        source = np.full(len(changed), row, dtype=np.intp)
        other = np.where(changed, rng.choice(distant), source).astype(np.intp)
        pairs.append(Pair(source, other))
    n_first, n_second, n_last = (200, 1000, 4000) if queries.batch_size > 1 else (20, 200, 500)
    finalists = _successive_halving(queries, pairs, ((n_first, 8), (n_second, 3)))
    # The most different of many noisy frequencies may be a coincidence; new draws decide.
    tested = [(*_fisher_pair_test(queries, pair, n_last, rng), pair) for pair in finalists]
    if not tested:
        return None
    _, share, share_other, pair = min(tested, key=lambda test: test[0])
    mask: BoolArray = np.array(pair.mask)
    return make_witness(queries, pair.source, pair.other, mask, mask, share, share_other)


def _run_pair_tests(
    queries: SelectorQueries,
    result: StochasticResult,
    pairs: list[Pair],
    n_draws: int,
    false_alarm_rate: float,
    share: float,
    rng: np.random.Generator,
) -> None:
    """Run the pair tests at their share of the false-alarm rate."""
    level, n_pairs = false_alarm_rate * share, _n_pairs(n_draws)
    first = max(n_draws // (8 * n_pairs), 20)
    second = max(n_draws // (8 * 12), 20)
    pairs = _successive_halving(queries, pairs, ((first, 12), (second, _N_PAIRS)))
    n_last = max(n_draws // (4 * _N_PAIRS), 20)
    for pair in pairs:
        if queries.out_of_time:
            return
        p_value, probability, probability_other = _fisher_pair_test(queries, pair, n_last, rng)
        result.p_value = min(result.p_value, 1.0, len(pairs) * p_value / share)
        if p_value <= level / len(pairs):
            assert pair.mask is not None
            result.leaks = True
            result.finding = (
                f"one mask has probability {probability:.3f} for one row and "
                f"{probability_other:.3f} for another row with the same revealed values"
            )
            result.witness = make_witness(
                queries,
                pair.source,
                pair.other,
                pair.mask,
                pair.mask,
                probability,
                probability_other,
            )
            result.on_observed_rows = result.witness.support == "empirical"
            return


def _combined_pairs(
    queries: SelectorQueries, sampler: RowSampler, n_pairs: int, rng: np.random.Generator
) -> list[Pair]:
    """Draw masks for random rows and combine each row with the hidden values of others."""
    rows = rng.integers(sampler.n_rows, size=n_pairs)
    sources = queries.background.unchanged(rows)
    masks = queries.select(sources)
    pairs = []
    for k in range(n_pairs):
        scheme = PROPOSAL_SCHEMES[k % len(PROPOSAL_SCHEMES)]
        other = scheme(sampler, rows[k : k + 1], masks[k : k + 1], rng)[0]
        pairs.append(Pair(sources[k], other))
    return pairs


def _observed_pairs(
    queries: SelectorQueries, sampler: RowSampler, n_pairs: int, rng: np.random.Generator
) -> list[Pair]:
    """Draw masks for random rows and pair each with an observed row that agrees on them."""
    background = queries.background
    rows = rng.integers(sampler.n_rows, size=n_pairs)
    masks = queries.select(background.unchanged(rows))
    positions, partners = observed_partners(background.codes, rows, masks, rng)
    sources, others = background.unchanged(rows[positions]), background.unchanged(partners)
    return [Pair(source, other) for source, other in zip(sources, others, strict=True)]


def _draw_masks(
    queries: SelectorQueries, pair: Pair, n_draws: int, rng: np.random.Generator | None = None
) -> tuple[Counter[bytes], Counter[bytes]]:
    """Count the masks of both rows, drawn in the same batches so that batch effects cancel.

    The rows alternate or, with ``rng``, are in random order. A test requires the latter, since
    masks may depend on positions in the batch.
    """
    which = np.tile([0, 1], n_draws)
    if rng is not None:
        which = rng.permutation(which)
    masks = queries.select(np.stack([pair.source, pair.other])[which])
    return (
        Counter(mask.tobytes() for mask in masks[which == 0]),
        Counter(mask.tobytes() for mask in masks[which == 1]),
    )


def _select_mask(queries: SelectorQueries, pair: Pair, n_draws: int) -> Pair:
    """Draw masks and select the one whose frequency differs most between the rows.

    Only masks on whose revealed values both rows agree are considered.
    """
    counts = _draw_masks(queries, pair, n_draws)
    codes = queries.background.codes_of(np.stack([pair.source, pair.other]))
    equal = codes[0] == codes[1]
    best = pair
    for key in sorted(set(counts[0]) | set(counts[1])):  # sets of bytes have no fixed order
        mask = np.frombuffer(key, dtype=bool)
        if (mask & ~equal).any():
            continue
        a, b = counts[0][key], counts[1][key]
        share = (a + b) / (2 * n_draws)
        error = np.sqrt(max(share * (1 - share), 1e-12) * 2 / n_draws)
        z = abs(a - b) / n_draws / error
        if z > best.z:
            best = Pair(pair.source, pair.other, mask, 1 if a > b else -1, float(z))
    return best


def _successive_halving(
    queries: SelectorQueries, pairs: list[Pair], rounds: tuple[tuple[int, int], ...]
) -> list[Pair]:
    """Keep the pairs with the largest z-scores; a round is (draws per row, pairs to keep)."""
    for n_draws, n_keep in rounds:
        if queries.out_of_time:
            break
        scored = [_select_mask(queries, Pair(p.source, p.other), n_draws) for p in pairs]
        scored = [p for p in scored if p.mask is not None]
        pairs = sorted(scored, key=lambda p: -p.z)[:n_keep]
    return [p for p in pairs if p.mask is not None]


def _fisher_pair_test(
    queries: SelectorQueries, pair: Pair, n_draws: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """P-value of Fisher's exact test on new draws, and the mask's frequency for both rows."""
    assert pair.mask is not None
    counts = _draw_masks(queries, pair, n_draws, rng)
    key = pair.mask.tobytes()
    a, b = counts[0][key], counts[1][key]
    p_value = one_sided_fisher((a, n_draws - a), (b, n_draws - b), pair.sign)
    return p_value, a / n_draws, b / n_draws
