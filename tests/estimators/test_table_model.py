"""`fit` is all or nothing, and refuses text that could not be saved."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from helpers.models import interrupt_training, unchanged
from suwr import SUWRClassifier, SUWRRegressor, fit_partitions, load
from suwr.baselines import L2XClassifier
from suwr.estimators.container import FileCheckpoint
from suwr.exceptions import TableError

SMALL = {
    "max_epochs": 2,
    "training": {"hidden_size": 8, "n_layers": 1},
    "random_state": 0,
    "device": "cpu",
}
KINDS = [SUWRClassifier, SUWRRegressor]


@pytest.fixture
def table(rng):
    X = pd.DataFrame(rng.randn(80, 3), columns=["a", "b", "c"])
    return X, (X["a"] > 0).astype(int)


def test_refused_target_keeps_the_order_of_the_columns(table):
    X, y = table
    clf = SUWRClassifier(**SMALL).fit(X[["a", "b"]], y)
    with_nan = y.astype(float).where(y.index > 0)
    with unchanged(clf, X[["a", "b"]]), pytest.raises(ValueError, match="NaN"):
        clf.fit(X[["b", "a"]], with_nan)
    assert clf.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_interrupted_refit_with_other_classes(table, epochs, monkeypatch, tmp_path):
    X, y = table
    clf = SUWRClassifier(**SMALL).fit(X, y)
    interrupt_training(monkeypatch, epochs)
    with unchanged(clf, X), pytest.raises(KeyboardInterrupt):
        clf.fit(X[["c"]], np.resize(["p", "q", "r"], len(X)))
    assert clf.classes_.tolist() == [0, 1]
    clf.save(tmp_path / "m.suwr")
    np.testing.assert_array_equal(load(tmp_path / "m.suwr").predict(X), clf.predict(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"groups": {"g": ["absent"]}},
        {"costs": [1.0, -1.0, 1.0]},
        {"training": {"hidden_size": 0}},
        {"device": "no such device"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_refused_parameters(kind, change, table):
    X, y = table
    model = kind(**SMALL).fit(X, y)
    model.set_params(**change)
    with unchanged(model, X), pytest.raises((ValueError, OSError)):
        model.fit(X[["c", "b", "a"]], y)


@pytest.mark.parametrize("kind", KINDS)
def test_interrupt_after_training(kind, table, monkeypatch):
    X, y = table
    model = kind(**SMALL).fit(X, y)

    def finish(self, *args):
        original(self, *args)
        raise KeyboardInterrupt

    original = kind._finish
    monkeypatch.setattr(kind, "_finish", finish)
    with unchanged(model, X), pytest.raises(KeyboardInterrupt):
        model.fit(X.to_numpy()[:, :2], 1 - y)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoint_that_cannot_be_removed(kind, table, monkeypatch, tmp_path):
    X, y = table
    model = kind(**SMALL).fit(X, y)

    def remove(self):
        raise PermissionError("read-only")

    monkeypatch.setattr(FileCheckpoint, "remove", remove)
    with unchanged(model, X), pytest.raises(PermissionError):
        model.fit(X, 1 - y, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("kind", KINDS)
def test_failed_first_fit_leaves_an_unfitted_estimator(kind, table, monkeypatch):
    X, y = table
    model = kind(**SMALL)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:-1])
    interrupt_training(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", [SUWRClassifier, L2XClassifier])
def test_fit_while_gradients_are_disabled(kind, mode, table):
    """Ctrl-C at an unlucky moment disables them for the rest of the process."""
    X, y = table
    size = {"hidden_size": 4} if kind is L2XClassifier else {"training": {"hidden_size": 4}}
    settings = {"max_epochs": 1, "random_state": 0, **size}
    expected = kind(**settings).fit(X, y).predict_proba(X)
    with mode():
        model = kind(**settings).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), expected)


def test_refit_replaces_every_fitted_attribute(table):
    X, y = table
    model = SUWRClassifier(**SMALL, sparsity_weight=(0.01, 0.1)).fit(X, y)
    model.set_params(sparsity_weight="auto").fit(X.to_numpy(), y)
    assert not hasattr(model, "feature_names_in_")
    assert model.weight_range_ is None
    fresh = SUWRClassifier(**SMALL).fit(X.to_numpy(), y)
    np.testing.assert_array_equal(
        model.predict_proba(X.to_numpy()), fresh.predict_proba(X.to_numpy())
    )


@pytest.mark.parametrize("failure", ["target", "interrupt"])
def test_fit_partitions(failure, table, monkeypatch, tmp_path):
    X, y = table
    model = SUWRClassifier(**SMALL).fit(X, y)
    bad = X[["c", "a", "b"]].assign(y=np.resize(["p", "q", "r"], len(X)))
    if failure == "target":
        bad.loc[3, "y"] = None
    bad.to_parquet(tmp_path / "a.parquet")
    interrupt_training(monkeypatch)
    expected = ValueError if failure == "target" else KeyboardInterrupt
    with unchanged(model, X), pytest.raises(expected):
        fit_partitions(model, tmp_path / "a.parquet", "y")


SURROGATE = "a\udc80"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["column", "group", "category"])
def test_lone_surrogates_are_refused(kind, place, table):
    X, y = table
    params = {}
    if place == "column":
        X = X.set_axis(pd.Index(["a", SURROGATE, "c"], dtype=object), axis=1)
    elif place == "group":
        params["groups"] = {SURROGATE: ["a", "b"]}
    else:
        X = X.assign(b=pd.Series(["u", SURROGATE] * (len(X) // 2), dtype=object))
    with pytest.raises(ValueError, match="lone surrogate"):
        kind(**SMALL, **params).fit(X, y)


def test_lone_surrogates_in_classes_are_refused(table):
    X, y = table
    with pytest.raises(ValueError, match="Class labels must be valid Unicode"):
        SUWRClassifier(**SMALL).fit(X, np.where(y, "yes", SURROGATE))


def test_sparse_tables_are_refused_with_the_remedy():
    X = csr_matrix(np.eye(20))
    with pytest.raises(TypeError, match=r"OneHotEncoder\(sparse_output=False\)"):
        SUWRClassifier(max_epochs=1).fit(X, np.arange(20) % 2)


@pytest.fixture(scope="module")
def screened():
    """A model that does not reveal every column, and its table."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    model = SUWRClassifier(
        max_epochs=6,
        training={"hidden_size": 64},
        sparsity_weight=0.05,
        teacher=None,
        random_state=0,
    )
    return model.fit(X, (X["c"] > 0).astype(int)), X


