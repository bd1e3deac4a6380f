import json
from copy import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr import Acquisition, Explanation, SUWRClassifier, verify
from suwr.estimators.files import from_bytes, to_bytes
from suwr.exceptions import SessionError
from suwr.narrative.effects import StepEffects

pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.StartWarning")


@pytest.fixture(scope="module")
def model():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"age": rng.randn(200), "colour": rng.choice(["red", "blue"], 200)})
    y = np.where((X["colour"] == "red") ^ (X["age"] > 1), "yes", "no")
    training = {"hidden_size": 32}
    return SUWRClassifier(max_epochs=15, training=training, random_state=0).fit(X, y)


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


def test_sessions_say_why_a_unit_is_requested_and_what_else_would_do(model):
    model = copy(model)
    counts = {unit: {step: (3 * unit + step, 20) for step in (1, 2)} for unit in (0, 1)}
    model.step_effects_ = StepEffects(0.05, True, counts)
    row = pd.DataFrame({"age": [0.2], "colour": ["red"]})
    explanation, session = model.explain(row), model.acquire()
    for step in explanation[0].steps:
        assert session.next_usual == step.usual
        assert session.next_alternatives == step.alternatives
        session.observe({name: step.values[name] for name in session.next_columns})
    first = explanation[0].steps[0]
    assert first.usual.n_moved == 3 * ["age", "colour"].index(first.unit) + 1
    assert session.next_usual is None
    assert session.next_alternatives == {}
    assert Explanation.from_json(explanation.to_json()).text() == explanation.text()
    again = from_bytes(to_bytes(model))
    assert again.step_effects_ == model.step_effects_
    # As in a file of an earlier version.
    again.step_effects_ = None
    assert {step.usual for step in again.explain(row)[0].steps} == {None}


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
@settings(max_examples=20)
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


def answer(session, row):
    """Answer from a row of a table until the policy stops."""
    while not session.done:
        session.observe({c: row[c] for c in session.next_columns})
    return session


@given(data=st.data())
@settings(max_examples=25)
def test_sessions_with_limits_decide_as_explain(classifier, cancer, data):
    X = cancer[0].iloc[:, :10]
    row = X.iloc[[data.draw(st.integers(0, 200))]]
    names = list(X.columns)
    known = data.draw(st.sets(st.sampled_from(names), max_size=3))
    closed = data.draw(st.sets(st.sampled_from(names), max_size=4)) - known
    limit = data.draw(st.sampled_from(["max_cost", "exactly"]))
    amount = data.draw(st.integers(0, 4))
    expected = classifier.explain(
        row, known=np.isin(names, list(known)), available=~np.isin(names, list(closed)),
        **{limit: amount},
    )[0]  # fmt: skip
    session = classifier.acquire(known={c: row.iloc[0][c] for c in known}, **{limit: amount})
    # Units may turn out to be unavailable at any time.
    for unit in sorted(closed):
        if not session.done and data.draw(st.booleans()):
            if session.next_unit in closed:
                break
            session.observe({c: row.iloc[0][c] for c in session.next_columns})
        session.unavailable(unit)
    for unit in sorted(closed):
        session.unavailable(unit)
    assert answer(session, row.iloc[0]).next_unit is None
    found = session.narrative(expected.row)
    assert found.steps == expected.steps
    assert found.ended == expected.ended
    assert (found.start, found.certificate) == (expected.start, expected.certificate)
    assert set(found.given.unavailable) == closed
    assert session.cost == len(found.steps)
    assert verify(found.receipt(), classifier)


def test_known_values_are_part_of_the_state(model):
    session = model.acquire(known={"colour": "red"})
    assert session.known == {"colour": "red"}
    assert session.next_unit in ("age", None)
    mask = np.array([[False, True]])
    X = pd.DataFrame({"age": [0.0], "colour": ["red"]})
    np.testing.assert_allclose(session.prediction, model.predict_masked(X, mask)[0], atol=1e-7)
    assert session.cost == 0
    with pytest.raises(ValueError, match="no observation to undo"):
        session.undo()


