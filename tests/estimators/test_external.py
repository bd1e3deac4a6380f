"""A predictor of the user's own as f."""

import numpy as np
import pandas as pd
import pytest

import suwr
from suwr import SUWRClassifier, SUWRRegressor
from suwr.data.encode import TableEncoder
from suwr.data.frame import read_table
from suwr.estimators.files import to_bytes
from suwr.estimators.verify import poison_check
from suwr.exceptions import ModelFileError, ModelOutputError

SMALL = {"max_epochs": 3, "training": {"hidden_size": 8}, "random_state": 0}


class Sign:
    """Probability of class 1 is 0.9 or 0.1 by the sign of the first column, ½ if it is hidden."""

    def __init__(self, classes=(0, 1)):
        self.classes_ = np.array(classes)

    def predict_masked(self, X, masks):
        first = np.asarray(X, dtype=float)[:, 0]
        # Hidden cells are missing, whatever the predictor does with the masks.
        assert np.isnan(np.asarray(X, dtype=float)[~masks]).all()
        p = np.where(np.isnan(first), 0.5, np.where(first > 0, 0.9, 0.1))
        found = np.column_stack([1 - p, p])
        return found if self.classes_[0] == 0 else found[:, ::-1]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def fitted(data):
    # Few updates: a fast policy and a short average.
    training = {"average_decay": 0.8, "policy_rate": 2e-2, "policy_dropout": 0.0}
    options = {"max_epochs": 12, "training": {"hidden_size": 16, **training}}
    return SUWRClassifier(predictor=Sign(), sparsity_weight=0.1, **SMALL | options).fit(*data)


def test_predictions_are_those_of_the_predictor(fitted, data):
    X, _ = data
    masks = np.random.default_rng(1).random(X.shape) < 0.5
    shown = np.where(masks, X, np.nan)
    assert fitted.predict_masked(X, masks) == pytest.approx(Sign().predict_masked(shown, masks))


def test_policy_reveals_what_the_predictor_needs(fitted, data):
    X, y = data
    assert fitted.select(X)[:, 0].all()
    assert fitted.cost(X).mean() < 1.5
    assert fitted.score(X, y) == 1.0


def test_hidden_cells_have_no_influence(fitted, data):
    assert poison_check(fitted, data[0][:30], random_state=0).passed


def test_order_of_the_predictors_classes(data):
    X, y = data
    model = SUWRClassifier(predictor=Sign(classes=(1, 0)), **SMALL).fit(X, y)
    everything = np.ones(X.shape, dtype=bool)
    assert (model.predict_masked(X, everything).argmax(axis=1) == y).all()
    with pytest.raises(ValueError, match="classes"):
        SUWRClassifier(predictor=Sign(classes=("a", "b")), **SMALL).fit(X, y)


def test_values_and_frames():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(5, 2, 100), "b": rng.choice(["u", "v"], 100)})
    y = X["a"] * 10 + 100

    class Line:
        def predict_masked(self, X, masks):
            assert isinstance(X, pd.DataFrame)
            assert set(X["b"].dropna()) <= {"u", "v"}
            assert (X.isna().to_numpy() == ~masks).all()
            return np.where(masks[:, 0], X["a"] * 10 + 100, 150.0)

    model = SUWRRegressor(predictor=Line(), **SMALL).fit(X, y)
    everything = np.ones(X.shape, dtype=bool)
    assert model.predict_masked(X, everything) == pytest.approx(y.to_numpy(), rel=1e-4)


def test_decoding_inverts_encoding():
    X = pd.DataFrame(
        {
            "n": [1.5, -3.0, np.nan, 1000.0],
            "c": ["a", None, "b", "a"],
            "full": [0.25, 0.5, 0.75, 1.0],
        }
    )
    table = read_table(X)
    encoder = TableEncoder.fit(table, list(X))
    values = encoder.encode(encoder.parse(table.columns))
    n, c, full = encoder.decode(values, np.ones((4, 3), dtype=bool))
    assert n == pytest.approx(X["n"].to_numpy(), rel=1e-3, nan_ok=True)
    assert c.tolist() == ["a", None, "b", "a"]
    assert full == pytest.approx(X["full"].to_numpy(), rel=1e-5)
    hidden = encoder.decode(np.full_like(values, np.nan), np.zeros((4, 3), dtype=bool))
    assert np.isnan(hidden[0]).all()
    assert hidden[1].tolist() == [None] * 4


