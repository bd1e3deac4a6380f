"""The best SUWR policy, by dynamic programming over masked states."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from suwr._utils.validation import check_integer
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, MaskedStates, check_memory
from suwr.exact.tree import DecisionTree


@dataclass(frozen=True)
class StepLimits:
    """Number of steps of a policy, and number of features of a step.

    Attributes
    ----------
    max_steps : int or None
        Maximum number of steps (T in the paper); None is the number of features.
    units_per_step : int
        Maximum number of features that one step reveals at once.
    """

    max_steps: int | None = None
    units_per_step: int = 1

    @classmethod
    def checked(cls, max_steps: Any, units_per_step: Any, owner: str) -> StepLimits:
        """Validate both parameters on behalf of the function ``owner``."""
        if max_steps is not None:
            max_steps = check_integer(max_steps, "max_steps", owner, 0)
        return cls(max_steps, check_integer(units_per_step, "units_per_step", owner, 1))

    def is_unlimited(self, n_features: int) -> bool:
        """Whether single-feature steps are optimal, so that steps need not be counted.

        With enough steps, revealing one feature at a time is never worse. With one feature per
        step, the number of steps is the number of revealed features.
        """
        return self.units_per_step == 1 or self.max_steps is None or self.max_steps >= n_features

    def max_size(self, n_features: int) -> int:
        """Maximum number of features that can be revealed in total."""
        if self.max_steps is None:
            return n_features
        return min(n_features, self.max_steps * self.units_per_step)

    @property
    def limit(self) -> int:
        """``max_steps``, which must not be None."""
        if self.max_steps is None:
            raise ValueError("The number of steps is not limited.")
        return self.max_steps


def solve_dp(
    problem: FiniteProblem, sparsity_weight: float, steps: StepLimits
) -> tuple[StatePolicy, DecisionTree]:
    """Minimise loss + λ cost over all SUWR policies.

    Every masked state s satisfies V(s) = min(c(s), min_u Σ_a V(s with x[u] = a)), where c(s) is the
    cost of stopping and u are the features that one step may reveal. All quantities are weighted by
    the probability of their state, so V(∅) is the optimal objective. Some optimal policy is
    deterministic, that is, a decision tree.
    """
    states = problem.states
    weights = np.array([sparsity_weight])
    if steps.is_unlimited(problem.n_features):
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
    return policy, DecisionTree(problem, paths)


def front_points_dp(
    problem: FiniteProblem, weights: Floats, steps: StepLimits
) -> tuple[Floats, Floats, Floats]:
    """Loss, cost and number of features of an optimal policy at each sparsity weight."""
    states = problem.states
    unlimited = steps.is_unlimited(problem.n_features)
    stop = states.stop_cost(weights, steps.max_size(problem.n_features) if unlimited else None)
    amounts = [stop, _repeated(states.cost_mass, weights)]
    if problem.costs is not None:
        amounts.append(_repeated(states.size_mass(), weights))
    if unlimited:
        states.sweep(*amounts)
        final = amounts
    else:
        options = _options(problem.n_features, steps)
        (final,) = deque(_layers(states, amounts, options, steps.limit), maxlen=1)
    root = states.root
    value, cost, size = final[0][root], final[1][root], final[-1][root]
    return value - weights * cost, cost, size


def _repeated(amounts: Floats, weights: Floats) -> Floats:
    return np.repeat(amounts[:, None], len(weights), axis=1)


def _singles(n_features: int) -> list[tuple[int, ...]]:
    return [(j,) for j in range(n_features)]


def _options(n_features: int, steps: StepLimits) -> list[tuple[int, ...]]:
    return [
        units
        for size in range(1, min(steps.units_per_step, n_features) + 1)
        for units in combinations(range(n_features), size)
    ]


def _layers(
    states: MaskedStates, stop: list[Floats], options: list[tuple[int, ...]], n_steps: int
) -> Iterator[list[Floats]]:
    """Values with 0, 1, …, n_steps remaining steps."""
    following = stop
    yield following
    for _ in range(n_steps):
        current = [amounts.copy() for amounts in stop]
        for units in options:
            states.improve(units, following, current)
        following = current
        yield following


def _paths(
    problem: FiniteProblem, stop: Floats, layers: list[Floats], options: list[tuple[int, ...]]
) -> Ints:
    """States of all support rows after each optimal decision.

    Decisions are computed for visited states only.
    """
    states = problem.states
    rows = np.arange(problem.n_rows)
    paths = [np.full(problem.n_rows, states.root)]
    remaining = len(layers) - 1
    rounding = 1e-15 * stop[states.root]
    while True:
        here = paths[-1]
        value = layers[remaining]
        # Stop on ties: the objective is the same, with fewer features.
        moving = rows[value[here] < stop[here] * (1 - 1e-12) - rounding]
        if not len(moving):
            return np.column_stack(paths)
        following = layers[max(remaining - 1, 0)]
        ids, group = np.unique(here[moving], return_inverse=True)
        best = _best_option(problem, moving, ids, group, following, options)
        bits = np.array([sum(1 << j for j in units) for units in options])[best]
        after = here.copy()
        after[moving] = states.index(moving, states.masks_of(ids)[group] | bits[group])
        paths.append(after)
        remaining = max(remaining - 1, 0)


def _best_option(
    problem: FiniteProblem,
    rows: Ints,
    ids: Ints,
    group: Ints,
    following: Floats,
    options: list[tuple[int, ...]],
) -> Ints:
    """Option of minimal value in each state; the first one on ties."""
    states = problem.states
    masks = states.masks_of(ids)
    best = np.full(len(ids), -1)
    least = np.full(len(ids), np.inf)
    for number, units in enumerate(options):
        bits = sum(1 << j for j in units)
        children = states.index(rows, masks[group] | bits)
        # The value of a child, divided among its rows in proportion to their probability.
        share = following[children] * problem.p[rows] / states.mass[children]
        total = np.bincount(group, weights=share, minlength=len(ids))
        better = ((masks & bits) == 0) & (total < least - 1e-12 * np.abs(total))
        best[better], least[better] = number, total[better]
    return best
