"""One model for a range of λ."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import suwr
from suwr import SUWRClassifier, SUWRRegressor
from suwr.estimators.weight_range import WeightRange


@pytest.fixture(scope="module")
def data():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def model(data):
    return SUWRClassifier(
        sparsity_weight=(0.002, 0.2), max_epochs=15, hidden_size=32, random_state=0
    ).fit(*data)


def test_a_dearer_unit_is_asked_for_less(model, data):
    costs = [model.cost(data[0], sparsity_weight=w).mean() for w in (0.002, 0.02, 0.2)]
    assert costs[0] > costs[1] > costs[2]
    assert model.sparsity_weight_ == pytest.approx(0.02)
    np.testing.assert_array_equal(
        model.select(data[0]), model.select(data[0], sparsity_weight=0.02)
    )


def test_the_number_of_features_finds_the_place(model, data):
    most, least = model.weight_range_.n_units[[0, -1]]
    wanted = (most + least) / 2
    taken = model.cost(data[0], mean_features=wanted).mean()
    assert taken == pytest.approx(wanted, rel=0.25)
    assert model.predict(data[0], mean_features=wanted).shape == data[1].shape


def test_nothing_hidden_is_read_at_any_place(model, data):
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


def test_all_that_decides_can_be_told(model, data):
    X = data[0][:5]
    told = {"sparsity_weight": 0.1}
    masks = model.select(X, **told)
    assert (model.mask_probability(X, masks, policy="greedy", **told) == 1).all()
    stories = model.explain(X, **told)
    assert [sum(len(s.columns) for s in n.steps) for n in stories] == masks.sum(axis=1).tolist()
    session = model.acquire(**told)
    assert session.next_unit == (stories[0].steps[0].unit if stories[0].steps else None)


def test_a_saved_model_keeps_its_range(model, data, tmp_path):
    model.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    for point in ({"sparsity_weight": 0.05}, {"mean_features": 12}):
        np.testing.assert_array_equal(
            model.predict_proba(data[0], **point), again.predict_proba(data[0], **point)
        )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"sparsity_weight": 1.0}, "'sparsity_weight' parameter must lie in"),
        ({"mean_features": 1000}, "'mean_features' parameter must lie in"),
        ({"mean_features": 3, "sparsity_weight": 0.1}, "not both"),
    ],
)
def test_places_outside_are_refused(model, data, point, message):
    with pytest.raises(ValueError, match=message):
        model.predict(data[0], **point)


def test_a_model_of_one_weight_has_no_other(data):
    plain = SUWRClassifier(max_epochs=1, hidden_size=8, random_state=0).fit(*data)
    with pytest.raises(ValueError, match="fitted for a range"):
        plain.predict(data[0], mean_features=3)


@pytest.mark.parametrize("given", [(0.1,), (0.1, 0.01), (0, 1), (0.1, np.inf), (0.1, "b")])
def test_bad_ranges_are_refused(data, given):
    with pytest.raises(ValueError, match="'sparsity_weight' parameter of SUWRRegressor"):
        SUWRRegressor(sparsity_weight=given).fit(*data)


def test_the_middle_is_found_between_grid_points():
    spans = WeightRange(0.01, 1.0, np.linspace(10, 2, 33))
    assert spans.condition(None, 6.0) == pytest.approx(0.0)
    assert spans.condition(0.1, None) == pytest.approx(0.0)
    assert spans.condition(None, 10.0) == -1.0
