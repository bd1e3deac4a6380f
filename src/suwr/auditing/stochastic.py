"""Tests of stochastic selectors by drawing masks.

Three tests share the false-alarm rate: the pooled independence test of masks
drawn in batches, the same test of fewer masks drawn in calls of one row, and a test of single pairs
of rows. Pooling has little power for leaks that are confined to few rows and does not apply to the
empirical support; there, both rows of a pair are queried many times. Pairs of observed rows come
first, since only they show a leak whatever rows are possible. Each test selects its hypotheses on
one set of draws and tests the few that remain on another, with a Bonferroni correction, so that the
adaptive selection does not inflate the false-alarm rate.

All units of a row are drawn independently of each other, and one mask is drawn per row. Without
leakage, ζ(h | x) does not depend on a unit j that h hides; because the units are independent, the
event "the mask is h" is independent of the value of unit j. The same holds for any set of masks
that hide j, and for two units jointly. A 2 × 2 table of (value of j high or low) × (event or not)
therefore tests the main corollary, and one sample serves all units and all events. Units that
determine each other form a block, which is drawn as a whole and of which h must hide all units.

`compare_samples` measures how well sampled masks fit the probabilities that a selector states.

A misfit is no leak by itself, and a good fit is no evidence against one: it shows that the stated
probabilities describe the selector up to the detectable difference.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2, fisher_exact, ncx2, norm

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    BackgroundData,
    IntArray,
    RowSampler,
    observed_partners,
    revealed_units,
)
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.witness import Witness, make_witness
from suwr.selector import BoolArray

_N_ROWS = 40
_N_DRAWS = 500
_MIN_VARIANCE = 5.0


@dataclass(frozen=True)
class FitResult:
    """Result of the goodness-of-fit test.

    Attributes
    ----------
    p_value : float
        Corrected for the two tests.
    detectable_difference : float
        Root mean square, over rows, of the difference between the actual and the stated
        probability of a mask that the test detects with 95 % power (at probability one half).
    """

    p_value: float
    detectable_difference: float


def compare_samples(
    queries: SelectorQueries,
    level: float,
    rng: np.random.Generator,
    n_rows: int = _N_ROWS,
    n_draws: int = _N_DRAWS,
) -> FitResult:
    """Compare the frequency of a mask with its stated probability, for several rows.

    Half of the rows are background rows, half have independent units. For each row, the mask is
    chosen on one half of the draws and counted on the other. A binomial test of each row detects
    large differences of few rows, a chi-squared test of all rows detects small differences of many.

    Parameters
    ----------
    queries : SelectorQueries
        The selector must have ``mask_probability``.
    level : float
        False-alarm rate.
    rng : numpy.random.Generator
    n_rows, n_draws : int
        Number of rows, and of masks drawn for each.
    """
    background = queries.background
    drawn = rng.integers(background.n_rows, size=(n_rows, background.n_units))
    drawn[::2] = drawn[::2, :1]
    sources = drawn[:, background.unit_of]
    half = n_draws // 2
    samples = queries.select(np.repeat(sources, n_draws, axis=0)).reshape(n_rows, n_draws, -1)
    chosen = np.empty((n_rows, background.n_columns), dtype=bool)
    for i, masks in enumerate(samples):
        distinct, counts = np.unique(masks[:half], axis=0, return_counts=True)
        chosen[i] = distinct[counts.argmax()]
    stated = np.clip(queries.mask_probability(sources, chosen), 0.0, 1.0)
    counts = (samples[:, half:] == chosen[:, None]).all(axis=2).sum(axis=1)
    of_rows = [
        float(binomtest(int(count), half, float(p)).pvalue)
        for count, p in zip(counts, stated, strict=True)
    ]
    variance = half * stated * (1 - stated)
    usable = variance >= _MIN_VARIANCE
    squares = (counts - half * stated)[usable] ** 2 / variance[usable]
    pooled = float(chi2.sf(squares.sum(), usable.sum())) if usable.any() else 1.0
    return FitResult(
        p_value=min(1.0, 2 * n_rows * min(of_rows), 2 * pooled),
        detectable_difference=detectable_difference(level / 2, n_rows, half),
    )


def detectable_difference(level: float, n_rows: int, n_draws: int, power: float = 0.95) -> float:
    """Difference that the chi-squared test of ``n_rows`` rows with ``n_draws`` draws detects.

    Examples
    --------
    >>> round(detectable_difference(0.005, 40, 250), 3)
    0.037
    """
    critical = chi2.isf(level, n_rows)
    noncentrality = brentq(lambda value: ncx2.sf(critical, n_rows, value) - power, 1e-3, 1e4)
    return float(np.sqrt(0.25 * noncentrality / (n_rows * n_draws)))


_N_SIZES = 6
_N_MASKS = 10
# The time of the screening is proportional to the square of the number of units.
_MAX_UNITS = 800
_MAX_UNITS_IN_PAIRS = 24
_MIN_EVENT_COUNT = 10.0
_CHUNK_SIZE = 4096
_CONTRASTS_PER_PRODUCT = 256


@dataclass(frozen=True)
class Event:
    """A set of masks, possibly restricted to a range of a revealed value.

    Attributes
    ----------
    kind : {"any", "reveals", "reveals high", "size", "mask"}
    argument : int
        A unit for "reveals" and "reveals high", the number of revealed units for "size".
    mask : tuple of bool
        For "mask".
    """

    kind: str
    argument: int = -1
    mask: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Contrast:
    """A partition of the rows in two, by the value of one unit or the agreement of two units.

    Attributes
    ----------
    unit : int
    kind : {"high", "outer", "top", "bottom", "level", "agrees with"}
    argument : int
        A value code for "level", the other unit for "agrees with".
    """

    unit: int
    kind: str
    argument: int = -1


@dataclass(frozen=True)
class Hypothesis:
    """The probability of an event differs between the two sides of a contrast.

    Attributes
    ----------
    contrast : Contrast
    event : Event
    sign : int
        1 if the event is more frequent on the contrast's side, -1 if less.
    z : float
        Absolute z-score in the screening sample.
    """

    contrast: Contrast
    event: Event
    sign: int
    z: float


@dataclass(frozen=True)
class FisherResult:
    """Result of Fisher's exact test on a sample that was not used to select it.

    Attributes
    ----------
    hypothesis : Hypothesis
    p_value : float
    share, share_other : float
        Frequency of the event on the contrast's side, and on the other.
    """

    hypothesis: Hypothesis
    p_value: float
    share: float
    share_other: float


class IndependentSample:
    """Rows with independent blocks of units, and one drawn mask for each.

    Parameters
    ----------
    queries : SelectorQueries
    size : int
        Number of rows.
    units : int array
        Units under test.
    rng : numpy.random.Generator
    """

    def __init__(
        self, queries: SelectorQueries, size: int, units: IntArray, rng: np.random.Generator
    ) -> None:
        background = queries.background
        self._blocks = background.blocks
        n_blocks = int(self._blocks.max()) + 1
        masks, drawn = [], []
        for start in range(0, size, _CHUNK_SIZE):
            shape = (min(_CHUNK_SIZE, size - start), n_blocks)
            drawn.append(rng.integers(background.n_rows, size=shape).astype(np.int32))
            sources = drawn[-1][:, self._blocks[background.unit_of]].astype(np.intp)
            masks.append(queries.select(sources))
        self.masks = np.concatenate(masks)
        self.units = units
        self._drawn = np.concatenate(drawn)
        self._unit_codes = background.unit_codes
        self._unit_ranks = mid_ranks(background.unit_codes)
        self._revealed = revealed_units(self.masks, background.unit_of, background.n_units)
        self._revealed_blocks = revealed_units(self._revealed, self._blocks, n_blocks)
        self.n_revealed = self._revealed.sum(axis=1)

    def codes(self, unit: int) -> IntArray:
        """Codes of the values of a unit."""
        return self._unit_codes[self._drawn[:, self._blocks[unit]], unit]

    def ranks(self, unit: int) -> NDArray[np.float64]:
        """Ranks of the values of a unit, between 0 and 1."""
        return self._unit_ranks[self._drawn[:, self._blocks[unit]], unit]

    def revealed(self, unit: int) -> BoolArray:
        """Rows whose mask reveals at least one column of the unit."""
        return self._revealed[:, unit]

    def holds(self, event: Event) -> BoolArray:
        """Rows in which the event occurs."""
        if event.kind == "any":
            return np.ones(len(self.masks), dtype=bool)
        if event.kind == "reveals":
            return self.revealed(event.argument)
        if event.kind == "reveals high":
            return self.revealed(event.argument) & (self.ranks(event.argument) > 0.5)
        if event.kind == "size":
            return np.asarray(self.n_revealed == event.argument)
        return (self.masks == np.array(event.mask)).all(axis=1)

    def side(self, contrast: Contrast) -> BoolArray:
        """Rows on the contrast's side of the partition."""
        if contrast.kind == "level":
            return self.codes(contrast.unit) == contrast.argument
        ranks = self.ranks(contrast.unit)
        if contrast.kind == "high":
            return ranks > 0.5
        if contrast.kind == "outer":
            return abs(ranks - 0.5) > 0.25
        if contrast.kind == "top":
            return ranks > 0.9
        if contrast.kind == "bottom":
            return ranks < 0.1
        return np.asarray((ranks > 0.5) == (self.ranks(contrast.argument) > 0.5))

    def hides(self, contrast: Contrast) -> BoolArray:
        """Rows whose mask hides all units of the blocks of the contrast."""
        hidden = ~self._revealed_blocks[:, self._blocks[contrast.unit]]
        if contrast.kind == "agrees with":
            hidden = hidden & ~self._revealed_blocks[:, self._blocks[contrast.argument]]
        return np.asarray(hidden)


