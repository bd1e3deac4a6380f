"""Exact Pareto fronts of loss and cost: every break point, by bisection on λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.validation import check_choice
from suwr._utils.views import view
from suwr.exact.problem import FiniteProblem
from suwr.exact.solve import METHODS, StepLimits, front_points_dp, solve_lp, subset_amounts
from suwr.exact.states import Floats

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
