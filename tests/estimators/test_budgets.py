"""Models that are fitted for a range of budgets, with ``max_cost``."""

import json

import numpy as np
import pandas as pd
import pytest

from helpers.receipts import sign
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import Acquisition, Costs, Patches, SUWRClassifier, SUWRRegressor, verify
from suwr.deploy.forms import ModelPolicy
from suwr.deploy.service import Answers, Service
from suwr.estimators.files import from_bytes, to_bytes
from suwr.exceptions import SessionError, UnsupportedModelError

pytestmark = pytest.mark.filterwarnings(
    "ignore::suwr.exceptions.UninformativeModelWarning",
    "ignore::suwr.exceptions.UnusualValueWarning",
)


def pair_or_single(n, seed):
    """y is x1 xor x2, and equals x0 in 85 % of the rows: the best first unit depends on the budget.

    With one unit, x0 is best; with two, x1 and x2, of which neither alone says anything.
    """
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 2, (n, 4)).astype(float)
    y = (X[:, 1] != X[:, 2]).astype(int)
    X[:, 0] = np.where(rng.rand(n) < 0.85, y, 1 - y)
    return pd.DataFrame(X, columns=["single", "first", "second", "noise"]), y


@pytest.fixture(scope="module")
def pair():
    X, y = pair_or_single(600, 0)
    model = SUWRClassifier(
        max_cost=(1, 2),
        training={"hidden_size": 32, "n_predictors": 2},
        max_epochs=60,
        random_state=0,
    )
    return model.fit(X, y)


@pytest.fixture(scope="module")
def mixed():
    """A briefly trained model of raw cells."""
    X, y = mixed_table()
    return SUWRClassifier(
        max_cost=(1, 4), training={"hidden_size": 16}, max_epochs=4, random_state=0
    ).fit(X, y)


@pytest.mark.slow
def test_the_first_unit_depends_on_the_budget(pair):
    X, y = pair_or_single(200, 1)
    np.testing.assert_array_equal(pair.select(X, max_cost=1), [[True, False, False, False]] * 200)
    np.testing.assert_array_equal(pair.select(X, max_cost=2), [[False, True, True, False]] * 200)
    assert (pair.predict(X, max_cost=2) == y).all()
    # Budgets of single rows, and none, which is the largest of training.
    budget = np.where(np.arange(200) % 2, 1.0, 2.0)
    mask = pair.select(X, max_cost=budget)
    np.testing.assert_array_equal(mask[:, 0], budget == 1)
    np.testing.assert_array_equal(pair.select(X), pair.select(X, max_cost=2))
    assert not pair.select(X, max_cost=0.5).any()
    for name in ("max_cost", "exactly"):
        with pytest.raises(ValueError, match=f"'{name}' .* at most 2, the largest budget"):
            pair.select(X, **{name: 2.5})


@pytest.mark.slow
def test_a_model_that_is_not_trained_for_budgets_wastes_a_small_one():
    X, y = pair_or_single(600, 0)
    model = SUWRClassifier(
        training={"hidden_size": 32, "n_predictors": 2}, max_epochs=60, random_state=0
    )
    mask = model.fit(X, y).select(X, max_cost=1)
    assert not mask[:, 0].any()


@pytest.mark.parametrize("seed", [0, 1])
def test_raw_cells_that_were_not_revealed_change_nothing(mixed, seed):
    X = mixed_table(seed=1)[0]
    budget = np.random.RandomState(seed).randint(0, 4, len(X))
    mask = mixed.select(X, max_cost=budget)
    assert (mixed.cost(X, max_cost=budget) <= budget).all()
    bad = type(X)(poisoned_cells(X, mask, OBJECTS, seed), dtype=object)
    np.testing.assert_array_equal(mixed.select(bad, max_cost=budget), mask)
    np.testing.assert_array_equal(
        mixed.predict_proba(bad, max_cost=budget), mixed.predict_proba(X, max_cost=budget)
    )
    assert mixed.explain(bad, max_cost=budget) == mixed.explain(X, max_cost=budget)


@pytest.mark.parametrize("budget", [None, 1, 3])
def test_sessions_and_receipts_agree_with_tables(mixed, budget):
    X = mixed_table(seed=2)[0][:4]
    explanation = mixed.explain(X, max_cost=budget)
    for number, narrative in enumerate(explanation):
        session = mixed.acquire(max_cost=budget)
        assert session.given.max_cost == (4 if budget is None else budget)
        while session.next_columns:
            session = Acquisition.from_json(session.to_json(), mixed)
            session.observe({name: X[name].iloc[number] for name in session.next_columns})
        assert [s.columns for s in session.narrative().steps] == [
            s.columns for s in narrative.steps
        ]
        assert verify(narrative.receipt(), mixed)
        assert verify(session.narrative().receipt(), mixed)


