"""Pareto fronts of problems with known solutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.exact import FiniteProblem, cube, five_blocks, pareto_front, solve, toy_problem


def test_toy_front_of_the_paper():
    front = pareto_front(toy_problem())
    np.testing.assert_allclose(front.n_selected[[0, 5, 6, 7]], [0, 6.234375, 7.025390625, 7.5])
    np.testing.assert_allclose(front.loss[[5, 6, 7]], [0.415283203125, 0.059326171875, 0])
    np.testing.assert_allclose(front.sparsity_weight[[5, 6, 7]], [0.45, 0.125, 0])
    assert len(front) == 8


@pytest.mark.parametrize(("method", "features"), [("lp", 2.25), ("dp", 2.5), ("global", 3)])
def test_front_of_the_five_blocks_is_one_line(method, features):
    front = pareto_front(five_blocks()[0], method)
    np.testing.assert_allclose(front.n_selected, [0, features], atol=1e-9)
    np.testing.assert_allclose(front.loss, [0.75, 0], atol=1e-9)
    np.testing.assert_allclose(front.sparsity_weight, [0.75 / features, 0], atol=1e-9)


METHODS = ("dp", "lp", "global")


def assert_one_point(problem):
    for method in METHODS:
        front = pareto_front(problem, method)
        assert front.n_selected.tolist() == [0.0]
        assert front.sparsity_weight.tolist() == [0.0]
        assert front.loss == pytest.approx([0.0], abs=1e-25)


# Rounding of p and of the label makes the pooled means of these problems differ by about 1e-17.
@pytest.mark.parametrize("label", [3.0, 0.1, 1 / 3, -2.7])
@pytest.mark.parametrize("support", ["full", "partial"])
def test_front_of_a_constant_label_is_one_point(label, support):
    rng = np.random.default_rng(0)
    for _ in range(10):
        X = cube(3)
        if support == "partial":
            X = X[rng.permutation(8)[:5]]
        problem = FiniteProblem(X, [label] * len(X), rng.dirichlet(np.ones(len(X))))
        assert_one_point(problem)
        assert solve(problem, 0.0).n_selected == 0
        assert solve(problem, 0.0, "global").n_selected == 0


def test_front_of_labels_that_differ_by_rounding_is_one_point():
    rng = np.random.default_rng(1)
    for _ in range(10):
        y = np.where(rng.random(8) < 0.5, 0.3, 0.1 + 0.2)
        assert_one_point(FiniteProblem(cube(3), y, rng.dirichlet(np.ones(8))))


@settings(max_examples=60)
@given(
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.lists(st.integers(1, 1000), min_size=9, max_size=9),
    st.sampled_from(["squared_error", "cross_entropy", "zero_one"]),
)
def test_front_of_any_constant_label_is_one_point(label, weights, loss):
    p = np.array(weights) / sum(weights)
    assert_one_point(FiniteProblem(cube(2, 3), [label] * 9, p, loss=loss))


def test_small_variances_have_a_front():
    # The labels differ by far more than rounding, although by little compared with their mean.
    front = pareto_front(FiniteProblem(cube(2), 1 + 1e-6 * np.array([0, 0, 0, 4])))
    np.testing.assert_allclose(front.n_selected, [0, 1.5], atol=1e-9)
    np.testing.assert_allclose(front.loss[0], 3e-12, rtol=1e-6)


def test_rounding_of_probabilities_adds_no_corner():
    # The feature is irrelevant, but its two error probabilities do not add up exactly.
    y = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    for p in ([1 / 3, 2 / 3], [0.3, 0.7], [0.9, 0.1]):
        problem = FiniteProblem([[0], [1]], y, p, loss="zero_one")
        for method in METHODS:
            assert pareto_front(problem, method).n_selected.tolist() == [0.0]


@pytest.mark.parametrize("method", METHODS)
def test_a_feature_without_cost_is_always_selected(method):
    problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 10, 11], costs=[0, 1])
    front = pareto_front(problem, method)
    np.testing.assert_allclose(front.cost, [0, 1], atol=1e-9)
    np.testing.assert_allclose(front.n_selected, [1, 2], atol=1e-9)
    np.testing.assert_allclose(front.loss, [0.25, 0], atol=1e-9)


def test_loss_between_corners_is_interpolated():
    front = pareto_front(five_blocks()[0])
    np.testing.assert_allclose(front.loss_at([0, 1.25, 2.5, 9]), [0.75, 0.375, 0, 0])
    assert np.isnan(front.loss_at(-1.0))
    np.testing.assert_allclose(front.objective([0, 0.3, 1]), [0, 0.75, 0.75])


def test_limited_steps_limit_the_front():
    problem = toy_problem(6)
    limited = pareto_front(problem, max_steps=2)
    assert limited.n_selected[-1] <= 2
    assert limited.loss[-1] > pareto_front(problem).loss[-1]
    wide = pareto_front(problem, max_steps=1, units_per_step=2)
    assert wide.loss[-1] >= limited.loss[-1]


def test_wrong_parameters():
    problem = toy_problem(2)
    with pytest.raises(ValueError, match="'method' parameter of pareto_front"):
        pareto_front(problem, "ip")