def test_bad_predictors_are_refused(data, tmp_path, fitted):
    class Wrong:
        def __init__(self, found):
            self.found = found

        def predict_masked(self, X, masks):
            return self.found(len(X))

    with pytest.raises(ValueError, match=r"predict_masked\(X, masks\) method"):
        SUWRClassifier(predictor="mine", **SMALL).fit(*data)
    for found in (lambda n: np.ones((n, 3)), lambda n: np.full((n, 2), np.nan)):
        with pytest.raises(ModelOutputError, match="finite predictions of shape"):
            SUWRClassifier(predictor=Wrong(found), **SMALL).fit(*data)
    with pytest.raises(ModelOutputError, match=r"failed on .* ZeroDivisionError"):
        SUWRClassifier(predictor=Wrong(lambda n: 1 // 0), **SMALL).fit(*data)
    with pytest.raises(ValueError, match="'trainer' parameter"):
        SUWRClassifier(predictor=Sign(), trainer="lookahead", **SMALL).fit(*data)
    with pytest.raises(ValueError, match="'network' parameter"):
        SUWRClassifier(predictor=Sign(), training={"network": "conv"}).fit(*data)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        SUWRClassifier(predictor=Sign(), **SMALL).fit(*data, checkpoint=tmp_path / "c")
    # The page is written without the model.
    fitted.explain(data[0][:2]).to_html(tmp_path / "page.html")


class Other(Sign):
    def predict_masked(self, X, masks):
        found = super().predict_masked(X, masks)
        # Differs only where the last column alone is revealed.
        alone = masks[:, -1] & (masks.sum(axis=1) < 3)
        return np.where(alone[:, None], found[:, ::-1] * 0.5 + 0.25, found)


def test_saved_models_require_the_same_predictor(fitted, data, tmp_path):
    X, y = data
    path = tmp_path / "m.suwr"
    fitted.save(path)
    loaded = suwr.load(path, predictor=Sign())
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.select(X), fitted.select(X))
    assert to_bytes(loaded) == to_bytes(fitted)
    assert suwr.verify(fitted.explain(X[:1])[0].receipt(), loaded).verified
    with pytest.raises(ModelFileError, match=r"fitted with a 'predictor'.*suwr.load\(path, pred"):
        suwr.load(path)
    with pytest.raises(ModelFileError, match="is not the one that the model was fitted with"):
        suwr.load(path, predictor=Other())
    with pytest.raises(ValueError, match=r"'predictor' parameter of load must be .* Got 3 instead"):
        suwr.load(path, predictor=3)
    plain = SUWRClassifier(**{**SMALL, "max_epochs": 1}).fit(X, y)
    plain.save(path)
    with pytest.raises(ModelFileError, match="load it without 'predictor'"):
        suwr.load(path, predictor=Sign())
    with pytest.raises(ValueError, match="score_partitions requires a model without one"):
        suwr.score_partitions(fitted, tmp_path / "none", tmp_path / "out")


def test_frames_and_failures_of_loaded_predictors(tmp_path):
    class FrameMean:
        def predict_masked(self, X, masks):
            return X["a"].fillna(0.0).to_numpy() + (X["b"] == "high").to_numpy()

    class Failing:
        def predict_masked(self, X, masks):
            raise KeyError("a")

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["high", "low"], 60)})
    model = SUWRRegressor(predictor=FrameMean(), **SMALL).fit(X, X["a"])
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr", predictor=FrameMean())
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert poison_check(loaded, X[:20]).passed
    with pytest.raises(ModelFileError, match="'predictor' failed on"):
        suwr.load(tmp_path / "m.suwr", predictor=Failing())
