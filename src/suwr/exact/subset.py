"""The best fixed subset: the same features for every row."""

import numpy as np

from suwr.exact._arrays import Floats
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.states import bits_mask
from suwr.exact.steps import Steps


def solve_global(problem: FiniteProblem, sparsity_weight: float, steps: Steps) -> Solution:
    """Try all 2^d masks and keep the one with the least loss + λ cost."""
    loss, cost, size = subset_amounts(problem)
    objective = loss + sparsity_weight * cost
    objective[size > steps.max_size(problem.n_features)] = np.inf
    tied = np.flatnonzero(objective <= objective.min() * (1 + 1e-12) + 1e-15)
    mask = tied[np.argmin(size[tied])]
    ids = np.unique(problem.states.index(np.arange(problem.n_rows), np.array(mask)))
    policy = StatePolicy(problem, ids, np.ones(len(ids)))
    return Solution(problem, "global", sparsity_weight, policy)


def subset_amounts(problem: FiniteProblem) -> tuple[Floats, Floats, Floats]:
    """Loss, cost and size of every mask, which its bits number."""
    loss = problem.states.mask_totals(problem.states.risk)
    masks = bits_mask(np.arange(len(loss)), problem.n_features)
    costs = np.ones(problem.n_features) if problem.costs is None else problem.costs
    return loss, masks @ costs, masks.sum(axis=1).astype(float)
