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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2, fisher_exact, ncx2, norm, rankdata

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    BackgroundData,
    IntArray,
    RowSampler,
    in_units,
    observed_partners,
)
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.report import Witness
from suwr.selector import BoolArray

_N_ROWS = 40
_N_DRAWS = 500
_MIN_VARIANCE = 5.0


def compare_samples(queries: SelectorQueries, level: float) -> tuple[float, float]:
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

    Returns
    -------
    p_value : float
        Corrected for the two tests.
    detectable_difference : float
        Root mean square, over rows, of the difference between the actual and the stated
        probability of a mask that the test detects with 95 % power (at probability one half).
    """
    background = queries.background
    drawn = queries.rng.integers(background.n_rows, size=(_N_ROWS, background.n_units))
    drawn[::2] = drawn[::2, :1]
    sources = drawn[:, background.unit_of]
    half = _N_DRAWS // 2
    samples = queries.select(np.repeat(sources, _N_DRAWS, axis=0)).reshape(_N_ROWS, _N_DRAWS, -1)
    chosen = np.empty((_N_ROWS, background.n_columns), dtype=bool)
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
    p_value = min(1.0, 2 * _N_ROWS * min(of_rows), 2 * pooled)
    return p_value, detectable_difference(level / 2, _N_ROWS, half)


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
_EVENTS_PER_CONTRAST = 2
_HIDE = "masks that hide"


class IndependentSample:
    """Rows with independent blocks of units, and one drawn mask for each.

    Parameters
    ----------
    queries : SelectorQueries
    size : int
        Number of rows.
    units : int array
        Units under test.
    """

    def __init__(self, queries: SelectorQueries, size: int, units: IntArray) -> None:
        background = queries.background
        self.blocks = background.blocks
        n_blocks = int(self.blocks.max()) + 1
        masks, drawn = [], []
        for start in range(0, size, _CHUNK_SIZE):
            shape = (min(_CHUNK_SIZE, size - start), n_blocks)
            drawn.append(queries.rng.integers(background.n_rows, size=shape).astype(np.int32))
            sources = drawn[-1][:, self.blocks[background.unit_of]].astype(np.intp)
            masks.append(queries.select(sources))
        self.masks = np.concatenate(masks)
        self.units = units
        self._drawn = np.concatenate(drawn)
        self._unit_codes = background.unit_codes
        self._unit_ranks = mid_ranks(background.unit_codes)
        self.revealed = in_units(self.masks, background.unit_of, background.n_units)
        self._revealed_blocks = in_units(self.revealed, self.blocks, n_blocks)
        self.n_revealed = self.revealed.sum(axis=1)

    def codes(self, unit: int) -> IntArray:
        """Codes of the values of a unit."""
        return self._unit_codes[self._drawn[:, self.blocks[unit]], unit]

    def ranks(self, unit: int) -> NDArray[np.float64]:
        """Ranks of the values of a unit, between 0 and 1."""
        return self._unit_ranks[self._drawn[:, self.blocks[unit]], unit]

    def hide(self, units: tuple[int, ...]) -> BoolArray:
        """Rows whose mask hides all units of the blocks of ``units``."""
        return np.asarray(~self._revealed_blocks[:, self.blocks[list(units)]].any(axis=1))


Condition = Callable[[IndependentSample], BoolArray]


@dataclass(frozen=True)
class Event:
    """A set of masks, possibly restricted to a range of a revealed value.

    Attributes
    ----------
    before, after : str
        Description, around the name of the unit that the masks hide.
    holds : callable
        Rows of a sample in which the event occurs.
    of_unit : bool
        Whether the event depends on a single unit.
    """

    before: str
    after: str
    holds: Condition
    of_unit: bool = False


@dataclass(frozen=True)
class Contrast:
    """A partition of the rows in two, by the value of one unit or the agreement of two units.

    Attributes
    ----------
    units : tuple of int
    text : str
        Condition of the first side.
    side : callable
        Rows of a sample on the first side.
    """

    units: tuple[int, ...]
    text: str
    side: Condition


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

    def test(self, sample: IndependentSample) -> tuple[float, float, float]:
        """P-value on a sample drawn after the selection, and the event's frequency on each side."""
        side = self.contrast.side(sample)
        event = self.event.holds(sample) & sample.hide(self.contrast.units)
        table = np.array([[(event & s).sum(), (~event & s).sum()] for s in (side, ~side)])
        if table.sum(axis=1).min() == 0:
            return 1.0, float("nan"), float("nan")
        share, share_other = table[:, 0] / table.sum(axis=1)
        return one_sided_fisher(table, self.sign), float(share), float(share_other)

    def describe(self, unit_names: list[str]) -> str:
        """The hypothesis in one clause."""
        hidden = f"`{unit_names[self.contrast.units[0]]}`"
        more = "more" if self.sign > 0 else "less"
        subject = f"{self.event.before} {hidden}{self.event.after}"
        return f"{subject} drawn {more} often when {self.contrast.text}"


