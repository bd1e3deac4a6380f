"""Behaviour that several methods share: each solves an easy problem with a known solution."""

import numpy as np
import pytest

from helpers.models import fit
from helpers.tables import one_column
from suwr import Patches


@pytest.mark.parametrize("kind", ["Classifier", pytest.param("Regressor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("L2X", {"max_steps": 1, "max_epochs": 60}),
        ("CAE", {"max_steps": 1}),
        ("GDFS", {"max_steps": 1}),
        pytest.param("DIME", {"sparsity_weight": 0.05, "max_epochs": 50}, marks=pytest.mark.slow),
        ("SEFA", {"max_steps": 1}),
        ("INVASE", {"sparsity_weight": 0.05, "max_epochs": 40}),
        ("REALX", {"sparsity_weight": 0.05}),
    ],
)
def test_the_informative_column_is_found(method, params, kind):
    X, label, value = one_column()
    y = label if kind == "Classifier" else value
    model = fit(method + kind, X, y, **params)
    masks = model.select(X)
    assert masks[:, 2].mean() > 0.95
    assert masks.sum(axis=1).mean() < 1.6
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("k", [1, 3, 9])
@pytest.mark.parametrize("method", ["L2X", "CAE"])
def test_number_of_selected_units(method, k):
    X, y, _ = one_column(60)
    model = fit(f"{method}Classifier", X, y, max_steps=k, max_epochs=2)
    assert (model.select(X).sum(axis=1) == min(k, 5)).all()
    assert model.max_steps_ == min(k, 5)


@pytest.mark.parametrize("method", ["CAE", "AllFeatures", "EVALX", "GlobalOptimum"])
def test_global_methods_select_the_same_columns_in_every_row(method):
    X, y, _ = one_column(60)
    params = {"max_steps": 2} if method in ("CAE", "GlobalOptimum") else {}
    model = fit(f"{method}Classifier", X.round(), y, **params)
    masks = model.select(X)
    assert (masks == masks[0]).all()
    assert model.leak_free_by_construction
    if not params:
        assert masks.all()


@pytest.mark.slow
def test_l2x_selects_per_row():
    """The sign of column 0, which need not be selected, determines the relevant column."""
    rng = np.random.RandomState(0)
    X = rng.randn(1000, 3)
    y = (np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0).astype(int)
    model = fit("L2XClassifier", X, y, max_steps=1, max_epochs=40)
    masks = model.select(X)
    assert model.score(X, y) > 0.85
    relevant = np.where(X[:, 0] > 0, 1, 2)
    assert masks[np.arange(1000), relevant].mean() > 0.8


@pytest.mark.parametrize("method", ["L2X", "INVASE", "REALX", "CAE", "GDFS", "DIME", "SEFA"])
def test_groups_are_selected_as_a_whole(method):
    X, y, _ = one_column(80)
    model = fit(f"{method}Classifier", X, y, groups={"pair": [1, 2]}, max_epochs=2)
    masks = model.select(X)
    np.testing.assert_array_equal(masks[:, 1], masks[:, 2])
    assert len(model.units_) == 4


@pytest.mark.slow
@pytest.mark.parametrize("method", ["DIME", "INVASE", "REALX"])
def test_a_large_sparsity_weight_selects_nothing_and_expensive_units_are_avoided(method):
    X, y, _ = one_column()
    assert not fit(f"{method}Classifier", X, y, sparsity_weight=50.0, max_epochs=8).select(X).any()
    X2 = np.column_stack([X, X[:, 2]])
    costs = [1, 1, 50, 1, 1, 1]
    model = fit(f"{method}Classifier", X2, y, costs=costs, sparsity_weight=0.05, max_epochs=20)
    masks = model.select(X2)
    assert masks[:, 2].mean() < 0.05
    assert masks[:, 5].mean() > 0.9


def test_evalx_predicts_for_given_masks():
    X, y, _ = one_column()
    model = fit("EVALXClassifier", X, y)
    masks = np.zeros_like(X, dtype=bool)
    without = model.predict_masked(X, masks)
    masks[:, 2] = True
    informed = model.predict_masked(X, masks)
    assert np.abs(without - without[0]).max() < 1e-5
    assert (informed.argmax(axis=1) == y).mean() > 0.95


def test_cae_reveals_the_patches_around_the_selected_pixels():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 25)
    y = (X[:, 12] > 0).astype(int)
    model = fit("CAEClassifier", X, y, max_steps=1, groups=Patches((5, 5), size=3))
    assert model.selected_units_.tolist() == [12]
    assert model.select(X)[0].sum() == 9
    assert model.cost(X)[0] == 1
