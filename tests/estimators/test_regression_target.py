"""The losses of `SUWRRegressor`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance

import suwr
from suwr import SUWRRegressor
from suwr.estimators.files import from_bytes, to_bytes
from suwr.estimators.selection import _constant_loss
from suwr.estimators.verify import poison_check
from suwr.training.actor import ActorPhase

SMALL = {"max_epochs": 2, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
LOSSES = {
    "squared_error": {},
    "absolute_error": {"loss": "absolute_error"},
    "quantile": {"loss": "quantile", "quantile": 0.9},
    "poisson": {"loss": "poisson"},
    "gamma": {"loss": "gamma"},
}
METRICS = {
    "squared_error": lambda y, p: np.mean((y - p) ** 2),
    "absolute_error": lambda y, p: np.mean(np.abs(y - p)),
    "quantile": lambda y, p: mean_pinball_loss(y, p, alpha=0.9),
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    return X, 40 * np.exp(X["a"]) * rng.gamma(4.0, 0.25, size=300)


@pytest.fixture(scope="module")
def models(table):
    X, y = table
    return {k: SUWRRegressor(**SMALL, **v).fit(X[:200], y[:200]) for k, v in LOSSES.items()}


@pytest.mark.parametrize("name", LOSSES)
def test_constants_and_evaluation_follow_the_loss(models, table, name):
    X, y = (part[200:] for part in table)
    model, metric, known = models[name], METRICS[name], table[1][:200]
    best = {"absolute_error": 0.5, "quantile": 0.9}.get(name)
    constant = known.mean() if best is None else np.quantile(known, best, method="inverted_cdf")
    assert model.constant_loss_ == pytest.approx(metric(known, np.full(200, constant)))
    assert model.sparsity_weight_ == pytest.approx(0.01 * model.constant_loss_)
    assert _constant_loss(model, known) == pytest.approx(model.constant_loss_)
    found, prediction = model.evaluate(X, y), model.predict(X)
    assert found["loss"] == pytest.approx(metric(y, prediction))
    assert found.constant["loss"] == pytest.approx(metric(y, np.full(100, constant)))
    assert model.validation_["constant"] == pytest.approx(model.report_.constant["loss"], rel=0.1)
    assert ("coverage" in found.scores) == (name == "quantile")
    if name == "quantile":
        assert found["coverage"] == pytest.approx((y <= prediction).mean())
    if name in ("poisson", "gamma"):
        assert (prediction > 0).all()
    assert model.explain(X[:3])[0].prediction == pytest.approx(prediction[:1])


@pytest.mark.parametrize("name", LOSSES)
def test_saving_keeps_the_loss(models, table, name):
    model, (X, y) = models[name], table
    loaded = from_bytes(to_bytes(model))
    assert (loaded.loss, loaded.quantile) == (model.loss, model.quantile)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.evaluate(X, y) == model.evaluate(X, y)
    assert loaded.report_ == model.report_
    receipt = model.explain(X[:1])[0].receipt()
    assert suwr.verify(receipt, loaded).verified


@pytest.mark.parametrize("name", ["quantile", "gamma"])
def test_hidden_cells_have_no_influence(models, table, name):
    report = poison_check(models[name], table[0][:40])
    assert report.n_cells > 0
    assert report.n_changed == 0


def test_files_without_a_loss_are_squared_error(models):
    assert models["squared_error"].get_params()["loss"] == "squared_error"
    assert clone(models["quantile"]).quantile == 0.9


@pytest.mark.parametrize(("loss", "weight"), [("squared_error", 0.5), ("quantile", 1.0)])
def test_rewards_mix_labels_and_predictions_only_where_that_is_unbiased(
    monkeypatch, table, loss, weight
):
    seen = []
    original = ActorPhase.train_batches

    def spy(self, *arguments):
        seen.append(self._label_weight)
        return original(self, *arguments)

    monkeypatch.setattr(ActorPhase, "train_batches", spy)
    training = {**SMALL["training"], "label_weight": 0.5}
    given = {**SMALL, **LOSSES[loss], "max_epochs": 1, "training": training}
    SUWRRegressor(**given).fit(*table)
    assert set(seen) == {weight}


@pytest.mark.parametrize(
    ("params", "y", "message"),
    [
        ({"loss": "quantile"}, [1.0] * 12, "'quantile' parameter of SUWRRegressor must be a float"),
        ({"loss": "quantile", "quantile": 1.0}, [1.0] * 12, r"in the range \(0, 1\). Got 1.0"),
        ({"loss": "huber"}, [1.0] * 12, "'absolute_error', 'quantile', 'poisson', 'gamma'"),
        ({"loss": "poisson"}, [1.0] * 11 + [-2.0], "at least 0 for loss='poisson'. Got -2.0"),
        ({"loss": "gamma"}, [1.0] * 11 + [0.0], "positive for loss='gamma'. Got 0.0 instead"),
        ({"loss": "poisson"}, [0.0] * 12, "not be zero in all rows"),
    ],
)
def test_invalid_losses_and_targets(params, y, message):
    with pytest.raises(ValueError, match=message):
        SUWRRegressor(**SMALL, **params).fit(np.zeros((12, 1)), y)


def test_evaluation_refuses_targets_without_deviance(models, table):
    with pytest.raises(ValueError, match="positive for loss='gamma'"):
        models["gamma"].evaluate(table[0], -table[1])


@pytest.mark.parametrize("name", LOSSES)
def test_constant_targets(name):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = SUWRRegressor(**{**SMALL, "max_epochs": 1}, **LOSSES[name]).fit(X, np.full(30, 7.0))
    assert model.target_.constant == pytest.approx(7.0)
    assert np.isfinite(model.predict(X)).all()


class Mean:
    """Predicts 40 exp(a), or 40 if it is hidden."""

    def predict_masked(self, X, masks):
        return 40 * np.exp(np.nan_to_num(np.asarray(X["a"], dtype=float)))


def test_given_predictors_are_used_through_the_link(table):
    X, y = table
    model = SUWRRegressor(**SMALL, loss="poisson", predictor=Mean()).fit(X, y)
    masks = np.zeros((300, 3), dtype=bool)
    masks[::2] = True
    expected = np.where(masks[:, 0], 40 * np.exp(X["a"]), 40.0)
    assert model.predict_masked(X, masks) == pytest.approx(expected, rel=1e-4)


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_certified_loss_is_that_of_the_model(models, table):
    X, y = table
    certified = models["gamma"].certify(X, y, risk="loss", level=0.9)
    assert certified.certificate_.risk == "loss"
    with pytest.raises(ValueError, match="'tolerance' parameter of certify must be None"):
        models["gamma"].certify(X, y, risk="loss", level=0.9, tolerance=1.0)


def test_transformed_targets(table):
    X, y = table
    model = TransformedTargetRegressor(
        SUWRRegressor(**SMALL), func=np.log, inverse_func=np.exp
    ).fit(X, y)
    found, masks = model.predict(X), model.regressor_.select(X)
    logs = model.regressor_.explain(X).to_frame()
    explanation = suwr.Explanation.from_frame(logs.assign(prediction=np.exp(logs["prediction"])))
    assert [n.label for n in explanation] == pytest.approx(list(found), rel=1e-5)
    assert [n.n_used for n in explanation] == masks.sum(axis=1).tolist()


# Learning: enough epochs to compare losses on generated data.


def generate():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 2))
    return X, np.exp(1.5 * X[:, 0]), rng


LEARNING = {"max_epochs": 2, "training": {"hidden_size": 32, "n_predictors": 2}, "random_state": 0}


def learn(X, y, **params):
    # Mostly predictor epochs, which are faster than those of the policy.
    training = LEARNING["training"] | {"pretrain_fraction": 10.0, "finetune_fraction": 10.0}
    model = SUWRRegressor(**LEARNING | {"training": training}, **params)
    return model.fit(X[:900], y[:900]).predict(X[900:])


@pytest.mark.slow
def test_quantiles_cover():
    X, _, rng = generate()
    y = X[:, 0] + np.where(X[:, 1] > 0, 1.5, 0.3) * rng.normal(size=1500)
    low, high = (learn(X, y, loss="quantile", quantile=q) for q in (0.1, 0.9))
    y = y[900:]
    assert np.mean(y <= low) == pytest.approx(0.1, abs=0.06)
    assert np.mean(y <= high) == pytest.approx(0.9, abs=0.06)
    wide = X[900:, 1] > 0
    assert np.mean((high - low)[wide]) > 1.5 * np.mean((high - low)[~wide])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "metric"), [("poisson", mean_poisson_deviance), ("gamma", mean_gamma_deviance)]
)
def test_deviances_are_lower_than_with_squared_error(loss, metric):
    X, mean, rng = generate()
    y = rng.poisson(mean).astype(float) if loss == "poisson" else mean * rng.gamma(2.0, 0.5, 1500)
    found = metric(y[900:], learn(X, y, loss=loss))
    # Squared error may predict values that have no deviance.
    other = metric(y[900:], np.maximum(learn(X, y), 0.01))
    assert found < other
    assert found < 0.5 * metric(y[900:], np.full(600, y[:900].mean()))
