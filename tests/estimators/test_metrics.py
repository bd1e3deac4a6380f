"""Metrics and their confidence intervals, against scikit-learn and simulation."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from suwr.estimators.evaluate import (
    area_under_roc,
    calibration_bins,
    mean_estimate,
    r2_estimate,
    wilson_estimate,
)


def shares(weight):
    return weight / weight.sum()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_auroc_equals_scikit_learn(rng, n_classes):
    y = rng.randint(0, n_classes, 80)
    p = rng.dirichlet(np.ones(n_classes), 80).round(1) + 0.01  # with ties
    p /= p.sum(axis=1, keepdims=True)
    found = area_under_roc(y, p, np.full(80, 1 / 80), 0.95)
    scores = p[:, 1] if n_classes == 2 else p
    assert found.value == pytest.approx(roc_auc_score(y, scores, multi_class="ovr"))
    assert area_under_roc(np.zeros(80, int), p[:, :2], np.full(80, 1 / 80), 0.95) is None


def test_weighted_auroc_equals_scikit_learn(rng):
    y, w = rng.randint(0, 2, 60), rng.rand(60)
    p = np.column_stack([1 - (s := rng.rand(60).round(1)), s])
    found = area_under_roc(y, p, shares(w), 0.95)
    assert found.value == pytest.approx(roc_auc_score(y, p[:, 1], sample_weight=w))


def test_r2_accuracy_and_means(rng):
    y, w = rng.randn(50), rng.rand(50)
    prediction = y + rng.randn(50)
    found = r2_estimate(y, prediction, shares(w), 0.9)
    assert found.value == pytest.approx(r2_score(y, prediction, sample_weight=w))
    assert r2_estimate(np.ones(5), np.ones(5), np.full(5, 0.2), 0.9) is None
    hits = rng.rand(50) < 0.7
    accuracy = wilson_estimate(hits, shares(w), 0.95).value
    assert accuracy == pytest.approx(accuracy_score(np.ones(50, bool), hits, sample_weight=w))
    every = wilson_estimate(np.ones(20, bool), np.full(20, 1 / 20), 0.95)
    assert (every.value, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(0.839, abs=1e-3)  # the interval of Wilson, by hand


@pytest.mark.parametrize("metric", ["auroc", "r2", "mean"])
def test_intervals_cover_the_truth(metric):
    """About 95 % of 300 intervals contain the value of a large sample."""
    rng = np.random.RandomState(0)

    def draw(n):
        x = rng.randn(n)
        share = np.full(n, 1 / n)
        if metric == "mean":
            return mean_estimate(x**2, share, 0.95)
        if metric == "r2":
            return r2_estimate(x + rng.randn(n), x, share, 0.95)
        y = (x + rng.randn(n) > 0).astype(int)
        p = 1 / (1 + np.exp(-x))
        return area_under_roc(y, np.column_stack([1 - p, p]), share, 0.95)

    truth = draw(200_000).value
    inside = [found.low <= truth <= found.high for found in (draw(200) for _ in range(300))]
    assert 0.89 <= np.mean(inside) <= 0.99


def test_calibration(rng):
    p = rng.rand(4000)
    share = np.full(4000, 1 / 4000)
    well = calibration_bins(p, rng.rand(4000) < p, share)
    assert len(well.predicted) == 10
    assert sum(well.n_rows) == 4000
    assert well.error() < 0.03
    badly = calibration_bins(p, rng.rand(4000) < p**3, share)
    assert badly.error() > 0.1
    constant = calibration_bins(np.full(30, 0.4), np.arange(30) < 15, np.full(30, 1 / 30))
    assert constant.error() == pytest.approx(0.1)
