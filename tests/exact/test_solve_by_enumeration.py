"""All three solvers against an enumeration of all policies in plain Python."""

from itertools import combinations, product

import numpy as np
import pytest

from suwr.exact import FiniteProblem, solve


def stopping_loss(problem, rows):
    """p(s) times the loss of the best prediction for a set of rows, by definition."""
    joint = {}
    for row in rows:
        for label, q in zip(
            problem.labels.tolist(), problem.label_distribution[[row]].toarray()[0], strict=True
        ):
            joint[label] = joint.get(label, 0) + problem.p[row] * q
    total = sum(joint.values())
    if problem.loss == "squared_error":
        mean = sum(q * label for label, q in joint.items()) / total
        return sum(q * (label - mean) ** 2 for label, q in joint.items())
    if problem.loss == "zero_one":
        return total - max(joint.values())
    return -sum(q * np.log(q / total) for q in joint.values() if q > 0)


def split(problem, rows, units):
    groups = {}
    for row in rows:
        groups.setdefault(tuple(problem.X[row, list(units)].tolist()), []).append(row)
    return list(groups.values())


def cost_of(problem, mask):
    costs = np.ones(problem.n_features) if problem.costs is None else problem.costs
    return sum(costs[j] for j in mask)


def all_trees(problem, weight, rows, mask, steps, most):
    """Objectives of all deterministic SUWR policies."""
    p = sum(problem.p[row] for row in rows)
    values = [stopping_loss(problem, rows) + weight * p * cost_of(problem, mask)]
    if steps == 0:
        return values
    hidden = [j for j in range(problem.n_features) if j not in mask]
    for size in range(1, min(most, len(hidden)) + 1):
        for units in combinations(hidden, size):
            parts = [
                all_trees(problem, weight, group, (*mask, *units), steps - 1, most)
                for group in split(problem, rows, units)
            ]
            values += [sum(choice) for choice in product(*parts)]
    return values


def all_subsets(problem, weight):
    d, rows = problem.n_features, range(problem.n_rows)
    return [
        sum(stopping_loss(problem, g) for g in split(problem, rows, units))
        + weight * cost_of(problem, units)
        for size in range(d + 1)
        for units in combinations(range(d), size)
    ]


def all_vertices(problem, weight):
    """Objectives of all vertices of the polytope of leak-free policies."""
    d, rows = problem.n_features, range(problem.n_rows)
    states = [
        (units, group)
        for size in range(d + 1)
        for units in combinations(range(d), size)
        for group in split(problem, rows, units)
    ]
    cost = np.array(
        [
            stopping_loss(problem, g) + weight * sum(problem.p[g]) * cost_of(problem, units)
            for units, g in states
        ]
    )
    matrix = np.zeros((problem.n_rows, len(states)))
    for k, (_, group) in enumerate(states):
        matrix[group, k] = 1
    bases = np.array(list(combinations(range(len(states)), problem.n_rows)))
    squares = matrix.T[bases].transpose(0, 2, 1)
    regular = np.abs(np.linalg.det(squares)) > 0.5  # the entries are 0 and 1
    ones = np.ones((regular.sum(), problem.n_rows, 1))
    theta = np.linalg.solve(squares[regular], ones)[..., 0]
    feasible = (theta > -1e-9).all(axis=1)
    return (theta[feasible] * cost[bases[regular][feasible]]).sum(axis=1)


def tiny_problems():
    rng = np.random.default_rng(7)
    noisy = rng.dirichlet([0.4, 0.4, 0.4], 9)
    bits2 = list(product(range(2), repeat=2))
    bits3 = list(product(range(2), repeat=3))
    three = list(product(range(3), repeat=2))
    skewed = rng.dirichlet(np.ones(4))
    yield "two bits", FiniteProblem(bits2, [0, 1, 2, 5])
    yield "skewed, noisy", FiniteProblem(bits2, noisy[:4], skewed, loss="cross_entropy")
    yield "zero-one", FiniteProblem(bits2, noisy[:4], skewed, loss="zero_one")
    yield "costs", FiniteProblem(bits2, [0, 1, 2, 5], costs=[1, 0.3])
    yield "strings", FiniteProblem([[a, b] for a in "uv" for b in "st"], ["n", "n", "n", "y"])
    yield (
        "dependent",
        FiniteProblem([bits3[i] for i in (0, 3, 5, 6)], [0, 1, 3, 9], rng.dirichlet(np.ones(4))),
    )
    yield "one-hot", FiniteProblem(np.eye(3, dtype=int), [2, 1, 0])
    yield "three values", FiniteProblem(three, noisy, loss="cross_entropy")
    yield "three bits", FiniteProblem(bits3, rng.normal(size=8), rng.dirichlet(np.ones(8)))
    yield (
        "three bits, costs",
        FiniteProblem(
            bits3, noisy[:8], rng.dirichlet(np.ones(8)), loss="zero_one", costs=[0, 1, 2]
        ),
    )


PROBLEMS = dict(tiny_problems())
WEIGHTS = (0.0, 0.02, 0.1, 0.4, 3.0)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_dp_is_the_best_of_all_trees(name, weight):
    problem = PROBLEMS[name]
    rows = list(range(problem.n_rows))
    best = min(all_trees(problem, weight, rows, (), problem.n_features, 1))
    assert solve(problem, weight).objective == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("name", [n for n, q in PROBLEMS.items() if q.n_features == 3])
@pytest.mark.parametrize("weight", WEIGHTS[1:4])
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_dp_with_limited_steps(name, weight, steps, units):
    problem = PROBLEMS[name]
    rows = list(range(problem.n_rows))
    best = min(all_trees(problem, weight, rows, (), steps, units))
    solution = solve(problem, weight, max_steps=steps, units_per_step=units)
    assert solution.objective == pytest.approx(best, abs=1e-12)
    assert solution.tree.depth <= steps


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_global_is_the_best_of_all_subsets(name, weight):
    problem = PROBLEMS[name]
    best = min(all_subsets(problem, weight))
    assert solve(problem, weight, "global").objective == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("name", [n for n, q in PROBLEMS.items() if q.n_rows <= 4])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_lp_is_the_best_of_all_vertices(name, weight):
    problem = PROBLEMS[name]
    best = all_vertices(problem, weight).min()
    found = solve(problem, weight, "lp").objective
    assert found == pytest.approx(best, abs=1e-8)