def mid_ranks(codes: IntArray) -> NDArray[np.float64]:
    """Mid-rank of each value in its column, between 0 and 1.

    Examples
    --------
    >>> mid_ranks(np.array([[0], [1], [1], [2]])).ravel().tolist()
    [0.125, 0.5, 0.5, 0.875]
    """
    return np.asarray((rankdata(codes, axis=0) - 0.5) / len(codes))


def unit_contrasts(background: BackgroundData, unit: int) -> list[Contrast]:
    """Contrasts by the value of one unit."""
    levels, counts = np.unique(background.unit_codes[:, unit], return_counts=True)
    if len(levels) < 2:
        return []
    name = f"`{background.unit_names[unit]}`"
    members = np.flatnonzero(background.unit_of == unit)
    ordered = len(members) == 1 and bool(background.numeric[members[0]])
    if ordered and len(levels) > 6:
        sides: list[tuple[str, Condition]] = [
            ("above its median", lambda s: s.ranks(unit) > 0.5),
            ("outside its interquartile range", lambda s: np.abs(s.ranks(unit) - 0.5) > 0.25),
            ("in its top decile", lambda s: s.ranks(unit) > 0.9),
            ("in its bottom decile", lambda s: s.ranks(unit) < 0.1),
        ]
        return [Contrast((unit,), f"{name} is {text}", side) for text, side in sides]
    frequent = levels[np.argsort(-counts)][: 1 if len(levels) == 2 else 5]
    return [
        Contrast((unit,), f"{name} has a particular value", partial(_has_level, unit, level))
        for level in frequent
    ]


def _has_level(unit: int, level: int, sample: IndependentSample) -> BoolArray:
    return sample.codes(unit) == level


def _agreement(background: BackgroundData, first: int, second: int) -> Contrast:
    names = " and ".join(f"`{background.unit_names[unit]}`" for unit in (first, second))
    return Contrast(
        (first, second),
        f"{names} are on the same side of their medians",
        lambda s: (s.ranks(first) > 0.5) == (s.ranks(second) > 0.5),
    )


def candidate_events(sample: IndependentSample, unit_names: list[str]) -> list[Event]:
    """Events to screen, among them the most frequent masks and numbers of revealed units."""
    events = [Event(_HIDE, " are", lambda s: np.ones(len(s.masks), dtype=bool))]
    events += [
        Event(_HIDE, f" and reveal `{unit_names[u]}` are", partial(_reveals, u), of_unit=True)
        for u in sample.units
    ]
    events += [
        Event(
            _HIDE,
            f" and reveal an above-median `{unit_names[u]}` are",
            partial(_reveals_high, u),
            of_unit=True,
        )
        for u in sample.units
    ]
    sizes, counts = np.unique(sample.n_revealed, return_counts=True)
    events += [
        Event(_HIDE, f" and reveal {size} units are", partial(_has_size, size))
        for size in sizes[np.argsort(-counts)][:_N_SIZES]
    ]
    packed = np.packbits(sample.masks[:5000], axis=1)  # which are sorted faster
    _, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
    frequent = sample.masks[first[np.argsort(-counts)][:_N_MASKS]]
    return events + [
        Event("one particular mask that hides", " is", partial(_equals, mask)) for mask in frequent
    ]


