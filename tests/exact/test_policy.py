"""Policies: shapes of mask_probability, sampling, decision trees and tables."""

import numpy as np
import pytest

from suwr.exact import FiniteProblem, cube, five_blocks, solve, toy_problem


def test_shapes_of_mask_probability():
    problem = toy_problem(4)
    solution = solve(problem, 0.1)
    masks = cube(4).astype(bool)
    pairs = solution.mask_probability(problem.X, masks)
    shared = solution.mask_probability(problem.X, masks[None])
    own = solution.mask_probability(problem.X, np.broadcast_to(masks, (16, 16, 4)))
    assert (pairs.shape, shared.shape, own.shape) == ((16,), (16, 16), (16, 16))
    np.testing.assert_array_equal(shared, own)
    np.testing.assert_array_equal(np.diag(shared), pairs)
    np.testing.assert_allclose(shared.sum(axis=1), 1)
    assert solution.mask_probability(problem.X[:3], masks[None, :5]).shape == (3, 5)


@pytest.mark.parametrize("shape", [(3, 4), (16, 3), (2, 5, 4), (4,)])
def test_wrong_shapes_of_masks(shape):
    problem = toy_problem(4)
    with pytest.raises(ValueError, match="'masks' parameter must have shape"):
        solve(problem, 0.1).mask_probability(problem.X, np.zeros(shape, dtype=bool))


def test_masks_of_numbers_must_be_zero_or_one():
    problem = toy_problem(2)
    with pytest.raises(ValueError, match="must be boolean"):
        solve(problem, 0.1).mask_probability(problem.X, problem.X * 2)


def test_stochastic_policies_are_sampled_in_proportion():
    # The empty mask and the full masks with probability 1/2 each.
    problem = FiniteProblem(cube(2), [0, 0, 0, 4])
    solution = solve(problem, 0.1)
    policy = type(solution.policy)(problem, np.arange(9)[[8, 0, 1, 3, 4]],
                                   np.array([0.5, 0.5, 0.5, 0.5, 0.5]))  # fmt: skip
    mixed = type(solution)(problem, "lp", 0.1, policy)
    X = np.repeat(problem.X, 2000, axis=0)
    drawn = mixed.select(X, random_state=0)
    assert abs(drawn.all(axis=1).mean() - 0.5) < 0.03
    np.testing.assert_array_equal(drawn, mixed.select(X, random_state=0))
    np.testing.assert_array_equal(drawn[:7], mixed.select(X[:7], random_state=0))
    seeds = np.arange(len(X))
    drawn = mixed.select(X, random_state=seeds)
    assert abs(drawn.all(axis=1).mean() - 0.5) < 0.03
    np.testing.assert_array_equal(drawn[::-1], mixed.select(X[::-1], random_state=seeds[::-1]))
    np.testing.assert_array_equal(drawn[5], mixed.select(X[5:6], random_state=5)[0])


def test_tree_as_text():
    problem = FiniteProblem(
        [["red", 1], ["red", 2], ["blue", 1], ["blue", 2]], ["n", "y", "n", "n"], loss="zero_one"
    )
    text = solve(problem, 0.01).tree.text()
    assert text.splitlines() == [
        "reveal x1  (p = 1)",
        "  x1 = blue: predict n (1)  (p = 0.5)",
        "  x1 = red: reveal x2  (p = 0.5)",
        "    x2 = 1: predict n (1)  (p = 0.25)",
        "    x2 = 2: predict y (1)  (p = 0.25)",
    ]


def test_probabilities_of_leaves_sum_to_one():
    tree = solve(toy_problem(6), 0.05).tree

    def leaves(node):
        children = tree.children(node)
        return [node] if not children else [leaf for c in children for leaf in leaves(c)]

    found = leaves(tree.root)
    assert len(found) == tree.n_leaves
    assert sum(leaf.probability for leaf in found) == pytest.approx(1)


def test_a_state_that_is_never_visited():
    problem, _ = five_blocks()
    with pytest.raises(KeyError, match="never visits"):
        solve(problem, 9.0).tree.node(0)


def test_other_methods_have_no_tree():
    problem, _ = five_blocks()
    assert solve(problem, 0.1, "lp").tree is None
    assert solve(problem, 0.1, "global").tree is None
