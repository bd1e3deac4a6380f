"""A policy as a table ζ(h | x), leaky or not, and how to get one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.exact._arrays import Floats
from suwr.exact._checks import check_memory
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import bits_mask, mask_bits


class PolicyTable:
    """The probability of every mask for every support row.

    Parameters
    ----------
    problem : FiniteProblem
        The problem whose rows are meant.
    masks : array-like of bool of shape (n_masks, n_features)
        Distinct masks h.
    probabilities : array-like of shape (n_rows, n_masks)
        ζ(h | x), in the order of ``problem.X``. Every row sums to 1.

    Examples
    --------
    >>> from suwr.exact import FiniteProblem, PolicyTable
    >>> problem = FiniteProblem([[0], [1]], [0, 1])
    >>> table = PolicyTable(problem, [[False], [True]], [[0.5, 0.5], [0.5, 0.5]])
    >>> table.probabilities.sum(axis=1).tolist()
    [1.0, 1.0]
    """

    def __init__(self, problem: FiniteProblem, masks: ArrayLike, probabilities: ArrayLike) -> None:
        self.problem = problem
        self.masks: NDArray[np.bool_] = np.asarray(masks, dtype=bool)
        self.probabilities: Floats = np.asarray(probabilities, dtype=float)
        if self.masks.ndim != 2 or self.masks.shape[1] != problem.n_features:
            raise ValueError(
                f"The 'masks' parameter of PolicyTable must have shape (m, {problem.n_features}). "
                f"Got shape {self.masks.shape} instead."
            )
        if self.probabilities.shape != (problem.n_rows, len(self.masks)):
            raise ValueError(
                "The 'probabilities' parameter of PolicyTable must have shape "
                f"({problem.n_rows}, {len(self.masks)}), one row for each row of the problem and "
                f"one column for each mask. Got shape {self.probabilities.shape} instead."
            )
        if len(np.unique(mask_bits(self.masks))) < len(self.masks):
            raise ValueError("The 'masks' parameter of PolicyTable must not repeat a mask.")
        wrong = ~np.isfinite(self.probabilities) | (self.probabilities < -1e-9)
        totals = self.probabilities.sum(axis=1)
        off = ~(np.abs(totals - 1) <= 1e-5)
        if wrong.any() or off.any():
            raise ValueError(
                "The 'probabilities' parameter of PolicyTable must be distributions over masks. "
                f"Got {int(wrong.sum())} negative or non-finite value(s) and {int(off.sum())} "
                "row(s) that do not sum to 1 instead."
            )

    @classmethod
    def deterministic(cls, problem: FiniteProblem, masks: ArrayLike) -> PolicyTable:
        """The policy that gives row i of ``problem.X`` mask i."""
        chosen = np.asarray(masks)
        if chosen.shape != (problem.n_rows, problem.n_features):
            raise ValueError(
                f"One mask a row needs shape ({problem.n_rows}, {problem.n_features}). "
                f"Got shape {chosen.shape} instead."
            )
        bits, place = np.unique(mask_bits(chosen.astype(bool)), return_inverse=True)
        probabilities = np.zeros((problem.n_rows, len(bits)))
        probabilities[np.arange(problem.n_rows), place] = 1
        return cls(problem, bits_mask(bits, problem.n_features), probabilities)

    def expected_size(self) -> float:
        """Expected number of revealed features."""
        return float(self.problem.p @ self.probabilities @ self.masks.sum(axis=1))

    def __repr__(self) -> str:
        return f"PolicyTable(n_rows={self.problem.n_rows}, n_masks={len(self.masks)})"


def all_masks(n_features: int) -> NDArray[np.bool_]:
    """Every mask, in the order of its bits."""
    return bits_mask(np.arange(2**n_features), n_features)


def as_table(problem: FiniteProblem, policy: Any) -> PolicyTable:
    """Read a policy in any of its forms.

    Parameters
    ----------
    problem : FiniteProblem
        The problem whose rows the policy selects from.
    policy : object
        A ``PolicyTable``; a pair (masks, probabilities) as it takes; a boolean array with one mask
        a row of ``problem.X``; anything with ``mask_probability(X, masks)``, such as a solution or
        a fitted estimator; or a callable that maps X to one mask a row.

    Examples
    --------
    >>> from suwr.exact import as_table, leaky_pair
    >>> problem, masks = leaky_pair()
    >>> table = as_table(problem, masks)
    >>> table.masks.shape, table.probabilities.shape
    ((3, 2), (4, 3))
    """
    if isinstance(policy, PolicyTable):
        return PolicyTable(problem, policy.masks, policy.probabilities)
    if isinstance(policy, tuple) and len(policy) == 2:
        return PolicyTable(problem, *policy)
    if isinstance(policy, StatePolicy) or isinstance(getattr(policy, "policy", None), StatePolicy):
        masks = (policy if isinstance(policy, StatePolicy) else policy.policy).masks()
        return PolicyTable(problem, masks, policy.mask_probability(problem.frame(), masks[None]))
    if hasattr(policy, "mask_probability"):
        n_pairs = problem.n_rows * 2**problem.n_features
        check_memory(
            n_pairs * (8 + problem.n_features), problem.max_memory, n_pairs, "A policy table"
        )
        masks = all_masks(problem.n_features)
        found = np.asarray(policy.mask_probability(problem.frame(), masks[None]), dtype=float)
        if found.shape != (problem.n_rows, len(masks)):
            raise ValueError(
                "mask_probability(X, masks) must return an array of shape "
                f"({problem.n_rows}, {len(masks)}). Got shape {found.shape} instead."
            )
        used = (found > 0).any(axis=0)
        return PolicyTable(problem, masks[used], found[:, used])
    if callable(policy):
        policy = policy(problem.frame())
    return PolicyTable.deterministic(problem, policy)
