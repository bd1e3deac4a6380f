"""The answers to a question, divided where the policy decides or predicts differently."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from suwr._utils.text import format_exactly, format_value
from suwr.data.encode import ColumnCode
from suwr.forms.policy import FormPolicy, State

__all__ = ["Answer", "split_answers", "typical_value", "value_text"]

# Up to this many categories, or distinct numbers, each is an answer of its own.
MAX_CATEGORIES, MAX_NUMBERS = 8, 4
# Predictions above and below this probability are distinguished.
CONFIDENT = 0.9
# Numbers between two quantiles at which a change of decision is located.
N_REFINED = 32
# Assumed shares of answers that are not available, and of unknown categories.
MISSING_SHARE, OTHER_SHARE = 0.05, 0.01
# A text that is no category of any model.
OTHER = "\ufdd0 another value"


@dataclass(frozen=True)
class Answer:
    """A set of values of one column that a form treats alike.

    Attributes
    ----------
    representative : object
        The value by which the form continues.
    share : float
        Estimated share of rows with such a value.
    low, high : float or None
        Bounds of numbers: low < x ≤ high; None is unbounded.
    values : tuple or None
        The categories; None for numbers.
    missing, other : bool
        Whether it is the answer 'not available', or any other category.
    whole : bool
        Whether the numbers are integers.
    """

    representative: Any
    share: float
    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] | None = None
    missing: bool = False
    other: bool = False
    whole: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a parsed value belongs to this answer; 'other' accepts any category."""
        if value is None or self.missing:
            return value is None and self.missing
        if self.other:
            return True
        if self.values is not None:
            return value in self.values
        above = self.low is None or value > self.low
        return above and (self.high is None or value <= self.high)

    @property
    def text(self) -> str:
        """The answer in words."""
        if self.missing:
            return "not available"
        if self.other:
            return "another value"
        if self.values is not None:
            return " or ".join(value_text(v) for v in self.values)
        low, high = self.low, self.high
        if self.whole:
            first = None if low is None else math.floor(low) + 1
            last = None if high is None else math.floor(high)
            if first is not None and first == last:
                return format_exactly(first)
            return _interval(first, last, "at least {}", "at most {}")
        return _interval(low, high, "more than {}", "at most {}")


