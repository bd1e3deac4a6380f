"""Fronts of known shape."""

import numpy as np
import pytest

from suwr.exact import FiniteProblem, five_blocks, pareto_front, toy_problem


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


def test_a_useless_table_has_a_front_of_one_point():
    front = pareto_front(FiniteProblem([[0], [1]], [3, 3]))
    assert (front.n_selected.tolist(), front.loss.tolist()) == ([0.0], [0.0])
    assert front.sparsity_weight.tolist() == [0.0]


@pytest.mark.parametrize("method", ["dp", "lp", "global"])
def test_a_free_feature_is_used_from_the_start(method):
    problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 10, 11], costs=[0, 1])
    front = pareto_front(problem, method)
    np.testing.assert_allclose(front.cost, [0, 1], atol=1e-9)
    np.testing.assert_allclose(front.n_selected, [1, 2], atol=1e-9)
    np.testing.assert_allclose(front.loss, [0.25, 0], atol=1e-9)


def test_mixtures_lie_between_the_corners():
    front = pareto_front(five_blocks()[0])
    np.testing.assert_allclose(front.loss_at([0, 1.25, 2.5, 9]), [0.75, 0.375, 0, 0])
    assert np.isnan(front.loss_at(-1.0))
    np.testing.assert_allclose(front.objective([0, 0.3, 1]), [0, 0.75, 0.75])


def test_limited_steps_stop_the_front_early():
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
    with pytest.raises(TypeError, match="reduce"):
        pareto_front(problem, reduce=True)
