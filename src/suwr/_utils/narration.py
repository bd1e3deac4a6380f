"""Sentences of narratives; format.js of the HTML page has the same wording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from suwr._utils.text import format_label, format_number, percent_of

__all__ = ["ENDINGS", "format_prediction", "step_lines"]

# Sentences for the values of `Narrative.ended`; the HTML page uses them too.
ENDINGS = {
    "decision": "Stopped by the stopping policy (stop probability {stop}).",
    "budget": "Stopped after the maximum number of steps.",
    "abstained": "Abstained: not certain enough after the maximum number of steps.",
    "everything": "Stopped because all features are revealed.",
    "cost": "Stopped because no further feature fits the budget.",
    "unavailable": "Stopped because no further feature is available.",
    "open": "Not stopped yet (stop probability {stop}).",
}
# Classes that are named in a prediction.
MAX_CLASSES = 3


def format_prediction(prediction: Sequence[float], classes: Sequence[Any] | None) -> str:
    """Format class probabilities, the most probable first, or a value.

    Examples
    --------
    >>> format_prediction((0.1, 0.9), (0.0, 1.0)), format_prediction((412_345.6,), None)
    ('1 (90 %), 0 (10 %)', '412,300')
    """
    if classes is None:
        return format_number(prediction[0], 4)
    ranked = sorted(zip(prediction, classes, strict=True), key=lambda pair: -pair[0])
    shown = ", ".join(percent_of(format_label(label), p) for p, label in ranked[:MAX_CLASSES])
    return shown if len(ranked) <= MAX_CLASSES else f"{shown}, …"


def step_lines(
    steps: Sequence[Any], classes: Sequence[Any] | None, revealed_text: Callable[[Any], str]
) -> Iterator[str]:
    """Yield one line per step; consecutive steps that change no displayed number share one.

    Parameters
    ----------
    steps : sequence of Step
    classes : sequence or None
        The class labels; None for regression.
    revealed_text : callable
        Formats `Step.revealed`.

    Examples
    --------
    >>> from suwr.explanation import Step
    >>> steps = [Step({c: {c: 1}}, 0.5, (2.0,), (p,)) for c, p in zip("abc", (2.0, 2.0, 3.0))]
    >>> print(*step_lines(steps, None, lambda revealed: f"{min(revealed)} is 1"), sep="\\n")
    1–2. a is 1; b is 1. These 2 steps change nothing: prediction 2.
    3. c is 1. Prediction: 2 → 3.
    """
    unchanged: list[str] = []
    for number, step in enumerate(steps, start=1):
        before = format_prediction(step.prediction_before, classes)
        after = format_prediction(step.prediction, classes)
        if before == after:
            unchanged.append(revealed_text(step.revealed))
            if number == len(steps):
                yield _unchanged_line(number, unchanged, after)
            continue
        if unchanged:
            yield _unchanged_line(number - 1, unchanged, before)
            unchanged = []
        yield f"{number}. {revealed_text(step.revealed)}. Prediction: {before} → {after}."


def _unchanged_line(last: int, revealed: list[str], prediction: str) -> str:
    n = len(revealed)
    if n == 1:
        return f"{last}. {revealed[0]}. This step changes nothing: prediction {prediction}."
    facts = "; ".join(revealed)
    return (
        f"{last - n + 1}–{last}. {facts}. These {n} steps change nothing: prediction {prediction}."
    )
