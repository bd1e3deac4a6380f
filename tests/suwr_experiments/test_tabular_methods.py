"""Trees, boosting and L1 penalties charge what their predictions use."""

import numpy as np
import pandas as pd
import pytest

from suwr_experiments import tabular_methods
from suwr_experiments.experiment import Task
from suwr_experiments.tabular_methods import (
    boosting_points,
    cart_points,
    l1_points,
    prediction_loss,
    rank_units,
    unit_columns,
)


def make_task(kind="Classifier", n=300, groups=None):
    """The label depends on the category, and on x0 for one of its values."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(n + 200, 4), columns=[f"x{i}" for i in range(4)])
    X["category"] = rng.choice(["a", "b"], n + 200)
    a = 1.0 if kind == "Classifier" else 5.0
    signal = np.where(X["category"] == "a", a, np.where(X["x0"] > 0, 2.0, 0.0))
    y = signal.astype(int) if kind == "Classifier" else signal + 0.1 * rng.randn(n + 200)
    test = X[n:].reset_index(drop=True)
    return Task(X[:n], y[:n], test, y[n:], kind, groups=groups, facts={"n_fit": 3 * n // 4})


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_cart_charges_the_path_of_the_row(kind):
    task = make_task(kind)
    point = next(p for p in cart_points(task) if p.setting == 3)
    # The category alone decides for 'a'; the others need x0 as well.
    expected = np.where(task.X_test["category"] == "a", 1, 2)
    assert (point.cost == expected).mean() > 0.99
    assert prediction_loss(task, task.y_test, point.prediction) < 0.1
    if kind == "Classifier":
        np.testing.assert_allclose(point.prediction.sum(axis=1), 1)
        assert point.prediction.min() > 0


def test_cart_predicts_from_the_path_alone():
    """Values off the path do not change the prediction or the cost."""
    task = make_task()
    changed = task.X_test.copy()
    rows = changed["category"] == "a"
    changed.loc[rows, ["x0", "x1", "x2", "x3"]] = 1e6
    other = Task(task.X, task.y, changed, task.y_test, facts=task.facts)
    first, second = (next(p for p in cart_points(t) if p.setting == 3) for t in (task, other))
    np.testing.assert_array_equal(first.prediction[rows], second.prediction[rows])
    np.testing.assert_array_equal(first.cost[rows], second.cost[rows])


def test_a_group_is_one_unit():
    task = make_task(groups={"both": ["x0", "category"]})
    assert sorted(map(len, unit_columns(task))) == [1, 1, 1, 2]
    point = next(p for p in cart_points(task) if p.setting == 3)
    assert point.cost.max() == 1


@pytest.mark.slow
def test_best_units_come_first(monkeypatch):
    monkeypatch.setattr(tabular_methods, "N_CANDIDATES", 4)
    task = make_task(n=200)
    order = rank_units(task, 2)
    assert {str(task.X.columns[unit_columns(task)[u][0]]) for u in order} == {"x0", "category"}
    points = boosting_points(task, 0, order)
    assert [p.cost.max() for p in points] == [1, 2]
    losses = [prediction_loss(task, task.y_test, p.prediction) for p in points]
    assert losses[1] < 0.5 * losses[0]


def test_boosting_treats_unknown_categories_as_missing():
    task = make_task(n=200)
    unknown = Task(task.X, task.y, task.X_test.assign(category="new"), task.y_test,
                   facts=task.facts)  # fmt: skip
    (point,) = boosting_points(unknown, 0, None)
    assert point.cost.max() == 5
    assert np.isfinite(point.prediction).all()


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_l1_charges_units_with_coefficients(kind):
    task = make_task(kind)
    curves = l1_points(task)
    costs = [p.cost.max() for p in curves["path"]]
    assert costs == sorted(set(costs))
    assert costs[0] <= 1
    # The two indicators of the category are one unit.
    assert costs[-1] <= 5
    (chosen,) = curves["chosen"]
    losses = [prediction_loss(task, task.y_test, p.prediction) for p in (curves["path"][0], chosen)]
    assert losses[1] < losses[0]
