"""p-values and fixed-sequence testing: brute force, and simulations with known risks."""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from suwr.estimators.risks import (
    binomial_p_value,
    fixed_sequence,
    hoeffding_bentkus_p_value,
    smallest_sample,
)


@pytest.mark.parametrize("level", [0.05, 0.3])
def test_binomial_p_value_is_the_sum_over_all_outcomes(level):
    n = 8
    for k in range(n + 1):
        losses = [1.0] * k + [0.0] * (n - k)
        # Every sequence of n losses with at most k of them, by its probability.
        exact = sum(
            level ** sum(outcome) * (1 - level) ** (n - sum(outcome))
            for outcome in product((0, 1), repeat=n)
            if sum(outcome) <= k
        )
        assert binomial_p_value(losses, level) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("test", [binomial_p_value, hoeffding_bentkus_p_value])
@pytest.mark.parametrize("n", [10, 60, 200])
def test_p_values_are_valid_under_the_null(test, n):
    """P(p ≤ error) ≤ error, summed exactly over the number of losses, at the edge of the null."""
    level = 0.1
    p = np.array([test([1.0] * k + [0.0] * (n - k), level) for k in range(n + 1)])
    mass = binom.pmf(np.arange(n + 1), n, level)
    for error in (0.01, 0.05, 0.1, 0.3):
        assert mass[p <= error].sum() <= error + 1e-12
    assert (np.diff(p) >= 0).all()


def test_hoeffding_bentkus_by_hand():
    losses = np.array([0.5, 0.25, 0.0, 0.0] * 10)
    n, level, mean = 40, 0.5, 7.5 / 40
    divergence = mean * np.log(mean / level) + (1 - mean) * np.log((1 - mean) / (1 - level))
    bentkus = np.e * sum(comb(n, k) for k in range(9)) / 2**n
    expected = min(np.exp(-n * divergence), bentkus)
    assert hoeffding_bentkus_p_value(losses, level) == pytest.approx(expected)
    assert hoeffding_bentkus_p_value([1.0] * 5, level) == 1.0
    assert hoeffding_bentkus_p_value([], level) == 1.0


def test_smallest_sample_is_the_first_that_can_pass():
    for level, error in [(0.05, 0.05), (0.1, 0.05), (0.01, 0.2)]:
        n = smallest_sample(level, error)
        assert binomial_p_value([0] * n, level) <= error < binomial_p_value([0] * (n - 1), level)


def test_fixed_sequence_stops_at_the_first_failure():
    assert fixed_sequence([0.05, 0.0, 0.051, 0.0], 0.05) == 2
    assert fixed_sequence([0.2, 0.0], 0.05) == 0
    assert fixed_sequence([0.0, 0.0], 0.05) == 2
    assert fixed_sequence([], 0.05) == 0


@pytest.mark.parametrize("continuous", [False, True])
def test_violation_rate_of_a_family_with_known_risks(continuous):
    """The chosen policy exceeds the level in at most 1 - confidence of the calibrations."""
    rng = np.random.RandomState(0)
    level, error, n, repeats = 0.1, 0.1, 150, 400
    risks = np.linspace(0.0, 0.3, 31)
    violations, chosen = 0, []
    for _ in range(repeats):
        # One draw per row for all policies: their losses are strongly dependent.
        draw = rng.rand(n, 1) < risks
        losses = draw * rng.beta(8, 2, size=(n, 1)) if continuous else draw.astype(float)
        expected = risks * (0.8 if continuous else 1.0)
        test = hoeffding_bentkus_p_value if continuous else binomial_p_value
        p_values = []
        for k in range(len(risks)):
            p_values.append(test(losses[:, k], level))
            if p_values[-1] > error:
                break
        passed = fixed_sequence(p_values, error)
        chosen.append(expected[passed - 1] if passed else 0.0)
        violations += chosen[-1] > level + 1e-12
    # A binomial test of the rate itself, which a correct procedure fails once in 10,000 times.
    assert violations <= binom.ppf(0.9999, repeats, error)
    # The test can fail: the procedure is not so conservative that it never comes near.
    assert np.mean(chosen) > 0.3 * level
