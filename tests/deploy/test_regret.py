"""Regret in the costs and the loss of the model."""

import numpy as np
import pytest

from suwr import Costs, SUWRRegressor
from suwr.deploy import ModelPolicy, make_form, measure_regret
from suwr.deploy.forms import SIZES, choose_form


def test_regret_follows_set_up_costs_and_the_loss_of_the_model():
    rng = np.random.RandomState(0)
    X = rng.randn(150, 3)
    y = X[:, 0] + X[:, 1]
    model = SUWRRegressor(
        costs=Costs(setup={"visit": (5.0, ["x0", "x1"])}),
        loss="absolute_error",
        sparsity_weight=0.0,
        max_epochs=8,
        training={"hidden_size": 16},
        random_state=0,
    ).fit(X, y)
    regret = measure_regret(make_form(ModelPolicy(model)), model, X, y)
    assert regret.policy_cost == pytest.approx(model.cost(X).mean())
    assert regret.policy_cost > 5
    assert regret.policy_loss == pytest.approx(np.abs(model.predict(X) - y).mean(), rel=1e-5)


def test_the_smallest_form_within_two_per_cent_is_chosen():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 4, (300, 3)).astype(float)
    y = X[:, 0] + 2 * X[:, 1]
    model = SUWRRegressor(
        max_epochs=12,
        training={"hidden_size": 32},
        sparsity_weight=0.01,
        trainer="reinforce",
        random_state=0,
    ).fit(X, y)
    form, regret = choose_form(model, X, y)
    policy = ModelPolicy(model)
    assert regret.excess(model) <= 0.02 or form.n_questions < SIZES[-1]
    smaller = [size for size in SIZES if size < form.n_questions]
    for size in smaller:
        found = measure_regret(make_form(policy, max_pages=size), model, X, y)
        assert found.excess(model) > 0.02
    objective = regret.policy_loss + model.sparsity_weight_ * regret.policy_cost
    assert regret.excess(model) == pytest.approx(regret.regret / objective)
