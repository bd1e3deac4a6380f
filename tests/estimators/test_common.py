"""scikit-learn's own checks, and its tools on top of our estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from suwr import SUWRClassifier, SUWRRegressor

SMALL = {"max_epochs": 4, "hidden_size": 16, "random_state": 0}


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "training draws random batches and masks: repeating a row is not, draw by draw, the "
            "same as giving it weight two"
        )
    }


@parametrize_with_checks(
    [SUWRClassifier(max_epochs=6, hidden_size=32), SUWRRegressor(max_epochs=14, hidden_size=32)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_pipeline_cross_validation_and_grid_search():
    X, y = make_classification(120, 5, random_state=0)
    pipeline = make_pipeline(StandardScaler(), SUWRClassifier(**SMALL))
    assert cross_val_score(pipeline, X, y, cv=2).shape == (2,)
    grid = {"suwrclassifier__sparsity_weight": [0.001, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_estimator_.predict(X).shape == (120,)
    assert clone(pipeline).get_params()["suwrclassifier__max_epochs"] == 4


@pytest.mark.parametrize("kind", [SUWRClassifier, SUWRRegressor])
def test_reproducible_from_random_state(kind):
    X, y = make_classification(80, 4, n_redundant=0, random_state=0)
    one, two = (kind(**SMALL).fit(X, y) for _ in range(2))
    other = kind(**SMALL | {"random_state": 1}).fit(X, y)
    np.testing.assert_array_equal(
        one.mask_probability(X, one.select(X)), two.mask_probability(X, one.select(X))
    )
    masks = np.ones_like(X, dtype=bool)
    assert (one.predict_masked(X, masks) == two.predict_masked(X, masks)).all()
    assert (one.predict_masked(X, masks) != other.predict_masked(X, masks)).any()


def test_fit_leaves_the_global_random_state_alone():
    import torch

    X, y = make_classification(60, 4, random_state=0)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    SUWRClassifier(**SMALL).fit(X, y)
    assert (torch.get_rng_state() == before).all()


def frame(n=150):
    rng = np.random.RandomState(0)
    colour = rng.choice(["red", "green", "blue"], n)
    data = {
        "age": rng.randint(20, 80, n).astype(float),
        "colour": colour.tolist(),
        "smoker": (rng.rand(n) < 0.5).tolist(),
        "noise": rng.randn(n),
    }
    data["age"][:10] = np.nan
    y = np.where((colour == "red") ^ (rng.rand(n) < 0.05), "yes", "no")
    return data, y


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_with_categories_flags_and_missing_values(library):
    data, y = frame()
    X = library.DataFrame(data)
    model = SUWRClassifier(max_epochs=40, hidden_size=32, random_state=0).fit(X, y)
    assert model.feature_names_in_.tolist() == list(data)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) > 0.85
    # One categorical column is one unit, and the one that matters.
    assert model.units_.names == tuple(data)
    assert model.select(X).mean(axis=0).argmax() == 1
    story = model.explain(X)[20]
    assert story.steps[0].values["colour"] in ("red", "green", "blue")


def test_reordered_columns_are_put_right_and_wrong_ones_are_named():
    data, y = frame()
    X = pd.DataFrame(data)
    model = SUWRClassifier(**SMALL).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X[X.columns[::-1]]))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- years"):
        model.predict(X.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match=r"now missing:\n- age"):
        model.predict(X.drop(columns="age"))
    with (
        pytest.warns(UserWarning, match="does not have valid feature names"),
        pytest.raises(ValueError, match="2 features"),
    ):
        model.predict(np.ones((3, 2)))


def test_new_categories_and_new_missing_values_are_no_error():
    data, y = frame()
    X = pd.DataFrame(data)
    model = SUWRClassifier(**SMALL).fit(X, y)
    strange = X.assign(colour=["purple"] * 75 + [None] * 75, noise=np.nan)
    assert np.isfinite(model.predict_proba(strange)).all()


def test_sample_weight_moves_the_model():
    X, y = make_regression(100, 3, random_state=0)
    weight = np.where(y > 0, 1.0, 0.0)
    weighted = SUWRRegressor(**SMALL).fit(X, y, sample_weight=weight)
    assert weighted.target_mean_ == pytest.approx(y[y > 0].mean())


def test_regression_penalty_is_in_the_users_own_units():
    X, y = make_regression(100, 3, random_state=0)
    small, large = (
        SUWRRegressor(**SMALL, sparsity_weight=0.01 * np.var(y) * s**2).fit(X, s * y)
        for s in (1.0, 1000.0)
    )
    np.testing.assert_array_equal(small.select(X), large.select(X))
    np.testing.assert_allclose(1000 * small.predict(X), large.predict(X), rtol=1e-3)


def test_auto_penalty_is_one_percent_of_the_best_constant_loss():
    X, y = make_classification(100, 4, weights=[0.5], flip_y=0, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, y)
    assert model.sparsity_weight_ == pytest.approx(0.01 * np.log(2), rel=1e-3)
    model = SUWRRegressor(**SMALL).fit(X, y * 10.0)
    assert model.sparsity_weight_ == pytest.approx(0.01 * np.var(y * 10.0))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sparsity_weight": -1}, "'sparsity_weight' parameter of SUWRClassifier must be"),
        ({"sparsity_weight": np.nan}, "'sparsity_weight' parameter of SUWRClassifier must be"),
        ({"sparsity_weight": np.inf}, "'sparsity_weight' parameter of SUWRClassifier must be"),
        ({"sparsity_weight": "much"}, "'sparsity_weight' parameter of SUWRClassifier must be"),
        ({"max_steps": 0}, "'max_steps' parameter of SUWRClassifier must be"),
        ({"units_per_step": 0}, "'units_per_step' parameter of SUWRClassifier must be"),
        ({"max_epochs": 0}, "'max_epochs' parameter of SUWRClassifier must be"),
        ({"trainer": "magic"}, "'trainer' parameter of SUWRClassifier must be"),
        ({"training": {"magic": 1}}, "'training' parameter .* some of the keys .* 'magic'"),
        ({"training": {"max_steps": 3}}, "'training' parameter .* some of the keys"),
        ({"training": {"rollouts": "two"}}, "'rollouts' parameter .* 'two'"),
        ({"training": {"dropout": np.nan}}, "'dropout' parameter"),
        ({"device": "abacus"}, "'device' parameter must be"),
        ({"costs": [1, 2, 3, -1]}, "'costs' parameter of SUWRClassifier must"),
        ({"groups": {"a": ["x9"]}}, "'groups' parameter of SUWRClassifier must"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_classification(50, 4, random_state=0)
    model = SUWRClassifier(**SMALL | params)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "policy_")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((0, 3)), [], "0 sample"),
        (np.ones((1, 3)), [1], "1 sample"),
        (pd.DataFrame({"a": [1.0]}), [1], "1 sample"),
        (np.ones((5, 0)), [0, 1, 0, 1, 0], "0 feature"),
        (pd.DataFrame(index=range(5)), [0, 1, 0, 1, 0], "0 feature"),
        ([[1.0], [np.inf]], [0, 1], "infinity in column 'x0'"),
        (pd.DataFrame({"a": [1.0, np.inf]}), [0, 1], "infinity in column 'a'"),
        ([[1.0], [2.0]], ["a", "a"], "one class: 'a'|one class: np.str_"),
        ([[1.0], [2.0]], ["a", None], "contains NaN"),
        ([[1.0], [2.0]], [0, 1, 1], "inconsistent"),
        (pd.DataFrame({"a": [1, "x"]}), [0, 1], "'a' mixes numbers and text"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), [0, 1], "'a' twice"),
    ],
)
def test_bad_tables(X, y, message):
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(**SMALL).fit(X, y)


def test_a_number_column_that_turns_into_text():
    data, y = frame()
    X = pd.DataFrame(data)
    model = SUWRClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="'noise' held numbers in fit"):
        model.predict(X.assign(noise="loud"))
