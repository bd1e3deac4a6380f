import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr import SUWRClassifier


@pytest.fixture(scope="module")
def model():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"age": rng.randn(200), "colour": rng.choice(["red", "blue"], 200)})
    y = np.where((X["colour"] == "red") ^ (X["age"] > 1), "yes", "no")
    return SUWRClassifier(max_epochs=15, hidden_size=32, random_state=0).fit(X, y)


def test_units_are_requested_until_the_policy_stops(model):
    session = model.acquire()
    assert session.next_unit == session.next_columns[0]
    assert session.prediction.shape == (2,)
    assert session.stop_probability < 0.5
    while not session.done:
        session.observe(dict.fromkeys(session.next_columns, None))
    assert session.next_columns == ()
    with pytest.raises(ValueError, match="has stopped"):
        session.observe({"age": 1})


def test_undo_restores_the_previous_state(model):
    session = model.acquire()
    with pytest.raises(ValueError, match="no observation to undo"):
        session.undo()
    unit, before = session.next_unit, session.prediction
    session.observe({unit: "red" if unit == "colour" else 2.0})
    assert session.known
    session.undo()
    assert session.next_unit == unit
    np.testing.assert_array_equal(session.prediction, before)
    assert session.known == {}


def test_observed_values_are_validated(model):
    session = model.acquire()
    unit = session.next_unit
    with pytest.raises(ValueError, match="must have exactly the columns"):
        session.observe({})
    with pytest.raises(ValueError, match="must have exactly the columns"):
        session.observe({unit: 1, "size": 2})
    while session.next_unit != "age":
        session.observe({session.next_unit: "blue"})
        if session.done:
            pytest.fail("the model never requested the age")
    for bad in ("old", np.inf, [1]):
        with pytest.raises(ValueError, match="'age' must be a finite number"):
            session.observe({"age": bad})
    assert "age" not in session.known


def test_a_further_unit_can_be_requested_after_the_stop(model):
    session = model.acquire()
    with pytest.raises(ValueError, match="has not stopped"):
        session.go_on()
    assert session.narrative().ended == "open"
    while not session.done:
        session.observe(
            {name: "blue" if name == "colour" else 0.0 for name in session.next_columns}
        )
    stopped = session.narrative()
    if len(session.known) < 2:
        session.go_on()
        (left,) = session.next_columns
        assert left not in session.known
        session.observe({left: "blue" if left == "colour" else 0.0})
        assert session.narrative().steps[:-1] == stopped.steps
    assert session.done
    with pytest.raises(ValueError, match="No unit is left to request"):
        session.go_on()
    session.undo()
    assert len(session.known) == 1


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_the_decisions_are_those_of_explain(classifier, regressor, cancer, diabetes, data):
    models = [(classifier, cancer[0].iloc[:, :10]), (regressor, diabetes[0])]
    fitted, X = data.draw(st.sampled_from(models))
    row = data.draw(st.integers(0, len(X) - 1))
    expected = fitted.explain(X.iloc[[row]])[0]
    session = fitted.acquire()
    while not session.done:
        session.observe({c: X.iloc[row][c] for c in session.next_columns})
    found = session.narrative(row)
    assert [s.units for s in found.steps] == [s.units for s in expected.steps]
    assert [s.stop_probability for s in found.steps] == [s.stop_probability for s in expected.steps]
    assert found.prediction == expected.prediction
    assert found.ended == expected.ended
