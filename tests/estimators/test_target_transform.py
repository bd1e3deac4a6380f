"""Transformed targets of `SUWRRegressor`."""

import json
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor

import suwr
from helpers.receipts import chain, sign
from suwr import SUWRRegressor
from suwr.deploy import ModelPolicy
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.targets import MAX_TRANSFORMED, TARGET_TRANSFORMS
from suwr.estimators.verify import poison_check

SMALL = {"max_epochs": 2, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
FUNCTIONS = {
    "log": (np.log, np.exp), "log1p": (np.log1p, np.expm1), "asinh": (np.arcsinh, np.sinh),
}  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    return X, 1000 * np.exp(2 * X["a"]) * rng.gamma(4.0, 0.25, size=300)


@pytest.fixture(scope="module")
def models(table):
    X, y = table
    return {
        name: SUWRRegressor(**SMALL, target_transform=name).fit(X[:200], y[:200])
        for name in TARGET_TRANSFORMS
    }


@pytest.mark.parametrize("name", TARGET_TRANSFORMS)
def test_functions_have_inverses_and_finite_results(name):
    transform, values = TARGET_TRANSFORMS[name], np.array([0.001, 0.5, 1.0, 30.0, 1e9])
    assert transform.name == name
    assert transform.forward(values) == pytest.approx(FUNCTIONS[name][0](values), rel=1e-15)
    assert transform.inverse(transform.forward(values)) == pytest.approx(values, rel=1e-12)
    extreme = transform.inverse(np.array([-np.inf, -1e9, 1e9, np.inf]))
    assert np.isfinite(extreme).all()
    assert extreme[-1] == FUNCTIONS[name][1](MAX_TRANSFORMED)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_models_are_those_of_scikit_learns_transformer(models, table, name):
    X, y = table
    model, (function, inverse) = models[name], FUNCTIONS[name]
    other = TransformedTargetRegressor(
        SUWRRegressor(**SMALL), func=function, inverse_func=inverse, check_inverse=False
    ).fit(X[:200], y[:200])
    np.testing.assert_array_equal(model.select(X), other.regressor_.select(X))
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-12)
    assert model.constant_loss_ == pytest.approx(np.var(function(y[:200])))
    assert model.sparsity_weight_ == pytest.approx(0.01 * model.constant_loss_)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_everything_is_in_the_units_of_the_target(models, table, name):
    X, y = (part[200:] for part in table)
    model, function = models[name], FUNCTIONS[name][0]
    prediction = model.predict(X)
    narrative = model.explain(X)[0]
    assert narrative.prediction == pytest.approx(prediction[:1])
    # The constant is the prediction of no features, up to what the network learned.
    constant = model.target_.constant
    assert constant == pytest.approx(FUNCTIONS[name][1](function(table[1][:200]).mean()))
    found = model.evaluate(X, y)
    assert found["loss"] == pytest.approx(np.mean((function(y) - function(prediction)) ** 2))
    assert found["mae"] == pytest.approx(np.mean(np.abs(y - prediction)))
    assert found.constant["mae"] == pytest.approx(np.mean(np.abs(y - constant[0])))
    assert model.report_.constant["mae"] > 100
    session = model.acquire()
    while not session.done:
        session.observe({session.next_unit: X.iloc[0][session.next_unit]})
    assert session.prediction == pytest.approx(prediction[0], rel=1e-6)


def test_intervals_are_on_the_transformed_scale_and_cover(models, table):
    X, y = table
    model = models["log"].conformalize(X[200:], y[200:], coverage=0.8)
    low, high = model.predict_set(X[200:]).T
    prediction = model.predict(X[200:])
    assert (low > 0).all()
    assert high / prediction == pytest.approx(prediction / low, rel=1e-9)
    assert high / prediction == pytest.approx(np.exp(model.conformal_.quantile), rel=1e-9)
    assert np.mean((low <= y[200:]) & (y[200:] <= high)) == pytest.approx(0.81, abs=0.011)
    loaded = from_bytes(to_bytes(model))
    np.testing.assert_array_equal(loaded.predict_set(X[:5]), model.predict_set(X[:5]))


