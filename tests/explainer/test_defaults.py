"""Tests of the defaults of explainers."""

import math

import numpy as np
import pytest

from suwr.explainer.explainer import default_weight
from suwr.training.config import taught_bins


def test_weight_of_rare_classes_follows_their_entropy():
    outputs = np.tile([0.97, 0.03], (50, 1))
    expected = -0.02 * (0.97 * math.log(0.97) + 0.03 * math.log(0.03))
    assert default_weight(outputs) == pytest.approx(expected)


@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_weight_of_balanced_classes_does_not_grow_with_their_number(n_classes):
    assert default_weight(np.eye(n_classes)) == pytest.approx(0.01 * math.log(2))


def test_weight_of_a_single_class_is_zero():
    assert default_weight(np.ones((5, 1))) == 0.0


@pytest.mark.parametrize(
    ("n_columns", "n_bins"), [(1, 32), (16, 32), (17, 30), (64, 8), (65, 0), (513, 0)]
)
def test_bins_of_all_columns_are_limited(n_columns, n_bins):
    assert taught_bins(n_columns) == n_bins
