"""Exact Pareto fronts: every break point, by bisection on λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr.exact._arrays import Floats
from suwr.exact._checks import check_choice
from suwr.exact.dynamic import front_points_dp
from suwr.exact.linear import solve_lp
from suwr.exact.problem import FiniteProblem
from suwr.exact.solve import METHODS
from suwr.exact.steps import Steps
from suwr.exact.subset import subset_amounts

# Maps sparsity weights to loss, cost and number of features of a policy optimal at each.
Oracle = Callable[[Floats], tuple[Floats, Floats, Floats]]

# What a batch of dynamic programs may hold at once; more would only leave the cache.
_BATCH_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class ParetoFront:
    """The least loss for every cost, as the corners of a convex curve.

    Between two corners lie the random mixtures of their policies. Corners are sorted by cost; the
    last one has the least loss of all.

    Attributes
    ----------
    method : {"dp", "lp", "global"}
        Which policies are allowed.
    n_selected : ndarray of shape (n_points,)
        Expected number of revealed features.
    cost : ndarray of shape (n_points,)
        Expected cost; the same as ``n_selected`` unless the problem has ``costs``.
    loss : ndarray of shape (n_points,)
        Expected loss.
    sparsity_weight : ndarray of shape (n_points,)
        The break points: the least λ at which each corner is optimal. It stays optimal up to the
        λ of the corner before it. The last one is 0.

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
        """Least loss that any allowed policy reaches at an expected cost of at most ``cost``.

        NaN where even the first corner costs more.
        """
        wanted = np.asarray(cost, dtype=float)
        return np.where(
            wanted < self.cost[0] - 1e-12, np.nan, np.interp(wanted, self.cost, self.loss)
        )

    def objective(self, sparsity_weight: ArrayLike) -> Floats:
        """Least loss + λ cost at any λ."""
        weight = np.asarray(sparsity_weight, dtype=float)[..., None]
        return np.asarray((self.loss + weight * self.cost).min(axis=-1))

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the front, with what lies below it, which is impossible, in grey.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            For :func:`suwr.plots.plot_fronts`.

        Returns
        -------
        matplotlib Axes
        """
        from suwr.plots import plot_fronts

        return plot_fronts([self], ax=ax, **kwargs)


def pareto_front(
    problem: FiniteProblem,
    method: str = "dp",
    *,
    max_steps: int | None = None,
    units_per_step: int = 1,
    **options: Any,
) -> ParetoFront:
    """Find all break points of the trade-off between loss and cost.

    Policies may be mixed at random before the first step, so the front is convex. Two corners are
    neighbours exactly if no policy does better at the λ for which both are equally good; otherwise
    that policy is a new corner between them.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    method : {"dp", "lp", "global"}, default="dp"
        As in :func:`suwr.exact.solve`.
    max_steps, units_per_step : int
        As in :func:`suwr.exact.solve`.
    **options
        For "lp": ``time_limit`` in seconds for each λ, and ``reduce``.

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
    steps = Steps.checked(max_steps, units_per_step, "pareto_front")
    if options and method != "lp":
        raise TypeError(f"pareto_front() with method={method!r} takes no {sorted(options)}.")
    if method == "global":
        return _subset_front(problem, steps)
    states = problem.states
    if method == "dp":
        batch = max(1, _BATCH_BYTES // (8 * states.n_states * 8))
        oracle = _in_batches(lambda w: front_points_dp(problem, w, steps), batch)
        tolerance = 1e-11
    else:
        oracle = _in_batches(lambda w: _lp_point(problem, float(w[0]), steps, options), 1)
        tolerance = 1e-8  # HiGHS keeps constraints to 1e-7 of their size
    nothing = np.array([states.risk[states.root], 0.0, 0.0])
    return _as_front(method, *_trace(oracle, nothing, tolerance))


def _trace(oracle: Oracle, nothing: Floats, tolerance: float) -> tuple[Floats, float]:
    """All corners as rows (loss, cost, size), found from the two ends."""
    everything = np.array(oracle(np.zeros(1)))[:, 0]
    points = [nothing, everything]
    # Rounding is relative to the losses themselves, not to what can be gained.
    scale = tolerance * nothing[0]
    cost_scale = tolerance * everything[1]
    open_segments = [(nothing, everything)]
    while open_segments:
        pairs = [
            (left, right)
            for left, right in open_segments
            if left[0] - right[0] > scale and right[1] - left[1] > cost_scale
        ]
        if not pairs:
            break
        weights = np.array([(a[0] - b[0]) / (b[1] - a[1]) for a, b in pairs])
        found = np.array(oracle(weights)).T
        open_segments = []
        for (left, right), weight, point in zip(pairs, weights, found, strict=True):
            slack = scale + tolerance * weight * right[1]
            if point[0] + weight * point[1] < left[0] + weight * left[1] - slack:
                points.append(point)
                open_segments += [(left, point), (point, right)]
    return np.array(points), tolerance


def _as_front(method: str, points: Floats, tolerance: float) -> ParetoFront:
    """Keep the corners of the lower convex hull of points (loss, cost, size)."""
    loss_scale = tolerance * float(points[:, 0].max())
    cost_scale = tolerance * float(points[:, 1].max())
    corners: list[Floats] = []
    for point in points[np.lexsort((points[:, 2], points[:, 0], points[:, 1]))]:
        if corners and point[0] >= corners[-1][0] - loss_scale:
            continue  # costs more and is no better
        if corners and point[1] <= corners[-1][1] + cost_scale:
            corners.pop()  # a free feature: better at the same cost
        while len(corners) > 1 and not _is_corner(corners[-2], corners[-1], point, loss_scale):
            corners.pop()
        corners.append(point)
    loss, cost, size = np.array(corners).T
    slopes = (loss[:-1] - loss[1:]) / (cost[1:] - cost[:-1])
    return ParetoFront(method, size, cost, loss, np.append(slopes, 0.0))


def _is_corner(left: Floats, middle: Floats, right: Floats, loss_scale: float) -> bool:
    share = (middle[1] - left[1]) / (right[1] - left[1])
    return bool(middle[0] < left[0] + share * (right[0] - left[0]) - loss_scale)


def _subset_front(problem: FiniteProblem, steps: Steps) -> ParetoFront:
    loss, cost, size = subset_amounts(problem)
    allowed = size <= steps.max_size(problem.n_features)
    return _as_front("global", np.column_stack([loss, cost, size])[allowed], 1e-11)


def _lp_point(
    problem: FiniteProblem, weight: float, steps: Steps, options: dict[str, Any]
) -> tuple[Floats, Floats, Floats]:
    solution = solve_lp(problem, weight, steps, **options)
    return (
        np.array([solution.loss]),
        np.array([solution.cost]),
        np.array([solution.n_selected]),
    )


def _in_batches(oracle: Oracle, size: int) -> Oracle:
    def batched(weights: Floats) -> tuple[Floats, Floats, Floats]:
        parts = [oracle(weights[i : i + size]) for i in range(0, len(weights), size)]
        loss, cost, selected = (np.concatenate(values) for values in zip(*parts, strict=True))
        return loss, cost, selected

    return batched
