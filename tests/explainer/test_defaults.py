"""Tests of the defaults of explainers."""

import math

import numpy as np
import pytest

from suwr.explainer.explainer import default_training, default_weight
from suwr.training.config import TrainingConfig


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
    ("n_columns", "n_bins"), [(1, 32), (16, 32), (17, 30), (256, 2), (512, 1), (513, 0)]
)
def test_bins_of_all_columns_are_limited(n_columns, n_bins):
    assert default_training(None, n_columns)["n_bins"] == n_bins


def test_given_settings_take_precedence():
    config = TrainingConfig(rollouts=3)
    assert default_training(config, 5) is config
    assert default_training({"n_bins": 0, "dropout": 0.4}, 5)["dropout"] == 0.4
    assert default_training({"n_bins": 0}, 5)["n_bins"] == 0