def _reveals(unit: int, sample: IndependentSample) -> BoolArray:
    return sample.revealed[:, unit]


def _reveals_high(unit: int, sample: IndependentSample) -> BoolArray:
    return sample.revealed[:, unit] & (sample.ranks(unit) > 0.5)


def _has_size(size: int, sample: IndependentSample) -> BoolArray:
    return np.asarray(sample.n_revealed == size)


def _equals(mask: BoolArray, sample: IndependentSample) -> BoolArray:
    return (sample.masks == mask).all(axis=1)


def screen_hypotheses(
    sample: IndependentSample, background: BackgroundData, n_best: int
) -> tuple[list[Hypothesis], int]:
    """Hypotheses with the largest z-scores, and the number of all that were screened.

    They must be tested on another sample.
    """
    events = candidate_events(sample, background.unit_names)
    holds = np.stack([e.holds(sample) for e in events], axis=1)
    contrasts = [c for u in sample.units for c in unit_contrasts(background, int(u))]
    found = _best_events(sample, contrasts, events, holds)
    # Pairs of units are screened with events that do not depend on a single unit.
    coarse = np.array([not e.of_unit for e in events])
    coarse_events = [e for e in events if not e.of_unit]
    paired_units = [int(u) for u in sample.units[:_MAX_UNITS_IN_PAIRS]]
    pairs = [_agreement(background, u, v) for u, v in combinations(paired_units, 2)]
    found += _best_events(sample, pairs, coarse_events, holds[:, coarse])
    found.sort(key=lambda h: -h.z)
    n_screened = len(contrasts) * len(events) + len(pairs) * len(coarse_events)
    return found[:n_best], n_screened


def _best_events(
    sample: IndependentSample, contrasts: list[Contrast], events: list[Event], holds: BoolArray
) -> list[Hypothesis]:
    """The events with the largest z-scores in the two-proportion test of each contrast."""
    found = []
    for start in range(0, len(contrasts), _CONTRASTS_PER_PRODUCT):
        some = contrasts[start : start + _CONTRASTS_PER_PRODUCT]
        hidden = np.stack([sample.hide(c.units) for c in some])
        side = np.stack([c.side(sample) for c in some])
        n, n_side = side.shape[1], side.sum(axis=1)[:, None]
        total = _count_products(hidden, holds)
        inside = _count_products(hidden & side, holds)
        share = total / n
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = inside / n_side - (total - inside) / (n - n_side)
            variance = np.maximum(share * (1 - share), 1e-12)
            error = np.sqrt(variance * (1 / n_side + 1 / (n - n_side)))
            z = np.where(total > _MIN_EVENT_COUNT, difference / error, 0.0)
        for k, contrast in enumerate(some):
            if hidden[k].any() and n_side[k, 0] not in (0, n):
                found += [
                    Hypothesis(contrast, events[b], int(np.sign(z[k, b])), float(abs(z[k, b])))
                    for b in np.argsort(-abs(z[k]))[:_EVENTS_PER_CONTRAST]
                ]
    return found


def _count_products(first: BoolArray, second: BoolArray) -> NDArray[np.float64]:
    """Matrix product of a (k, n) and an (n, m) matrix, in chunks to bound the memory."""
    total = np.zeros((first.shape[0], second.shape[1]))
    for start in range(0, len(second), _CHUNK_SIZE):
        rows = slice(start, start + _CHUNK_SIZE)
        total += first[:, rows].astype(np.float32) @ second[rows].astype(np.float32)
    return total


