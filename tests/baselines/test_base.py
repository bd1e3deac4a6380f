"""The interface that all baselines share: estimator checks, data frames, errors, seeds."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers.models import interrupt_training, unchanged, with_brief_training
from helpers.tables import one_column
from suwr import baselines

SMALL = {"max_epochs": 2, "hidden_size": 8, "n_layers": 1, "random_state": 0}
NEED_EXTRA = ("TabNet",)


def available(method):
    return method not in NEED_EXTRA or find_spec("pytorch_tabnet") is not None


METHODS = [m for m in baselines.METHODS if available(m)]
KINDS = ["Classifier", "Regressor"]
NAMES = [f"{method}{kind}" for method in METHODS for kind in KINDS]


def make(name, **params):
    samples = {"n_samples": 5} if name.startswith("SEFA") else {}
    return getattr(baselines, name)(**{**SMALL, **samples, **params})


# Some of scikit-learn's checks require a minimum score, hence some training. Classifier and
# regressor differ only in the mix-in of the target, so one of the two is checked for each method.
# DIME is omitted: it shares `fit` with GDFS and would take longer than all other methods together.
QUICK = {"max_epochs": 6, "hidden_size": 32, "n_layers": 1, "learning_rate": 2e-2}
STEPS = {"max_epochs": 10, "max_steps": 2, "hidden_size": 32, "n_layers": 1}
BRIEF = {**QUICK, "max_epochs": 3}
CHECKED = [
    baselines.AllFeaturesRegressor(**BRIEF),
    baselines.CAEClassifier(**QUICK),
    baselines.EVALXClassifier(**BRIEF),
    baselines.GDFSClassifier(**STEPS),
    baselines.GlobalOptimumRegressor(max_steps=1),
    baselines.INVASEClassifier(**BRIEF),
    baselines.L2XRegressor(**BRIEF),
    baselines.OracleClassifier(**BRIEF),
    baselines.REALXRegressor(**{**QUICK, "max_epochs": 8}),
    baselines.SEFAClassifier(**{**QUICK, "n_samples": 3, "n_training_samples": 2}),
]
if "TabNet" in METHODS:
    CHECKED.append(baselines.TabNetClassifier(max_epochs=8, n_steps=1, n_layers=1))


def expected_failures(estimator):
    if isinstance(estimator, baselines.GlobalOptimumRegressor):
        reason = "the check uses 30 columns, which have too many subsets"
    else:
        reason = "batches are random, so repeating a row differs from doubling its weight"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(with_brief_training(estimator, check))


@pytest.mark.parametrize("name", NAMES)
def test_fitted_interface_and_reproducibility(name):
    X, label, value = one_column(60)
    y = np.where(label, "yes", "no") if name.endswith("Classifier") else value
    X = X.round()
    before = torch.get_rng_state()
    one, two = (make(name).fit(X, y) for _ in range(2))
    assert (torch.get_rng_state() == before).all()
    masks = one.select(X)
    assert masks.dtype == bool
    assert masks.shape == X.shape
    np.testing.assert_array_equal(masks, two.select(X))
    np.testing.assert_allclose(one.cost(X), masks.sum(axis=1))
    assert isinstance(one.leak_free_by_construction, bool)
    if name.endswith("Classifier"):
        probability = one.predict_proba(X)
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        np.testing.assert_array_equal(probability, two.predict_proba(X))
        assert set(one.predict(X)) <= {"yes", "no"}
    else:
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
        assert one.predict(X).shape == (60,)
    if hasattr(one, "predict_masked"):
        final = one.predict_proba(X) if name.endswith("Classifier") else one.predict(X)
        np.testing.assert_allclose(one.predict_masked(X, masks), final, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_frames_with_text_and_missing_values(method):
    rng = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], 80),
            "size": rng.randint(0, 3, 80).astype(float),
            "flag": rng.rand(80) < 0.5,
        }
    )
    y = (X["colour"] == "red").astype(int)
    X.loc[:5, "size"] = np.nan
    model = make(f"{method}Classifier").fit(X, y)
    assert model.feature_names_in_.tolist() == ["colour", "size", "flag"]
    masks = model.select(X)
    assert masks.shape == (80, 3)
    np.testing.assert_array_equal(model.predict(X[["flag", "size", "colour"]]), model.predict(X))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- hue"):
        model.predict(X.rename(columns={"colour": "hue"}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_epochs": 0}, "'max_epochs' parameter of {} must be"),
        ({"device": "no-such-device"}, "'device' parameter"),
        ({"costs": [1, 2, -3, 4, 5]}, "'costs' parameter of {} must"),
        ({"groups": {"a": ["x9"]}}, "'groups' parameter of {} must"),
    ],
)
def test_invalid_shared_parameters(method, params, message):
    X, y, _ = one_column(30)
    name = f"{method}Classifier"
    with pytest.raises(ValueError, match=message.format(name)):
        make(name, **params).fit(X, y)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("L2XClassifier", {"max_steps": 0}),
        ("L2XClassifier", {"temperature": 0.0}),
        ("CAERegressor", {"max_steps": 1.5}),
        ("INVASEClassifier", {"sparsity_weight": -1.0}),
        ("INVASEClassifier", {"sparsity_weight": np.nan}),
        ("DIMEClassifier", {"sparsity_weight": np.inf}),
        ("DIMEClassifier", {"max_cost": -1.0}),
        ("REALXRegressor", {"sparsity_weight": "large"}),
        ("GDFSClassifier", {"max_steps": None}),
        ("GDFSClassifier", {"n_temperatures": 0}),
        ("DIMEClassifier", {"stopping": "never"}),
        ("DIMEClassifier", {"confidence": 2.0}),
        ("SEFAClassifier", {"stopping": "cost"}),
        ("SEFAClassifier", {"n_samples": 0}),
        ("SEFARegressor", {"bottleneck_weight": -1.0}),
        ("AllFeaturesClassifier", {"patience": 0}),
    ],
)
def test_invalid_method_parameters(name, params):
    X, y, _ = one_column(30)
    parameter = next(iter(params))
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of {name} must be"):
        make(name, **params).fit(X, y)


def test_parameters_are_keyword_only_and_stored_unchanged():
    with pytest.raises(TypeError, match="positional"):
        baselines.L2XClassifier(3)
    model = baselines.L2XClassifier(max_steps=3)
    assert model.get_params()["max_steps"] == 3
    assert "L2XClassifier(max_steps=3)" in repr(model)


def test_rows_of_weight_zero_are_ignored():
    X, _, value = one_column(100)
    weight = (np.arange(100) < 60).astype(float)
    model = make("AllFeaturesRegressor").fit(X, value, sample_weight=weight)
    assert model.target_center_ == pytest.approx(value[:60].mean())


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("AllFeaturesClassifier", ["predictor"]),
        ("L2XClassifier", ["L2X"]),
        ("INVASEClassifier", ["EVAL-X", "INVASE"]),
        ("CAEClassifier", ["CAE", "predictor"]),
        ("GDFSClassifier", ["pretraining", "GDFS", "fine-tuning"]),
        ("SEFAClassifier", ["SEFA"]),
        ("GlobalOptimumClassifier", ["subsets"]),
    ],
)
def test_history(name, phases):
    X, y, _ = one_column(60)
    model = make(name, max_epochs=3).fit(X.round(), y)
    history = model.history_
    assert list(dict.fromkeys(record["phase"] for record in history)) == phases
    assert [record["epoch"] for record in history] == list(range(1, model._n_epochs() + 1))
    assert all(np.isfinite(record["training_loss"]) for record in history)


@pytest.mark.parametrize(
    "name", ["L2XClassifier", "GDFSClassifier", "SEFAClassifier", "REALXRegressor"]
)
def test_history_has_the_mean_cost_of_the_validation_rows(name):
    X, label, value = one_column(60)
    y = label if name.endswith("Classifier") else value
    params = {"sparsity_weight": 0.0} if name.startswith("REALX") else {"max_steps": 2}
    model = make(name, costs=[3.0] * 5, **params).fit(X, y)
    method = name.removesuffix("Classifier").removesuffix("Regressor")
    costs = [record["mean_cost"] for record in model.history_ if record["phase"] == method]
    if "max_steps" in params:
        # The predictors of GDFS have not settled: the joint training is twice as long.
        assert costs == pytest.approx([6.0] * (4 if method == "GDFS" else 2))
    else:
        assert all(0 < cost <= 15 for cost in costs)


def test_early_stopping():
    X, y, _ = one_column(60)
    labels = np.random.RandomState(0).permutation(y)
    model = make("AllFeaturesClassifier", max_epochs=200, patience=2).fit(X, labels)
    objectives = [record["validation_objective"] for record in model.history_]
    assert len(objectives) == int(np.argmin(objectives)) + 3 < 200


@pytest.mark.parametrize("name", ["REALXClassifier", "GDFSClassifier"])
def test_verbose(name, capsys):
    X, y, _ = one_column(40)
    make(name, verbose=0).fit(X, y)
    assert capsys.readouterr().err == ""
    make(name, verbose=1).fit(X, y)
    assert "epoch" in capsys.readouterr().err
    model = make(name, verbose=2).fit(X, y)
    assert len(capsys.readouterr().err.splitlines()) == len(model.history_)


def test_public_names():
    import suwr

    assert suwr.baselines is baselines
    assert set(baselines.__all__) <= set(dir(baselines))
    assert {f"{m}{k}" for m in baselines.METHODS for k in KINDS} <= set(baselines.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        baselines.__getattr__("Nothing")


@pytest.mark.parametrize("name", NAMES)
def test_fit_is_all_or_nothing(name, monkeypatch):
    X, label, value = one_column(40, d=3)
    X = pd.DataFrame(X.round(), columns=["a", "b", "c"])
    y, other = (label, np.resize(["p", "q", "r"], 40)) if "Class" in name else (value, -value)
    model = make(name).fit(X, y)
    with unchanged(model, X), pytest.raises(ValueError, match="NaN"):
        model.fit(X[["c", "a", "b"]], np.where(np.arange(40), value, np.nan))
    # The search of the global optimum is one epoch.
    interrupt_training(monkeypatch, 0 if "Optimum" in name else 1)
    with unchanged(model, X), pytest.raises(KeyboardInterrupt):
        model.fit(X[["c", "a"]], other)
    unfitted = make(name)
    with pytest.raises(KeyboardInterrupt):
        unfitted.fit(X, other)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
