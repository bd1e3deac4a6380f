"""A test for selectors that draw their masks, pooled over rows.

Redraw *every* unit independently of all others, and draw one mask for each such row. If the
selector does not leak, then ζ(h | x) does not depend on a unit j that h hides; and since the units
of these rows are independent, the event "the mask is h" is independent of the value of unit j.
The same holds for any set of masks that hide j, and for two units at once. So a table of two by
two, (value of j is high or low) × (event or not), tests the main corollary, and one sample of rows
serves all units and all events.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from suwr.audit._oracle import Oracle
from suwr.audit._table import IntArray, Table
from suwr.selector import BoolArray

_N_SIZES = 6
_N_MASKS = 10
_MAX_UNITS = 48
_MAX_UNITS_IN_PAIRS = 24
_MIN_EXPECTED = 10.0
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Event:
    """A set of masks, perhaps with a condition on a value that they reveal."""

    kind: str  # "any", "reveals", "reveals high", "size" or "mask"
    argument: int = -1
    mask: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Contrast:
    """Two halves of the rows, by the value of one unit or by whether two units agree."""

    unit: int
    kind: str  # "high", "outer", "top", "bottom", "level" or "agrees with"
    argument: int = -1


@dataclass(frozen=True)
class Hypothesis:
    """The event has another probability in one half of the contrast; ``sign`` says which."""

    contrast: Contrast
    event: Event
    sign: int
    z: float


@dataclass(frozen=True)
class Outcome:
    """A hypothesis, tested on rows that were not used to find it."""

    hypothesis: Hypothesis
    p_value: float
    share: float
    share_other: float
    n: int


class Sample:
    """Rows with independent units, and one mask for each.

    Parameters
    ----------
    oracle : Oracle
    size : int
        Number of rows.
    units : int array
        Units under test. Values are kept of these alone: of wide rows (images) there are many.
    rng : numpy.random.Generator
    """

    def __init__(
        self, oracle: Oracle, size: int, units: IntArray, rng: np.random.Generator
    ) -> None:
        table = oracle.table
        masks, donors = [], []
        for start in range(0, size, _ROWS_AT_ONCE):
            shape = (min(_ROWS_AT_ONCE, size - start), table.n_units)
            drawn = rng.integers(table.n_rows, size=shape)
            masks.append(oracle.select(drawn[:, table.unit_of]))
            donors.append(drawn[:, units])
        self.masks = np.concatenate(masks)
        self.units = units
        kept = np.concatenate(donors)
        codes = table.unit_codes[:, units]
        self._codes = np.take_along_axis(codes, kept, axis=0)
        self._rank = np.take_along_axis(ranks(codes), kept, axis=0)
        shown = shown_units(self.masks, table)
        self.n_shown = shown.sum(axis=1)
        self._shown = shown[:, units]
        self._place = {int(u): k for k, u in enumerate(units)}

    def codes(self, unit: int) -> IntArray:
        """Values of a unit, as codes."""
        return self._codes[:, self._place[unit]]

    def rank(self, unit: int) -> NDArray[np.float64]:
        """Ranks of the values of a unit, between 0 and 1."""
        return self._rank[:, self._place[unit]]

    def shown(self, unit: int) -> BoolArray:
        """Rows whose mask reveals something of the unit."""
        return self._shown[:, self._place[unit]]

    def holds(self, event: Event) -> BoolArray:
        """Whether each row is in the event."""
        if event.kind == "any":
            return np.ones(len(self.masks), dtype=bool)
        if event.kind == "reveals":
            return self.shown(event.argument)
        if event.kind == "reveals high":
            return self.shown(event.argument) & (self.rank(event.argument) > 0.5)
        if event.kind == "size":
            return np.asarray(self.n_shown == event.argument)
        return (self.masks == np.array(event.mask)).all(axis=1)

    def side(self, contrast: Contrast) -> BoolArray:
        """Which half of the contrast each row is in."""
        rank = self.rank(contrast.unit)
        if contrast.kind == "high":
            return rank > 0.5
        if contrast.kind == "outer":
            return abs(rank - 0.5) > 0.25
        if contrast.kind == "top":
            return rank > 0.9
        if contrast.kind == "bottom":
            return rank < 0.1
        if contrast.kind == "level":
            return self.codes(contrast.unit) == contrast.argument
        return np.asarray((rank > 0.5) == (self.rank(contrast.argument) > 0.5))

    def hides(self, contrast: Contrast) -> BoolArray:
        """Rows whose mask hides all units of the contrast."""
        hidden = ~self.shown(contrast.unit)
        if contrast.kind == "agrees with":
            hidden = hidden & ~self.shown(contrast.argument)
        return hidden


def ranks(codes: IntArray) -> NDArray[np.float64]:
    """Middle rank of each value in its column, between 0 and 1.

    Examples
    --------
    >>> ranks(np.array([[0], [1], [1], [2]])).ravel().tolist()
    [0.125, 0.5, 0.5, 0.875]
    """
    columns = []
    for column in codes.T:
        count = np.bincount(column)
        below = np.cumsum(count) - count
        columns.append(((below + count / 2) / len(column))[column])
    return np.stack(columns, axis=1)


def shown_units(masks: BoolArray, table: Table) -> BoolArray:
    """Units of which at least one column is revealed."""
    shown = np.zeros((len(masks), table.n_units), dtype=bool)
    for j, u in enumerate(table.unit_of):
        shown[:, u] |= masks[:, j]
    return shown


def contrasts_of(table: Table, unit: int) -> list[Contrast]:
    """The ways in which the values of a unit are split in two."""
    codes = table.unit_codes[:, unit]
    levels, counts = np.unique(codes, return_counts=True)
    if len(levels) < 2:
        return []
    members = np.flatnonzero(table.unit_of == unit)
    ordered = len(members) == 1 and bool(table.numeric[members[0]])
    if ordered and len(levels) > 6:
        return [Contrast(unit, kind) for kind in ("high", "outer", "top", "bottom")]
    often = levels[np.argsort(-counts)][: 1 if len(levels) == 2 else 5]
    return [Contrast(unit, "level", int(level)) for level in often]


def events_of(sample: Sample) -> list[Event]:
    """Sets of masks that are worth a test, judged by how often they occur."""
    events = [Event("any")]
    events += [Event("reveals", int(u)) for u in sample.units]
    events += [Event("reveals high", int(u)) for u in sample.units]
    sizes, counts = np.unique(sample.n_shown, return_counts=True)
    events += [Event("size", int(s)) for s in sizes[np.argsort(-counts)][:_N_SIZES]]
    masks, counts = np.unique(sample.masks[:5000], axis=0, return_counts=True)
    often = masks[np.argsort(-counts)][:_N_MASKS]
    return events + [Event("mask", mask=tuple(m.tolist())) for m in often]


def units_to_test(table: Table, rng: np.random.Generator) -> IntArray:
    """All units that vary, or a random part of them if there are many."""
    units = np.flatnonzero(table.unit_codes.max(axis=0) > 0)
    if len(units) > _MAX_UNITS:
        units = np.sort(rng.choice(units, _MAX_UNITS, replace=False))
    return units


def screen(sample: Sample, table: Table, n_best: int) -> list[Hypothesis]:
    """The hypotheses that the sample speaks for most loudly. No verdict rests on this sample."""
    events = events_of(sample)
    held = np.stack([sample.holds(e) for e in events], axis=1).astype(np.float32)
    coarse = np.array([e.kind in ("any", "size", "mask") for e in events])
    found: list[Hypothesis] = []
    for u in sample.units:
        for contrast in contrasts_of(table, int(u)):
            found += _loudest(sample, contrast, events, held)
    pairs = sample.units[:_MAX_UNITS_IN_PAIRS]
    few = [e for e, c in zip(events, coarse, strict=True) if c]
    for i, u in enumerate(pairs):
        for v in pairs[i + 1 :]:
            both = Contrast(int(u), "agrees with", int(v))
            found += _loudest(sample, both, few, held[:, coarse])
    found.sort(key=lambda h: -h.z)
    return found[:n_best]


def _loudest(
    sample: Sample,
    contrast: Contrast,
    events: list[Event],
    held: NDArray[np.float32],
    n_best: int = 2,
) -> list[Hypothesis]:
    hidden = sample.hides(contrast)
    side = sample.side(contrast)
    n, n_side = len(side), int(side.sum())
    if not hidden.any() or n_side in (0, n):
        return []
    total = hidden.astype(np.float32) @ held
    inside = (hidden & side).astype(np.float32) @ held
    share = total / n
    difference = inside / n_side - (total - inside) / (n - n_side)
    spread = np.sqrt(np.maximum(share * (1 - share), 1e-12) * (1 / n_side + 1 / (n - n_side)))
    z = np.where(total > _MIN_EXPECTED, difference / spread, 0.0)
    best = np.argsort(-abs(z))[:n_best]
    return [Hypothesis(contrast, events[b], int(np.sign(z[b])), float(abs(z[b]))) for b in best]


def one_sided_fisher(first: tuple[int, int], second: tuple[int, int], sign: int) -> float:
    """P-value of Fisher's exact test that the share of ``first`` is larger (or smaller).

    Examples
    --------
    >>> round(one_sided_fisher((3, 0), (0, 3), sign=1), 2)
    0.05
    """
    counts = np.array([first, second])
    outcome = fisher_exact(counts, alternative="greater" if sign > 0 else "less")
    return float(outcome.pvalue)


def judge(sample: Sample, hypothesis: Hypothesis) -> Outcome:
    """Fisher's exact test of one hypothesis, in the direction that was seen before.

    Valid when the sample was drawn after the hypothesis was chosen.
    """
    side = sample.side(hypothesis.contrast)
    event = sample.holds(hypothesis.event) & sample.hides(hypothesis.contrast)
    inside = int((event & side).sum()), int((~event & side).sum())
    outside = int((event & ~side).sum()), int((~event & ~side).sum())
    if min(sum(inside), sum(outside)) == 0:
        return Outcome(hypothesis, 1.0, float("nan"), float("nan"), len(side))
    p_value = one_sided_fisher(inside, outside, hypothesis.sign)
    return Outcome(
        hypothesis, p_value, inside[0] / sum(inside), outside[0] / sum(outside), len(side)
    )


def describe(hypothesis: Hypothesis, unit_names: list[str]) -> str:
    """The hypothesis in words."""
    contrast, event = hypothesis.contrast, hypothesis.event
    unit = f"`{unit_names[contrast.unit]}`"
    where = {
        "high": f"{unit} is in its upper half",
        "outer": f"{unit} is far from its middle",
        "top": f"{unit} is in its top tenth",
        "bottom": f"{unit} is in its bottom tenth",
        "level": f"{unit} takes one of its values",
        "agrees with": f"{unit} and `{unit_names[contrast.argument]}` are on the same side",
    }[contrast.kind]
    what = {
        "any": f"masks that hide {unit}",
        "reveals": f"masks that hide {unit} and reveal `{unit_names[event.argument]}`",
        "reveals high": f"masks that hide {unit} and reveal a high `{unit_names[event.argument]}`",
        "size": f"masks that hide {unit} and reveal {event.argument} units",
        "mask": f"copies of one mask that hides {unit}",
    }[event.kind]
    more = "more" if hypothesis.sign > 0 else "less"
    return f"{what} are drawn {more} often when {where}"
