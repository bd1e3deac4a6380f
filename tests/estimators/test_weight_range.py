"""Models that are fitted for a range of λ."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import suwr
from suwr import SUWRClassifier, SUWRRegressor
from suwr.estimators.base import WeightRange


@pytest.fixture(scope="module")
def data():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def model(data):
    return SUWRClassifier(
        sparsity_weight=(0.002, 0.2),
        max_epochs=15,
        training={"n_predictors": 2, "hidden_size": 32},
        random_state=0,
    ).fit(*data)


def test_a_larger_weight_reveals_fewer_units(model, data):
    costs = [model.cost(data[0], sparsity_weight=w).mean() for w in (0.002, 0.02, 0.2)]
    assert costs[0] > costs[1] > costs[2]
    assert model.sparsity_weight_ == pytest.approx(0.02)
    np.testing.assert_array_equal(
        model.select(data[0]), model.select(data[0], sparsity_weight=0.02)
    )


def test_mean_features_selects_the_weight(model, data):
    most, least = model.weight_range_.n_units[[0, -1]]
    wanted = (most + least) / 2
    taken = model.cost(data[0], mean_features=wanted).mean()
    assert taken == pytest.approx(wanted, rel=0.25)
    assert model.predict(data[0], mean_features=wanted).shape == data[1].shape


def test_unrevealed_cells_are_not_read_at_any_weight(model, data):
    X = data[0][:60]
    for weight in (0.002, 0.03, 0.2):
        kept = model.select(X, sparsity_weight=weight)
        for poison in (np.nan, 1e30, X[::-1]):
            changed = np.where(kept, X, poison)
            np.testing.assert_array_equal(kept, model.select(changed, sparsity_weight=weight))
            np.testing.assert_array_equal(
                model.predict_proba(X, sparsity_weight=weight),
                model.predict_proba(changed, sparsity_weight=weight),
            )


def test_every_method_takes_the_weight(model, data):
    X, y = data[0][:5], data[1][:5]
    at = {"sparsity_weight": 0.1}
    masks = model.select(X, **at)
    assert (model.mask_probability(X, masks, policy="greedy", **at) == 1).all()
    explanation = model.explain(X, **at)
    counts = [sum(len(s.columns) for s in narrative.steps) for narrative in explanation]
    assert counts == masks.sum(axis=1).tolist()
    session = model.acquire(**at)
    steps = explanation[0].steps
    assert session.next_unit == (steps[0].unit if steps else None)
    probability = model.predict_proba(X, **at)
    np.testing.assert_allclose(model.predict_masked(X, masks, **at), probability, atol=1e-6)
    assert model.score(X, y, **at) == (model.predict(X, **at) == y).mean()


def test_a_saved_model_keeps_its_range(model, data, tmp_path):
    model.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    middle = float(model.weight_range_.n_units[[0, -1]].mean())
    for point in ({"sparsity_weight": 0.05}, {"mean_features": middle}):
        np.testing.assert_array_equal(
            model.predict_proba(data[0], **point), again.predict_proba(data[0], **point)
        )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"sparsity_weight": 1.0}, "'sparsity_weight' parameter must be in"),
        ({"mean_features": 1000}, "'mean_features' parameter must be in"),
        ({"mean_features": 3, "sparsity_weight": 0.1}, "not both"),
    ],
)
def test_values_outside_the_range_are_refused(model, data, point, message):
    with pytest.raises(ValueError, match=message):
        model.predict(data[0], **point)


def test_a_model_for_a_single_weight_refuses_others(data):
    plain = SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, random_state=0).fit(*data)
    for method in (plain.predict, plain.select, plain.cost, plain.explain):
        with pytest.raises(ValueError, match="fitted for a range"):
            method(data[0], mean_features=3)
    with pytest.raises(ValueError, match="fitted for a range"):
        plain.score(*data, sparsity_weight=0.1)
    with pytest.raises(ValueError, match="fitted for a range"):
        plain.predict_masked(data[0], np.ones_like(data[0]), sparsity_weight=0.1)


@pytest.mark.parametrize("given", [(0.1,), (0.1, 0.01), (0, 1), (0.1, np.inf), (0.1, "b")])
def test_invalid_ranges_are_refused(data, given):
    with pytest.raises(ValueError, match="'sparsity_weight' parameter of SUWRRegressor"):
        SUWRRegressor(sparsity_weight=given).fit(*data)


def test_the_grid_is_interpolated():
    weights = WeightRange(0.01, 1.0, np.linspace(10, 2, 33))
    assert weights.condition(None, 6.0) == pytest.approx(0.0)
    assert weights.condition(0.1, None) == pytest.approx(0.0)
    assert weights.condition(None, 10.0) == -1.0


@pytest.mark.parametrize(("wanted", "condition"), [(1.9, 0.0), (1.5, 0.0), (0.5, 1 / 16)])
def test_mean_features_within_a_jump_take_the_nearer_end(wanted, condition):
    """No λ reveals 1.5 units on average here: 2 are nearer than none."""
    weights = WeightRange(0.01, 1.0, np.repeat([2.0, 0.0], [17, 16]))
    assert weights.condition(None, wanted) == pytest.approx(condition)


def test_mean_features_counts_units_not_columns_or_costs(data):
    """Three groups of ten columns: at most three units, whatever the costs."""
    X, y = data
    groups = {name: list(range(10 * i, 10 * i + 10)) for i, name in enumerate("abc")}
    model = SUWRClassifier(
        sparsity_weight=(0.0001, 0.05), groups=groups, costs={"a": 5.0, "b": 2.0, "c": 1.0},
        max_epochs=8, training={"hidden_size": 16, "validation_fraction": 0.5}, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert model.weight_range_.n_units.max() <= 3
    most = model.weight_range_.n_units[0]
    masks = model.select(X, mean_features=most)
    n_units = masks[:, ::10].sum(axis=1).mean()
    assert n_units == pytest.approx(most, rel=0.25)
    assert masks.sum(axis=1).mean() == pytest.approx(10 * n_units)