def mid_ranks(codes: IntArray) -> NDArray[np.float64]:
    """Mid-rank of each value in its column, between 0 and 1.

    Examples
    --------
    >>> mid_ranks(np.array([[0], [1], [1], [2]])).ravel().tolist()
    [0.125, 0.5, 0.5, 0.875]
    """
    columns = []
    for column in codes.T:
        count = np.bincount(column)
        below = np.cumsum(count) - count
        columns.append(((below + count / 2) / len(column))[column])
    return np.stack(columns, axis=1)


def unit_contrasts(background: BackgroundData, unit: int) -> list[Contrast]:
    """Contrasts by the value of one unit."""
    levels, counts = np.unique(background.unit_codes[:, unit], return_counts=True)
    if len(levels) < 2:
        return []
    members = np.flatnonzero(background.unit_of == unit)
    ordered = len(members) == 1 and bool(background.numeric[members[0]])
    if ordered and len(levels) > 6:
        return [Contrast(unit, kind) for kind in ("high", "outer", "top", "bottom")]
    frequent = levels[np.argsort(-counts)][: 1 if len(levels) == 2 else 5]
    return [Contrast(unit, "level", int(level)) for level in frequent]


def candidate_events(sample: IndependentSample) -> list[Event]:
    """Events to screen, among them the most frequent masks and numbers of revealed units."""
    events = [Event("any")]
    events += [Event("reveals", int(u)) for u in sample.units]
    events += [Event("reveals high", int(u)) for u in sample.units]
    sizes, counts = np.unique(sample.n_revealed, return_counts=True)
    events += [Event("size", int(s)) for s in sizes[np.argsort(-counts)][:_N_SIZES]]
    packed = np.packbits(sample.masks[:5000], axis=1)  # which are sorted faster
    _, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    frequent = sample.masks[first[np.argsort(-counts)][:_N_MASKS]]
    return events + [Event("mask", mask=tuple(m.tolist())) for m in frequent]


