"""Scales of columns: quartiles, and values that many rows share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.data.encode import NORMAL_RANGE, robust_scale

OTHERS = np.linspace(-1.0, 1.0, 101)


def with_zeros(n, others=OTHERS):
    return np.concatenate([np.zeros(n), others])


def interquartile_range(values):
    return np.subtract(*np.percentile(values, [75, 25]))


def test_quartiles_next_to_a_frequent_value_are_not_used():
    # The quartiles are at -0.5 and 0.5, then close to 0, then 0.
    assert robust_scale(with_zeros(0)) == pytest.approx(1 / NORMAL_RANGE)
    assert interquartile_range(with_zeros(98)) < 0.1
    assert robust_scale(with_zeros(98)) == pytest.approx(1 / NORMAL_RANGE, rel=0.02)
    assert interquartile_range(with_zeros(200)) == 0
    assert robust_scale(with_zeros(200)) == pytest.approx(with_zeros(200).std())


@pytest.mark.parametrize(
    "values", [with_zeros(20), with_zeros(50, np.linspace(1, 3, 101)), [0.0, 1.0] * 50]
)
def test_other_quartiles_are_used(values):
    expected = interquartile_range(values) / NORMAL_RANGE
    assert robust_scale(np.array(values)) == pytest.approx(expected)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_scales_are_positive_and_finite(values):
    scale = robust_scale(np.array(values))
    assert 0 < scale < np.inf


def test_outliers_of_a_mostly_constant_column_do_not_matter():
    counts = np.concatenate([np.zeros(200), np.arange(1.0, 41.0)])
    assert robust_scale(counts) == pytest.approx(counts.std())
    with_code = np.append(counts, 999_999_999.0)
    # The median of the other rows is 21, and their quartiles are 11 and 31.
    assert robust_scale(with_code) == pytest.approx(21.0)


def test_the_smallest_numbers_have_a_scale():
    tiny = 5e-324
    assert robust_scale(np.array([0.0] * 10 + [-tiny, tiny])) == 1.0
    assert robust_scale(np.array([-1.7e308, 0.0, 0.0, 1.7e308])) > 0


def test_outliers_do_not_matter():
    values = np.random.RandomState(0).randn(1000)
    far = np.concatenate([values, np.full(10, 1e12)])
    assert robust_scale(far) == pytest.approx(robust_scale(values), rel=0.05)
