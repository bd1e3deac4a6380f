"""Class probabilities as targets of classifiers."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import entropy

from suwr import SUWRClassifier, load
from suwr.baselines import L2XClassifier
from suwr.training.screening import _classes

SMALL = {"max_epochs": 2, "training": {"hidden_size": 8, "n_predictors": 2}, "random_state": 0}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    first = 1 / (1 + np.exp(-2 * X[:, 0]))
    return X, np.column_stack([first, 1 - first])


@pytest.fixture(scope="module")
def soft(problem):
    return SUWRClassifier(**SMALL).fit(*problem, classes=["yes", "no"])


def test_one_hot_targets_are_labels(problem):
    X, P = problem
    y = P.argmax(axis=1)
    hard = SUWRClassifier(**SMALL).fit(X, y)
    one_hot = SUWRClassifier(**SMALL).fit(X, np.eye(2)[y])
    assert one_hot.constant_loss_ == pytest.approx(hard.constant_loss_, rel=1e-12)
    assert np.array_equal(one_hot.predict_proba(X), hard.predict_proba(X))
    assert np.array_equal(one_hot.classes_, [0, 1])


def test_constant_loss_and_automatic_weight_follow(problem, soft):
    _, P = problem
    expected = entropy(P.mean(axis=0))
    assert soft.constant_loss_ == pytest.approx(expected)
    assert soft.sparsity_weight_ == pytest.approx(0.01 * expected)
    assert soft.validation_["constant"] > 0


def test_weights_count_in_the_mean(problem):
    X, P = problem
    weight = np.arange(len(X)) % 3
    model = SUWRClassifier(**SMALL).fit(X, P, weight)
    assert model.constant_loss_ == pytest.approx(entropy(np.average(P, axis=0, weights=weight)))


@pytest.mark.slow
def test_probabilities_are_learned(problem):
    X, P = problem
    model = SUWRClassifier(
        **{**SMALL, "max_epochs": 30, "training": {"hidden_size": 16, "n_predictors": 2}}
    ).fit(X, P)
    everything = np.ones(X.shape, dtype=bool)
    error = abs(model.predict_masked(X, everything) - P).mean()
    # Labels would be learned as 0 and 1, at a mean distance of 0.2 from P.
    assert error < 0.1


def test_classes_are_saved(soft, problem, tmp_path):
    X, _ = problem
    soft.save(tmp_path / "m.suwr")
    loaded = load(tmp_path / "m.suwr")
    assert loaded.classes_.tolist() == ["yes", "no"]
    assert np.array_equal(loaded.predict(X), soft.predict(X))
    assert set(soft.predict(X)) <= {"yes", "no"}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_are_classes(problem, frame):
    X, P = problem
    y = frame({"a": P[:, 0], "b": P[:, 1]})
    assert SUWRClassifier(**SMALL).fit(X, y).classes_.tolist() == ["a", "b"]


def test_baselines_accept_soft_targets(problem):
    X, P = problem
    model = L2XClassifier(max_steps=1, max_epochs=1, hidden_size=8, random_state=0).fit(X, P)
    assert model.predict_proba(X).shape == P.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda P: P * 2, "sum to 1"),
        (lambda P: np.column_stack([P[:, 0] + 1, P[:, 1] - 1]), "non-negative"),
        (lambda P: np.where(P > 0.9, np.nan, P), "NaN"),
        (lambda P: np.column_stack([np.ones(len(P)), np.zeros(len(P))]), "at least two classes"),
        (lambda P: P.astype(str)[:, [0, 0]].astype(object) + "x", "class labels, or"),
    ],
)
def test_invalid_probabilities_are_refused(problem, change, message):
    X, P = problem
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(**SMALL).fit(X, change(P))


@pytest.mark.parametrize("classes", [["a"], ["a", "a"], [["a", "b"]]])
def test_invalid_classes_are_refused(problem, classes):
    with pytest.raises(ValueError, match="'classes' parameter of SUWRClassifier"):
        SUWRClassifier(**SMALL).fit(*problem, classes=classes)


def test_classes_need_probabilities(problem):
    X, P = problem
    with pytest.raises(ValueError, match=r"shape \(n, n_classes\)"):
        SUWRClassifier(**SMALL).fit(X, P.argmax(axis=1), classes=[0, 1])


def test_screening_divides_classes_at_the_median_probability():
    P = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.55, 0.45], [0.3, 0.7]], dtype=np.float32)
    found = _classes(P)
    assert len(set(found[:4].tolist())) == 2
    assert found[0] == found[1] != found[2] == found[3]
    # One-hot targets are not divided.
    assert _classes(np.eye(3, dtype=np.float32)[[2, 0, 2, 1]]).tolist() == [2, 0, 2, 1]
