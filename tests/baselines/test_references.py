"""The reference methods: all features, known features, and the best global selection."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from helpers.models import fit
from helpers.tables import one_column
from suwr import Patches, baselines
from suwr.exact import FiniteProblem, solve
from suwr.exceptions import ProblemTooLargeError


def by_sign(X):
    """Column 0, and column 1 or 2 depending on its sign."""
    positive = np.asarray(X)[:, 0] > 0
    return np.column_stack([np.ones_like(positive), positive, ~positive])


def test_oracle_selects_the_relevant_columns_of_each_row():
    X = np.random.RandomState(0).randn(300, 3)
    y = (np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0).astype(int)
    model = fit("OracleClassifier", X, y, relevant=by_sign)
    np.testing.assert_array_equal(model.select(X), by_sign(X))
    np.testing.assert_array_equal(model.cost(X), np.full(300, 2.0))
    assert model.score(X, y) > 0.9


def test_oracle_with_the_same_columns_for_every_row():
    X, y, value = one_column()
    model = fit("OracleRegressor", X, value, relevant=[2], max_epochs=30)
    assert model.select(X).sum(axis=0).tolist() == [0, 0, 400, 0, 0]
    assert model.score(X, value) > 0.95
    empty = fit("OracleClassifier", X, y, relevant=[])
    assert len(np.unique(empty.predict_proba(X).round(6), axis=0)) == 1


@pytest.mark.parametrize(
    ("relevant", "message"),
    [
        ([9], "must be a callable or a sequence of columns of X. Got 9 instead"),
        (["a"], "must be a callable or a sequence of columns of X. Got 'a' instead"),
        (lambda X: np.ones((2, 2)), "must return booleans"),
    ],
)
def test_invalid_relevant_columns(relevant, message):
    X, y, _ = one_column(60)
    with pytest.raises(ValueError, match=message):
        fit("OracleClassifier", X, y, relevant=relevant)


def test_global_optimum_equals_the_exact_solution():
    rng = np.random.RandomState(0)
    cube = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    y = rng.randn(16)
    for weight in (0.0, 0.05, 0.2, 1.0):
        model = fit("GlobalOptimumRegressor", cube, y, sparsity_weight=weight)
        exact = solve(FiniteProblem(cube, y), weight, method="global")
        error = np.mean((model.predict(cube) - y) ** 2) + weight * model.cost(cube).mean()
        assert error == pytest.approx(exact.objective, abs=1e-5)
    with pytest.raises(ProblemTooLargeError, match="at most 16 units"):
        fit("GlobalOptimumRegressor", rng.randn(20, 17), rng.randn(20))


def test_global_optimum_treats_sample_weights_as_repetitions():
    rng = np.random.RandomState(0)
    X, weight = rng.randint(0, 2, (60, 3)).astype(float), rng.randint(1, 6, 60)
    y = X[:, 0] + rng.randn(60)
    params = {"random_state": 0, "max_steps": 2}
    weighted = baselines.GlobalOptimumRegressor(**params).fit(X, y, sample_weight=weight)
    repetitions = [np.repeat(part, weight, axis=0) for part in (X, y)]
    repeated = baselines.GlobalOptimumRegressor(**params).fit(*repetitions)
    np.testing.assert_array_equal(weighted.selected_units_, repeated.selected_units_)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)


def test_all_features_with_a_convolutional_network():
    X, y = load_digits(return_X_y=True)
    model = baselines.AllFeaturesClassifier(
        groups=Patches((8, 8), 1), network="conv", hidden_size=32, max_epochs=8, random_state=0
    ).fit(X[:1200], y[:1200])
    assert type(model.network_.predictor).__name__ == "EnsembleConv"
    assert model.score(X[1200:], y[1200:]) > 0.8
    with pytest.raises(ValueError, match="'network' parameter must be 'mlp' unless"):
        baselines.AllFeaturesClassifier(network="conv").fit(X, y)
