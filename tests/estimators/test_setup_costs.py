"""Set-up costs of fitted models."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

import suwr
from suwr import Costs, SUWRClassifier
from suwr.estimators.verify import Verifier, poison_check

SMALL = {"max_epochs": 5, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
CUBE = np.array(list(product([0.0, 1.0], repeat=4)))
X = np.repeat(CUBE, 10, axis=0)
pytestmark = pytest.mark.filterwarnings(
    "ignore::suwr.exceptions.UninformativeModelWarning", "ignore::suwr.exceptions.StartWarning"
)


@pytest.fixture(scope="module")
def model():
    setups = {"draw": (2.0, ["x0", "x1"])}
    return SUWRClassifier(costs=Costs(setup=setups), sparsity_weight=0.001, **SMALL).fit(X, X[:, 0])


def cost_of(columns):
    """Brute force: one per column, and the draw once."""
    return len(columns) + 2 * bool(columns & {"x0", "x1"})


def test_costs_of_rows(model):
    for limits in ({}, {"max_cost": 3}, {"exactly": 5}, {"known": ["x1"], "exactly": 4}):
        costs, narratives = model.cost(CUBE, **limits), model.explain(CUBE, **limits)
        for cost, narrative in zip(costs, narratives, strict=True):
            acquired = {c for step in narrative.steps for c in step.columns}
            assert cost == cost_of(acquired)
        receipts = [narrative.receipt() for narrative in narratives]
        assert all(Verifier(model).verify(receipts))
    assert model.cost(CUBE, max_cost=3).max() <= 3
    assert model.cost(CUBE, exactly=6).min() == 6
    assert poison_check(model, CUBE, random_state=0).passed


def test_a_further_unit_of_the_same_set_up_is_cheaper(model):
    session = model.acquire(unavailable=["x2", "x3"], exactly=4)
    costs = [session.cost]
    while not session.done:
        session.observe(dict.fromkeys(session.next_columns, 1.0))
        costs.append(session.cost)
    assert costs == [0, 3, 4]
    # A known value is from another visit: the draw is still to be paid.
    session = model.acquire(known={"x0": 1}, unavailable=["x2", "x3"], exactly=3)
    assert session.observe({"x1": 1.0}).cost == 3


def test_an_expensive_set_up_is_avoided(model):
    assert model.select(CUBE)[:, 0].mean() >= 0.5
    settings = {**SMALL, "max_epochs": 10, "sparsity_weight": 0.001}
    expensive = SUWRClassifier(costs=Costs(setup={"draw": (1e4, ["x0", "x1"])}), **settings)
    expensive.fit(X, X[:, 0])
    assert not expensive.select(CUBE)[:, :2].any()


@pytest.mark.parametrize("trainer", ["lookahead", "reinforce"])
def test_every_trainer_pays_for_the_set_up(trainer):
    free = {f"x{i}": 0.0 for i in range(4)}
    fitted = SUWRClassifier(
        costs=Costs(free, setup={"a": (2.0, ["x0"])}), trainer=trainer, **SMALL | {"max_epochs": 1}
    ).fit(X, X[:, 0])
    masks = fitted.select(CUBE)
    np.testing.assert_array_equal(fitted.cost(CUBE), 2.0 * masks[:, 0])
    measured = [record["mean_cost"] for record in fitted.history_ if record["mean_cost"]]
    assert all(cost <= 2 for cost in measured)


def test_files(model, tmp_path):
    assert model.units_.total_cost() == 6
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr")
    np.testing.assert_array_equal(loaded.cost(CUBE), model.cost(CUBE))
    assert loaded.units_.setups.names == ("draw",)
    assert loaded.costs == clone(loaded).costs == model.costs
