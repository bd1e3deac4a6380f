"""How far steps move predictions: in the rows of an explanation, and usually."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import format_number, percent
from suwr._utils.validation import require

# Rows that a share of rows must be measured on.
MIN_CASES = 10
# What counts as a movement: a difference of probabilities, or a share of the standard deviation of
# the target.
POINTS, SHARE_OF_DEVIATION = 0.05, 0.1


def prediction_change(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how far a prediction moves.

    The total variation distance of class probabilities, from 0 to 1, or the absolute difference of
    values.

    Examples
    --------
    >>> prediction_change((0.5, 0.5), (0.75, 0.25)), prediction_change((3.0,), (1.0,))
    (0.25, 2.0)
    """
    total = sum(abs(a - b) for a, b in zip(before, after, strict=True))
    return total if len(before) == 1 else total / 2


@dataclass(frozen=True)
class UsualEffect:
    """How often a step moves the prediction, in rows that were held out from training.

    Attributes
    ----------
    n_moved, n_rows : int
        Rows in which it moved the prediction, of those that took it.
    threshold : float
        What counts as a movement; see `prediction_change`.
    of_classes : bool
        Whether the predictions are class probabilities.

    Examples
    --------
    >>> print("moves", UsualEffect(10, 43, 0.05, True))
    moves the prediction by over 5 points in 23 % of 43 such cases
    >>> print("moves", UsualEffect(10, 43, 7.7, False))
    moves the prediction by over 7.7 in 23 % of 43 such cases
    """

    n_moved: int
    n_rows: int
    threshold: float
    of_classes: bool

    @property
    def share(self) -> float:
        """Share of the rows in which it moved the prediction."""
        return self.n_moved / self.n_rows

    @property
    def movement(self) -> str:
        """What counts as a movement in words."""
        if self.of_classes:
            return f"{format_number(100 * self.threshold, 3)} points"
        return format_number(self.threshold, 3)

    def __str__(self) -> str:
        cases = f"{percent(self.share)} of {self.n_rows:,} such cases"
        return f"the prediction by over {self.movement} in {cases}"


