"""Optimal policies by dynamic or linear programming or by enumeration, and their Pareto fronts.

A front has every break point, which bisection on λ finds. `gap` compares a model with the optimum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, sparse

from suwr._utils.draws import RowDraws
from suwr._utils.validation import Interval, check_choice, check_integer, check_real, view
from suwr.data.frame import take_rows
from suwr.exact.policy import DecisionTree, StatePolicy, as_table, pair_rows_with_masks
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, MaskedStates, bits_mask, check_memory, group_sum
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


# Maps sparsity weights to the loss, cost and number of features of an optimal policy at each.
Oracle = Callable[[Floats], tuple[Floats, Floats, Floats]]

# Memory of a batch of dynamic programs; larger batches are no faster.
_BATCH_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class ParetoFront:
    """The minimal loss at every cost, as the corners of a convex curve.

    Points between two corners are random mixtures of their policies. Corners are sorted by cost;
    the last one has the minimal loss of all policies.

    Attributes
    ----------
    method : {"dp", "lp", "global"}
        The class of policies; see :func:`suwr.exact.solve`.
    n_selected : ndarray of shape (n_points,)
        Expected number of revealed features.
    cost : ndarray of shape (n_points,)
        Expected cost; equal to ``n_selected`` unless the problem has ``costs``.
    loss : ndarray of shape (n_points,)
        Expected loss.
    sparsity_weight : ndarray of shape (n_points,)
        The break points: the smallest λ at which each corner is optimal. The corner remains optimal
        up to the break point of the preceding corner. The last break point is 0.

    Examples
    --------
    >>> from suwr.exact import five_blocks, pareto_front
    >>> front = pareto_front(five_blocks()[0], "lp")
    >>> round(float(front.n_selected[-1]), 9), round(float(front.loss[-1]), 9)
    (2.25, 0.0)
    """

    method: str
    n_selected: Floats
    cost: Floats
    loss: Floats
    sparsity_weight: Floats

    def __len__(self) -> int:
        return len(self.loss)

    def loss_at(self, cost: ArrayLike) -> Floats:
        """Minimal loss at an expected cost of at most ``cost``; NaN if no policy is that cheap."""
        wanted = np.asarray(cost, dtype=float)
        return np.where(
            wanted < self.cost[0] - 1e-12, np.nan, np.interp(wanted, self.cost, self.loss)
        )

    def objective(self, sparsity_weight: ArrayLike) -> Floats:
        """Minimal loss + λ cost at any λ."""
        weight = np.asarray(sparsity_weight, dtype=float)[..., None]
        return np.asarray((self.loss + weight * self.cost).min(axis=-1))

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Plot the front, with the infeasible region below it shaded.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure if None.
        **kwargs
            Passed to :func:`suwr.plots.plot_fronts`.

        Returns
        -------
        matplotlib Axes
        """
        return view("plots:plot_fronts", [self], ax=ax, **kwargs)


