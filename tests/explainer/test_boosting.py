"""Models of XGBoost, LightGBM and CatBoost, where they are installed."""

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax

from suwr import SUWRClassifier, SUWRExplainer, SUWRRegressor
from suwr.exceptions import ModelOutputError
from suwr.explainer.outputs import ModelOutputs

X = np.random.default_rng(0).normal(size=(60, 3))
TWO, THREE, VALUE = (X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.5, 0.5]), 3 * X[:, 0]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    k=pd.Categorical(np.random.default_rng(1).choice(["u", "v", "w"], 60)),
    m=np.where(X[:, 1] > 1, np.nan, X[:, 1]),
)
LABELS = np.where((FRAME["k"] == "u") | (X[:, 0] > 0.5), "yes", "no")


def outputs(model, rows=X, output="auto"):
    found = ModelOutputs(model, output, None)
    return found(rows), found


def check_explainer(model, rows, kind):
    """The explainer trains the right kind of model and repeats the output of the booster."""
    options = {
        "queries_per_row": 2,
        "max_epochs": 1,
        "training": {"hidden_size": 4},
        "random_state": 0,
    }
    explainer = SUWRExplainer(model, **options).fit(rows)
    assert isinstance(explainer.estimator_, kind)
    assert "The model says" in explainer.explain(rows[:1])[0].text()
    return explainer


# Stand-ins with the interfaces of the libraries.


def fake(library, name, **methods):
    kind = type(name, (), {k: staticmethod(v) for k, v in methods.items()})
    kind.__module__ = f"{library}.core"
    return kind()


@pytest.mark.parametrize(
    ("objective", "raw", "expected"),
    [
        ("binary:logistic", expit(X[:, 0]), np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])),
        ("binary:logitraw", X[:, 0], np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])),
        ("multi:softprob", softmax(X, axis=1), softmax(X, axis=1)),
        ("multi:softmax", X.argmax(axis=1), softmax(X, axis=1)),
        ("reg:squarederror", X[:, 1], X[:, 1]),
    ],
)
def test_objectives_of_xgboost(monkeypatch, objective, raw, expected):
    module = ModuleType("xgboost")
    module.DMatrix = lambda rows, enable_categorical: SimpleNamespace(rows=rows)
    monkeypatch.setitem(sys.modules, "xgboost", module)
    config = json.dumps({"learner": {"objective": {"name": objective}}})

    def predict(matrix, output_margin=False):
        assert matrix.rows is not None
        return X if output_margin else raw

    booster = fake("xgboost", "Booster", predict=predict, save_config=lambda: config)
    found, query = outputs(booster)
    np.testing.assert_allclose(found, expected)
    assert query.n_outputs == (1 if expected.ndim == 1 else expected.shape[1])
    if raw.ndim == 1:
        np.testing.assert_allclose(outputs(booster, output="value")[0], raw)


@pytest.mark.parametrize(
    ("objective", "raw", "expected"),
    [
        ("binary sigmoid:1", expit(X[:, 0]), np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])),
        ("multiclass num_class:3", softmax(X, axis=1), softmax(X, axis=1)),
        ("multiclassova num_class:3", expit(X), expit(X) / expit(X).sum(axis=1, keepdims=True)),
        ("regression", X[:, 0], X[:, 0]),
    ],
)
def test_objectives_of_lightgbm(objective, raw, expected):
    booster = fake(
        "lightgbm", "Booster",
        predict=lambda rows: raw, dump_model=lambda num_iteration: {"objective": objective},
    )  # fmt: skip
    np.testing.assert_allclose(outputs(booster)[0], expected)


@pytest.mark.parametrize(
    ("loss", "kind", "raw", "expected"),
    [
        ("Logloss", "Probability", softmax(X[:, :2], axis=1), softmax(X[:, :2], axis=1)),
        ("MultiClassOneVsAll", "Probability", expit(X), expit(X) / expit(X).sum(1)[:, None]),
        ("Poisson", "Exponent", np.exp(X[:, 0]), np.exp(X[:, 0])),
        ("Quantile:alpha=0.9", None, X[:, 0], X[:, 0]),
    ],
)
def test_losses_of_catboost(loss, kind, raw, expected):
    def predict(rows, prediction_type=None):
        assert prediction_type == kind
        return raw

    model = fake(
        "catboost", "CatBoost", predict=predict, get_all_params=lambda: {"loss_function": loss}
    )
    np.testing.assert_allclose(outputs(model)[0], expected)


