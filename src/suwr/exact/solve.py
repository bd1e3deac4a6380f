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


def solve_lp(
    problem: FiniteProblem,
    sparsity_weight: float,
    max_size: int,
    *,
    reduce: bool = True,
    time_limit: float | None = None,
) -> StatePolicy:
    """Minimise cᵀθ subject to Aθ = 1 and θ ≥ 0.

    A has a row for each support row x and a column for each masked state s; A[x, s] = 1 if x
    agrees with s. θ(s) is the probability ζ(h | x) that all rows x of s share.

    Parameters
    ----------
    problem : FiniteProblem
        The problem.
    sparsity_weight : float
        λ in the paper.
    max_size : int
        Maximum number of revealed features.
    reduce : bool, default=True
        Remove every state whose cost exceeds the total cost of some split of it. Weight on such a
        state can be moved to the states of the split, so the optimum does not change.
    time_limit : float, default=None
        Time limit of the solver in seconds.
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
    kept = _undominated(states, stop) if reduce else (states.mass > 0) & np.isfinite(stop[:, 0])
    columns, matrix = _constraints(problem, masks, kept)
    # The tolerances of the solver are absolute: scale the cost of a typical row to about 1.
    scale = problem.n_rows / (stop[states.root, 0] or 1.0)
    found, _, _ = minimise(scale * stop[columns, 0], matrix, np.ones(problem.n_rows), time_limit)
    theta = np.clip(found, 0.0, 1.0)
    positive = theta > 1e-12
    return StatePolicy(problem, columns[positive], theta[positive])


def minimise(
    cost: Floats, matrix: Any, target: Floats, time_limit: float | None = None
) -> tuple[Floats, Floats, float]:
    """Solve min cᵀθ subject to Aθ = b and θ ≥ 0 with HiGHS.

    Parameters
    ----------
    cost : ndarray of shape (n,)
        c.
    matrix : sparse array of shape (m, n)
        A.
    target : ndarray of shape (m,)
        b.
    time_limit : float, default=None
        Time limit in seconds.

    Returns
    -------
    theta : ndarray of shape (n,)
    duals : ndarray of shape (m,)
        Dual values of the constraints.
    minimum : float
    """
    solver: Any = optimize.linprog
    result = solver(
        cost,
        A_eq=matrix,
        b_eq=target,
        bounds=(0, None),
        method="highs",
        options={} if time_limit is None else {"time_limit": float(time_limit)},
    )
    if result.x is None or result.status != 0:
        raise SuwrError(
            f"The linear program with {matrix.shape[0]:,} constraints and {matrix.shape[1]:,} "
            f"masked states was not solved: {result.message}"
        )
    return np.asarray(result.x), np.asarray(result.eqlin.marginals), float(result.fun)


def _undominated(states: MaskedStates, stop: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    value = stop.copy()
    states.sweep(value)
    dominated = value[:, 0] < stop[:, 0] * (1 - 1e-12)
    return (states.mass > 0) & np.isfinite(stop[:, 0]) & ~dominated


def _constraints(
    problem: FiniteProblem, masks: Ints, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Ints, sparse.csc_array]:
    """Indices of the states that are variables, and the matrix A over them."""
    columns = np.flatnonzero(kept)
    place = np.full(problem.states.n_states, -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    rows, entries = [], []
    all_rows = np.arange(problem.n_rows)
    for mask in masks:
        found = place[problem.states.index(all_rows, mask)]
        rows.append(all_rows[found >= 0])
        entries.append(found[found >= 0])
    row, column = np.concatenate(rows), np.concatenate(entries)
    return columns, sparse.csc_array(
        (np.ones(len(row)), (row, column)), shape=(problem.n_rows, len(columns))
    )


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
    **options: Any,
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
    **options
        For "lp": ``time_limit`` in seconds, and ``reduce=False`` to keep dominated states in the
        linear program.

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
    steps = StepLimits.checked(max_steps, units_per_step, "solve")
    max_size = steps.max_size(problem.n_features)
    if method == "lp":
        return Solution(problem, method, weight, solve_lp(problem, weight, max_size, **options))
    if options:
        raise TypeError(f"solve() with method={method!r} takes no {sorted(options)}.")
    if method == "dp":
        return Solution(problem, method, weight, *solve_dp(problem, weight, steps))
    return Solution(problem, method, weight, _solve_global(problem, weight, max_size))


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
    costs = np.ones(problem.n_features) if problem.costs is None else problem.costs
    return loss, masks @ costs, masks.sum(axis=1).astype(float)