def value_text(value: Any) -> str:
    """Return a category in words, so that no two numbers look the same."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return format_exactly(value) if number else format_value(value)


def _interval(low: float | None, high: float | None, above: str, below: str) -> str:
    parts = [] if low is None else [above.format(format_exactly(low))]
    parts += [] if high is None else [below.format(format_exactly(high))]
    return " and ".join(parts) or "any number"


def split_answers(
    policy: FormPolicy, known: Mapping[str, Any], column: str, pending: Sequence[str]
) -> list[tuple[Answer, State]]:
    """Divide the values of a column.

    Parameters
    ----------
    policy : FormPolicy
    known : mapping
        The representative answers so far.
    column : str
        The column that is asked for.
    pending : sequence of str
        Columns of the same step that are asked for after it. The policy decides after all of them;
        they are assumed to have typical values.

    Returns
    -------
    list of (Answer, State)
        With the state after the representative, and typical values of ``pending``.
    """
    code = policy.codes[column]
    rest = {name: typical_value(policy.codes[name]) for name in pending}

    def states(values: Sequence[Any]) -> list[State]:
        return policy.decide([{**known, column: value, **rest} for value in values])

    found = _split_numbers(policy, column, states) if code.categories is None else (
        _split_categories(policy, code, states))  # fmt: skip
    if code.has_missing:
        [state] = states([None])
        found.append((Answer(None, MISSING_SHARE, missing=True), state))
    return found


def typical_value(code: ColumnCode) -> Any:
    """Return the centre of a number, or the first category."""
    if code.categories is None:
        return code.center
    return code.categories[0] if code.categories else None


def _signature(policy: FormPolicy, state: State) -> tuple[Any, ...]:
    """Return what numbers of one answer have in common: the next decision, and the prediction.

    Without the prediction, an answer that changes it but not the next question would be lost.
    """
    if policy.classes is None:
        return state.units, math.floor(state.prediction[0] / policy.resolution)
    best = int(np.argmax(state.prediction))
    return state.units, best, state.prediction[best] > CONFIDENT


def _split_categories(
    policy: FormPolicy, code: ColumnCode, states: Any
) -> list[tuple[Answer, State]]:
    categories = list(code.categories or ())
    groups: dict[Any, list[Any]] = {}
    reached = dict(zip(categories, states(categories), strict=True)) if categories else {}
    few = len(categories) <= MAX_CATEGORIES
    for category in categories:
        key = category if few else _signature(policy, reached[category])
        groups.setdefault(key, []).append(category)
    found = [
        (Answer(group[0], len(group) / len(categories), values=tuple(group)), reached[group[0]])
        for group in groups.values()
    ]
    if code.type == "text":
        [state] = states([OTHER])
        found.append((Answer(OTHER, OTHER_SHARE, other=True), state))
    return found


def _split_numbers(policy: FormPolicy, column: str, states: Any) -> list[tuple[Answer, State]]:
    code, whole = policy.codes[column], policy.questions[column].whole
    grid, weights = _grid(code)
    reached = states(grid)
    signatures = [_signature(policy, state) for state in reached]
    discrete = policy.questions[column].discrete
    if discrete and len(grid) <= MAX_NUMBERS:
        places = list(range(1, len(grid)))
    else:
        places = [i for i in range(1, len(grid)) if signatures[i] != signatures[i - 1]]
    # Only numbers that occur matter in a discrete column.
    gaps = [(grid[i - 1], grid[i]) for i in places]
    if not discrete:
        gaps = _narrow(policy, gaps, [signatures[i - 1] for i in places], states)
    bounds = [_between(low, high, whole, discrete) for low, high in gaps]
    found = []
    edges = [None, *bounds, None]
    for (start, stop), low, high in zip(
        pairwise([0, *places, len(grid)]), edges[:-1], edges[1:], strict=True
    ):
        middle = (start + stop - 1) // 2
        share = float(sum(weights[start:stop]))
        found.append((Answer(grid[middle], share, low, high, whole=whole), reached[middle]))
    return found


def _grid(code: ColumnCode) -> tuple[list[float], list[float]]:
    """Return increasing numbers with the shares of rows that they stand for."""
    if code.summary is None:
        grid = [code.center + code.scale * step for step in np.linspace(-3, 3, 21)]
        return grid, [1 / len(grid)] * len(grid)
    values, counts = np.unique(code.summary.quantiles, return_counts=True)
    if code.summary.values is not None:
        # Rare values may lie between two quantiles.
        shares = dict(zip(values.tolist(), counts.tolist(), strict=True))
        grid = [float(v) for v in code.summary.values]
        numbers = [shares.get(v, 0.5) for v in grid]
        return grid, [n / sum(numbers) for n in numbers]
    return values.tolist(), (counts / counts.sum()).tolist()


def _narrow(
    policy: FormPolicy, gaps: list[tuple[float, float]], before: list[Any], states: Any
) -> list[tuple[float, float]]:
    """Narrow gaps to the first change of decision in them; ``before`` are those at their start."""
    tried = [np.linspace(low, high, N_REFINED + 2)[1:-1].tolist() for low, high in gaps]
    reached = states([value for values in tried for value in values]) if gaps else []
    narrowed = []
    for number, (low, high) in enumerate(gaps):
        part = reached[number * N_REFINED : (number + 1) * N_REFINED]
        for value, state in zip(tried[number], part, strict=True):
            if _signature(policy, state) != before[number]:
                high = value
                break
            low = value
        narrowed.append((low, high))
    return narrowed


def _between(low: float, high: float, whole: bool, discrete: bool) -> float:
    """Return the bound between two numbers that are treated differently."""
    if not whole:
        return _short(low, high)
    return math.floor((low + high - 1) / 2 if discrete else low) + 0.5


def _short(low: float, high: float) -> float:
    """Return the shortest decimal number between two numbers: low ≤ x < high.

    Examples
    --------
    >>> _short(0.1234, 0.1301), _short(17.0, 23.0)
    (0.13, 20.0)
    """
    middle = (low + high) / 2
    for digits in range(1, 17):
        number = float(f"{middle:.{digits}g}")
        if low <= number < high:
            return number
    return low