def test_files_and_receipts_hold_the_name(models, table):
    X, y = table
    model = models["log"]
    loaded = from_bytes(to_bytes(model))
    assert loaded.target_transform == "log"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.evaluate(X, y) == model.evaluate(X, y)
    receipt = model.explain(X[:1])[0].receipt()
    assert suwr.verify(receipt, loaded).verified
    # A parameter of the next fit does not change the fitted model, nor its file.
    loaded.target_transform = "asinh"
    for same in (loaded, from_bytes(to_bytes(loaded))):
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
        assert suwr.verify(receipt, same).verified
    # The same networks with another transformation are another model.
    loaded.target_ = replace(loaded.target_, transform="asinh")
    assert not suwr.verify(receipt, loaded).verified
    assert loaded._digest() != model._digest()


@pytest.mark.parametrize("change", [1.01, -1.0, 0.0])
def test_receipts_with_another_prediction_are_refused(models, table, change):
    model = models["log"]
    receipt = json.loads(model.explain(table[0][:1])[0].receipt().to_json())
    # Receipts of another machine are compared with a tolerance.
    receipt["environment"] = "another machine"
    last = receipt["steps"][-1]["prediction"]
    last[0] *= 1 + 1e-9
    assert suwr.verify(sign(chain(receipt)), model).verified
    last[0] *= change
    result = suwr.verify(sign(chain(receipt)), model)
    assert not result.verified
    assert "prediction are" in result.reason


def test_hidden_cells_have_no_influence(models, table):
    report = poison_check(models["log"], table[0][:40])
    assert report.n_cells > 0
    assert report.n_changed == 0


def test_quantiles_are_those_of_the_target(table):
    X, y = table
    params = {"loss": "quantile", "quantile": 0.9, "target_transform": "log"}
    model = SUWRRegressor(**SMALL, **params).fit(X, y)
    assert model.target_.constant == pytest.approx(np.quantile(y, 0.9, method="inverted_cdf"))
    found = model.evaluate(X, y)
    assert found["coverage"] == pytest.approx((y <= model.predict(X)).mean())


def test_forms_distinguish_values_of_the_target(models):
    model = models["log"]
    low, high = np.exp(model.target_center_ + model.target_scale_ * np.array([-0.25, 0.25]))
    assert ModelPolicy(model).resolution == pytest.approx(high - low)
    other = deepcopy(model).set_params(target_transform=None)
    assert ModelPolicy(other).resolution == ModelPolicy(model).resolution


@pytest.mark.parametrize(
    ("params", "y", "message"),
    [
        ({"target_transform": "sqrt"}, 1.0, "'log', 'log1p', 'asinh'"),
        ({"target_transform": "log"}, 0.0, "positive for target_transform='log'. Got 0.0 instead"),
        ({"target_transform": "log1p"}, -2.5, "greater than -1 for .*'log1p'. Got -2.5 instead"),
        ({"target_transform": "log", "loss": "gamma"}, 1.0, "must be None if loss='gamma'"),
        ({"target_transform": "log", "loss": "poisson"}, 1.0, "must be None if loss='poisson'"),
    ],
)
def test_invalid_combinations_and_targets(params, y, message):
    with pytest.raises(ValueError, match=message):
        SUWRRegressor(**SMALL, **params).fit(np.zeros((12, 1)), [1.0] * 11 + [y])


def test_given_predictors_have_no_transformation():
    class Constant:
        def predict_masked(self, X, masks):
            return np.ones(len(masks))

    model = SUWRRegressor(**SMALL, target_transform="log", predictor=Constant())
    with pytest.raises(ValueError, match="must be None if 'predictor' is given"):
        model.fit(np.zeros((12, 1)), np.ones(12))


def test_other_rows_are_checked(models, table):
    X, y = table
    for call in (models["log"].evaluate, models["log"].conformalize):
        with pytest.raises(ValueError, match="positive for target_transform='log'"):
            call(X, -y)
    with pytest.raises(ValueError, match="without a 'target_transform'"):
        models["log"].certify(X, y, risk="loss", level=0.9, tolerance=1.0)
