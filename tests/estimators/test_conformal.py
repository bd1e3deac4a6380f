"""Prediction sets after adaptive stopping."""

import copy
import warnings

import numpy as np
import pytest
from scipy.stats import binom

import suwr
from suwr.estimators.risks import Conformal, conformal_quantile, scores_of_classes


@pytest.fixture(scope="module")
def rows(cancer, classifier):
    X, y = cancer
    order = np.random.RandomState(0).permutation(len(X))
    return X[list(classifier.feature_names_in_)].iloc[order], y.to_numpy()[order]


@pytest.mark.parametrize("n", [9, 10, 19, 50])
def test_quantile_by_brute_force(n):
    """The smallest value that at least ⌈(n + 1) c⌉ scores do not exceed."""
    scores = np.random.RandomState(n).rand(n)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        rank = np.ceil(round((n + 1) * coverage, 9))
        enough = [s for s in scores if (scores <= s).sum() >= rank]
        assert conformal_quantile(scores, coverage) == (min(enough) if enough else np.inf)


def test_coverage_of_exchangeable_scores():
    """The coverage of split conformal prediction, over calibrations and new rows."""
    rng = np.random.RandomState(0)
    repeats, n, coverage = 2000, 30, 0.8
    covered = sum(rng.rand() <= conformal_quantile(rng.rand(n), coverage) for _ in range(repeats))
    # Exactly ⌈31 · 0.8⌉ / 31 in expectation.
    low, high = binom.ppf([1e-4, 1 - 1e-4], repeats, 25 / 31)
    assert low <= covered <= high


def test_adaptive_scores_by_hand():
    probability = np.array([[0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])
    np.testing.assert_allclose(
        scores_of_classes(probability, "aps"), [[1.0, 0.5, 0.8], [1.0, 1.0, 0.5]]
    )
    np.testing.assert_allclose(scores_of_classes(probability, "lac"), 1 - probability)


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_of_the_stopped_policy(score, classifier, rows, tmp_path):
    X, y = rows
    calibrated = classifier.conformalize(X[:300], y[:300], coverage=0.9, score=score)
    probability = classifier.predict_proba(X)
    scores = scores_of_classes(probability, score)
    quantile = np.sort(scores[np.arange(300), y[:300]])[int(np.ceil(301 * 0.9)) - 1]
    np.testing.assert_array_equal(calibrated.predict_set(X), scores <= quantile)
    # On the calibration rows themselves, the fraction is exact.
    assert calibrated.predict_set(X[:300])[np.arange(300), y[:300]].mean() >= 0.9
    calibrated.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    assert again.conformal_ == calibrated.conformal_
    np.testing.assert_array_equal(again.predict_set(X), calibrated.predict_set(X))
    assert not hasattr(classifier, "conformal_")


@pytest.mark.filterwarnings("ignore:.*calibration rows equal:suwr.exceptions.CertificationWarning")
def test_sets_of_a_certified_model(classifier, rows):
    X, y = rows
    certified = classifier.certify(X[:300], level=0.1).conformalize(X[300:], y[300:])
    assert certified.certificate_.level == 0.1
    final = certified.predict_proba(X)
    np.testing.assert_array_equal(
        certified.predict_set(X), 1 - final <= certified.conformal_.quantile
    )


def test_sets_do_not_depend_on_hidden_cells(classifier, rows):
    X, y = rows
    calibrated = classifier.conformalize(X[:300], y[:300])
    new = X[300:]
    hidden = new.where(classifier.select(new), 1e30)
    np.testing.assert_array_equal(calibrated.predict_set(new), calibrated.predict_set(hidden))


def test_intervals(regressor, diabetes):
    X, y = diabetes
    calibrated = regressor.conformalize(X[:200], y[:200], coverage=0.8)
    residuals = np.sort(np.abs(regressor.predict(X[:200]) - y[:200]))
    low, high = calibrated.predict_set(X).T
    np.testing.assert_allclose((high - low) / 2, residuals[int(np.ceil(201 * 0.8)) - 1])
    np.testing.assert_allclose((high + low) / 2, regressor.predict(X))
    few = regressor.conformalize(X[:3], y[:3])
    assert np.isinf(few.predict_set(X[:2])).all()
    assert Conformal.from_dict(few.conformal_.to_dict()) == few.conformal_


def test_scores_agree_with_mapie(classifier, rows):
    mapie = pytest.importorskip("mapie.classification")
    X, y = rows
    prefit = mapie.SplitConformalClassifier(
        classifier, confidence_level=0.9, conformity_score="lac", prefit=True
    )
    with warnings.catch_warnings():
        # MAPIE probes the model with an array without column names.
        warnings.simplefilter("ignore")
        prefit.conformalize(X[:300], y[:300])
        _, sets = prefit.predict_set(X[300:])
    calibrated = classifier.conformalize(X[:300], y[:300], coverage=0.9)
    np.testing.assert_array_equal(sets[:, :, 0], calibrated.predict_set(X[300:]))


def test_errors(classifier, rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"call\s+conformalize"):
        classifier.predict_set(X)
    with pytest.raises(ValueError, match="'coverage' parameter of conformalize"):
        classifier.conformalize(X, y, coverage=1.0)
    with pytest.raises(ValueError, match="'score' parameter of conformalize"):
        classifier.conformalize(X, y, score="absolute")
    changed = copy.deepcopy(classifier.conformalize(X, y))
    next(changed.policy_.network.parameters()).data.mul_(1.01)
    with pytest.raises(ValueError, match="changed after conformalize"):
        changed.predict_set(X)
