"""Principal reasons: the steps of a narrative that moved its prediction toward the answer."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import Any

from suwr._utils.text import percent, printable
from suwr._utils.validation import check_integer, parameter_error
from suwr.data.descriptions import NO_DESCRIPTION
from suwr.narrative.explanation import Narrative

_CLASS_TEMPLATE = "{facts} (probability of {answer}: {before} → {after})"
_VALUE_TEMPLATE = "{facts} (prediction: {before} → {after})"
_FIELDS = ("features", "facts", "answer", "effect", "before", "after", "number")


@dataclass(frozen=True)
class Reason:
    """One principal reason.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    units : tuple of str
        The units that the step revealed.
    values : dict
        Their values by column.
    effect : float
        Change of the probability of the answer, or of the predicted value, by this step.
    text : str
        The reason in words.

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> from suwr.narrative.reasons import principal_reasons
    >>> debt = Step({"debt": {"debt": 0.6}}, 0.2, (0.7, 0.3), (0.3, 0.7))
    >>> age = Step({"age": {"age": 50}}, 0.3, (0.3, 0.7), (0.4, 0.6))
    >>> late = Step({"late": {"late": 3}}, 0.9, (0.4, 0.6), (0.1, 0.9))
    >>> steps = (debt, age, late)
    >>> narrative = Narrative(0, (0.7, 0.3), 0.1, steps, "decision", ("paid", "default"), 9)
    >>> for reason in principal_reasons(narrative):
    ...     print(reason.text)
    debt is 0.6 (probability of default: 30 % → 70 %)
    late is 3 (probability of default: 60 % → 90 %)
    """

    step: int
    units: tuple[str, ...]
    values: dict[str, Any]
    effect: float
    text: str


def principal_reasons(
    narrative: Narrative, n: int = 4, template: str | None = None, *, against: bool = False
) -> tuple[Reason, ...]:
    """Return the steps that moved the prediction most toward the answer, largest effect first.

    Parameters
    ----------
    narrative : Narrative
    n : int, default=4
        Largest number of reasons.
    template : str, optional
        Format of `Reason.text`; see `suwr.Receipt.reasons`.
    against : bool, default=False
        Whether to return the steps that moved the prediction away from the answer instead.

    Returns
    -------
    tuple of Reason
        Fewer than ``n`` if fewer steps moved the prediction in this direction. Steps of equal
        effect are in the order in which they were revealed.
    """
    check_integer(n, "n", "reasons", 1)
    classes = narrative.classes
    default = _VALUE_TEMPLATE if classes is None else _CLASS_TEMPLATE
    template = default if template is None else _check_template(template)
    place = 0 if classes is None else classes.index(narrative.label)
    toward = 1.0
    if classes is None and narrative.prediction[0] < narrative.start[0]:
        toward = -1.0
    toward = -toward if against else toward
    steps = [
        (step.prediction[place] - step.prediction_before[place], number, step)
        for number, step in enumerate(narrative.steps, start=1)
    ]
    ranked = sorted(
        (entry for entry in steps if toward * entry[0] > 0),
        key=lambda entry: (-toward * entry[0], entry[1]),
    )
    reasons = []
    for rank, (effect, number, step) in enumerate(ranked[:n], start=1):
        pair = (step.prediction_before[place], step.prediction[place])
        before, after = (f"{p:.4g}" if classes is None else percent(p) for p in pair)
        text = template.format(
            features=", ".join(printable(unit) for unit in step.units),
            facts=NO_DESCRIPTION.revealed_text(step.revealed),
            answer=f"{narrative.label:.4g}" if classes is None else printable(narrative.label),
            effect=f"{effect:+.4g}" if classes is None else f"{100 * effect:+.0f} points",
            before=before,
            after=after,
            number=rank,
        )
        reasons.append(Reason(number, step.units, step.values, effect, text))
    return tuple(reasons)


def _check_template(template: Any) -> str:
    """Accept the fields by name, and nothing that reads their attributes."""
    expected = f"a text with the fields {', '.join('{' + name + '}' for name in _FIELDS)}"
    try:
        fields = [(name, spec) for _, name, spec, _ in Formatter().parse(template)]
    except (TypeError, ValueError):
        raise parameter_error("template", "reasons", expected, template) from None
    if any(name is not None and (name not in _FIELDS or spec) for name, spec in fields):
        raise parameter_error("template", "reasons", expected, template)
    return str(template)
