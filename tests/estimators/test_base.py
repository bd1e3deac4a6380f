"""Parameters and fitting: scikit-learn's checks, data frames, invalid input, training settings."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers.models import with_brief_training
from suwr import SUWRClassifier, SUWRRegressor, TrainingConfig

SMALL = {"max_epochs": 4, "training": {"hidden_size": 16}, "random_state": 0}


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "training samples batches and masks, so repeating a row is not bit for bit equivalent "
            "to doubling its weight"
        )
    }


@parametrize_with_checks(
    [
        SUWRClassifier(max_epochs=6, training={"hidden_size": 48}),
        SUWRRegressor(max_epochs=14, training={"hidden_size": 32}),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn(estimator, check):
    check(with_brief_training(estimator, check))


@pytest.mark.slow
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


def test_fit_does_not_change_the_global_generator():
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


@pytest.mark.parametrize("library", [pd, pytest.param(pl, marks=pytest.mark.slow)])
def test_frames_with_categories_flags_and_missing_values(library):
    data, y = frame()
    X = library.DataFrame(data)
    model = SUWRClassifier(max_epochs=19, training={"hidden_size": 32}, random_state=0).fit(X, y)
    assert model.feature_names_in_.tolist() == list(data)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y) > 0.85
    # A categorical column is one unit; here it is the informative one.
    assert model.units_.names == tuple(data)
    assert model.select(X).mean(axis=0).argmax() == 1
    narrative = model.explain(X)[20]
    assert narrative.steps[0].values["colour"] in ("red", "green", "blue")


def test_columns_are_reordered_by_name_and_wrong_ones_are_named():
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


def test_unknown_categories_and_new_missing_values_are_accepted():
    data, y = frame()
    X = pd.DataFrame(data)
    model = SUWRClassifier(**SMALL).fit(X, y)
    unseen = X.assign(colour=["purple"] * 75 + [None] * 75, noise=np.nan)
    assert np.isfinite(model.predict_proba(unseen)).all()


def test_sample_weight_is_used():
    X, y = make_regression(100, 3, random_state=0)
    weight = np.where(y > 0, 1.0, 0.0)
    weighted = SUWRRegressor(**SMALL).fit(X, y, sample_weight=weight)
    assert weighted.target_center_ == pytest.approx(y[y > 0].mean())


def test_the_weight_of_a_regressor_is_in_units_of_the_squared_error():
    X, y = make_regression(100, 3, random_state=0)
    small, large = (
        SUWRRegressor(**SMALL, sparsity_weight=0.01 * np.var(y) * s**2).fit(X, s * y)
        for s in (1.0, 1000.0)
    )
    np.testing.assert_array_equal(small.select(X), large.select(X))
    np.testing.assert_allclose(1000 * small.predict(X), large.predict(X), rtol=1e-3)


def test_the_auto_weight_is_one_percent_of_the_best_constant_loss():
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
        ({"max_epochs": 0}, "'max_epochs' parameter of SUWRClassifier must be"),
        ({"trainer": "magic"}, "'trainer' parameter of SUWRClassifier must be"),
        ({"sparsity_weight": True}, "'sparsity_weight' parameter of SUWRClassifier must be"),
        ({"random_state": -1}, "'random_state' parameter of SUWRClassifier must be"),
        ({"verbose": -1}, "'verbose' parameter of SUWRClassifier must be"),
        ({"training": {"n_predictors": 3}}, "'n_predictors' .* must be an even number"),
        ({"training": {"network": "conv"}}, "'network' parameter must be 'mlp' unless 'groups'"),
        ({"training": 3}, "'training' parameter of SUWRClassifier must be"),
        ({"training": {"magic": 1}}, "'training' parameter .*'magic'"),
        ({"training": {"max_steps": 3}}, "'training' parameter .*'max_steps'"),
        ({"training": {"rollouts": "two"}}, "'rollouts' .*'two'"),
        ({"training": {"dropout": np.nan}}, "'dropout' .*nan"),
        ({"device": "abacus"}, "'device' parameter of SUWRClassifier must be"),
        ({"costs": [1, 2, 3, -1]}, "'costs' parameter of SUWRClassifier must"),
        ({"groups": {"a": ["x9"]}}, "'groups' parameter of SUWRClassifier must"),
    ],
)
def test_invalid_parameters_are_named(params, message):
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
def test_invalid_tables(X, y, message):
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(**SMALL).fit(X, y)


def test_text_in_a_numeric_column_is_refused():
    data, y = frame()
    X = pd.DataFrame(data)
    model = SUWRClassifier(**SMALL).fit(X, y)
    loud = X.assign(noise="loud")
    with pytest.raises(ValueError, match="column 'noise' must be a finite number, as in fit"):
        model.predict_masked(loud, np.ones((1, X.shape[1]), dtype=bool))


def test_another_fit_forgets_the_file_of_the_first_one():
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, y)
    model.target_name_, model.training_file_ = "price", "0" * 64
    model.fit(X, y)
    assert model.target_name_ is None
    assert model.training_file_ is None
    assert model.dates_ is None


def test_history_has_one_record_per_epoch(monkeypatch):
    # The policy phase does not end early.
    monkeypatch.setattr("suwr.training.actor.PATIENCE", 1.0)
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL | {"max_epochs": 10}).fit(X, y)
    history = model.history_
    assert [record["epoch"] for record in history] == list(range(1, len(history) + 1))
    phases = list(dict.fromkeys(record["phase"] for record in history))
    assert len(phases) == 3
    assert [sum(r["phase"] == phase for r in history) for phase in phases] == [10, 10, 5]
    keys = {"epoch", "phase", "training_loss", "validation_objective", "mean_cost"}
    assert all(set(record) == keys for record in history)
    policy = [record for record in history if record["phase"] == phases[1]]
    assert all(np.isfinite(record["validation_objective"]) for record in policy)
    assert all(0 <= record["mean_cost"] <= 4 for record in policy)
    assert json.loads(json.dumps(history)) == history


def settings_of(model, data):
    return model._plan(data, torch.Generator()).task.settings


@pytest.mark.parametrize("training", [TrainingConfig(rollouts=3), {"rollouts": 3}])
def test_training_settings_reach_the_trainer(training):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(max_epochs=1, random_state=0, training=training)
    assert model.get_params()["training"] is training
    copy = clone(model)
    assert copy.training == training
    data = copy._prepare(X, y, None)
    assert settings_of(copy, data).rollouts == 3
    copy.set_params(training=None)
    assert settings_of(copy, data).rollouts == 2


def test_equal_training_settings_give_equal_models():
    X, y = make_classification(60, 4, random_state=0)
    settings = {"hidden_size": 16, "rollouts": 1, "dropout": 0.0}
    one, two = (
        SUWRClassifier(**SMALL | {"training": training}).fit(X, y)
        for training in (settings, TrainingConfig(**settings))
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(("verbose", "expected"), [(0, 0), (1, None), (2, 3)])
def test_verbose_is_silent_or_a_bar_or_one_line_per_epoch(capsys, verbose, expected):
    X, y = make_classification(60, 4, random_state=0)
    SUWRClassifier(**SMALL | {"max_epochs": 1}, verbose=verbose).fit(X, y)
    printed = capsys.readouterr().err
    if expected is None:
        assert printed
    else:
        assert len(re.findall(r"^\[\d/\d\]", printed, re.MULTILINE)) == expected
        # The settings that the fit chose by itself come before the epochs.
        assert ("n_predictors: 4, for" in printed) == (verbose > 0)


@pytest.mark.parametrize("kind", [SUWRClassifier, SUWRRegressor])
def test_an_unknown_parameter_names_the_estimator(kind):
    message = rf"^{kind.__name__}\.__init__\(\) .* unexpected keyword argument 'foo'"
    with pytest.raises(TypeError, match=message):
        kind(foo=1)
