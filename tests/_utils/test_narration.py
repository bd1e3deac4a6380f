"""Wording of predictions and of steps that change nothing."""

from itertools import pairwise

from suwr.data.descriptions import NO_DESCRIPTION
from suwr.narrative.explanation import Step, format_prediction, step_lines


def lines(*predictions):
    steps = [
        Step({f"x{i}": {f"x{i}": i}}, 0.5, (before,), (after,))
        for i, (before, after) in enumerate(pairwise(predictions))
    ]
    return list(step_lines(steps, None, NO_DESCRIPTION.revealed_text))


def test_runs_of_steps_without_change_share_a_line():
    assert lines(1.0, 2.0, 2.00001, 2.0, 3.0, 3.0) == [
        "1. x0 is 0. Prediction: 1 → 2.",
        "2–3. x1 is 1; x2 is 2. These 2 steps change nothing: prediction 2.",
        "4. x3 is 3. Prediction: 2 → 3.",
        "5. x4 is 4. This step changes nothing: prediction 3.",
    ]
    assert lines(1.0, 1.0, 2.0)[0] == "1. x0 is 0. This step changes nothing: prediction 1."
    assert lines(1.0) == []


def test_displayed_numbers_decide():
    # A fourth class changes, but only three are displayed.
    classes = ("a", "b", "c", "d", "e")
    step = Step({"x": {"x": 1}}, 0.5, (0.5, 0.3, 0.15, 0.05, 0.0), (0.5, 0.3, 0.15, 0.0, 0.05))
    line = next(step_lines([step], classes, NO_DESCRIPTION.revealed_text))
    assert "changes nothing: prediction a 50 %, b 30 %, c 15 %, …." in line


def test_predictions():
    assert format_prediction((0.25, 0.75), (0.0, 1.0)) == "1 (75 %), 0 (25 %)"
    assert format_prediction((-1234567.0,), None) == "-1,235,000"
