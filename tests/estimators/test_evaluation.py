"""``evaluate`` and ``report_``."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss, mean_absolute_error, roc_auc_score

import suwr
from suwr.estimators.evaluate import Estimate, Evaluation
from suwr.estimators.files import from_bytes, to_bytes


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(260, 3), columns=["a", "b", "c"])
    y = pd.Series(np.where(X["a"] + 0.5 * rng.randn(260) > 0, "yes", "no"), name="ill")
    return X, y


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return suwr.SUWRClassifier(
        max_epochs=8, training={"hidden_size": 16}, costs={"b": 2.0}, random_state=0
    ).fit(X[:160], y[:160])  # fmt: skip


@pytest.fixture(scope="module")
def values(table):
    X, _ = table
    y = 3.0 * X["a"] + 1.0
    return suwr.SUWRRegressor(max_epochs=4, training={"hidden_size": 16}, random_state=0).fit(
        X[:160], y[:160]
    ), y


def test_classifier_against_scikit_learn(model, table):
    X, y = table[0][160:], table[1][160:]
    found = model.evaluate(X, y)
    p = model.predict_proba(X)
    assert found["accuracy"] == pytest.approx(model.score(X, y))
    assert found["loss"] == pytest.approx(log_loss(y, p), rel=1e-5)
    assert found["auroc"] == pytest.approx(roc_auc_score(y == "yes", p[:, 1]))
    assert found["brier"] == pytest.approx(2 * brier_score_loss(y == "yes", p[:, 1]))
    assert found["cost"] == pytest.approx(model.cost(X).mean())
    every = model.predict_masked(X, np.ones((100, 3), bool))
    every /= every.sum(axis=1, keepdims=True)
    assert found.all_features["loss"] == pytest.approx(log_loss(y, every), rel=1e-4)
    assert found.all_features["cost"] == pytest.approx(4.0)
    share = (table[1][:160] == "yes").mean()
    assert model.class_prior_ == pytest.approx([1 - share, share])
    assert found.constant["auroc"] == 0.5
    repeated = np.tile(model.class_prior_, (100, 1))
    assert found.constant["loss"] == pytest.approx(log_loss(y, repeated))
    for estimate in (found.scores[k] for k in ("loss", "accuracy", "auroc", "brier", "cost")):
        assert estimate.low <= estimate.value <= estimate.high
    wider = model.evaluate(X, y, confidence=0.99).scores["loss"]
    assert wider.high > found.scores["loss"].high


def test_regressor_against_scikit_learn(values, table):
    model, y = values
    X, y = table[0][160:], y[160:]
    found = model.evaluate(X, y)
    assert found["r2"] == pytest.approx(model.score(X, y))
    assert found["mae"] == pytest.approx(mean_absolute_error(y, model.predict(X)))
    assert found.constant["r2"] < 0.05
    assert found.calibration is None
    weight = np.random.RandomState(1).rand(100)
    assert model.evaluate(X, y, weight)["r2"] == pytest.approx(model.score(X, y, weight))


def test_report_of_the_validation_rows(model, values):
    assert model.report_.n_rows == 16
    assert model.report_["cost"] == pytest.approx(model.validation_["mean_cost"])
    objective = model.report_["loss"] + model.sparsity_weight_ * model.report_["cost"]
    assert objective == pytest.approx(model.validation_["objective"], rel=1e-4)
    assert model.report_.constant["loss"] == pytest.approx(model.validation_["constant"], rel=0.05)
    regressor = values[0]
    objective = regressor.report_["loss"] + regressor.sparsity_weight_ * regressor.report_["cost"]
    assert objective == pytest.approx(regressor.validation_["objective"], rel=1e-4)


def test_hidden_cells_change_nothing(model, table):
    X, y = table[0][160:], table[1][160:]
    expected = model.evaluate(X, y)
    hidden = ~model.select(X)
    assert hidden.any()
    for poison in (np.nan, 1e30, "text", pd.Timestamp(0)):
        found = model.evaluate(X.astype(object).mask(hidden, poison), y)
        assert found.scores == expected.scores
        assert found.constant == expected.constant
        assert found.calibration == expected.calibration
        assert (found.all_features is None) == (not isinstance(poison, float))


def test_saved_and_shown(model, table):
    again = from_bytes(to_bytes(model))
    assert again.report_ == model.report_
    assert again.target_name_ == "ill"
    assert (again.class_prior_ == model.class_prior_).all()
    assert to_bytes(again) == to_bytes(model)
    text = str(model.evaluate(table[0], table[1]))
    first, *lines = text.splitlines()
    assert first.split("  ")[0] == "260 rows"
    headings = [line.split("  ")[0] for line in lines[:-1]]
    assert headings == [
        "loss", "accuracy", "AUROC", "Brier score", "calibration error", "mean cost",
    ]  # fmt: skip
    assert lines[-1] == "In parentheses: 95 % confidence intervals."
    state = model.report_.to_dict()
    assert Evaluation.from_dict(state) == model.report_


def test_invalid_arguments(model, values, table):
    X, y = table
    with pytest.raises(ValueError, match=r"classes of fit: 'no', 'yes'\. Got 'maybe' instead"):
        model.evaluate(X[:2], ["no", "maybe"])
    with pytest.raises(ValueError, match="'confidence' parameter of evaluate"):
        model.evaluate(X, y, confidence=95)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.evaluate(X, y[:3])
    with pytest.raises(ValueError, match="'sample_weight'"):
        model.evaluate(X[:2], y[:2], [0, 0])
    with pytest.raises(ValueError, match="contains NaN"):
        values[0].evaluate(X[:2], [1.0, np.nan])


def test_feature_importances_are_shares_of_the_changes(model, table):
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 0
    assert (from_bytes(to_bytes(model)).feature_importances_ == model.feature_importances_).all()


def test_importances_follow_from_usage():
    """With fewer than ten rows, all of them are validation rows."""
    X = pd.DataFrame(np.tile(np.eye(3), (3, 1)), columns=["a", "b", "c"])
    y = 5.0 * X["a"] - 5.0 * X["b"]
    model = suwr.SUWRRegressor(
        max_epochs=8,
        training={"hidden_size": 8},
        sparsity_weight=0.0,
        groups={"g": ["b", "c"]},
        random_state=0,
    ).fit(X, y)
    usage = model.explain(X).usage()
    assert len(usage) > 0
    total = usage["share_of_rows"] * usage["mean_effect"]
    expected = dict(zip(usage["unit"], total / total.sum(), strict=True))
    found = model.feature_importances_
    assert found[0] == pytest.approx(expected.get("a", 0.0), abs=1e-5)
    assert found[1] == found[2] == pytest.approx(expected.get("g", 0.0) / 2, abs=1e-5)


def test_log_probabilities(model, table):
    expected = np.log(model.predict_proba(table[0]))
    np.testing.assert_allclose(model.predict_log_proba(table[0]), expected)


def test_table_writes_large_numbers_out_and_aligns_decimals():
    def row(name, value, low, high, constant, everything):
        found = Evaluation(
            9, 0.95, {name: Estimate(value, low, high)}, {name: constant}, {name: everything}
        )
        return found.rows()[0][1:]

    assert row("mae", 11_912.3, 9752.1, 14_072.0, 63_283.0, 1e4) == (
        "11,910 (9,750 to 14,070)", "63,280", "10,000",
    )  # fmt: skip
    assert row("loss", 3.6762e8, 1.845e8, 5.507e8, 7.405e9, 2.827e8)[0] == (
        "367,600,000 (184,500,000 to 550,700,000)"
    )
    assert row("loss", 0.1178, 0.07146, 0.1641, 0.8423, 0.054) == (
        "0.1178 (0.0715 to 0.1641)", "0.8423", "0.0540",
    )  # fmt: skip
    assert row("r2", 0.5, 0.4, 0.6, -1e-5, 0.7)[1] == "0.000"
