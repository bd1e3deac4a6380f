"""Decide whether a policy is a SUWR policy, by a flow over masked states."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from suwr._utils.validation import check_integer
from suwr.exact.certificate import (
    LeakCertificate,
    Pattern,
    RayCertificate,
    certificate_from_rewards,
    thetas,
)
from suwr.exact.leakage import leakage
from suwr.exact.linear import minimise
from suwr.exact.policy import Decision, PolicyTable, SUWRPolicy, all_masks, as_table
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, check_memory
from suwr.exceptions import SuwrError


@dataclass(frozen=True)
class Representation:
    """Result of :func:`represent`.

    Attributes
    ----------
    table : PolicyTable
        The policy.
    policy : SUWRPolicy or None
        A SUWR policy with the same ζ(h | x); None if there is none.
    certificate : RayCertificate, LeakCertificate or None
        Proof that there is none; its ``verify()`` uses exact fractions and no solver.

    Examples
    --------
    >>> from suwr.exact import represent, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> answer = represent(problem, solve(problem, 0.3))
    >>> answer.policy is not None, answer.certificate is None, answer.verify()
    (True, True, True)
    """

    table: PolicyTable
    policy: SUWRPolicy | None
    certificate: RayCertificate | LeakCertificate | None

    def verify(self, tolerance: float = 1e-6) -> bool:
        """Verify the result: roll out the SUWR policy, or check the certificate."""
        if self.policy is None:
            return self.certificate is not None and self.certificate.verify()
        masks = all_masks(self.table.problem.n_features)
        wanted = np.zeros((self.table.problem.n_rows, len(masks)))
        places = self.table.masks @ (1 << np.arange(masks.shape[1]))
        wanted[:, places] = self.table.probabilities
        found = self.policy.mask_probability(self.table.problem.X, masks[None])
        return bool(np.abs(found - wanted).max() <= tolerance)


def represent(
    problem: FiniteProblem,
    policy: Any,
    *,
    units_per_step: int | None = 1,
    tolerance: float = 1e-7,
) -> Representation:
    """Find a SUWR policy that equals a given policy, or prove that there is none.

    Let g(s, u) be the probability of reaching the masked state s and then revealing u. A SUWR
    policy is a flow g whose inflow minus outflow in each state s is θ(s), the probability of
    stopping. A linear program decides whether such a flow exists; if not, its dual ray is a proof.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    policy : object
        A policy in any form that :func:`suwr.exact.as_table` accepts.
    units_per_step : int, default=1
        Maximum number of features that one step may reveal; unlimited if None.
    tolerance : float, default=1e-7
        Largest total violation of the flow constraints that is treated as 0.

    Returns
    -------
    Representation

    Examples
    --------
    >>> from suwr.exact import five_blocks, represent, solve
    >>> problem, masks = five_blocks()
    >>> answer = represent(problem, masks)
    >>> print(answer.policy, answer.certificate.reward, answer.certificate.bound)
    None 5 4
    >>> represent(problem, solve(problem, 0.1)).verify()
    True
    """
    max_units = problem.n_features
    if units_per_step is not None:
        max_units = min(max_units, check_integer(units_per_step, "units_per_step", "represent", 1))
    table = as_table(problem, policy)
    leak = leakage(problem, table, tolerance=tolerance).condition
    if leak.witness is not None:
        return Representation(table, None, LeakCertificate(table, leak.witness))
    # Try a reward of 1 for every occupied state first: such a proof can be checked by hand.
    counted = certificate_from_rewards(table, dict.fromkeys(thetas(table), Fraction(1)))
    margin = Fraction(max(1e-6, 10 * tolerance))  # exceeds rounding errors
    if counted.reward > counted.bound + margin and counted.verify(1):
        return Representation(table, None, counted)
    flow = _Flow(problem, max_units)
    amounts, duals, error = flow.solve(table)
    if error <= tolerance:
        return Representation(table, flow.policy(table, amounts), None)
    return Representation(table, None, _certificate(flow, table, duals))


class _Flow:
    """The linear program over flows g(s, u)."""

    def __init__(self, problem: FiniteProblem, max_units: int) -> None:
        self.problem = problem
        d = problem.n_features
        n_pairs = problem.n_rows * sum(comb(d, k) * 2 ** (d - k) for k in range(1, max_units + 1))
        check_memory(100 * n_pairs, problem.max_memory, n_pairs, "The flow of a SUWR policy")
        rows = np.arange(problem.n_rows)
        self.ids = problem.states.index(rows[:, None], np.arange(2**d))
        self.states, first = np.unique(self.ids, return_index=True)
        self.member, self.mask = np.divmod(first, 2**d)
        self._build(d, max_units)

    def _build(self, d: int, max_units: int) -> None:
        place = np.searchsorted(self.states, self.ids)
        sources: list[Ints] = []
        row_parts, column_parts, signs = [], [], []
        self.units: list[tuple[int, ...]] = []
        n_columns = 0
        for size in range(1, max_units + 1):
            for units in combinations(range(d), size):
                bits = sum(1 << j for j in units)
                for mask in range(2**d):
                    if mask & bits:
                        continue
                    pairs = np.unique(
                        np.column_stack([place[:, mask], place[:, mask | bits]]), axis=0
                    )
                    parents, column = np.unique(pairs[:, 0], return_inverse=True)
                    row_parts += [parents, pairs[:, 1]]
                    column_parts += [n_columns + np.arange(len(parents)), n_columns + column]
                    signs += [np.full(len(parents), -1.0), np.ones(len(pairs))]
                    sources.append(parents)
                    self.units += [units] * len(parents)
                    n_columns += len(parents)
        self.source = np.concatenate(sources)
        self.matrix = sparse.csc_array(
            (np.concatenate(signs), (np.concatenate(row_parts), np.concatenate(column_parts))),
            shape=(len(self.states), n_columns),
        )

    def solve(self, table: PolicyTable) -> tuple[Floats, Floats, float]:
        """Flow, dual ray, and the total violation of the constraints."""
        target = self._theta(table)
        target[np.flatnonzero(self.mask == 0)] -= 1  # unit inflow at the empty mask
        n_states, n_columns = self.matrix.shape
        identity = sparse.eye_array(n_states, format="csc")
        amounts, duals, error = minimise(
            np.concatenate([np.zeros(n_columns), np.ones(2 * n_states)]),
            sparse.hstack([self.matrix, identity, -identity], format="csc"),
            target,
        )
        return np.maximum(amounts[:n_columns], 0), duals, error

    def _theta(self, table: PolicyTable) -> Floats:
        theta = np.zeros(len(self.states))
        bits = table.masks @ (1 << np.arange(self.problem.n_features))
        for m, mask in enumerate(bits):
            place = np.searchsorted(self.states, self.ids[:, mask])
            theta[place] = table.probabilities[:, m]
        return theta

    def policy(self, table: PolicyTable, amounts: Floats) -> SUWRPolicy:
        """Stopping and selection probabilities, from the shares of the flow in each state."""
        theta = np.maximum(self._theta(table), 0)
        leaving = np.bincount(self.source, weights=amounts, minlength=len(self.states))
        select: dict[int, dict[tuple[int, ...], float]] = {}
        for column in np.flatnonzero(amounts > 1e-12):
            source = int(self.source[column])
            share = float(amounts[column] / leaving[source])
            select.setdefault(source, {})[self.units[column]] = share
        decisions = {}
        for state, options in select.items():
            total = sum(options.values())
            decisions[int(self.states[state])] = Decision(
                stop=float(theta[state] / (theta[state] + leaving[state])),
                select={units: share / total for units, share in options.items()},
            )
        return SUWRPolicy(self.problem, decisions)

    def pattern(self, state: int) -> Pattern:
        """A state as a tuple of codes, with None for hidden features."""
        codes = self.problem.codes[self.member[state]]
        mask = int(self.mask[state])
        return tuple(int(c) if mask >> j & 1 else None for j, c in enumerate(codes))


def _certificate(flow: _Flow, table: PolicyTable, duals: Floats) -> RayCertificate:
    """Round the dual ray to small fractions and restore the inequalities exactly."""
    for denominator in (1, 2, 3, 4, 6, 12, 60, 10**4, 10**9):
        rewards = {
            flow.pattern(i): Fraction(round(float(dual) * denominator), denominator)
            for i, dual in enumerate(duals)
        }
        certificate = certificate_from_rewards(table, rewards)
        if certificate.verify(1):
            return certificate
    raise SuwrError(
        "No SUWR policy was found, but the certificate is not significant given rounding errors. "
        "Increase the 'tolerance' parameter of represent."
    )
