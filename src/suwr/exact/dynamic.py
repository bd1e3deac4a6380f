"""The best SUWR policy, by dynamic programming over masked states."""

from itertools import combinations

import numpy as np

from suwr.exact._arrays import Floats, Ints
from suwr.exact._checks import check_memory
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.states import MaskedStates
from suwr.exact.steps import Steps
from suwr.exact.tree import DecisionTree


def solve_dp(problem: FiniteProblem, sparsity_weight: float, steps: Steps) -> Solution:
    """Minimise loss + λ cost over all SUWR policies.

    V(s) = min(c(s), min_u Σ_a V(s with x[u] = a)) holds for every masked state s, where c(s) is the
    cost of stopping and u is what one step may reveal. All amounts carry the probability of their
    state, so V(∅) is the optimal objective. Some optimal policy is deterministic: a decision tree.
    """
    states = problem.states
    weights = np.array([sparsity_weight])
    if steps.is_free(problem.n_features):
        stop = states.stop_cost(weights, steps.max_size(problem.n_features))
        value = stop.copy()
        states.sweep(value)
        layers, options = [value[:, 0]], _singles(problem.n_features)
    else:
        options = _options(problem.n_features, steps)
        check_memory(
            8 * states.n_states * (steps.limit + 4),
            problem.max_memory,
            states.n_states * (steps.limit + 1),
            f"A dynamic program of {steps.limit} steps",
        )
        stop = states.stop_cost(weights)
        layers = [layer[0][:, 0] for layer in _layers(states, [stop], options, steps.limit)]
    paths = _paths(problem, stop[:, 0], layers, options)
    leaves = np.unique(paths[:, -1])
    policy = StatePolicy(problem, leaves, np.ones(len(leaves)))
    return Solution(problem, "dp", sparsity_weight, policy, DecisionTree(problem, paths))


def front_points_dp(
    problem: FiniteProblem, weights: Floats, steps: Steps
) -> tuple[Floats, Floats, Floats]:
    """Loss, cost and number of features of an optimal policy at each of many weights."""
    states = problem.states
    free = steps.is_free(problem.n_features)
    stop = states.stop_cost(weights, steps.max_size(problem.n_features) if free else None)
    amounts = [stop, _repeated(states.cost_mass, weights)]
    if problem.costs is not None:
        amounts.append(_repeated(states.size_mass(), weights))
    if free:
        states.sweep(*amounts)
        final = amounts
    else:
        *_, final = _layers(states, amounts, _options(problem.n_features, steps), steps.limit)
    root = states.root
    value, cost, size = final[0][root], final[1][root], final[-1][root]
    return value - weights * cost, cost, size


def _repeated(amounts: Floats, weights: Floats) -> Floats:
    return np.repeat(amounts[:, None], len(weights), axis=1)


def _singles(n_features: int) -> list[tuple[int, ...]]:
    return [(j,) for j in range(n_features)]


def _options(n_features: int, steps: Steps) -> list[tuple[int, ...]]:
    return [
        units
        for size in range(1, min(steps.units_per_step, n_features) + 1)
        for units in combinations(range(n_features), size)
    ]


def _layers(
    states: MaskedStates, stop: list[Floats], options: list[tuple[int, ...]], n_steps: int
) -> list[list[Floats]]:
    """Values with 0, 1, …, n_steps steps left."""
    layers = [stop]
    for _ in range(n_steps):
        current = [amounts.copy() for amounts in stop]
        for units in options:
            states.improve(units, layers[-1], current)
        layers.append(current)
    return layers


def _paths(
    problem: FiniteProblem, stop: Floats, layers: list[Floats], options: list[tuple[int, ...]]
) -> Ints:
    """Follow the optimal decisions for all support rows at once.

    Only visited states need a decision, so no table of them is stored.
    """
    states = problem.states
    rows = np.arange(problem.n_rows)
    paths = [np.full(problem.n_rows, states.root)]
    left = len(layers) - 1
    while True:
        here = paths[-1]
        value = layers[left]
        # A tie means stop: the same objective with fewer features.
        moving = rows[value[here] < stop[here] * (1 - 1e-12) - 1e-15]
        if not len(moving):
            return np.column_stack(paths)
        following = layers[max(left - 1, 0)]
        ids, group = np.unique(here[moving], return_inverse=True)
        best = _best_option(problem, moving, ids, group, following, options)
        bits = np.array([sum(1 << j for j in units) for units in options])[best]
        after = here.copy()
        after[moving] = states.index(moving, states.masks_of(ids)[group] | bits[group])
        paths.append(after)
        left = max(left - 1, 0)


def _best_option(
    problem: FiniteProblem,
    rows: Ints,
    ids: Ints,
    group: Ints,
    following: Floats,
    options: list[tuple[int, ...]],
) -> Ints:
    """For each state the option with the least value; ties go to the first."""
    states = problem.states
    masks = states.masks_of(ids)
    best = np.full(len(ids), -1)
    least = np.full(len(ids), np.inf)
    for number, units in enumerate(options):
        bits = sum(1 << j for j in units)
        children = states.index(rows, masks[group] | bits)
        # Every row carries its share of its child, so shares of one child add up to its value.
        share = following[children] * problem.p[rows] / states.mass[children]
        total = np.bincount(group, weights=share, minlength=len(ids))
        better = ((masks & bits) == 0) & (total < least - 1e-12 * np.abs(total))
        best[better], least[better] = number, total[better]
    return best