@pytest.mark.parametrize("budget", [None, 2])
def test_condition_and_budget_of_a_receipt_are_those_of_the_model(mixed, budget):
    X = mixed_table(seed=2)[0][:1]
    narrative = mixed.explain(X, max_cost=budget)[0]
    state = json.loads(narrative.receipt().to_json())
    assert verify(sign(state), mixed)
    for condition in (0.999, -1.0, 0, None):
        assert "position of λ" in str(verify(sign(state | {"condition": condition}), mixed))
    changes = [{"max_cost": 4.5}, {"max_cost": 1e9}, {"max_cost": None, "unavailable": ["size"]}]
    for given in (*(state["given"] | change for change in changes), None):
        assert "its budget is not" in str(verify(sign(state | {"given": given}), mixed))
    session = json.loads(mixed.acquire(max_cost=budget).to_json())
    with pytest.raises(SessionError, match="'condition' is not that of the model"):
        Acquisition.from_json(json.dumps(session | {"condition": 0.0}), mixed)


def test_saved_model_decides_alike(mixed):
    X = mixed_table(seed=2)[0]
    again = from_bytes(to_bytes(mixed))
    assert list(again.max_cost) == [1, 4]
    for budget in (1, 2, 4):
        np.testing.assert_array_equal(
            again.predict_proba(X, max_cost=budget), mixed.predict_proba(X, max_cost=budget)
        )


def test_costs_and_known_columns():
    X, y = pair_or_single(120, 0)
    model = SUWRRegressor(
        max_cost=(2, 7), costs={"single": 3, "first": 2, "second": 2, "noise": 5},
        known_at_start=["noise"], training={"hidden_size": 16}, max_epochs=3, random_state=0,
    )  # fmt: skip
    model.fit(X, y.astype(float))
    for budget in (2, 3, 4, 7):
        assert (model.cost(X, max_cost=budget) <= budget).all()
        assert model.select(X, max_cost=budget)[:, 3].all()
    spent = model.cost(X, exactly=5)
    assert set(spent) <= {4.0, 5.0}


def test_many_units_are_trained_by_the_actor():
    X = np.random.RandomState(0).rand(60, 36)
    model = SUWRClassifier(
        groups=Patches((6, 6), 1),
        max_cost=(1, 3),
        training={"hidden_size": 8},
        max_epochs=1,
        random_state=0,
    )
    model.fit(X, X[:, 0] > 0.5)
    assert model.choices_["trainer"] == "actor, for 36 units and budgets"
    assert (model.cost(X, exactly=2) == 2).all()


def test_the_questionnaire_has_the_largest_budget(mixed):
    """A request without fields of its own, as in FHIR, is limited as well."""
    X = mixed_table(seed=2)[0][:5].astype(object)
    rows = [{name: row[name] for name in X} for _, row in X.iterrows()]
    sessions = [Answers({k: v for k, v in row.items() if v == v}, drop=True) for row in rows]
    replays = Service(mixed).replay(sessions)
    assert len(replays) == 5
    for replay in replays:
        assert replay.narrative.given.max_cost == 4
        assert len(replay.narrative.steps) <= 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_cost": 3}, r"None, or a range \(low, high\) of budgets"),
        ({"max_cost": (3, 3)}, "with 0 < low < high"),
        ({"max_cost": (0, 3)}, "with 0 < low < high"),
        ({"max_cost": (1, np.nan)}, "with 0 < low < high"),
        ({"max_cost": ("1", "3")}, "with 0 < low < high"),
        ({"max_cost": (1, 3), "sparsity_weight": (0.1, 0.2)}, "'sparsity_weight' is a range"),
        ({"max_cost": (1, 3), "costs": Costs(of=2)}, "None if steps reveal several units"),
        ({"max_cost": (1, 3), "trainer": "lookahead"}, "None if trainer='lookahead'"),
    ],
)
def test_invalid_parameters(parameters, message):
    X, y = pair_or_single(30, 0)
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(**parameters).fit(X, y)


def test_what_does_not_support_budgets_says_so(mixed, tmp_path):
    X, _ = mixed_table(20)
    with pytest.raises(UnsupportedModelError, match="cannot be certified"):
        mixed.certify(X)
    with pytest.raises(UnsupportedModelError, match="'max_cost' can be used in Python only"):
        mixed.to_onnx(tmp_path / "model.onnx")
    with pytest.raises(UnsupportedModelError, match="'max_cost' can be used in Python only"):
        ModelPolicy(mixed)
    with pytest.raises(UnsupportedModelError, match="probability of masks"):
        mixed.mask_probability(X, np.ones((1, 6), bool), policy="sampled")
    with pytest.raises(UnsupportedModelError, match="or a budget"):
        mixed.explain(X).to_html(tmp_path / "page.html", model=True)
    mixed.explain(X).to_html(tmp_path / "page.html")
