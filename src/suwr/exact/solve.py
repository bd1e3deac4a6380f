"""Optimal policies at one sparsity weight: ``solve`` and its result."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.draws import RowDraws
from suwr._utils.validation import Interval, check_choice, check_real
from suwr.exact.dynamic import StepLimits, solve_dp
from suwr.exact.linear import solve_lp
from suwr.exact.policy import StatePolicy, pair_rows_with_masks
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, bits_mask
from suwr.exact.tree import DecisionTree

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