def test_given_outputs_take_precedence_over_the_objective():
    booster = fake(
        "lightgbm", "Booster",
        predict=lambda rows: expit(X[:, 0]), dump_model=lambda num_iteration: {},
    )  # fmt: skip
    np.testing.assert_allclose(outputs(booster)[0], expit(X[:, 0]))
    np.testing.assert_allclose(outputs(booster, output="probability")[0][:, 1], expit(X[:, 0]))


def test_outputs_that_contradict_the_objective():
    booster = fake(
        "lightgbm", "Booster",
        predict=lambda rows: 3 * X[:, 0], dump_model=lambda num_iteration: {"objective": "binary"},
    )  # fmt: skip
    with pytest.raises(ModelOutputError, match="non-negative probabilities"):
        outputs(booster)


# The libraries themselves.


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softmax", "reg:squarederror"])
def test_boosters_of_xgboost(objective):
    xgboost = pytest.importorskip("xgboost")
    y = {"binary:logistic": TWO, "multi:softmax": THREE}.get(objective, VALUE)
    extra = {"num_class": 3} if objective == "multi:softmax" else {}
    model = xgboost.train({"objective": objective, **extra}, xgboost.DMatrix(X, y), 5)
    kind = SUWRRegressor if objective.startswith("reg") else SUWRClassifier
    explainer = check_explainer(model, X, kind)
    if objective == "multi:softmax":
        labels = explainer.model_output(X).argmax(axis=1)
        np.testing.assert_array_equal(labels, model.predict(xgboost.DMatrix(X)))


def test_categories_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    matrix = xgboost.DMatrix(FRAME, LABELS == "yes", enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic"}, matrix, 5)
    found = check_explainer(booster, FRAME, SUWRClassifier).model_output(FRAME)
    np.testing.assert_allclose(found[:, 1], booster.predict(matrix), rtol=1e-5)
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True)
    check_explainer(model.fit(FRAME, LABELS == "yes"), FRAME, SUWRClassifier)
    check_explainer(xgboost.XGBRegressor(n_estimators=5).fit(X, VALUE), X, SUWRRegressor)


@pytest.mark.parametrize("objective", ["binary", "multiclassova", "regression"])
def test_boosters_of_lightgbm(objective):
    lightgbm = pytest.importorskip("lightgbm")
    y = {"binary": TWO, "multiclassova": THREE}.get(objective, VALUE)
    params = {"objective": objective, "verbose": -1, "min_data_in_leaf": 2}
    extra = {"num_class": 3} if objective == "multiclassova" else {}
    model = lightgbm.train({**params, **extra}, lightgbm.Dataset(X, y), 5)
    kind = SUWRRegressor if objective == "regression" else SUWRClassifier
    check_explainer(model, X, kind)


def test_categories_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(FRAME, LABELS)
    explainer = check_explainer(model, FRAME, SUWRClassifier)
    assert explainer.estimator_.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(explainer.model_output(FRAME), model.predict_proba(FRAME))


@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "RMSE"])
def test_models_of_catboost(loss):
    catboost = pytest.importorskip("catboost")
    y = {"Logloss": TWO, "MultiClass": THREE}.get(loss, VALUE)
    options = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoost({**options, "loss_function": loss}).fit(X, y)
    check_explainer(model, X, SUWRRegressor if loss == "RMSE" else SUWRClassifier)


def test_categories_of_catboost():
    catboost = pytest.importorskip("catboost")
    options = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**options, cat_features=["k"]).fit(FRAME, LABELS)
    explainer = check_explainer(model, FRAME, SUWRClassifier)
    np.testing.assert_allclose(explainer.model_output(FRAME), model.predict_proba(FRAME))
