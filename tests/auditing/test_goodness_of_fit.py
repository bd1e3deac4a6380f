"""Stated probabilities are compared with samples and are no evidence against a leak."""

import numpy as np
import pytest

from suwr.auditing import audit
from suwr.auditing.background import BackgroundData
from suwr.auditing.queries import SelectorQueries
from suwr.auditing.stochastic import compare_samples
from suwr.selector import as_selector

X = np.random.default_rng(0).normal(size=(300, 5))


class StatesHalf:
    """States the probability 0.5 for x0, and samples with a shift by the sign of a column."""

    def __init__(self, shift, column=2):
        self.shift, self.column = shift, column

    def select(self, X, rng):
        masks = np.zeros(X.shape, dtype=bool)
        p = 0.5 + self.shift * np.sign(X[:, self.column])
        masks[:, 0] = rng.random(len(X)) < p
        return masks

    def mask_probability(self, X, masks):
        return np.broadcast_to(0.5 * ~masks[..., 1:].any(axis=-1), (len(X), *masks.shape[1:-1]))


@pytest.mark.parametrize("seed", range(3))
def test_a_leak_of_three_percent_despite_stated_probabilities(seed):
    report = audit(StatesHalf(0.03), X, random_state=seed, gaps=False)
    assert report.leaks
    assert report.evidence == "test"


def test_a_leak_despite_an_exact_table_of_stated_probabilities():
    bits = np.where(X[:, :3] > 0, 1, -1)
    report = audit(StatesHalf(0.03), bits, random_state=0, gaps=False)
    assert report.leaks
    assert not report.exact
    honest = audit(StatesHalf(0.0), bits, random_state=0, gaps=False)
    assert honest.exact
    assert not honest.leaks
    assert honest.n_draws > 100_000
    assert "conclusive" not in honest.summary()


def fit(selector, seed):
    rng = np.random.default_rng(seed)
    return compare_samples(SelectorQueries(as_selector(selector), BackgroundData(X), rng), 0.01)


def test_detectable_differences_are_detected():
    _, difference = fit(StatesHalf(0.0), 0)
    assert difference < 0.05
    found = [fit(StatesHalf(difference), seed)[0] < 0.01 for seed in range(20)]
    assert sum(found) >= 16


def test_samples_that_follow_the_stated_probabilities_fit():
    assert sum(fit(StatesHalf(0.0), seed)[0] < 0.01 for seed in range(20)) <= 1


def test_masks_of_stated_probability_zero_are_a_misfit():
    class Rare(StatesHalf):
        def select(self, X, rng):
            masks = super().select(X, rng)
            masks[:, 1] = rng.random(len(X)) < 0.01
            return masks

    report = audit(Rare(0.0), X, random_state=0, gaps=False, n_draws=2000)
    assert not report.leaks
    assert any("do not follow" in caution for caution in report.cautions)


def test_the_summary_separates_statements_from_samples():
    report = audit(StatesHalf(0.0), X, random_state=0, gaps=False, n_draws=8000)
    text = report.summary()
    assert "This is no evidence about the samples" in text
    assert "compared with the stated probabilities" in text
    assert report.detectable_rate == 1.0