def one_sided_fisher(counts: IntArray, sign: int) -> float:
    """P-value of Fisher's exact test that the first proportion is larger (or smaller).

    Examples
    --------
    >>> round(one_sided_fisher(np.array([[3, 0], [0, 3]]), sign=1), 2)
    0.05
    """
    outcome = fisher_exact(counts, alternative="greater" if sign > 0 else "less")
    return float(outcome.pvalue)


_N_POOLED = 6
_N_PAIRS = 3
_MAX_PAIRS = 63
_MAX_INDIVIDUAL = 400
_MIN_INDIVIDUAL = 200
#: Shares of the false-alarm rate on the product support.
_POOLED_SHARE, _INDIVIDUAL_SHARE, _PAIR_SHARE = 0.45, 0.1, 0.45


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


@dataclass
class DrawnMasks:
    """Tests of ζ(h | x) = ζ(h | x') by drawing masks.

    Attributes
    ----------
    queries : SelectorQueries
    sampler : RowSampler
    level : float
        Upper bound of the probability to reject a selector without leakage.
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

    queries: SelectorQueries
    sampler: RowSampler
    level: float
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

    def test(self, support: str, n_draws: int) -> "DrawnMasks":
        """Run the tests that apply to the support, with ``n_draws`` masks in total."""
        start = self.queries.n_rows
        if support == "empirical":
            self._test_pairs(self._observed_pairs(_n_pairs(n_draws)), n_draws, 1.0)
        else:
            self._test_combinations(support, n_draws)
        self.n_draws = self.queries.n_rows - start
        return self

    def _test_combinations(self, support: str, n_draws: int) -> None:
        n_pair_draws, pair_share = int(0.4 * n_draws), _PAIR_SHARE
        if support == "auto":
            pairs = self._observed_pairs(_n_pairs(n_pair_draws // 2))
            if pairs:
                n_pair_draws, pair_share = n_pair_draws // 2, _PAIR_SHARE / 2
                self._test_pairs(pairs, n_pair_draws, pair_share)
        if self._continues:
            self.detectable_shift = self._test_pooled(int(0.6 * n_draws), _POOLED_SHARE)
        n_individual = min(_MAX_INDIVIDUAL, n_draws // 20)
        individually = n_individual >= _MIN_INDIVIDUAL and self.queries.batch_size > 1
        if individually and self._continues:
            n_pair_draws -= n_individual
            with self.queries.one_row_per_call():
                shift = self._test_pooled(n_individual, _INDIVIDUAL_SHARE)
            self.detectable_shift_individually = shift
            if self.leaks:
                self.finding = f"in calls of one row, {self.finding}"
        if self._continues:
            pairs = self._combined_pairs(_n_pairs(n_pair_draws))
            self._test_pairs(pairs, n_pair_draws, pair_share)

    @property
    def _continues(self) -> bool:
        return not self.leaks and not self.queries.out_of_time

    def _test_pooled(self, n_draws: int, share: float) -> float | None:
        """Run the pooled test at its share of the false-alarm rate; return the detectable shift."""
        half, level, background = n_draws // 2, self.level * share, self.queries.background
        varying = units = np.flatnonzero(background.unit_codes.max(axis=0) > 0)
        if len(units) > _MAX_UNITS:
            units = np.sort(self.queries.rng.choice(units, _MAX_UNITS, replace=False))
        if not half or not len(units):
            return None
        self.n_untested = len(varying) - len(units)
        screening = IndependentSample(self.queries, half, units)
        hypotheses, n_screened = screen_hypotheses(screening, background, _N_POOLED)
        detectable = _detectable_shift(half, level, n_screened)
        if not hypotheses:
            return detectable
        sample = IndependentSample(self.queries, half, units)
        outcomes = [(*h.test(sample), h) for h in hypotheses]
        p_value, share_in, share_out, best = min(outcomes, key=lambda outcome: outcome[0])
        self.p_value = min(self.p_value, 1.0, len(outcomes) * p_value / share)
        if p_value <= level / len(outcomes):
            self.leaks = True
            text = best.describe(background.unit_names)
            self.finding = f"{text}: {share_in:.3f} instead of {share_out:.3f}"
            self.influence = _probability_shifts(sample, background)
            self.witness = self._illustrate(best.contrast.units[0])
        return detectable

    def _illustrate(self, unit: int) -> Witness | None:
        """Illustrate a result of the pooled test by two rows that differ in the tested unit only.

        Units that determine each other change together.
        """
        background, rng, n_rows = self.queries.background, self.queries.rng, self.sampler.n_rows
        changed = (background.blocks == background.blocks[unit])[background.unit_of]
        ranks = mid_ranks(self.sampler.unit_codes)[:, unit]
        pairs = []
        for row in rng.integers(n_rows, size=40):
            distance = abs(ranks - ranks[row])
            distant = np.argsort(-distance, kind="stable")[: max(1, n_rows // 4)]
            source = np.full(len(changed), row, dtype=np.intp)
            pairs.append(Pair(source, np.where(changed, rng.choice(distant), source)))
        in_batches = self.queries.batch_size > 1
        n_first, n_second, n_last = (200, 1000, 4000) if in_batches else (20, 200, 500)
        finalists = self._successive_halving(pairs, ((n_first, 8), (n_second, 3)))
        if not finalists:
            return None
        # The most different of many noisy frequencies may be a coincidence; new draws decide.
        tested = [(*self._fisher_test(pair, n_last), pair) for pair in finalists]
        _, *shares, pair = min(tested, key=lambda test: test[0])
        return self._pair_witness(pair, *shares)

    def _test_pairs(self, pairs: list[Pair], n_draws: int, share: float) -> None:
        """Run the pair tests at their share of the false-alarm rate."""
        first = max(n_draws // (8 * _n_pairs(n_draws)), 20)
        second = max(n_draws // (8 * 12), 20)
        pairs = self._successive_halving(pairs, ((first, 12), (second, _N_PAIRS)))
        for pair in pairs:
            if self.queries.out_of_time:
                return
            n_last = max(n_draws // (4 * _N_PAIRS), 20)
            p_value, *shares = self._fisher_test(pair, n_last)
            self.p_value = min(self.p_value, 1.0, len(pairs) * p_value / share)
            if p_value <= self.level * share / len(pairs):
                self.leaks = True
                self.finding = (
                    f"one mask has probability {shares[0]:.3f} for one row and {shares[1]:.3f} for "
                    "another row with the same revealed values"
                )
                self.witness = self._pair_witness(pair, *shares)
                self.on_observed_rows = self.witness.support == "empirical"
                return

    def _pair_witness(self, pair: Pair, share: float, share_other: float) -> Witness:
        assert pair.mask is not None
        return self.queries.witness(pair.source, pair.other, pair.mask, None, share, share_other)

    def _combined_pairs(self, n_pairs: int) -> list[Pair]:
        """Draw masks for random rows and combine each row with the hidden values of others."""
        rows = self.queries.rng.integers(self.sampler.n_rows, size=n_pairs)
        sources = self.queries.background.unchanged(rows)
        masks = self.queries.select(sources)
        pairs = []
        for k in range(n_pairs):
            scheme = PROPOSAL_SCHEMES[k % len(PROPOSAL_SCHEMES)]
            other = scheme(self.sampler, rows[k : k + 1], masks[k : k + 1])[0]
            pairs.append(Pair(sources[k], other))
        return pairs

    def _observed_pairs(self, n_pairs: int) -> list[Pair]:
        """Draw masks for random rows and pair each with an observed row that agrees on them."""
        background, rng = self.queries.background, self.queries.rng
        rows = rng.integers(self.sampler.n_rows, size=n_pairs)
        masks = self.queries.select(background.unchanged(rows))
        positions, partners = observed_partners(background.codes, rows, masks, rng)
        sources, others = background.unchanged(rows[positions]), background.unchanged(partners)
        return [Pair(source, other) for source, other in zip(sources, others, strict=True)]

    def _successive_halving(
        self, pairs: list[Pair], rounds: tuple[tuple[int, int], ...]
    ) -> list[Pair]:
        """Keep the pairs with the largest z-scores; a round is (draws per row, pairs to keep)."""
        for n_draws, n_keep in rounds:
            if self.queries.out_of_time:
                break
            scored = [select_mask(self.queries, pair, n_draws) for pair in pairs]
            pairs = sorted((p for p in scored if p.mask is not None), key=lambda p: -p.z)[:n_keep]
        return [p for p in pairs if p.mask is not None]

    def _fisher_test(self, pair: Pair, n_draws: int) -> tuple[float, float, float]:
        """P-value of Fisher's exact test on new draws, and the mask's frequency for both rows."""
        assert pair.mask is not None
        # Masks may depend on positions in the batch, so that a test requires a random order.
        which = self.queries.rng.permutation(np.tile([0, 1], n_draws))
        counts = _count_masks(self.queries, pair, which)
        hits = np.array([count[pair.mask.tobytes()] for count in counts])
        p_value = one_sided_fisher(np.stack([hits, n_draws - hits], axis=1), pair.sign)
        return p_value, float(hits[0] / n_draws), float(hits[1] / n_draws)


def _n_pairs(n_draws: int) -> int:
    return int(np.clip(n_draws // 320, 1, _MAX_PAIRS))


def _detectable_shift(n_draws: int, level: float, n_screened: int) -> float:
    """Shift that is among the screened hypotheses that are tested, and significant, with 95 %.

    Either fails with half of the remaining 5 %. The largest z-scores that are due to chance are
    those of independent hypotheses, which is an upper bound.
    """
    by_chance = norm.isf(min(_N_POOLED / (2.0 * max(n_screened, 1)), 0.5))
    z = max(by_chance, norm.isf(level / _N_POOLED)) + norm.isf(0.025)
    return float(z * np.sqrt(0.25 * 4 / n_draws))


def _probability_shifts(sample: IndependentSample, background: BackgroundData) -> dict[str, float]:
    shift: dict[str, float] = {}
    for h in screen_hypotheses(sample, background, 20)[0]:
        if len(h.contrast.units) == 1 and h.z >= 4.0:
            _, share, share_other = h.test(sample)
            name = background.unit_names[h.contrast.units[0]]
            shift[name] = max(shift.get(name, 0.0), abs(share - share_other))
    return dict(sorted(shift.items(), key=lambda item: -item[1]))


def _count_masks(
    queries: SelectorQueries, pair: Pair, which: IntArray
) -> tuple[Counter[bytes], Counter[bytes]]:
    """Count the masks of both rows, drawn in the same batches so that batch effects cancel."""
    masks = queries.select(np.stack([pair.source, pair.other])[which])
    return (
        Counter(mask.tobytes() for mask in masks[which == 0]),
        Counter(mask.tobytes() for mask in masks[which == 1]),
    )


def select_mask(queries: SelectorQueries, pair: Pair, n_draws: int) -> Pair:
    """Draw masks and select the one whose frequency differs most between the rows.

    Only masks on whose revealed values both rows agree are considered.
    """
    counts = _count_masks(queries, pair, np.tile([0, 1], n_draws))
    codes = queries.background.codes_of(np.stack([pair.source, pair.other]))
    equal = codes[0] == codes[1]
    best = Pair(pair.source, pair.other)
    for key in sorted(set(counts[0]) | set(counts[1])):  # sets of bytes have no fixed order
        mask = np.frombuffer(key, dtype=bool)
        if (mask & ~equal).any():
            continue
        a, b = counts[0][key], counts[1][key]
        share = (a + b) / (2 * n_draws)
        error = np.sqrt(max(share * (1 - share), 1e-12) * 2 / n_draws)
        z = abs(a - b) / n_draws / error
        if z > best.z:
            best = replace(best, mask=mask, sign=1 if a > b else -1, z=float(z))
    return best
