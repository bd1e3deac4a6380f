"""Optimal policies of problems with known solutions."""

import tracemalloc

import numpy as np
import pytest

from suwr.exact import (
    FiniteProblem,
    cube,
    five_blocks,
    one_hot_rows,
    solve,
    toy_problem,
)


@pytest.fixture(scope="module")
def toy():
    return toy_problem()


@pytest.mark.parametrize(
    ("weight", "objective", "loss", "n_selected"),
    [
        (0.3, 2.166943359375, 0.059326171875, 7.025390625),
        (0.5, 3.532470703125, 0.415283203125, 6.234375),
    ],
)
def test_toy_problem_of_the_paper(toy, weight, objective, loss, n_selected):
    solution = solve(toy, weight)
    assert solution.objective == pytest.approx(objective, abs=1e-12)
    assert solution.loss == pytest.approx(loss, abs=1e-12)
    assert solution.n_selected == pytest.approx(n_selected, abs=1e-12)
    assert solution.cost == solution.n_selected


def test_linear_program_agrees_on_a_smaller_toy_problem():
    small = toy_problem(6)
    for weight in (0.1, 0.3, 0.5):
        assert solve(small, weight, "lp").objective == pytest.approx(
            solve(small, weight).objective, abs=1e-9
        )


@pytest.mark.parametrize(("method", "n_selected"), [("lp", 2.25), ("dp", 2.5), ("global", 3.0)])
def test_five_blocks(method, n_selected):
    problem, _ = five_blocks()
    solution = solve(problem, 0.01, method)
    assert solution.loss == pytest.approx(0, abs=1e-9)
    assert solution.n_selected == pytest.approx(n_selected, abs=1e-9)


def test_the_linear_program_finds_the_five_blocks():
    problem, masks = five_blocks()
    solution = solve(problem, 0.01, "lp")
    np.testing.assert_allclose(solution.mask_probability(problem.X, masks), 1, atol=1e-9)
    np.testing.assert_array_equal(solution.select(problem.X), masks)


@pytest.mark.parametrize(("method", "n_selected"), [("lp", 1.0), ("dp", 5 / 3), ("global", 2.0)])
def test_paper_example_without_full_support(method, n_selected):
    problem, _ = one_hot_rows()
    solution = solve(problem, 0.001, method)
    assert solution.loss == pytest.approx(0, abs=1e-9)
    assert solution.n_selected == pytest.approx(n_selected, abs=1e-9)


def test_three_valued_features_by_hand():
    # y depends on x1 everywhere and on x2 only where x1 = 2: 1 + 1/3 features, no loss.
    X = cube(2, 3)
    y = np.where(X[:, 0] < 2, 10 * X[:, 0], 20 + X[:, 1])
    solution = solve(FiniteProblem(X, y), 0.01)
    assert solution.loss == pytest.approx(0, abs=1e-12)
    assert solution.n_selected == pytest.approx(4 / 3)


def test_costs_change_the_selected_features():
    # x3 = x1 xor x2 = y: x3 alone is sufficient, and so are x1 and x2 together.
    X = cube(2)
    rows = np.column_stack([X, X[:, 0] ^ X[:, 1]])
    y = rows[:, 2]
    cheap = solve(FiniteProblem(rows, y), 0.01)
    assert cheap.n_selected == 1
    priced = solve(FiniteProblem(rows, y, costs=[1, 1, 5]), 0.01)
    assert (priced.n_selected, priced.cost) == (2, 2)
    assert priced.objective == pytest.approx(0.02)


def test_max_steps_limits_the_features():
    small = toy_problem(6)
    values = [solve(small, 0.01, max_steps=t).objective for t in range(7)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(small.states.risk[small.states.root])
    assert values[6] == solve(small, 0.01).objective
    for t in range(7):
        assert solve(small, 0.01, max_steps=t).select(small.X).sum(axis=1).max() <= t


def test_revealing_several_features_at_once_reveals_more_features():
    problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 4])
    assert solve(problem, 0.1).n_selected == 1.5
    assert solve(problem, 0.1, max_steps=1, units_per_step=2).n_selected == 2
    assert solve(problem, 0.1, max_steps=2, units_per_step=2).n_selected == 1.5
    one_step = solve(problem, 0.1, max_steps=1)
    assert one_step.n_selected == 1


def test_twelve_features_stay_within_the_memory_estimate():
    # 3**12 states with ten arrays of eight bytes each, as check_memory assumes.
    problem = toy_problem(12)
    tracemalloc.start()
    solution = solve(problem, 0.3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * problem.n_states
    assert solution.tree.n_leaves == len(solution.policy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity_weight": -1}, "'sparsity_weight' parameter of solve"),
        ({"sparsity_weight": "x"}, "'sparsity_weight' parameter of solve"),
        ({"sparsity_weight": float("nan")}, "'sparsity_weight' parameter of solve"),
        ({"method": "greedy"}, "'method' parameter of solve must be one of 'dp', 'lp', 'global'"),
        ({"max_steps": -1}, "'max_steps' parameter of solve"),
        ({"units_per_step": 0}, "'units_per_step' parameter of solve"),
        ({"units_per_step": True}, "'units_per_step' parameter of solve"),
    ],
)
def test_wrong_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(toy_problem(2), **({"sparsity_weight": 0.1} | arguments))