def test_tables_may_lack_columns_that_no_prediction_reads(screened):
    model, X = screened
    unused = sorted(model.unused_columns_)
    assert unused == ["a", "b", "d"]
    shorter = X.drop(columns=unused)
    np.testing.assert_array_equal(model.predict_proba(shorter), model.predict_proba(X))
    np.testing.assert_array_equal(model.select(shorter), model.select(X))
    assert model.explain(shorter[:5]) == model.explain(X[:5])
    with pytest.raises(ValueError, match=r"now missing:\n- c"):
        model.predict(X.drop(columns="c"))
    # A mask may ask for what is not there.
    with pytest.raises(TableError, match=f"Row 0 lacks column '{unused[0]}'"):
        model.predict_masked(shorter[:2], np.ones((2, 4), dtype=bool))


def test_further_columns_are_ignored_with_a_warning(screened):
    model, X = screened
    wider = X.assign(target=1, note="x")[["note", "d", "c", "target", "b", "a"]]
    with pytest.warns(UserWarning, match="2 columns .* ignored: 'note', 'target'"):
        np.testing.assert_array_equal(model.predict(wider), model.predict(X))
    with pytest.warns(UserWarning, match="ignored"):
        masks = model.select(wider)
    np.testing.assert_array_equal(masks, model.select(X)[:, ::-1])
