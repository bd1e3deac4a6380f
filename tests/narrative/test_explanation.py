import json
from dataclasses import replace

import numpy as np
import pytest

from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.narrative.given import Given


def regression(row=0, value=2.0):
    step = Step({"size": {"height": 3, "width": None}}, 1.0, (1.0,), (value,))
    return Narrative(row, (1.0,), 0.25, (step,), "budget", None, 4)


def test_text_of_a_regression_with_a_group_and_a_missing_value():
    assert regression().text().splitlines() == [
        "Row 0. Before anything is revealed: 1.",
        "1. size: height is 3, width is missing. Speaks for a higher value: 2.",
        "Stopped after the maximum number of steps.",
        "Predicted 2 from 1 of 4 features.",
    ]


def test_a_narrative_without_steps():
    narrative = Narrative(7, (0.999, 0.001), 0.9, (), "decision", ("a", "b"), 3)
    assert narrative.label == "a"
    text = narrative.text()
    assert "Before anything is revealed: a over 99 %." in text
    assert "stop probability 90 %" in text
    assert "Predicted a from 0 of 3 features." in text


def test_text_shows_at_most_three_classes():
    narrative = Narrative(0, (0.1, 0.4, 0.3, 0.2), 0.9, (), "decision", (10, 20, 30, 40), 3)
    assert "20 (40 %), 30 (30 %), 40 (20 %), …" in narrative.text()
    assert narrative.label == 20


def test_units_columns_and_values_of_a_step():
    step = Step({"a": {"a": 1}, "g": {"b": 2, "c": 3}}, 0.5, (0.0,), (1.0,))
    assert step.unit == "a + g"
    assert step.units == ("a", "g")
    assert step.columns == ("a", "b", "c")
    assert step.values == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("row", [3, "patient"])
def test_round_trips(row):
    narratives = [regression(row), regression("other", -1.25)]
    explanation = Explanation(narratives)
    assert Explanation.from_json(explanation.to_json()) == explanation
    assert Explanation.from_frame(explanation.to_frame()) == explanation
    assert explanation[1:] == Explanation(narratives[1:])
    assert len(explanation) == 2


def test_frame_has_a_line_per_revealed_column():
    frame = Explanation([regression()]).to_frame()
    assert frame["step"].tolist() == [0, 1, 1]
    assert frame["column"].tolist()[1:] == ["height", "width"]
    assert frame["unit"].tolist()[1:] == ["size", "size"]
    assert frame["prediction"].tolist() == [1.0, 2.0, 2.0]


def test_round_trips_of_a_fitted_model(classifier, cancer):
    X = cancer[0].iloc[:40, :10]
    explanation = classifier.explain(X)
    assert Explanation.from_json(explanation.to_json()) == explanation
    assert Explanation.from_frame(explanation.to_frame()) == explanation
    np.testing.assert_allclose(
        [n.prediction for n in explanation], classifier.predict_proba(X), atol=1e-6
    )


def test_a_page_contains_hidden_values_only_on_request(classifier, cancer, tmp_path):
    X = cancer[0].iloc[:3, :10].copy()
    # Distinct from every other number on the page.
    X.iloc[:, :] = np.arange(30).reshape(3, 10) + 123456.0
    explanation = classifier.explain(X)
    revealed = [set(step.columns) for n in explanation for step in n.steps]
    hidden = set(X.columns) - set().union(*revealed)
    assert hidden
    cells = [f"{X[name].iloc[i]:.0f}" for name in hidden for i in range(3)]
    explanation.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not any(cell in page for cell in cells)
    explanation.to_html(tmp_path / "page.html", hidden_values=True)
    page = (tmp_path / "page.html").read_text()
    assert all(cell in page for cell in cells)


def test_an_empty_explanation_has_an_empty_frame():
    empty = Explanation([])
    assert len(empty.to_frame()) == 0
    assert Explanation.from_frame(empty.to_frame()) == empty


def test_rows_of_equal_labels_stay_apart_in_a_frame():
    first = replace(regression(), row="A")
    second = replace(regression("A", value=7.0), given=Given({"x": 1.5}))
    explanation = Explanation([first, second, replace(first, row="B"), second])
    frame = explanation.to_frame()
    assert Explanation.from_frame(frame) == explanation
    assert Explanation.from_frame(frame[frame["row"] == "B"]) == explanation[2:3]
    with pytest.raises(ValueError, match="equal labels"):
        Explanation.from_frame(frame.sort_values("step"))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"narratives": 1}', '{"narratives": [{}]}', '{"narratives": [null]}',
     '{"narratives": [], "description": []}'],
)  # fmt: skip
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="not the JSON of an explanation"):
        Explanation.from_json(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ended", "later"), ("ended", []), ("start", None), ("start", ["much"]), ("start", [10**400]),
     ("steps", [{}]), ("steps", [1]), ("n_units", "many"), ("given", {})],
)  # fmt: skip
def test_json_with_other_fields_is_refused(name, value):
    narrative = Narrative(0, (0.4, 0.6), 0.9, (), "decision", ("ill", "well"), 5)
    state = json.loads(Explanation([narrative]).to_json())
    state["narratives"][0][name] = value
    with pytest.raises(ValueError, match="not the JSON of an explanation"):
        Explanation.from_json(json.dumps(state))
