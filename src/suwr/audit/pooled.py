"""Pooled independence test for stochastic selectors.

All units of a row are drawn independently of each other, and one mask is drawn per row. Without
leakage, ζ(h | x) does not depend on a unit j that h hides; because the units are independent, the
event "the mask is h" is independent of the value of unit j. The same holds for any set of masks
that hide j, and for two units jointly. A 2 × 2 table of (value of j high or low) × (event or not)
therefore tests the main corollary, and one sample serves all units and all events.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from suwr.audit.background import BackgroundData, IntArray
from suwr.audit.queries import SelectorQueries
from suwr.audit.sampling import revealed_units
from suwr.selector import BoolArray

_N_SIZES = 6
_N_MASKS = 10
_MAX_UNITS = 48
_MAX_UNITS_IN_PAIRS = 24
_MIN_EVENT_COUNT = 10.0
_CHUNK_SIZE = 4096


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
    """Rows with independent units, and one drawn mask for each.

    Parameters
    ----------
    queries : SelectorQueries
    size : int
        Number of rows.
    units : int array
        Units under test. Only their values are stored, to save memory on wide data.
    rng : numpy.random.Generator
    """

    def __init__(
        self, queries: SelectorQueries, size: int, units: IntArray, rng: np.random.Generator
    ) -> None:
        background = queries.background
        masks, sources = [], []
        for start in range(0, size, _CHUNK_SIZE):
            shape = (min(_CHUNK_SIZE, size - start), background.n_units)
            drawn = rng.integers(background.n_rows, size=shape)
            masks.append(queries.select(drawn[:, background.unit_of]))
            sources.append(drawn[:, units])
        self.masks = np.concatenate(masks)
        self.units = units
        unit_sources = np.concatenate(sources)
        codes = background.unit_codes[:, units]
        self._codes = np.take_along_axis(codes, unit_sources, axis=0)
        self._ranks = np.take_along_axis(mid_ranks(codes), unit_sources, axis=0)
        revealed = revealed_units(self.masks, background.unit_of, background.n_units)
        self.n_revealed = revealed.sum(axis=1)
        self._revealed = revealed[:, units]
        self._position = {int(u): k for k, u in enumerate(units)}

    def codes(self, unit: int) -> IntArray:
        """Codes of the values of a unit."""
        return self._codes[:, self._position[unit]]

    def ranks(self, unit: int) -> NDArray[np.float64]:
        """Ranks of the values of a unit, between 0 and 1."""
        return self._ranks[:, self._position[unit]]

    def revealed(self, unit: int) -> BoolArray:
        """Rows whose mask reveals at least one column of the unit."""
        return self._revealed[:, self._position[unit]]

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
        ranks = self.ranks(contrast.unit)
        if contrast.kind == "high":
            return ranks > 0.5
        if contrast.kind == "outer":
            return abs(ranks - 0.5) > 0.25
        if contrast.kind == "top":
            return ranks > 0.9
        if contrast.kind == "bottom":
            return ranks < 0.1
        if contrast.kind == "level":
            return self.codes(contrast.unit) == contrast.argument
        return np.asarray((ranks > 0.5) == (self.ranks(contrast.argument) > 0.5))

    def hides(self, contrast: Contrast) -> BoolArray:
        """Rows whose mask hides all units of the contrast."""
        hidden = ~self.revealed(contrast.unit)
        if contrast.kind == "agrees with":
            hidden = hidden & ~self.revealed(contrast.argument)
        return hidden


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
    masks, counts = np.unique(sample.masks[:5000], axis=0, return_counts=True)
    frequent = masks[np.argsort(-counts)][:_N_MASKS]
    return events + [Event("mask", mask=tuple(m.tolist())) for m in frequent]


def units_to_test(background: BackgroundData, rng: np.random.Generator) -> IntArray:
    """All units that vary, or a random subset if there are many."""
    units = np.flatnonzero(background.unit_codes.max(axis=0) > 0)
    if len(units) > _MAX_UNITS:
        units = np.sort(rng.choice(units, _MAX_UNITS, replace=False))
    return units


def screen_hypotheses(
    sample: IndependentSample, background: BackgroundData, n_best: int
) -> list[Hypothesis]:
    """Hypotheses with the largest z-scores; they must be tested on another sample."""
    events = candidate_events(sample)
    holds = np.stack([sample.holds(e) for e in events], axis=1).astype(np.float32)
    found: list[Hypothesis] = []
    for u in sample.units:
        for contrast in unit_contrasts(background, int(u)):
            found += _best_events(sample, contrast, events, holds)
    # Pairs of units are screened with events that do not depend on a single unit.
    coarse = np.array([e.kind in ("any", "size", "mask") for e in events])
    coarse_events = [e for e, c in zip(events, coarse, strict=True) if c]
    paired_units = sample.units[:_MAX_UNITS_IN_PAIRS]
    for i, u in enumerate(paired_units):
        for v in paired_units[i + 1 :]:
            contrast = Contrast(int(u), "agrees with", int(v))
            found += _best_events(sample, contrast, coarse_events, holds[:, coarse])
    found.sort(key=lambda h: -h.z)
    return found[:n_best]


def _best_events(
    sample: IndependentSample,
    contrast: Contrast,
    events: list[Event],
    holds: NDArray[np.float32],
    n_best: int = 2,
) -> list[Hypothesis]:
    """The events with the largest z-scores in the two-proportion test of one contrast."""
    hidden = sample.hides(contrast)
    side = sample.side(contrast)
    n, n_side = len(side), int(side.sum())
    if not hidden.any() or n_side in (0, n):
        return []
    total = hidden.astype(np.float32) @ holds
    inside = (hidden & side).astype(np.float32) @ holds
    share = total / n
    difference = inside / n_side - (total - inside) / (n - n_side)
    error = np.sqrt(np.maximum(share * (1 - share), 1e-12) * (1 / n_side + 1 / (n - n_side)))
    z = np.where(total > _MIN_EVENT_COUNT, difference / error, 0.0)
    best = np.argsort(-abs(z))[:n_best]
    return [Hypothesis(contrast, events[b], int(np.sign(z[b])), float(abs(z[b]))) for b in best]


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
