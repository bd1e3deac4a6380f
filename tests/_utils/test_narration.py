"""Wording of predictions and of steps that change nothing."""

from itertools import pairwise

from suwr.narrative.effects import UsualEffect
from suwr.narrative.explanation import Narrative, Step, format_prediction


def narrative(*predictions, classes=None, usual=None):
    steps = tuple(
        Step({f"x{i}": {f"x{i}": i}}, 0.5, before, after, usual)
        for i, (before, after) in enumerate(pairwise(predictions))
    )
    return Narrative(0, predictions[0], 0.1, steps, "decision", classes, 9)


def lines(*predictions, usual=None):
    shown = narrative(*((p,) for p in predictions), usual=usual).text().splitlines()
    return shown[1:-2]


def test_runs_of_steps_without_change_share_a_line():
    assert lines(1.0, 2.0, 2.00001, 2.0, 3.0, 3.0) == [
        "1. x0 is 0. Speaks for a higher value: 2.",
        "2–3. x1 is 1; x2 is 2. These 2 steps change nothing.",
        "4. x3 is 3. Speaks for a higher value: 3.",
        "5. x4 is 4. This step changes nothing.",
    ]
    assert lines(1.0, 1.0, 2.0)[0] == "1. x0 is 0. This step changes nothing."
    assert lines(1.0) == []


def test_steps_speak_for_or_against_the_result():
    assert lines(2.0, 3.0, 1.0) == [
        "1. x0 is 0. Speaks against a lower value: 3.",
        "2. x1 is 1. Speaks for a lower value: 1.",
    ]
    assert lines(2.0, 3.0, 2.0)[0] == "1. x0 is 0. Prediction: 3."
    classes = ("a", "b", "c")
    states = (0.4, 0.4, 0.2), (0.3, 0.6, 0.1), (0.3, 0.4, 0.3), (0.7, 0.2, 0.1)
    of_classes = narrative(*states, classes=classes)
    assert of_classes.directions == (-1, 0, 1)
    assert of_classes.says(1) == "speaks against a"
    assert of_classes.says(2) == ""


def test_steps_that_change_nothing_say_how_often_they_do():
    usual = UsualEffect(3, 20, 0.1, of_classes=False)
    said = "it moves the prediction by over 0.1 in 15 % of 20 such cases."
    assert lines(1.0, 1.0, usual=usual) == [f"1. x0 is 0. This step changes nothing; {said}"]
    said = "they move the prediction by over 0.1 in 15 % of 40 such cases."
    assert lines(1.0, 1.0, 1.0, usual=usual)[0].endswith(f"2 steps change nothing; {said}")


def test_displayed_numbers_decide():
    # A fourth class changes, but only three are displayed.
    states = (0.5, 0.3, 0.15, 0.05, 0.0), (0.5, 0.3, 0.15, 0.0, 0.05)
    shown = narrative(*states, classes=("a", "b", "c", "d", "e"))
    assert shown.text().splitlines()[:2] == [
        "Row 0. Before anything is revealed: a 50 %, b 30 %, c 15 %, ….",
        "1. x0 is 0. This step changes nothing.",
    ]


def test_predictions():
    assert format_prediction((0.25, 0.75), (0.0, 1.0)) == "1 (75 %), 0 (25 %)"
    assert format_prediction((-1234567.0,), None) == "-1,235,000"
