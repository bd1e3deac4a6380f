"""Stopping rules at prediction time: known answers, and the rules of the estimators."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from suwr import baselines
from suwr.baselines import DIMEClassifier, GDFSClassifier
from suwr.baselines.greedy import Stopping
from suwr_experiments.points import (
    COST_SHARES,
    budget_points,
    confidence_points,
    cost_thresholds,
)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_confidence(iris):
    """A row stops at its first confident step, and at the last one if it is never confident."""
    X, y = iris
    model = GDFSClassifier(max_steps=3, max_epochs=4, hidden_size=16, random_state=0).fit(X, y)
    after = model.predict_steps(X)
    budgets = list(budget_points(model, X))
    assert [p.setting for p in budgets] == [0, 1, 2, 3]
    np.testing.assert_array_equal(budgets[2].prediction, after[:, 2])
    found = list(confidence_points(model, X))
    for point in found:
        for row in range(0, len(X), 10):
            steps = [k for k in range(4) if after[row, k].max() >= point.setting]
            first = steps[0] if steps else 3
            assert point.cost[row] == first
            np.testing.assert_array_equal(point.prediction[row], after[row, first])
    costs = [p.cost.mean() for p in found]
    assert costs == sorted(costs)
    assert costs[0] == 0 < costs[-1]


@pytest.mark.parametrize("name", ["DIMEClassifier", "SEFAClassifier"])
def test_one_rollout_serves_every_confidence(name):
    X = np.random.RandomState(0).randn(300, 3)
    params = {"max_epochs": 8, "hidden_size": 16, "max_steps": 3, "random_state": 0}
    params |= {"n_samples": 20} if name == "SEFAClassifier" else {}
    model = getattr(baselines, name)(stopping="confidence", **params)
    model.fit(X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int))
    sizes = set()
    for found in confidence_points(model, X):
        model.policy_.network.stopping = Stopping(confidence=found.setting)
        np.testing.assert_array_equal(found.cost, model.cost(X))
        np.testing.assert_allclose(found.prediction, model.predict_proba(X), atol=1e-6)
        sizes.add(found.cost.mean())
    assert len(sizes) > 3


def test_cost_thresholds(iris):
    X, y = iris
    model = DIMEClassifier(max_steps=3, max_epochs=4, hidden_size=16, random_state=0).fit(X, y)
    costs = [model.cost(X).mean() for _ in cost_thresholds(model)]
    assert len(costs) == len(COST_SHARES)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
