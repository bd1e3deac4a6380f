"""Trained models compared with the exact optimum of an enumerated problem."""

from itertools import product

import numpy as np
import pytest

from suwr import SUWRRegressor
from suwr.exact import FiniteProblem, gap, leakage

pytestmark = pytest.mark.slow
CUBE = np.array(list(product([0.0, 1.0], repeat=4)))
TARGET = (CUBE[:, 0] * CUBE[:, 1] + CUBE[:, 2] * CUBE[:, 3]) ** 2
WEIGHT = 0.05


@pytest.fixture(scope="module")
def model():
    X, y = np.repeat(CUBE, 30, axis=0), np.repeat(TARGET, 30)
    return SUWRRegressor(
        max_epochs=40, training={"hidden_size": 64}, sparsity_weight=WEIGHT, random_state=0
    ).fit(X, y)


@pytest.mark.parametrize("policy", [None, "greedy", "sampled"])
def test_the_objective_is_close_to_the_optimum_and_not_below_it(model, policy):
    problem = FiniteProblem(CUBE, TARGET)
    result = gap(model, problem, WEIGHT, policy=policy)
    assert result.to_lp >= -1e-6
    # Without features the objective is the variance of y, 0.98; the optimum is 0.15.
    assert -1e-6 <= result.to_suwr <= 0.1


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_no_leakage_by_any_definition(model, policy):
    masks = CUBE.astype(bool)
    probabilities = model.mask_probability(CUBE, masks[None], policy=policy)
    found = leakage(FiniteProblem(CUBE, TARGET), (masks, probabilities), tolerance=1e-5)
    assert not found.label.leaks
    assert not found.feature.leaks
    assert not found.condition.leaks