def pareto_front(
    problem: FiniteProblem,
    method: str = "dp",
    *,
    max_steps: int | None = None,
    units_per_step: int = 1,
) -> ParetoFront:
    """Compute the exact Pareto front of expected loss and cost.

    Policies may be mixed at random before the first step, so the front is convex. Two corners are
    adjacent if and only if no policy is better at the λ for which both have the same objective;
    otherwise the better policy is a new corner between them.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    method : {"dp", "lp", "global"}, default="dp"
        As in :func:`suwr.exact.solve`.
    max_steps, units_per_step : int
        As in :func:`suwr.exact.solve`.

    Returns
    -------
    ParetoFront

    Examples
    --------
    >>> from suwr.exact import FiniteProblem, pareto_front
    >>> problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 4])
    >>> front = pareto_front(problem)
    >>> front.n_selected, front.loss, front.sparsity_weight
    (array([0. , 1.5]), array([3., 0.]), array([2., 0.]))
    """
    check_choice(method, "method", "pareto_front", METHODS)
    steps = StepLimits(problem.n_features, max_steps, units_per_step, "pareto_front")
    states = problem.states
    nothing = np.array([states.risk[states.root], 0.0, 0.0])
    tolerance = 1e-8 if method == "lp" else 1e-11  # HiGHS satisfies constraints to within 1e-7
    loss_tolerance = max(tolerance * nothing[0], _loss_rounding(problem, nothing[0]))
    if method == "global":
        loss, cost, size = subset_amounts(problem)
        points = np.column_stack([loss, cost, size])[size <= steps.max_size]
        return _as_front(method, points, tolerance, loss_tolerance)
    if method == "dp":
        batch = max(1, _BATCH_BYTES // (8 * states.n_states * 8))
        oracle = _in_batches(lambda w: front_points_dp(problem, w, steps), batch)
    else:
        oracle = _in_batches(lambda w: _lp_point(problem, float(w[0]), steps.max_size), 1)
    points = _trace(oracle, nothing, tolerance, loss_tolerance)
    return _as_front(method, points, tolerance, loss_tolerance)


def _loss_rounding(problem: FiniteProblem, loss: float) -> float:
    """Bound on the rounding error of an expected loss.

    Sums of probabilities have an absolute error. For squared error, a mean is accurate relative to
    the magnitude of the labels, not to their variance: a mean that is off by δ changes a variance v
    by up to 2 δ √v + δ².
    """
    relative = 4 * np.finfo(float).eps * np.sqrt(problem.n_rows)
    if problem.is_classification:
        return float(relative)
    mean_error = relative * np.abs(problem.labels.astype(float)).max()
    return float(2 * mean_error * np.sqrt(loss) + mean_error**2)


def _trace(oracle: Oracle, nothing: Floats, tolerance: float, loss_tolerance: float) -> Floats:
    """All corners as rows (loss, cost, size), by bisection from the two end points."""
    everything = np.array(oracle(np.zeros(1)))[:, 0]
    points = [nothing, everything]
    cost_tolerance = tolerance * everything[1]
    open_segments = [(nothing, everything)]
    while open_segments:
        pairs = [
            (left, right)
            for left, right in open_segments
            if left[0] - right[0] > loss_tolerance and right[1] - left[1] > cost_tolerance
        ]
        if not pairs:
            break
        weights = np.array([(a[0] - b[0]) / (b[1] - a[1]) for a, b in pairs])
        found = np.array(oracle(weights)).T
        open_segments = []
        for (left, right), weight, point in zip(pairs, weights, found, strict=True):
            slack = loss_tolerance + tolerance * weight * right[1]
            if point[0] + weight * point[1] < left[0] + weight * left[1] - slack:
                points.append(point)
                open_segments += [(left, point), (point, right)]
    return np.array(points)


def _as_front(method: str, points: Floats, tolerance: float, loss_tolerance: float) -> ParetoFront:
    """Keep the corners of the lower convex hull of points (loss, cost, size)."""
    cost_tolerance = tolerance * float(points[:, 1].max())
    corners: list[Floats] = []
    for point in points[np.lexsort((points[:, 2], points[:, 0], points[:, 1]))]:
        if corners and point[0] >= corners[-1][0] - loss_tolerance:
            continue  # more expensive without a lower loss
        if corners and point[1] <= corners[-1][1] + cost_tolerance:
            corners.pop()  # a lower loss at the same cost, by a feature without cost
        while len(corners) > 1 and not _is_corner(corners[-2], corners[-1], point, loss_tolerance):
            corners.pop()
        corners.append(point)
    loss, cost, size = np.array(corners).T
    slopes = (loss[:-1] - loss[1:]) / (cost[1:] - cost[:-1])
    return ParetoFront(method, size, cost, loss, np.append(slopes, 0.0))


def _is_corner(left: Floats, middle: Floats, right: Floats, loss_tolerance: float) -> bool:
    share = (middle[1] - left[1]) / (right[1] - left[1])
    return bool(middle[0] < left[0] + share * (right[0] - left[0]) - loss_tolerance)


def _lp_point(
    problem: FiniteProblem, weight: float, max_size: int
) -> tuple[Floats, Floats, Floats]:
    policy = solve_lp(problem, weight, max_size)
    amounts = (policy.expected_loss(), policy.expected_cost(), policy.expected_size())
    loss, cost, size = np.array(amounts)[:, None]
    return loss, cost, size


def _in_batches(oracle: Oracle, size: int) -> Oracle:
    def batched(weights: Floats) -> tuple[Floats, Floats, Floats]:
        parts = [oracle(weights[i : i + size]) for i in range(0, len(weights), size)]
        loss, cost, selected = (np.concatenate(values) for values in zip(*parts, strict=True))
        return loss, cost, selected

    return batched


_CHUNK = 65_536  # (row, mask) pairs per call of predict_masked


@dataclass(frozen=True)
class OptimalityGap:
    """Exact loss and cost of a model, and the optimal policies at the same λ.

    Attributes
    ----------
    sparsity_weight : float
        λ in the paper.
    loss, cost, n_selected : float
        Expected loss, cost and number of features of the model.
    dp : Solution
        The best SUWR policy with the optimal predictor f*.
    lp : Solution or None
        The best leak-free policy with the optimal predictor f*; None if it was not computed.

    Examples
    --------
    >>> from suwr.exact import gap, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> best = gap(solve(problem, 0.3), problem, 0.3)
    >>> round(best.to_suwr, 9), round(best.to_lp, 9)
    (0.0, 0.0)
    """

    sparsity_weight: float
    loss: float
    cost: float
    n_selected: float
    dp: Solution
    lp: Solution | None

    @property
    def objective(self) -> float:
        """Loss + λ cost of the model."""
        return self.loss + self.sparsity_weight * self.cost

    @property
    def to_suwr(self) -> float:
        """Objective of the model minus that of the best SUWR policy."""
        return self.objective - self.dp.objective

    @property
    def to_lp(self) -> float:
        """Objective of the model minus that of the best leak-free policy.

        A negative value proves leakage. NaN if the linear program was not solved.
        """
        return float("nan") if self.lp is None else self.objective - self.lp.objective

    def summary(self) -> str:
        """Format the objectives, losses and costs as text."""
        lines = [
            f"λ = {self.sparsity_weight:g}",
            f"{'model':<22}{self.objective:.6f}  loss {self.loss:.6f}  cost {self.cost:.4f}",
        ]
        for name, best in (("best SUWR policy", self.dp), ("best leak-free policy", self.lp)):
            if best is not None:
                lines.append(
                    f"{name:<22}{best.objective:.6f}  loss {best.loss:.6f}  cost {best.cost:.4f}"
                )
        return "\n".join(lines)


def gap(
    estimator: Any,
    problem: FiniteProblem,
    sparsity_weight: float,
    *,
    policy: str | None = None,
    lp: bool = True,
    max_steps: int | None = None,
    units_per_step: int = 1,
) -> OptimalityGap:
    """Evaluate a fitted model exactly and compare it with the optimal policies.

    The expectation over rows and masks is computed with exact probabilities, without sampling.

    Parameters
    ----------
    estimator : object
        Must have ``mask_probability(X, masks)`` and ``predict_masked(X, masks)``; a classifier also
        ``classes_``, the order of its columns.
    problem : FiniteProblem
        Support rows, labels and probabilities.
    sparsity_weight : float
        λ in the paper, for the model and the optimal policies.
    policy : {'greedy', 'sampled'}, optional
        The policy of an estimator that has both. None is the default of its ``mask_probability``.
    lp : bool, default=True
        Whether to solve the linear program as well, which is slow beyond 8 features.
    max_steps, units_per_step : int
        Limits of the optimal policies, as in :func:`suwr.exact.solve`.

    Returns
    -------
    OptimalityGap

    Examples
    --------
    >>> from suwr.exact import gap, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> round(gap(solve(problem, 0.2, method="global"), problem, 0.2).to_suwr, 6)
    0.284375
    """
    weight = check_real(sparsity_weight, "sparsity_weight", "gap", SPARSITY_WEIGHT)
    source = estimator
    if policy is not None:
        probability = partial(estimator.mask_probability, policy=policy)
        source = SimpleNamespace(mask_probability=probability)
    table = as_table(problem, source)
    rows, columns = np.nonzero(table.probabilities > 0)
    share = problem.p[rows] * table.probabilities[rows, columns]
    share = share / share.sum()  # probabilities in single precision sum to 1 only approximately
    losses = np.concatenate(
        [
            _losses(estimator, problem, rows[i : i + _CHUNK], table.masks[columns[i : i + _CHUNK]])
            for i in range(0, len(rows), _CHUNK)
        ]
    )
    limits: dict[str, Any] = {"max_steps": max_steps, "units_per_step": units_per_step}
    return OptimalityGap(
        sparsity_weight=weight,
        loss=float(share @ losses),
        cost=float(share @ (table.masks @ problem.costs)[columns]),
        n_selected=float(share @ table.masks.sum(axis=1)[columns]),
        dp=solve(problem, weight, "dp", **limits),
        lp=solve(problem, weight, "lp", **limits) if lp else None,
    )


def _losses(estimator: Any, problem: FiniteProblem, rows: Ints, masks: Any) -> Floats:
    X = take_rows(problem.frame(), rows)
    raw = np.asarray(estimator.predict_masked(X, masks), dtype=float)
    if not problem.is_classification:
        if raw.shape not in ((len(rows),), (len(rows), 1)):
            raise ValueError(
                f"predict_masked(X, masks) must return {len(rows)} values. "
                f"Got shape {raw.shape} instead."
            )
        return _row_loss(raw.reshape(-1), problem, rows)
    return _row_loss(_by_label(raw, estimator, problem), problem, rows)


def _by_label(raw: Floats, estimator: Any, problem: FiniteProblem) -> Floats:
    """Reorder a classifier's columns; a label that is not in ``classes_`` has probability 0."""
    classes = np.asarray(estimator.classes_).tolist()
    if raw.ndim != 2 or raw.shape[1] != len(classes):
        raise ValueError(
            f"predict_masked(X, masks) must return one column for each of {len(classes)} classes. "
            f"Got shape {raw.shape} instead."
        )
    known = problem.labels.tolist()
    padded = np.column_stack([raw, np.zeros(len(raw))])
    ordered = padded[:, [classes.index(label) if label in classes else -1 for label in known]]
    # Classes that the problem does not have are always wrong; they share an extra last column.
    unknown = [i for i, label in enumerate(classes) if label not in known]
    return np.column_stack([ordered, padded[:, [*unknown, -1]].max(axis=1)])


def _row_loss(prediction: Floats, problem: FiniteProblem, rows: Ints) -> Floats:
    """Expected loss of given predictions for given support rows.

    Parameters
    ----------
    prediction : ndarray of shape (m,) or (m, n_labels)
        Means for squared error; otherwise one probability for each of ``problem.labels``.
    problem : FiniteProblem
        The problem that defines p(y | x).
    rows : ndarray of shape (m,)
        The support row of each prediction.
    """
    table = problem.label_distribution[rows]
    if problem.loss == "squared_error":
        values = problem.labels.astype(float)
        entries = table.tocoo()
        terms = entries.data * (prediction[entries.row] - values[entries.col]) ** 2
        return group_sum(entries.row, terms, len(rows))
    if problem.loss == "zero_one":
        best = np.argmax(prediction, axis=1)
        return 1 - np.asarray(table[np.arange(len(rows)), best]).reshape(-1)
    entries = table.tocoo()
    # Clip as scikit-learn's log_loss does, so that the loss is finite.
    safe = np.clip(prediction[entries.row, entries.col], np.finfo(float).eps, 1.0)
    return group_sum(entries.row, -entries.data * np.log(safe), len(rows))
