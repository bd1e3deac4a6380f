"""Several estimators fitted as one stack."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

from helpers.models import interrupt_training, unchanged
from suwr import SUWRClassifier, SUWRRegressor
from suwr_experiments.together import fit_together

X, y = load_iris(return_X_y=True)


def test_each_model_has_its_own_table_and_sparsity_weight():
    rng = np.random.RandomState(0)
    tables = [(X[order], y[order]) for order in (rng.permutation(150), rng.permutation(150))]
    shuffled = (X, rng.permutation(y))
    models = [
        SUWRClassifier(sparsity_weight=weight, max_epochs=30, hidden_size=32, random_state=0)
        for weight in (0.001, 0.3, 0.001)
    ]
    fit_together(models, [*tables, shuffled])
    scores = [model.score(X, y) for model in models]
    assert scores[0] > 0.9
    assert scores[2] < 0.7
    costs = [model.cost(X).mean() for model in models]
    assert costs[0] > costs[1] > 0


@pytest.mark.slow
def test_models_with_one_range_of_sparsity_weights():
    models = [
        SUWRClassifier(
            sparsity_weight=(0.0001, 0.5), max_epochs=60, hidden_size=32, random_state=seed
        )
        for seed in (0, 1)
    ]  # fmt: skip
    fit_together(models, [(X, y)] * 2)
    for model in models:
        assert np.mean(model.predict(X, sparsity_weight=0.0001) == y) > 0.9
        small, large = (model.cost(X, sparsity_weight=w).mean() for w in (0.0001, 0.5))
        assert small > large
    assert not np.array_equal(*(model.predict_proba(X) for model in models))


@pytest.mark.slow
def test_regressors_keep_the_scale_of_their_targets():
    Z, t = load_diabetes(return_X_y=True)
    models = [SUWRRegressor(max_epochs=15, hidden_size=32, random_state=s) for s in (0, 1)]
    fit_together(models, [(Z, t), (Z, 100 * t + 7)])
    plain, scaled = (model.predict(Z) for model in models)
    assert np.corrcoef(plain, t)[0, 1] > 0.6
    assert np.corrcoef(scaled, t)[0, 1] > 0.6
    assert abs(scaled.mean() - (100 * t + 7).mean()) < 3000


def wide_table(first):
    """A table of 30 columns of which two, from number ``first`` on, determine the class."""
    rng = np.random.RandomState(0)
    wide = rng.randn(300, 30)
    return wide, (wide[:, first] + wide[:, first + 1] > 0).astype(int)


def test_wide_tables_are_screened_as_in_a_single_fit():
    wide, target = wide_table(first=20)
    params = {"max_epochs": 8, "hidden_size": 32, "random_state": 0}
    models = [SUWRClassifier(sparsity_weight=weight, **params) for weight in (0.001, 0.3)]
    fit_together(models, [(wide, target)] * 2)
    alone = SUWRClassifier(max_epochs=1, hidden_size=8, random_state=0).fit(wide, target)
    for model in models:
        np.testing.assert_array_equal(model.selectable_units_, alone.selectable_units_)
        assert model.select(wide).shape == (300, 30)
        assert not model.select(wide)[:, ~model.selectable_units_].any()
    assert models[0].score(wide, target) > 0.8
    assert models[0].cost(wide).mean() > models[1].cost(wide).mean()


@pytest.mark.slow
def test_models_of_reinforce():
    params = {"trainer": "reinforce", "max_steps": 2, "hidden_size": 32, "random_state": 0}
    models = [
        SUWRClassifier(sparsity_weight=weight, max_epochs=60, **params)
        for weight in (0.0, 1.0, 0.0)
    ]  # fmt: skip
    rng = np.random.RandomState(0)
    fit_together(models, [(X, y), (X, y), (X, rng.permutation(y))])
    assert models[0].score(X, y) > 0.9
    assert models[1].cost(X).mean() == 0
    assert models[2].score(X, y) < 0.7


@pytest.mark.parametrize(
    ("changes", "tables", "message"),
    [
        ({}, [(X, y)], "one \\(X, y\\) per model"),
        ({"hidden_size": 7}, [(X, y)] * 2, "equal in all parameters"),
        ({}, [(X, y), (X[:90], y[:90])], "equal numbers of rows"),
        ({}, [wide_table(0), wide_table(20)], "equal units after the screening"),
        ({"sparsity_weight": (0.1, 0.2)}, [(X, y)] * 2, "same range"),
        ({"network": "conv"}, [(X, y)] * 2, "network='mlp'"),
    ],
)
def test_incompatible_models_raise(changes, tables, message):
    models = [SUWRClassifier(max_epochs=1), SUWRClassifier(max_epochs=1, **changes)]
    with pytest.raises(ValueError, match=message):
        fit_together(models, tables)


def test_failed_fit_leaves_all_models_unchanged(monkeypatch):
    models = [
        SUWRClassifier(max_epochs=1, hidden_size=8, random_state=seed).fit(X, y) for seed in (0, 1)
    ]
    interrupt_training(monkeypatch)
    with unchanged(models[0], X), unchanged(models[1], X), pytest.raises(KeyboardInterrupt):
        fit_together(models, [(X[:, ::-1], y), (X, 2 - y)])
