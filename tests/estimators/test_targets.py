import numpy as np
import pytest

import suwr
from suwr import SUWRClassifier, SUWRRegressor
from suwr.estimators.targets import ClassTarget


def test_extreme_targets_are_refused():
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match="finite variance"):
        SUWRRegressor().fit(X, [1e200, -1e200, 0.0])
    with pytest.raises(ValueError, match=r"two classes|Unknown label type"):
        SUWRClassifier().fit(X, [1e258, 1e258, 1e258])


def test_errors_have_no_types_of_numpy():
    X = np.zeros((12, 1))
    with pytest.raises(ValueError, match="Got one class: 'a' instead"):
        SUWRClassifier().fit(X, ["a"] * 12)
    with pytest.raises(ValueError, match=r"Got -1.0 instead"):
        SUWRRegressor(sparsity_weight=np.float64(-1)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"a dict\. Got 3 instead"):
        SUWRRegressor(training=np.int64(3)).fit(X, X[:, 0])


SMALL = {"max_epochs": 1, "training": {"hidden_size": 4, "n_predictors": 2}, "random_state": 0}


@pytest.fixture(scope="module")
def imbalanced():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, np.where(X[:, 0] + rng.normal(size=60) > 1.2, "rare", "usual")


def test_class_weights_are_sample_weights(imbalanced):
    X, y = imbalanced
    share = (y == "rare").mean()
    clf = SUWRClassifier(class_weight="balanced", **SMALL).fit(X, y)
    weight = np.where(y == "rare", 0.5 / share, 0.5 / (1 - share))
    other = SUWRClassifier(**SMALL).fit(X, y, weight)
    np.testing.assert_allclose(clf.class_prior_, [0.5, 0.5])
    assert clf.constant_loss_ == pytest.approx(np.log(2))
    np.testing.assert_allclose(clf.predict_proba(X), other.predict_proba(X), atol=1e-5)
    given = SUWRClassifier(class_weight={"rare": 3.0}, **SMALL)
    given.fit(X, y, np.where(y == "rare", 2.0, 1.0))
    total = 6 * share + (1 - share)
    np.testing.assert_allclose(given.class_prior_, [6 * share / total, (1 - share) / total])


def test_balanced_weights_follow_sample_weights(imbalanced):
    _, y = imbalanced
    weight = np.linspace(0.0, 2.0, 60)
    _, _, found = ClassTarget.fit(y, weight, "SUWRClassifier", "balanced")
    totals = [found[y == label].sum() for label in ("rare", "usual")]
    np.testing.assert_allclose(totals, weight.sum() / 2)


def test_class_weights_of_soft_targets():
    P = np.random.default_rng(1).dirichlet([1, 2, 3], size=60)
    weights, sample = np.array([5.0, 1.0, 0.5]), np.linspace(0.5, 2.0, 60)
    given = {0: 5.0, 2: 0.5}
    _, target, of_row = ClassTarget.fit(P, sample, "SUWRClassifier", given)
    np.testing.assert_allclose(target * of_row[:, None], P * weights * sample[:, None], rtol=1e-5)
    one_hot = np.eye(3)[[0, 1, 2, 2]]
    _, hard, of_hard = ClassTarget.fit(one_hot, np.ones(4), "SUWRClassifier", given)
    np.testing.assert_allclose(hard, np.eye(3)[[0, 1, 2, 2]])
    np.testing.assert_allclose(of_hard, [5.0, 1.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("equal", "'balanced' or a dict. Got 'equal' instead"),
        ({"none": 2.0}, r"classes of y \('rare', 'usual'\). Got 'none' instead"),
        ({"rare": 0.0}, r"positive weights. Got {'rare': 0.0} instead"),
        ({"rare": "2"}, r"positive weights. Got {'rare': '2'} instead"),
    ],
)
def test_invalid_class_weights(imbalanced, given, message):
    with pytest.raises(ValueError, match=message):
        SUWRClassifier(class_weight=given, **SMALL).fit(*imbalanced)


def test_class_weights_are_saved(imbalanced, tmp_path):
    X, y = imbalanced
    clf = SUWRClassifier(class_weight={"rare": 2}, **SMALL).fit(X, y)
    clf.save(tmp_path / "m.suwr")
    assert suwr.load(tmp_path / "m.suwr").class_weight == {"rare": 2}
    numbers = SUWRClassifier(class_weight={1: 2}, **SMALL).fit(X, y == "rare")
    numbers.save(tmp_path / "n.suwr")
    assert suwr.load(tmp_path / "n.suwr").class_weight == {1: 2}
