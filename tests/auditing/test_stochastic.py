"""Tests of stochastic selectors."""

import numpy as np
import pytest

from suwr.auditing import audit
from suwr.auditing.background import BackgroundData
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.stochastic import Pair, mid_ranks, select_mask
from suwr.selector import as_selector


def test_mid_ranks_of_distinct_values():
    codes = np.random.default_rng(0).permutation(100)[:, None]
    np.testing.assert_allclose(mid_ranks(codes), (codes + 0.5) / 100)


def test_ties_between_masks_do_not_depend_on_the_hash_seed():
    # Each of the 16 masks is drawn once, for one of the rows, so that all differences are equal.
    def select(X):
        copy = np.arange(len(X)) // 2 % 8
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 1:4] = copy[:, None] >> np.arange(3) & 1
        masks[:, 4] = X[:, 0] > 0
        return masks

    background = BackgroundData(np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]))
    queries = SelectorQueries(as_selector(select), background, np.random.default_rng(0))
    pair = Pair(*background.unchanged(np.array([0, 1])))
    selected = select_mask(queries, pair, n_draws=8)
    assert selected.mask.tolist() == [False] * 5
    assert selected.sign == 1


@pytest.mark.slow
def test_the_stated_power_holds_for_many_columns():
    options = {"gaps": False, "n_draws": 6000, "support": "product"}

    def found(seed, shift):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 100))
        hidden = rng.integers(1, 100)

        def select(X, rng):
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = rng.random(len(X)) < 0.5 + shift / 2 * np.sign(X[:, hidden])
            return masks

        return audit(select, X, random_state=seed, **options)

    shift = found(0, 0.0).detectable_shift
    assert shift < 0.15
    assert sum(found(seed, shift).leaks for seed in range(10)) >= 8


def test_units_that_were_not_tested_are_stated(monkeypatch):
    monkeypatch.setattr("suwr.auditing.stochastic._MAX_UNITS", 4)
    X = np.random.default_rng(0).normal(size=(100, 6))
    report = audit(
        lambda X, rng: rng.random(X.shape) < 0.5, X, random_state=0, gaps=False, n_draws=2000
    )
    assert report.n_untested == 2
    assert "other than 2 random ones that were not tested" in report.summary()