def varying_units(background: BackgroundData) -> IntArray:
    """Units that have more than one value."""
    return np.flatnonzero(background.unit_codes.max(axis=0) > 0)


def units_to_test(background: BackgroundData, rng: np.random.Generator) -> IntArray:
    """All units that vary, or a random subset if there are very many."""
    units = varying_units(background)
    if len(units) > _MAX_UNITS:
        units = np.sort(rng.choice(units, _MAX_UNITS, replace=False))
    return units


def screen_hypotheses(
    sample: IndependentSample, background: BackgroundData, n_best: int
) -> tuple[list[Hypothesis], int]:
    """Hypotheses with the largest z-scores, and the number of all that were screened.

    They must be tested on another sample.
    """
    events = candidate_events(sample)
    holds = np.stack([sample.holds(e) for e in events], axis=1)
    contrasts = [c for u in sample.units for c in unit_contrasts(background, int(u))]
    found = _best_events(sample, contrasts, events, holds)
    # Pairs of units are screened with events that do not depend on a single unit.
    coarse = np.array([e.kind in ("any", "size", "mask") for e in events])
    coarse_events = [e for e, c in zip(events, coarse, strict=True) if c]
    paired_units = [int(u) for u in sample.units[:_MAX_UNITS_IN_PAIRS]]
    pairs = [Contrast(u, "agrees with", v) for u, v in combinations(paired_units, 2)]
    found += _best_events(sample, pairs, coarse_events, holds[:, coarse])
    found.sort(key=lambda h: -h.z)
    n_screened = len(contrasts) * len(events) + len(pairs) * len(coarse_events)
    return found[:n_best], n_screened


