"""Optimal policies at one sparsity weight: by dynamic or linear programming, or by enumeration."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, sparse

from suwr._utils.draws import RowDraws
from suwr._utils.validation import Interval, check_choice, check_integer, check_real
from suwr.exact.policy import DecisionTree, StatePolicy, pair_rows_with_masks
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, MaskedStates, bits_mask, check_memory
from suwr.exceptions import SuwrError


class StepLimits:
    """Number of steps of a policy, and number of features of a step.

    Parameters
    ----------
    n_features : int
    max_steps : int or None
        Maximum number of steps (T in the paper); None is the number of features.
    units_per_step : int
        Maximum number of features that one step reveals at once.
    owner : str
        The function on behalf of which the parameters are validated.

    Attributes
    ----------
    max_size : int
        Maximum number of features that can be revealed in total.
    is_counted : bool
        Whether steps are limited otherwise than by ``max_size``. With enough steps, revealing one
        feature at a time is never worse; with one feature per step, their number is that of the
        revealed features.
    options : list of tuple of int
        Sets of features that one step may reveal.
    """

    def __init__(self, n_features: int, max_steps: Any, units_per_step: Any, owner: str) -> None:
        if max_steps is not None:
            check_integer(max_steps, "max_steps", owner, 0)
        check_integer(units_per_step, "units_per_step", owner, 1)
        self.max_steps: int = n_features if max_steps is None else max_steps
        self.max_size = min(n_features, self.max_steps * units_per_step)
        self.is_counted = units_per_step > 1 and self.max_steps < n_features
        largest = min(units_per_step, n_features) if self.is_counted else 1
        self.options = [
            units
            for size in range(1, largest + 1)
            for units in combinations(range(n_features), size)
        ]


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
    stop = states.stop_cost(np.array([sparsity_weight]), steps.max_size)
    if steps.is_counted:
        check_memory(
            8 * states.n_states * (steps.max_steps + 4),
            problem.max_memory,
            states.n_states * (steps.max_steps + 1),
            f"A dynamic program of {steps.max_steps} steps",
        )
        layers = [layer[0][:, 0] for layer in _layers(states, [stop], steps)]
    else:
        value = stop.copy()
        states.sweep(value)
        layers = [value[:, 0]]
    paths = _paths(problem, stop[:, 0], layers, steps.options)
    leaves = np.unique(paths[:, -1])
    policy = StatePolicy(problem, leaves, np.ones(len(leaves)))
    return policy, DecisionTree(problem, paths)


def front_points_dp(
    problem: FiniteProblem, weights: Floats, steps: StepLimits
) -> tuple[Floats, Floats, Floats]:
    """Loss, cost and number of features of an optimal policy at each sparsity weight."""
    states = problem.states
    amounts = [states.stop_cost(weights, steps.max_size), _repeated(states.cost_mass, weights)]
    if (problem.costs != 1).any():
        amounts.append(_repeated(states.size_mass(), weights))
    if steps.is_counted:
        (amounts,) = deque(_layers(states, amounts, steps), maxlen=1)
    else:
        states.sweep(*amounts)
    root = states.root
    value, cost, size = amounts[0][root], amounts[1][root], amounts[-1][root]
    return value - weights * cost, cost, size


def _repeated(amounts: Floats, weights: Floats) -> Floats:
    return np.repeat(amounts[:, None], len(weights), axis=1)


def _layers(states: MaskedStates, stop: list[Floats], steps: StepLimits) -> Iterator[list[Floats]]:
    """Values with 0, 1, …, max_steps remaining steps."""
    following = stop
    yield following
    for _ in range(steps.max_steps):
        current = [amounts.copy() for amounts in stop]
        for units in steps.options:
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


def solve_lp(problem: FiniteProblem, sparsity_weight: float, max_size: int) -> StatePolicy:
    """Minimise cᵀθ subject to Aθ = 1 and θ ≥ 0.

    A has a row for each support row x and a column for each masked state s; A[x, s] = 1 if x
    agrees with s. θ(s) is the probability ζ(h | x) that all rows x of s share. States whose cost
    exceeds the total cost of some split are left out: weight on such a state can be moved to the
    states of the split, so the optimum does not change.

    Parameters
    ----------
    problem : FiniteProblem
        The problem.
    sparsity_weight : float
        λ in the paper.
    max_size : int
        Maximum number of revealed features.
    """
    states = problem.states
    masks = np.arange(2**problem.n_features, dtype=np.int64)
    masks = masks[bits_mask(masks, problem.n_features).sum(axis=1) <= max_size]
    n_entries = problem.n_rows * len(masks)
    # 100 bytes per entry: the matrix in two sparse formats, and the copies of the solver.
    check_memory(
        100 * n_entries,
        problem.max_memory,
        states.n_positive,
        f"The linear program with {problem.n_rows:,} constraints and {n_entries:,} entries",
    )
    stop = states.stop_cost(np.array([sparsity_weight]), max_size)
    value = stop.copy()
    states.sweep(value)
    dominated = value[:, 0] < stop[:, 0] * (1 - 1e-12)
    kept = np.flatnonzero((states.mass > 0) & np.isfinite(stop[:, 0]) & ~dominated)
    matrix = _constraints(problem, masks, kept)
    # The tolerances of the solver are absolute: scale the cost of a typical row to about 1.
    scale = problem.n_rows / (stop[states.root, 0] or 1.0)
    found, _, _ = minimise(scale * stop[kept, 0], matrix, np.ones(problem.n_rows))
    theta = np.clip(found, 0.0, 1.0)
    positive = theta > 1e-12
    return StatePolicy(problem, kept[positive], theta[positive])


def minimise(cost: Floats, matrix: Any, target: Floats) -> tuple[Floats, Floats, float]:
    """Solve min cᵀθ subject to Aθ = b and θ ≥ 0 with HiGHS.

    Parameters
    ----------
    cost : ndarray of shape (n,)
        c.
    matrix : sparse array of shape (m, n)
        A.
    target : ndarray of shape (m,)
        b.

    Returns
    -------
    theta : ndarray of shape (n,)
    duals : ndarray of shape (m,)
        Dual values of the constraints.
    minimum : float
    """
    solver: Any = optimize.linprog
    result = solver(cost, A_eq=matrix, b_eq=target, bounds=(0, None), method="highs")
    if result.x is None or result.status != 0:
        raise SuwrError(
            f"The linear program with {matrix.shape[0]:,} constraints and {matrix.shape[1]:,} "
            f"masked states was not solved: {result.message}"
        )
    return np.asarray(result.x), np.asarray(result.eqlin.marginals), float(result.fun)


def _constraints(problem: FiniteProblem, masks: Ints, kept: Ints) -> sparse.csc_array:
    """The matrix A, with one column for each of the ``kept`` states."""
    place = np.full(problem.states.n_states, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    rows, entries = [], []
    all_rows = np.arange(problem.n_rows)
    for mask in masks:
        found = place[problem.states.index(all_rows, mask)]
        rows.append(all_rows[found >= 0])
        entries.append(found[found >= 0])
    row, column = np.concatenate(rows), np.concatenate(entries)
    return sparse.csc_array((np.ones(len(row)), (row, column)), shape=(problem.n_rows, len(kept)))


METHODS = ("dp", "lp", "global")
SPARSITY_WEIGHT = Interval(Real, 0)


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimal policy at one sparsity weight.

    Attributes
    ----------
    problem : FiniteProblem
        The problem that was solved.
    method : {"dp", "lp", "global"}
        The class of policies; see :func:`solve`.
    sparsity_weight : float
        λ in the paper.
    policy : StatePolicy
        The optimal ζ, as weights θ(x ⊙ h).
    tree : DecisionTree or None
        The order in which features are revealed, for "dp".

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> best = solve(toy_problem(2), 0.1)
    >>> best.loss, best.n_selected, round(best.objective, 9)
    (0.0, 1.5, 0.15)
    """

    problem: FiniteProblem
    method: str
    sparsity_weight: float
    policy: StatePolicy
    tree: DecisionTree | None = None

    @property
    def loss(self) -> float:
        """Expected loss of f*."""
        return self.policy.expected_loss()

    @property
    def cost(self) -> float:
        """Expected cost ‖h‖ of the revealed features."""
        return self.policy.expected_cost()

    @property
    def n_selected(self) -> float:
        """Expected number of revealed features."""
        return self.policy.expected_size()

    @property
    def objective(self) -> float:
        """Loss + λ cost, the minimised quantity."""
        return self.loss + self.sparsity_weight * self.cost

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in the order of the columns of :meth:`predict_masked`."""
        return self.problem.labels

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """Compute ζ(h | x) exactly; see :meth:`StatePolicy.mask_probability`."""
        return self.policy.mask_probability(X, masks)

    def predict_masked(self, X: Any, masks: ArrayLike) -> Floats:
        """Predict with f*(x ⊙ h), the optimal predictor from the revealed values.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows of the support.
        masks : array-like of bool
            As in :meth:`mask_probability`.

        Returns
        -------
        ndarray
            Means for squared error; otherwise probabilities of ``problem.labels`` on the last
            axis.
        """
        rows, bits = pair_rows_with_masks(self.problem, X, masks)
        ids = self.problem.states.index(rows, bits)
        flat = self.problem.states.prediction(ids.reshape(-1))
        return flat.reshape(ids.shape + flat.shape[1:])

    def select(
        self, X: Any, random_state: np.random.RandomState | ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Sample one mask per row from ζ(h | x), which is deterministic for "dp" and "global".

        ``random_state`` is that of `suwr.SUWRClassifier.select`.
        """
        masks = self.policy.masks()
        probability = self.mask_probability(X, masks[None])
        draw = RowDraws.of(random_state, len(probability), "select").uniform(0, 1)
        edges = np.cumsum(probability, axis=1) / probability.sum(axis=1, keepdims=True)
        return masks[np.minimum((edges <= draw).sum(axis=1), len(masks) - 1)]

    def __repr__(self) -> str:
        return (
            f"Solution(method={self.method!r}, sparsity_weight={self.sparsity_weight:g}, "
            f"objective={self.objective:.6g}, loss={self.loss:.6g}, "
            f"n_selected={self.n_selected:.6g})"
        )