def test_units_that_cannot_be_had(model):
    session = model.acquire()
    first = session.next_unit
    assert session.unavailable(first).next_unit != first
    session.unavailable(first)
    assert session.given.unavailable == (first,)
    with pytest.raises(ValueError, match="model has no unit 'size'"):
        session.unavailable("size")
    with pytest.raises(ValueError, match=r"model has no unit \['age'\]"):
        session.unavailable(["age"])
    known = model.acquire(known={"age": 1, "colour": "red"})
    with pytest.raises(ValueError, match="'age' is revealed already"):
        known.unavailable("age")
    with pytest.raises(ValueError, match="'age' is known: it cannot be unavailable"):
        model.acquire(known={"age": 1}, unavailable=["age"])
    nothing = model.acquire(unavailable=["age", "colour"])
    assert (nothing.done, nothing.narrative().ended) == (True, "unavailable")
    with pytest.raises(ValueError, match="No unit is left"):
        nothing.go_on()


def test_a_revised_answer_is_replayed(classifier, cancer):
    X = cancer[0].iloc[:, :10]
    for old, new in [(0, 19), (19, 0), (3, 300)]:
        session = answer(classifier.acquire(), X.iloc[old])
        first = session.narrative().steps[0].columns[0]
        before = session.known
        session.revise({first: X.iloc[new][first]})
        expected = classifier.acquire()
        row = {**before, first: X.iloc[new][first]}
        while not expected.done and expected.next_columns[0] in row:
            expected.observe({c: row[c] for c in expected.next_columns})
        assert session.known == expected.known
        assert session.next_unit == expected.next_unit
        assert session.stop_probability == expected.stop_probability
        # Answers that the new path does not need are used as soon as it does.
        restored = Acquisition.from_json(session.to_json(), classifier)
        assert restored.to_json() == session.to_json()
        session.revise({first: before[first]})
        assert session.known == before


def test_answers_from_before_a_revision_are_reused(model):
    session = model.acquire()
    other = {"age": "colour", "colour": "age"}[session.next_unit]
    session._run.unused = {other: "blue" if other == "colour" else 0.0}
    value = 2.0 if session.next_unit == "age" else "red"
    session.observe({session.next_unit: value})
    if not session.done:
        assert set(session.known) == {"age", "colour"}
    assert session.done or session.next_unit is None


