"""Pooled independence test for stochastic selectors.

All units of a row are drawn independently of each other, and one mask is drawn per row. Without
leakage, ζ(h | x) does not depend on a unit j that h hides; because the units are independent, the
event "the mask is h" is independent of the value of unit j. The same holds for any set of masks
that hide j, and for two units jointly. A 2 × 2 table of (value of j high or low) × (event or not)
therefore tests the main corollary, and one sample serves all units and all events. Units that
determine each other form a block, which is drawn as a whole and of which h must hide all units.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from suwr.audit.background import BackgroundData, IntArray
from suwr.audit.queries import SelectorQueries
from suwr.audit.sampling import revealed_units
from suwr.selector import BoolArray

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