def _best_events(
    sample: IndependentSample,
    contrasts: list[Contrast],
    events: list[Event],
    holds: BoolArray,
    n_best: int = 2,
) -> list[Hypothesis]:
    """The events with the largest z-scores in the two-proportion test of each contrast."""
    found = []
    for start in range(0, len(contrasts), _CONTRASTS_PER_PRODUCT):
        some = contrasts[start : start + _CONTRASTS_PER_PRODUCT]
        hidden = np.stack([sample.hides(c) for c in some])
        side = np.stack([sample.side(c) for c in some])
        n, n_side = side.shape[1], side.sum(axis=1)[:, None]
        total = _count_products(hidden, holds)
        inside = _count_products(hidden & side, holds)
        share = total / n
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = inside / n_side - (total - inside) / (n - n_side)
            error = np.sqrt(
                np.maximum(share * (1 - share), 1e-12) * (1 / n_side + 1 / (n - n_side))
            )
            z = np.where(total > _MIN_EVENT_COUNT, difference / error, 0.0)
        for k, contrast in enumerate(some):
            if not hidden[k].any() or n_side[k, 0] in (0, n):
                continue
            best = np.argsort(-abs(z[k]))[:n_best]
            found += [
                Hypothesis(contrast, events[b], int(np.sign(z[k, b])), float(abs(z[k, b])))
                for b in best
            ]
    return found


def _count_products(first: BoolArray, second: BoolArray) -> NDArray[np.float64]:
    """Matrix product of a (k, n) and an (n, m) matrix, in chunks to bound the memory."""
    total = np.zeros((first.shape[0], second.shape[1]))
    for start in range(0, len(second), _CHUNK_SIZE):
        rows = slice(start, start + _CHUNK_SIZE)
        total += first[:, rows].astype(np.float32) @ second[rows].astype(np.float32)
    return total


def one_sided_fisher(first: tuple[int, int], second: tuple[int, int], sign: int) -> float:
    """P-value of Fisher's exact test that the proportion in ``first`` is larger (or smaller).

    Examples
    --------
    >>> round(one_sided_fisher((3, 0), (0, 3), sign=1), 2)
    0.05
    """
    counts = np.array([first, second])
    outcome = fisher_exact(counts, alternative="greater" if sign > 0 else "less")
    return float(outcome.pvalue)


