"""The common interface: scikit-learn's checks, frames, errors, seeds."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
from easy_problems import one_column
from sklearn.utils.estimator_checks import parametrize_with_checks

from suwr import baselines

SMALL = {"max_epochs": 2, "hidden_size": 8, "n_layers": 1, "random_state": 0}
NEED_EXTRA = ("TabNet",)


def available(method):
    return method not in NEED_EXTRA or find_spec("pytorch_tabnet") is not None


METHODS = [m for m in baselines.METHODS if available(m)]
KINDS = ["Classifier", "Regressor"]
NAMES = [f"{method}{kind}" for method in METHODS for kind in KINDS]


def make(name, **params):
    return getattr(baselines, name)(**{**SMALL, **params})


# What scikit-learn's checks ask to be learned takes some training. Each method as one of its twins:
# the two kinds of target are the same mix-ins everywhere. DIME, which fits as GDFS does, would need
# more training than all others together.
QUICK = {"max_epochs": 6, "hidden_size": 32, "n_layers": 1, "learning_rate": 2e-2}
STEPS = {"max_epochs": 10, "max_steps": 2, "hidden_size": 32, "n_layers": 1}
BRIEF = {**QUICK, "max_epochs": 3}
CHECKED = [
    baselines.AllFeaturesRegressor(**BRIEF),
    baselines.CAEClassifier(**QUICK),
    baselines.EVALXClassifier(**BRIEF),
    baselines.GDFSClassifier(**STEPS),
    baselines.GlobalOptimumRegressor(n_units=1),
    baselines.INVASEClassifier(**BRIEF),
    baselines.L2XRegressor(**BRIEF),
    baselines.OracleClassifier(**BRIEF),
    baselines.REALXRegressor(**{**QUICK, "max_epochs": 8}),
]
if "TabNet" in METHODS:
    CHECKED.append(baselines.TabNetClassifier(max_epochs=8, n_steps=1, n_layers=1))


def expected_failures(estimator):
    random = (
        "training draws random batches: repeating a row is not, draw by draw, the same as giving "
        "it weight two"
    )
    exact = isinstance(estimator, baselines.GlobalOptimumRegressor)
    reason = "its thirty columns have too many subsets" if exact else random
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", NAMES)
def test_interface_and_reproducibility(name):
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
        ({"device": "abacus"}, "'device' parameter must be"),
        ({"costs": [1, 2, -3, 4, 5]}, "'costs' parameter of {} must"),
        ({"groups": {"a": ["x9"]}}, "'groups' parameter of {} must"),
    ],
)
def test_bad_parameters_are_named(method, params, message):
    X, y, _ = one_column(30)
    name = f"{method}Classifier"
    with pytest.raises(ValueError, match=message.format(name)):
        make(name, **params).fit(X, y)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("L2XClassifier", {"n_units": 0}),
        ("L2XClassifier", {"temperature": 0.0}),
        ("CAERegressor", {"n_units": 1.5}),
        ("INVASEClassifier", {"sparsity_weight": -1.0}),
        ("INVASEClassifier", {"sparsity_weight": np.nan}),
        ("REALXRegressor", {"sparsity_weight": "much"}),
        ("GDFSClassifier", {"max_steps": None}),
        ("GDFSClassifier", {"n_temperatures": 0}),
        ("DIMEClassifier", {"stopping": "whim"}),
        ("DIMEClassifier", {"confidence": 2.0}),
        ("AllFeaturesClassifier", {"patience": 0}),
    ],
)
def test_own_parameters_are_checked(name, params):
    X, y, _ = one_column(30)
    parameter = next(iter(params))
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of {name} must be"):
        make(name, **params).fit(X, y)


def test_parameters_are_keyword_only_and_stored_as_given():
    with pytest.raises(TypeError, match="positional"):
        baselines.L2XClassifier(3)
    model = baselines.L2XClassifier(n_units=3)
    assert model.get_params()["n_units"] == 3
    assert "L2XClassifier(n_units=3)" in repr(model)


def test_sample_weights_of_zero_are_rows_that_were_never_there():
    X, _, value = one_column(100)
    weight = (np.arange(100) < 60).astype(float)
    one = make("AllFeaturesRegressor").fit(X, value, sample_weight=weight)
    assert one.target_mean_ == pytest.approx(value[:60].mean())


def test_patience_ends_training(monkeypatch):
    import suwr.baselines.training as training

    numbers = []
    epoch = training.Epoch
    monkeypatch.setattr(training, "Epoch", lambda *args: (numbers.append(args[1]), epoch(*args))[1])
    X, y, _ = one_column(60)
    rng = np.random.RandomState(0)
    make("AllFeaturesClassifier", max_epochs=200, patience=2).fit(X, rng.permutation(y))
    assert max(numbers) < 200


def test_verbose_shows_progress(capsys):
    X, y, _ = one_column(40)
    make("REALXClassifier", verbose=1).fit(X, y)
    assert "epoch" in capsys.readouterr().err


def test_names_are_lazy_and_complete():
    import suwr

    assert suwr.baselines is baselines
    assert set(baselines.__all__) <= set(dir(baselines))
    assert {f"{m}{k}" for m in baselines.METHODS for k in KINDS} <= set(baselines.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        baselines.__getattr__("Nothing")