def test_invalid_revisions(model):
    session = model.acquire(known={"age": 1})
    before = session.to_json()
    for values, message in [
        ({"size": 1}, "model has no column 'size'"),
        ({"colour": "red"}, "'colour' has no value yet"),
        ({"age": "old"}, "value of 'age' must be a finite number"),
        ([("age", 1)], "'values' must be a mapping"),
        ({}, "'values' must be a mapping"),
    ]:
        with pytest.raises(ValueError, match=message):
            session.revise(values)
    assert session.to_json() == before
    assert session.revise({"age": 3}).known["age"] == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 1}, "the model has no column 'size'"),
        ({3: 1}, "the model has no column 3"),
        ({"colour": "red", "age": 1}, "has a value already, which revise"),
        ("red", "'values' must have exactly the columns .* Got 'red'"),
        (None, "Got None"),
    ],
)
def test_answers_that_were_not_requested(model, values, message):
    session = model.acquire(known={"age": 1.0}, exactly=1)
    assert session.next_columns == ("colour",)
    before = session.to_json()
    with pytest.raises(ValueError, match=message):
        session.observe(values)
    assert session.to_json() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": ["age"]}, "'known' parameter of acquire must be a mapping"),
        ({"known": {"size": 1}}, "model has no column 'size'"),
        ({"known": {"age": "old"}}, "value of 'age' must be a finite number"),
        ({"unavailable": "age"}, "'unavailable' parameter of acquire must be a list"),
        ({"unavailable": ["size"]}, "model has no unit 'size'"),
        ({"max_cost": -1}, "'max_cost' parameter of acquire"),
        ({"max_cost": [1]}, "'max_cost' parameter of acquire"),
        ({"exactly": 9}, "'exactly' parameter of acquire must be at most 2"),
    ],
)
def test_invalid_starts(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.acquire(**arguments)


def same_session(one, two):
    return (
        one.narrative() == two.narrative()
        and one.known == two.known
        and one.next_unit == two.next_unit
        and one.next_columns == two.next_columns
        and one.to_json() == two.to_json()
    )


def test_sessions_are_restored_at_any_point(classifier, cancer):
    row = cancer[0].iloc[4, :10]
    name = str(row.index[2])
    session = classifier.acquire(known={name: row[name]}, max_cost=3)
    while True:
        assert same_session(session, Acquisition.from_json(session.to_json(), classifier))
        assert same_session(session, Acquisition.from_json(session.to_json().encode(), classifier))
        if session.done:
            break
        session.observe({c: row[c] for c in session.next_columns})
    session = answer(classifier.acquire(), row)
    if len(session.narrative().steps) < classifier.max_steps_:
        session.go_on()
        assert same_session(session, Acquisition.from_json(session.to_json(), classifier))
        session.observe({c: row[c] for c in session.next_columns})
        assert same_session(session, Acquisition.from_json(session.to_json(), classifier))


def test_hostile_sessions_are_refused(model):
    session = model.acquire(known={"age": 1}, exactly=1)
    session.observe({"colour": "red"})
    state = json.loads(session.to_json())
    assert same_session(session, Acquisition.from_json(json.dumps(state), model))
    changes = [
        ({"model": "0" * 64}, "it is of the model 000000000000…, not of"),
        ({"model": 1}, "'model' must be text"),
        ({"format": 2}, "requires a newer suwr"),
        ({"format": True}, "'format' must be 1"),
        ({"condition": 0.5}, "'condition' is not that of the model"),
        ({"condition": 7.0}, "'condition' must be"),
        ({"extra": 1}, "exactly the fields"),
        ({"answers": {}}, "'answers' must list objects"),
        ({"answers": [{"colour": [1]}]}, "value of 'colour' must be numbers, texts"),
        ({"answers": [{"age": 5}]}, "step 1: 'values' must have exactly the columns"),
        ({"answers": [{"size": 5}]}, "model has no column 'size'"),
        ({"answers": [{"colour": "red"}] * 2}, "step 2: The policy has stopped"),
        ({"continued": [9]}, "'continued' must list numbers of steps"),
        ({"continued": [0]}, "step 1: The policy has not stopped"),
        ({"unused": []}, "'unused' must be an object"),
        ({"unused": {"size": 1}}, "model has no column 'size'"),
        ({"given": []}, "'given' must be an object"),
        ({"given": state["given"] | {"known": {"size": 1}}}, "model has no column 'size'"),
        ({"given": state["given"] | {"known": {"age": "x"}}}, "value of 'age' must be"),
        ({"given": state["given"] | {"unavailable": ["size"]}}, "model has no unit 'size'"),
        ({"given": state["given"] | {"max_cost": 1e9}}, "'exactly' parameter"),
        ({"given": state["given"] | {"max_cost": 10**400}}, "'max_cost' must be a number"),
        ({"given": state["given"] | {"costs": {"age": 10**400}}}, "'costs' must be numbers"),
    ]
    for change, message in changes:
        with pytest.raises(SessionError, match=message):
            Acquisition.from_json(json.dumps(state | change), model)
    texts = ["", "null", "[]", "{", "[" * 10**5, "9" * 10**5, '{"format": NaN}', b"\xff", 7]
    texts += ['{"format": 1, "format": 1}', " " * 5_000_000]
    for text in texts:
        with pytest.raises(SessionError):
            Acquisition.from_json(text, model)