def solve(
    problem: FiniteProblem,
    sparsity_weight: float,
    method: str = "dp",
    *,
    max_steps: int | None = None,
    units_per_step: int = 1,
) -> Solution:
    """Find the policy that minimises the expected loss + λ cost.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    sparsity_weight : float
        λ in the paper: the price of one unit of feature cost.
    method : {"dp", "lp", "global"}, default="dp"
        The class of policies, and with it the algorithm. "dp": SUWR policies, by dynamic
        programming. "lp": all leak-free policies, by the linear program of the paper. "global": one
        subset for all rows, by enumeration. The optimal objectives satisfy lp ≤ dp ≤ global.
    max_steps : int, default=None
        Maximum number of steps (T in the paper). "lp" and "global" have no steps; their number of
        features is limited to ``max_steps * units_per_step``.
    units_per_step : int, default=1
        Maximum number of features that one step reveals at once.

    Returns
    -------
    Solution
        The optimal policy with its objective, loss and cost.

    Examples
    --------
    Whether x2 matters depends on x1, so SUWR reveals 1.5 features on average.

    >>> from suwr.exact import FiniteProblem, solve
    >>> problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 4])
    >>> solution = solve(problem, 0.1)
    >>> solution.loss, solution.n_selected
    (0.0, 1.5)
    >>> print(solution.tree)
    reveal x1  (p = 1)
      x1 = 0: predict 0  (p = 0.5)
      x1 = 1: reveal x2  (p = 0.5)
        x2 = 0: predict 0  (p = 0.25)
        x2 = 1: predict 4  (p = 0.25)
    """
    check_choice(method, "method", "solve", METHODS)
    weight = check_real(sparsity_weight, "sparsity_weight", "solve", SPARSITY_WEIGHT)
    steps = StepLimits(problem.n_features, max_steps, units_per_step, "solve")
    if method == "dp":
        return Solution(problem, method, weight, *solve_dp(problem, weight, steps))
    find = solve_lp if method == "lp" else _solve_global
    return Solution(problem, method, weight, find(problem, weight, steps.max_size))


def _solve_global(problem: FiniteProblem, sparsity_weight: float, max_size: int) -> StatePolicy:
    """Enumerate all 2^d masks and keep the one that minimises loss + λ cost."""
    loss, cost, size = subset_amounts(problem)
    objective = loss + sparsity_weight * cost
    objective[size > max_size] = np.inf
    tied = np.flatnonzero(objective <= objective.min() + 1e-13 * objective[0])
    # The smallest of the equally good subsets, so that the result does not depend on rounding.
    mask = tied[np.argmin(size[tied])]
    ids = np.unique(problem.states.index(np.arange(problem.n_rows), np.array(mask)))
    return StatePolicy(problem, ids, np.ones(len(ids)))


def subset_amounts(problem: FiniteProblem) -> tuple[Floats, Floats, Floats]:
    """Expected loss, cost and size of every mask, in the order of their bits."""
    loss = problem.states.mask_totals(problem.states.risk)
    masks = bits_mask(np.arange(len(loss)), problem.n_features)
    return loss, masks @ problem.costs, masks.sum(axis=1).astype(float)
