"""Repeated queries, and selectors with a memory."""

import numpy as np
import pytest

from suwr.auditing import audit

X = np.random.default_rng(0).normal(size=(200, 5))


def masks_of(X, second):
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = second
    return masks


def quick(selector, **options):
    options = {"random_state": 0, "n_probes": 600, "n_draws": 8000, **options}
    return audit(selector, X, gaps=False, support="product", **options)


def by_position(column, period=100):
    """Depends on a column in one row of a hundred, by the number of rows queried so far."""
    count = [0]

    def select(X):
        turn = (count[0] + np.arange(len(X))) % period == period - 1
        count[0] += len(X)
        return masks_of(X, (X[:, column] > 0) & turn)

    return select


@pytest.mark.parametrize("seed", range(3))
def test_dependence_on_the_position_of_revealed_values_is_no_leak(seed):
    report = quick(by_position(0), random_state=seed, n_draws=40_000)
    assert not report.leaks
    assert report.cautions


def test_a_change_during_the_audit_is_a_caution():
    count = [0]

    def tiring(X):
        count[0] += len(X)
        return masks_of(X, (X[:, 0] > 0) & (count[0] < 1300))

    report = quick(tiring)
    assert not report.leaks
    assert not report.reproducible
    assert report.detectable_rate == 1.0
    assert any("depend on earlier queries" in caution for caution in report.cautions)
    assert "95 % probability" not in report.summary()


def coin_per_call(shift):
    rng = np.random.default_rng(0)

    def select(X):
        return masks_of(X, rng.random() < 0.5 + shift * np.sign(X[:, 2]))

    return select


def test_draws_that_depend_on_each_other():
    assert quick(coin_per_call(0.1)).leaks
    report = quick(coin_per_call(0.0))
    assert not report.leaks
    assert not report.independent_draws
    assert any("depend on each other" in caution for caution in report.cautions)
    assert "95 % probability" not in report.summary()


def test_masks_that_change_from_call_to_call_are_not_independent():
    n_calls = [0]

    def alternating(X):
        n_calls[0] += 1
        return masks_of(X, (X[:, 0] > 0) & (n_calls[0] % 2 == 1))

    report = quick(alternating)
    assert not report.leaks
    assert not report.independent_draws


def test_independent_draws_have_no_caution():
    for seed in range(5):
        report = quick(lambda X, rng: rng.random(X.shape) < 0.3, random_state=seed, n_draws=500)
        assert report.cautions == []


def test_a_stochastic_selector_that_leaks_in_calls_of_one_row():
    def alone(X, rng):
        shift = 0.3 * (len(X) == 1) * np.sign(X[:, 2])
        return masks_of(X, rng.random(len(X)) < 0.5 + shift)

    report = quick(alone, n_draws=20_000)
    assert report.leaks
    assert "in calls of one row" in report.finding
