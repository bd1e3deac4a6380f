"""Curves over costs, paired differences and ranks."""

import math

import numpy as np
import pytest

from suwr_experiments.comparison import Curve, Ranking, paired_difference, rank_methods


def test_mean_is_the_integral_of_the_interpolated_curve():
    curve = Curve.of([5.0, 1.0, 3.0], [0.2, 0.9, 0.4])
    grid = np.linspace(2, 10, 100_001)
    assert curve.mean(2, 10) == pytest.approx(curve.at(grid).mean(), abs=1e-4)
    # Beyond the last point the curve is constant.
    assert curve.at([5, 100]).tolist() == [0.2, 0.2]


def test_differences_are_paired():
    # The splits differ far more than the methods do.
    difference = paired_difference([0.2, 0.5, 0.9], [0.21, 0.512, 0.911])
    assert difference.mean == pytest.approx(-0.011)
    assert difference.error == pytest.approx(0.001 / math.sqrt(3))
    assert difference.sign == -1
    assert paired_difference([0.2, 0.5], [0.3, 0.3]).sign == 0


def test_one_split_has_no_standard_error():
    difference = paired_difference([0.2], [0.9])
    assert difference.sign == 0
    assert difference.format(2) == "-0.70"


def test_ranks_of_equal_losses_are_averaged():
    ranking = rank_methods({"a": [1.0, 2.0], "b": [1.0, 1.0]})
    assert ranking.mean_rank == {"b": 1.25, "a": 1.75}
    assert math.isnan(ranking.p_value)


def test_critical_difference_is_that_of_the_literature():
    # Demšar (2006), Section 3.2.3: 4 methods on 14 data sets at 5 %.
    losses = {name: np.random.RandomState(i).rand(14) for i, name in enumerate("abcd")}
    assert rank_methods(losses).critical_difference == pytest.approx(1.25, abs=0.005)


def test_groups_are_maximal_and_not_nested():
    ranks = {"a": 1.0, "b": 1.4, "c": 2.2, "d": 4.0}
    assert Ranking(ranks, 0.01, 1.0, 20).groups() == [("a", "b"), ("b", "c")]
    assert Ranking(ranks, 0.01, 5.0, 20).groups() == [("a", "b", "c", "d")]
    assert Ranking(ranks, 0.01, 0.1, 20).groups() == []