def fisher_test(sample: IndependentSample, hypothesis: Hypothesis) -> FisherResult:
    """One-sided Fisher test of a hypothesis that was selected before the sample was drawn."""
    side = sample.side(hypothesis.contrast)
    event = sample.holds(hypothesis.event) & sample.hides(hypothesis.contrast)
    inside = int((event & side).sum()), int((~event & side).sum())
    outside = int((event & ~side).sum()), int((~event & ~side).sum())
    if min(sum(inside), sum(outside)) == 0:
        return FisherResult(hypothesis, 1.0, float("nan"), float("nan"))
    p_value = one_sided_fisher(inside, outside, hypothesis.sign)
    return FisherResult(hypothesis, p_value, inside[0] / sum(inside), outside[0] / sum(outside))


def describe(hypothesis: Hypothesis, unit_names: list[str]) -> str:
    """Describe a hypothesis in one clause."""
    contrast, event = hypothesis.contrast, hypothesis.event
    unit = f"`{unit_names[contrast.unit]}`"
    condition = {
        "high": f"{unit} is above its median",
        "outer": f"{unit} is outside its interquartile range",
        "top": f"{unit} is in its top decile",
        "bottom": f"{unit} is in its bottom decile",
        "level": f"{unit} has a particular value",
        "agrees with": (
            f"{unit} and `{unit_names[contrast.argument]}` are on the same side of their medians"
        ),
    }[contrast.kind]
    masks = {
        "any": f"masks that hide {unit}",
        "reveals": f"masks that hide {unit} and reveal `{unit_names[event.argument]}`",
        "reveals high": (
            f"masks that hide {unit} and reveal an above-median `{unit_names[event.argument]}`"
        ),
        "size": f"masks that hide {unit} and reveal {event.argument} units",
        "mask": f"one particular mask that hides {unit}",
    }[event.kind]
    verb = "is" if event.kind == "mask" else "are"
    more = "more" if hypothesis.sign > 0 else "less"
    return f"{masks} {verb} drawn {more} often when {condition}"


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
    units = units_to_test(background, rng)
    if not half or not len(units):
        return None
    result.n_untested = len(varying_units(background)) - len(units)
    screening = IndependentSample(queries, half, units, rng)
    hypotheses, n_screened = screen_hypotheses(screening, background, _N_POOLED)
    shift = _detectable_shift(half, level, n_screened)
    if not hypotheses:
        return shift
    sample = IndependentSample(queries, half, units, rng)
    outcomes = [fisher_test(sample, h) for h in hypotheses]
    best = min(outcomes, key=lambda t: t.p_value)
    result.p_value = min(result.p_value, 1.0, len(outcomes) * best.p_value / share)
    if best.p_value > level / len(outcomes):
        return shift
    result.leaks = True
    result.finding = (
        f"{describe(best.hypothesis, background.unit_names)}: {best.share:.3f} instead of "
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


def _probability_shifts(sample: IndependentSample, queries: SelectorQueries) -> dict[str, float]:
    names = queries.background.unit_names
    shift: dict[str, float] = {}
    for h in screen_hypotheses(sample, queries.background, 20)[0]:
        if h.contrast.kind == "agrees with" or h.z < 4.0:
            continue
        outcome = fisher_test(sample, h)
        name = names[h.contrast.unit]
        shift[name] = max(shift.get(name, 0.0), abs(outcome.share - outcome.share_other))
    return dict(sorted(shift.items(), key=lambda item: -item[1]))


def _pooled_witness(
    queries: SelectorQueries,
    sampler: RowSampler,
    hypothesis: Hypothesis,
    rng: np.random.Generator,
) -> Witness | None:
    """Illustrate a result of the pooled test by two rows that differ in the tested unit only.

    Units that determine each other change together.
    """
    background, unit = queries.background, hypothesis.contrast.unit
    changed = (background.blocks == background.blocks[unit])[background.unit_of]
    ranks = mid_ranks(sampler.unit_codes)[:, unit]
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
