"""Regret in the costs and the loss of the model."""

import numpy as np
import pytest

from suwr import Costs, SUWRRegressor
from suwr.deploy import ModelPolicy, make_form, measure_regret


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
