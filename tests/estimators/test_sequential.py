"""Selections, predictions and mask probabilities of fitted estimators."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression

from suwr import Costs, Patches, SUWRClassifier, SUWRRegressor
from suwr.estimators.verify import poison_check

SMALL = {"max_epochs": 6, "training": {"hidden_size": 16}, "random_state": 0}


@pytest.fixture(scope="module")
def models(classifier, regressor, cancer, diabetes):
    return {
        "classifier": (classifier, cancer[0].iloc[:, :10]),
        "regressor": (regressor, diabetes[0]),
    }


def test_selection_and_prediction_agree(models):
    model, X = models["classifier"]
    masks = model.select(X)
    assert masks.dtype == bool
    assert masks.shape == X.shape
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_masked(X, masks), probability, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probability.argmax(axis=1)])
    np.testing.assert_array_equal(model.cost(X), masks.sum(axis=1))


@pytest.mark.slow
def test_models_are_accurate_and_sparse(models, cancer, diabetes):
    model, X = models["classifier"]
    model = clone(model).set_params(max_epochs=20).fit(X, cancer[1])
    assert model.score(X, cancer[1]) > 0.9
    assert 0 < model.select(X).sum(axis=1).mean() < 8
    model, X = models["regressor"]
    model = (
        clone(model)
        .set_params(max_epochs=25, training={"hidden_size": 16, "n_predictors": 4})
        .fit(X, diabetes[1])
    )
    assert model.score(X, diabetes[1]) > 0.3
    assert 0 < model.select(X).sum(axis=1).mean() < 8


@pytest.fixture(scope="module")
def binary():
    """A small model on {0, 1}⁴, where all masks can be enumerated."""
    cube = np.array(list(product([0.0, 1.0], repeat=4)))
    X = np.repeat(cube, 12, axis=0)
    y = (X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]).astype(int)
    return SUWRClassifier(max_epochs=15, training={"hidden_size": 16}, random_state=0).fit(
        X, y
    ), cube


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_mask_probability_is_a_distribution(binary, policy):
    model, cube = binary
    masks = cube.astype(bool)
    table = model.mask_probability(cube, masks[None], policy=policy)
    assert table.shape == (16, 16)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)
    pairs = model.mask_probability(cube, masks, policy=policy)
    np.testing.assert_array_equal(pairs, table.diagonal())
    np.testing.assert_array_equal(model.mask_probability(cube[:1], masks, policy=policy), table[0])
    if policy == "greedy":
        np.testing.assert_array_equal(
            table.argmax(axis=1), (model.select(cube) @ [8, 4, 2, 1]).astype(int)
        )


@pytest.mark.parametrize("random_state", [0, np.arange(20_000)])
def test_the_frequency_of_sampled_masks_is_their_probability(binary, random_state):
    model, cube = binary
    row = np.repeat(cube[5:6], 20_000, axis=0)
    sampled = model.select(row, policy="sampled", random_state=random_state)
    frequency = np.bincount(sampled @ [8, 4, 2, 1], minlength=16) / len(row)
    exact = model.mask_probability(cube[5:6], cube.astype(bool), policy="sampled")
    # Five standard errors of a binomial proportion.
    assert (np.abs(frequency - exact) <= 5 * np.sqrt(exact * (1 - exact) / len(row)) + 1e-4).all()
    again = model.select(row, policy="sampled", random_state=random_state)
    np.testing.assert_array_equal(sampled, again)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (np.ones((16, 3)), "4 columns"),
        (np.ones((5, 4)), "each of the 16 rows"),
        (np.full((16, 4), 2), "boolean"),
        (np.ones(4), "4 columns"),
    ],
)
def test_invalid_masks(binary, masks, message):
    model, cube = binary
    with pytest.raises(ValueError, match=message):
        model.mask_probability(cube, masks)


@pytest.mark.parametrize("method", ["select", "explain", "mask_probability"])
def test_invalid_policies(binary, method):
    model, cube = binary
    arguments = (cube, cube.astype(bool)) if method == "mask_probability" else (cube,)
    with pytest.raises(ValueError, match=f"'policy' parameter of {method} must be"):
        getattr(model, method)(*arguments, policy="best")


def test_all_methods_have_the_same_default_policy(binary):
    model, cube = binary
    masks = model.select(cube)
    assert (model.mask_probability(cube, masks) == 1).all()
    counts = [sum(len(s.columns) for s in narrative.steps) for narrative in model.explain(cube)]
    assert counts == masks.sum(axis=1).tolist()


@pytest.mark.slow
def test_groups_are_revealed_as_a_whole_and_costs_are_respected():
    X, y = make_classification(400, 6, n_informative=6, n_redundant=0, random_state=0)
    groups = {"panel": [0, 1, 2]}
    model = SUWRClassifier(**SMALL | {"max_epochs": 40}, groups=groups, costs={"panel": 0.0})
    model.fit(X, y)
    masks = model.select(X)
    assert (masks[:, :3] == masks[:, :1]).all()
    # A unit without cost is always revealed.
    assert masks[:, 0].mean() > 0.9
    expensive = SUWRClassifier(**SMALL | {"max_epochs": 20}, groups=groups, costs={"panel": 1e4})
    assert not expensive.fit(X, y).select(X)[:, 0].any()


def test_patches_of_digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    model = SUWRClassifier(
        **SMALL | {"max_epochs": 2}, groups=Patches((8, 8), size=3, stride=2), max_steps=4
    ).fit(X[:400], y[:400])
    masks = model.select(X[:50])
    assert masks.shape == (50, 64)
    assert poison_check(model, X[:50], random_state=0).passed
    assert model.explain(X[:2])[0].n_units == len(model.units_) == 16


def test_several_units_per_step():
    X, y = make_regression(100, 6, random_state=0)
    model = SUWRRegressor(**SMALL, costs=Costs(of=2), sparsity_weight=0.0).fit(X, y)
    assert model.max_steps_ == 3
    assert model.policy_.rollout(model._encode(model._read(X))).order.shape[2] == 2
    assert poison_check(model, X, random_state=0).passed


def test_max_steps_limits_the_selection(cancer):
    X, y = cancer
    model = SUWRClassifier(**SMALL, max_steps=2).fit(X, y)
    assert model.select(X).sum(axis=1).max() <= 2


@pytest.mark.slow
def test_reinforce_learns_and_does_not_leak():
    X, y = make_classification(200, 5, random_state=0)
    model = SUWRClassifier(**SMALL | {"max_epochs": 30}, trainer="reinforce").fit(X, y)
    assert model.score(X, y) > 0.7
    assert poison_check(model, X, random_state=0).passed


def test_a_constant_target_needs_no_features():
    model = SUWRRegressor(**SMALL).fit(np.random.RandomState(0).randn(40, 3), np.full(40, 7.0))
    np.testing.assert_allclose(model.predict(np.zeros((2, 3))), 7.0, atol=0.5)
