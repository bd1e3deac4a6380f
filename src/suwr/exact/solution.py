"""What a solver returns: numbers, a policy, and its predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.exact._arrays import Floats
from suwr.exact.policy import StatePolicy, pair_rows_with_masks
from suwr.exact.problem import FiniteProblem
from suwr.exact.tree import DecisionTree


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimal policy at one sparsity weight.

    Attributes
    ----------
    problem : FiniteProblem
        What was solved.
    method : {"dp", "lp", "global"}
        How.
    sparsity_weight : float
        The paper's λ.
    policy : StatePolicy
        The optimal ζ, as a table of weights θ(x ⊙ h).
    tree : DecisionTree or None
        The order of the questions, for "dp".

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
        """Loss + λ cost, which the solver minimised."""
        return self.loss + self.sparsity_weight * self.cost

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in the order of the columns of :meth:`predict_masked`."""
        return self.problem.labels

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """ζ(h | x), exactly: see :meth:`StatePolicy.mask_probability`."""
        return self.policy.mask_probability(X, masks)

    def predict_masked(self, X: Any, masks: ArrayLike) -> Floats:
        """f*(x ⊙ h): the best prediction from the revealed values of each row.

        Returns
        -------
        ndarray
            Values for squared error, else probabilities of ``problem.labels`` on the last axis.
        """
        rows, bits = pair_rows_with_masks(self.problem, X, masks)
        ids = self.problem.states.index(rows, bits)
        flat = self.problem.states.prediction(ids.reshape(-1))
        return flat.reshape(ids.shape + flat.shape[1:])

    def select(self, X: Any, random_state: int | None = None) -> NDArray[np.bool_]:
        """Draw one mask a row from ζ(h | x); "dp" and "global" leave nothing to chance."""
        masks = self.policy.masks()
        probability = self.mask_probability(X, masks[None])
        draw = np.random.default_rng(random_state).random((len(probability), 1))
        edges = np.cumsum(probability, axis=1) / probability.sum(axis=1, keepdims=True)
        return masks[np.minimum((edges <= draw).sum(axis=1), len(masks) - 1)]

    def __repr__(self) -> str:
        return (
            f"Solution(method={self.method!r}, sparsity_weight={self.sparsity_weight:g}, "
            f"objective={self.objective:.6g}, loss={self.loss:.6g}, "
            f"n_selected={self.n_selected:.6g})"
        )
