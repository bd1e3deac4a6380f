"""Properties of the solvers that hold for every problem."""

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.exact import FiniteProblem, leakage, pareto_front, solve
from suwr.exact.states import SparseStates

CHECKS = settings(max_examples=40)


@st.composite
def problems(draw, min_features=1, max_features=3):
    """Problems with 2- and 3-valued, dependent features, skewed p and noisy labels."""
    d = draw(st.integers(min_features, max_features))
    radices = [draw(st.integers(2, 3)) for _ in range(d)]
    grid = np.stack(np.meshgrid(*map(np.arange, radices), indexing="ij"), -1).reshape(-1, d)
    weights = draw(st.lists(st.integers(0, 4), min_size=len(grid), max_size=len(grid)))
    if not any(weights):
        weights[0] = 1
    counts = st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)
    table = draw(st.lists(counts, min_size=len(grid), max_size=len(grid)))
    y = np.array(table) / np.sum(table, axis=1, keepdims=True)
    loss = draw(st.sampled_from(["squared_error", "cross_entropy", "zero_one"]))
    costs = draw(st.none() | st.lists(st.integers(0, 3), min_size=d, max_size=d))
    return FiniteProblem(grid, y, np.array(weights) / sum(weights), loss=loss, costs=costs)


WEIGHT = st.sampled_from([0.0, 0.001, 0.03, 0.1, 0.25, 1.0])


@CHECKS
@given(problems(), WEIGHT)
def test_lp_at_most_dp_at_most_global(problem, weight):
    lp, dp, one = (solve(problem, weight, m).objective for m in ("lp", "dp", "global"))
    assert lp <= dp + 1e-7
    assert dp <= one + 1e-12


@CHECKS
@given(problems(max_features=2), WEIGHT)
def test_lp_equals_dp_for_two_features_with_full_support(problem, weight):
    full = FiniteProblem(
        np.stack(np.meshgrid(*[range(len(a)) for a in problem.alphabets]), -1).reshape(
            -1, problem.n_features
        ),
        np.arange(np.prod([len(a) for a in problem.alphabets])) ** 2 % 7,
    )
    for q in (full, problem) if problem.n_rows == prod(map(len, problem.alphabets)) else (full,):
        assert solve(q, weight, "lp").objective == pytest.approx(
            solve(q, weight).objective, abs=1e-7
        )


@CHECKS
@given(problems(), WEIGHT, st.integers(0, 3), st.integers(1, 2))
def test_order_holds_with_limited_steps(problem, weight, steps, units):
    limits = {"max_steps": steps, "units_per_step": units}
    lp, dp, one = (solve(problem, weight, m, **limits) for m in ("lp", "dp", "global"))
    assert lp.objective <= dp.objective + 1e-7
    # Any subset of steps * units features can be revealed in that many steps.
    assert dp.objective <= one.objective + 1e-12
    assert solve(problem, weight).objective <= dp.objective + 1e-12


@CHECKS
@given(problems(), WEIGHT, st.sampled_from(["dp", "lp", "global"]))
def test_policies_are_distributions_without_leakage(problem, weight, method):
    solution = solve(problem, weight, method)
    masks = solution.policy.masks()
    probability = solution.mask_probability(problem.X, masks[None])
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-6)
    assert not leakage(problem, solution).leaks
    # The reported cost is that of the policy, by definition.
    cost = np.ones(problem.n_features) if problem.costs is None else problem.costs
    assert solution.cost == pytest.approx(problem.p @ probability @ (masks @ cost), abs=1e-6)


@CHECKS
@given(problems(), WEIGHT)
def test_both_layouts_give_the_same_optimum(problem, weight):
    twin = FiniteProblem(
        problem.X,
        problem.label_distribution.toarray(),
        problem.p,
        labels=problem.labels,
        loss=problem.loss,
        costs=problem.costs,
    )
    twin.__dict__["states"] = SparseStates(twin.support)
    for limits in ({}, {"max_steps": 1, "units_per_step": 2}):
        one, two = solve(problem, weight, **limits), solve(twin, weight, **limits)
        assert one.objective == pytest.approx(two.objective, abs=1e-12)


@CHECKS
@given(problems(), st.sampled_from(["dp", "lp", "global"]))
def test_fronts_contain_every_optimum(problem, method):
    front = pareto_front(problem, method)
    assert len(front.loss) == len(front.cost) == len(front.n_selected) == len(front)
    assert (np.diff(front.cost) > 0).all()
    assert (np.diff(front.loss) < 0).all()
    assert (np.diff(front.sparsity_weight) < 0).all()
    assert front.sparsity_weight[-1] == 0
    middle = (front.sparsity_weight[1:] + front.sparsity_weight[:-1]) / 2
    for weight in [*front.sparsity_weight, *middle, front.sparsity_weight[0] + 1]:
        found = solve(problem, float(weight), method).objective
        assert front.objective(weight) == pytest.approx(found, abs=1e-7)


@CHECKS
@given(problems())
def test_each_corner_is_the_optimum_between_its_break_points(problem):
    front = pareto_front(problem)
    upper = np.append(front.sparsity_weight[0] + 1, front.sparsity_weight[:-1])
    for k, weight in enumerate((front.sparsity_weight + upper) / 2):
        solution = solve(problem, float(weight))
        assert solution.loss == pytest.approx(front.loss[k], abs=1e-9)
        assert solution.cost == pytest.approx(front.cost[k], abs=1e-9)


@CHECKS
@given(problems())
def test_fronts_are_nested(problem):
    lp, dp, one = (pareto_front(problem, m) for m in ("lp", "dp", "global"))
    cost = np.linspace(0, one.cost[-1], 7)
    assert (lp.loss_at(cost) <= dp.loss_at(cost) + 1e-7).all()
    assert (dp.loss_at(cost) <= one.loss_at(cost) + 1e-9).all()


@CHECKS
@given(problems(min_features=2), WEIGHT)
def test_every_row_walks_to_its_own_mask(problem, weight):
    solution = solve(problem, weight)
    chosen = solution.select(problem.X)
    for x, mask in zip(problem.X, chosen, strict=True):
        path = solution.tree.walk(x)
        assert path[-1].is_leaf
        assert not any(node.is_leaf for node in path[:-1])
        assert set(path[-1].revealed) == set(np.flatnonzero(mask))
        for before, after in itertools.pairwise(path):
            assert set(after.revealed) - set(before.revealed) == set(before.reveal_next)


@CHECKS
@given(problems(min_features=2), st.sampled_from([1e-6, 1e5]), st.sampled_from([1e-5, 1e4]))
def test_fronts_scale_with_labels_and_costs(problem, unit, price):
    if problem.is_classification:
        return
    costs = np.ones(problem.n_features) if problem.costs is None else problem.costs
    scaled = FiniteProblem(
        problem.X,
        problem.label_distribution.toarray(),
        problem.p,
        labels=problem.labels * unit,
        costs=costs * price,
    )
    for method in ("dp", "lp", "global"):
        one, two = pareto_front(problem, method), pareto_front(scaled, method)
        np.testing.assert_allclose(two.cost, one.cost * price, rtol=1e-6, atol=1e-7 * price)
        np.testing.assert_allclose(two.loss, one.loss * unit**2, rtol=1e-6, atol=1e-7 * unit**2)
