"""Tests of independence between columns and the target."""

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from suwr.training.screening import (
    FALSE_COLUMNS,
    FALSE_PAIRS,
    _bins,
    _marginal_p_values,
    _pair_p_values,
    unit_scores,
)


def test_bins_are_quantiles_of_a_continuous_column():
    bins = _bins(np.arange(9.0)[::-1])
    assert bins.tolist() == [2, 2, 2, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("share", [0.4, 0.7, 0.95])
def test_a_frequent_value_is_separated_from_the_others(share):
    column = np.concatenate([np.zeros(int(100 * share)), np.arange(1, 101 - 100 * share)])
    bins = _bins(column)
    assert set(bins[column == 0]).isdisjoint(bins[column > np.median(column[column > 0])])


def test_an_effect_of_a_mostly_zero_column_is_significant():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.15, size=(600, 30)) * rng.uniform(1, 5, size=(600, 30))
    y = (rng.random(600) < np.where(counts[:, 4] > 0, 0.9, 0.3)).astype(int)
    scores = unit_scores(counts, y, np.eye(30, dtype=bool))
    assert scores[4] < 1e-6
    assert scores.argmin() == 4


def test_marginal_statistics_match_the_likelihood_ratio_test_of_scipy():
    rng = np.random.default_rng(2)
    bins, y = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    table = np.array([[np.sum((bins == b) & (y == c)) for b in range(3)] for c in range(2)])
    expected = chi2_contingency(table, lambda_="log-likelihood").pvalue
    one_hot = np.eye(3, dtype=np.float32)[bins]
    found = _marginal_p_values(one_hot, y, np.array([0, 3]), np.array([3]), 2)
    assert found[0] == pytest.approx(expected, rel=1e-6)


def test_pair_statistics_match_explicit_likelihood_ratio_tests():
    rng = np.random.default_rng(1)
    bins = rng.integers(0, 3, size=(500, 2))
    y = (bins[:, 0] == bins[:, 1]).astype(int) ^ (rng.random(500) < 0.3)
    one_hot = np.concatenate([np.eye(3)[bins[:, 0]], np.eye(3)[bins[:, 1]]], axis=1)

    def log_likelihood(cells):
        total = 0.0
        for cell in np.unique(cells):
            counts = np.bincount(y[cells == cell], minlength=2)
            counts = counts[counts > 0]
            total += (counts * np.log(counts / counts.sum())).sum()
        return total

    joint = log_likelihood(3 * bins[:, 0] + bins[:, 1])
    alone = [log_likelihood(bins[:, j]) for j in (0, 1)]
    statistic = 2 * (joint - sum(alone) + log_likelihood(np.zeros(500)))
    found = _pair_p_values(
        one_hot.astype(np.float32), y.astype(np.intp), np.array([0, 3, 6]), np.array([3, 3]), 2
    )
    assert found[0, 1] == pytest.approx(chi2.sf(statistic, 4), rel=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_noise_rarely_has_a_small_score(n_classes):
    rng = np.random.default_rng(3)
    level, n_tables = 0.2, 300
    found = 0
    for _ in range(n_tables):
        X, y = rng.normal(size=(150, 6)), rng.integers(0, n_classes, 150)
        found += unit_scores(X, y, np.eye(6, dtype=bool)).min() < level / (
            FALSE_COLUMNS + FALSE_PAIRS
        )
    assert found / n_tables < level + 3 * (level * (1 - level) / n_tables) ** 0.5
