"""Is a leak-free policy a SUWR policy? A flow over masked states decides."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from suwr.exact._arrays import Floats, Ints
from suwr.exact._checks import check_count, check_memory
from suwr.exact._highs import minimise
from suwr.exact.certificate import (
    LeakCertificate,
    Pattern,
    RayCertificate,
    certificate_from_rewards,
    thetas,
)
from suwr.exact.leakage import leakage
from suwr.exact.problem import FiniteProblem
from suwr.exact.sequential import Decision, SUWRPolicy
from suwr.exact.table import PolicyTable, all_masks, as_table
from suwr.exceptions import SuwrError


@dataclass(frozen=True)
class Representation:
    """The answer of :func:`represent`.

    Attributes
    ----------
    table : PolicyTable
        The policy that was asked about.
    policy : SUWRPolicy or None
        A SUWR policy with the same ζ(h | x), if there is one.
    certificate : RayCertificate, LeakCertificate or None
        Why there is none. Its ``verify()`` uses exact fractions and no solver.

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
        """Check the answer: run the policy, or check the certificate."""
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
    """Find the SUWR policy that equals a given policy, or prove that there is none.

    Let g(s, u) be the probability of reaching the masked state s and then revealing u. A SUWR
    policy is such a flow: what comes into s, less what goes out, is θ(s), where it stops. So a
    linear program decides, and its dual ray is the proof when there is no flow.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    policy : object
        Any form of policy that :func:`suwr.exact.as_table` reads.
    units_per_step : int, default=1
        Most features that one step may reveal; any number if None.
    tolerance : float, default=1e-7
        Largest total error of the flow that counts as none.

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
    most = problem.n_features
    if units_per_step is not None:
        most = min(most, check_count(units_per_step, "units_per_step", "represent", 1))
    table = as_table(problem, policy)
    leak = leakage(problem, table, tolerance=tolerance).condition
    if leak.witness is not None:
        return Representation(table, None, LeakCertificate(table, leak.witness))
    # Counting unique occupied blocks is a proof that people can follow, so it is tried first.
    counted = certificate_from_rewards(table, dict.fromkeys(thetas(table), Fraction(1)))
    margin = Fraction(max(1e-6, 10 * tolerance))  # not to take rounding for a proof
    if counted.reward > counted.bound + margin and counted.verify(1):
        return Representation(table, None, counted)
    flow = _Flow(problem, most)
    amounts, duals, error = flow.solve(table)
    if error <= tolerance:
        return Representation(table, flow.policy(table, amounts), None)
    return Representation(table, None, _certificate(flow, table, duals))


class _Flow:
    """The linear program over flows g(s, u)."""

    def __init__(self, problem: FiniteProblem, most: int) -> None:
        self.problem = problem
        d = problem.n_features
        n_pairs = problem.n_rows * sum(_choose(d, k) * 2 ** (d - k) for k in range(1, most + 1))
        check_memory(100 * n_pairs, problem.max_memory, n_pairs, "The flow of a SUWR policy")
        rows = np.arange(problem.n_rows)
        self.ids = problem.states.index(rows[:, None], np.arange(2**d))
        self.states, first = np.unique(self.ids, return_index=True)
        self.member, self.mask = np.divmod(first, 2**d)
        self._build(d, most)

    def _build(self, d: int, most: int) -> None:
        place = np.searchsorted(self.states, self.ids)
        sources: list[Ints] = []
        row_parts, column_parts, signs = [], [], []
        self.units: list[tuple[int, ...]] = []
        n_columns = 0
        for size in range(1, most + 1):
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
        """Flow, dual ray, and the total error of the flow."""
        target = self._theta(table)
        target[np.flatnonzero(self.mask == 0)] -= 1  # the whole flow starts where nothing is shown
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
        """Stop and select probabilities: each state's shares of what goes on and what stays."""
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
        """A state as values and gaps, for a certificate."""
        codes = self.problem.codes[self.member[state]]
        mask = int(self.mask[state])
        return tuple(int(c) if mask >> j & 1 else None for j, c in enumerate(codes))


def _certificate(flow: _Flow, table: PolicyTable, duals: Floats) -> RayCertificate:
    """Round the dual ray to small fractions; the inequalities are restored exactly."""
    for denominator in (1, 2, 3, 4, 6, 12, 60, 10**4, 10**9):
        rewards = {
            flow.pattern(i): Fraction(round(float(dual) * denominator), denominator)
            for i, dual in enumerate(duals)
        }
        certificate = certificate_from_rewards(table, rewards)
        if certificate.verify(1):
            return certificate
    raise SuwrError(
        "No SUWR policy was found, but the proof of that is within rounding errors. "
        "Raise the 'tolerance' parameter of represent."
    )


def _choose(n: int, k: int) -> int:
    result = 1
    for i in range(k):
        result = result * (n - i) // (i + 1)
    return result