@dataclass(frozen=True)
class StepEffects:
    """How often steps moved the prediction of held-out rows, by unit and number of the step.

    Attributes
    ----------
    threshold : float
        What counts as a movement; see `prediction_change`.
    of_classes : bool
        Whether the predictions are class probabilities.
    cases : dict of dict
        Number of the unit → number of the step, from 1 → ``(n_moved, n_rows)``.

    Examples
    --------
    >>> effects = StepEffects(0.05, True, {3: {1: (12, 40), 2: (1, 4)}})
    >>> effects.usual(3, 1).n_rows, effects.usual(3, 2).n_rows, effects.usual(7, 1)
    (40, 44, None)
    """

    threshold: float
    of_classes: bool
    cases: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, values: NDArray[np.float64] | None) -> StepEffects:
        """Count nothing yet; ``values`` are those of a target that is no class."""
        if values is None:
            return cls(POINTS, True)
        # As it is shown.
        return cls(float(f"{SHARE_OF_DEVIATION * float(values.std()):.2g}"), False)

    def count(self, order: NDArray[np.intp], predictions: NDArray[np.float64]) -> None:
        """Count the steps of rows.

        Parameters
        ----------
        order : ndarray of int, shape (n, n_steps, units_per_step)
            The revealed units; -1 where nothing was revealed.
        predictions : ndarray of shape (n, n_steps + 1, n_outputs)
        """
        for step in range(order.shape[1]):
            change = np.abs(predictions[:, step + 1] - predictions[:, step]).sum(axis=1)
            moved = change / (2 if self.of_classes else 1) > self.threshold
            for unit in np.unique(order[:, step][order[:, step] >= 0]).tolist():
                own = (order[:, step] == unit).any(axis=1)
                self.add(unit, step + 1, int(moved[own].sum()), int(own.sum()))

    def add(self, unit: int, step: int, n_moved: int, n_rows: int) -> None:
        """Count further rows."""
        moved, rows = self.cases.setdefault(unit, {}).get(step, (0, 0))
        self.cases[unit][step] = moved + n_moved, rows + n_rows

    def usual(self, unit: int, step: int) -> UsualEffect | None:
        """Return what is usual of the unit at this step or, of too few rows, at any step.

        None if too few rows took the unit at all.
        """
        own = self.cases.get(unit, {})
        n_moved, n_rows = own.get(step, (0, 0))
        if n_rows < MIN_CASES:
            n_moved, n_rows = (sum(counts) for counts in zip((0, 0), *own.values(), strict=True))
        if n_rows < MIN_CASES:
            return None
        return UsualEffect(n_moved, n_rows, self.threshold, self.of_classes)

    def table(self) -> dict[int, dict[int, list[int]]]:
        """Return the counts of `usual` by unit and step; step 0 stands for all others."""
        found: dict[int, dict[int, list[int]]] = {}
        for unit, own in self.cases.items():
            for step in (0, *own):
                effect = self.usual(unit, step)
                if effect is not None:
                    found.setdefault(unit, {})[step] = [effect.n_moved, effect.n_rows]
        return found

    @property
    def movement(self) -> str:
        """What counts as a movement in words."""
        return UsualEffect(0, 1, self.threshold, self.of_classes).movement

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, for model files."""
        cases = [
            [unit, step, *counts]
            for unit, own in sorted(self.cases.items())
            for step, counts in sorted(own.items())
        ]
        return {"threshold": self.threshold, "of_classes": self.of_classes, "cases": cases}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> StepEffects:
        """Restore the output of `to_dict`."""
        found = cls(float(state["threshold"]), bool(state["of_classes"]))
        if not 0 < found.threshold < float("inf"):
            raise ValueError("The threshold of its effects must be positive.")
        for unit, step, n_moved, n_rows in state["cases"]:
            counts = (unit, step, n_moved, n_rows)
            if not all(type(count) is int and 0 <= count < 2**53 for count in counts):
                raise ValueError("The counts of its effects must be integers.")
            if not (step > 0 and n_moved <= n_rows > 0):
                raise ValueError("The counts of its effects are inconsistent.")
            found.add(*counts)
        return found


@dataclass(frozen=True)
class UnitUsage:
    """How the narratives use one unit.

    Attributes
    ----------
    unit : str
    share_of_rows : float
        Share of the rows that reveal the unit.
    mean_position : float
        Mean number of the step that reveals it, counted from 1, over these rows.
    mean_effect : float
        Mean change of the prediction by that step, over these rows; see `prediction_change`.
    """

    unit: str
    share_of_rows: float
    mean_position: float
    mean_effect: float


def measure_usage(narratives: Iterable[Any]) -> list[UnitUsage]:
    """Measure the usage of every unit that some `Narrative` reveals, the most used first.

    The effect of a step that reveals several units is divided equally among them.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    n_rows = 0
    for narrative in narratives:
        n_rows += 1
        for position, step in enumerate(narrative.steps, start=1):
            effect = prediction_change(step.prediction_before, step.prediction)
            for unit in step.units:
                found.setdefault(unit, []).append((position, effect / len(step.units)))
    usage = [
        UnitUsage(
            unit,
            len(uses) / n_rows,
            sum(position for position, _ in uses) / len(uses),
            sum(effect for _, effect in uses) / len(uses),
        )
        for unit, uses in found.items()
    ]
    return sorted(usage, key=lambda u: (-u.share_of_rows, u.mean_position, u.unit))


def usage_frame(narratives: Iterable[Any]) -> Any:
    """Return `measure_usage` as a pandas frame, one row per unit.

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.25, 0.75))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> usage_frame([narrative]).to_dict("records")
    [{'unit': 'age', 'share_of_rows': 1.0, 'mean_position': 1.0, 'mean_effect': 0.25}]
    """
    pandas = require("pandas", "tables", "Explanation.usage")
    names = [field.name for field in fields(UnitUsage)]
    return pandas.DataFrame([asdict(u) for u in measure_usage(narratives)], columns=names)
