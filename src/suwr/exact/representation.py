"""Whether a policy is a SUWR policy, by a flow over masked states, with a certificate if it is not.

Certificates are verified in plain Python and exact fractions, independently of the solvers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from suwr._utils.validation import check_integer
from suwr.exact.leakage import LeakageWitness, leakage
from suwr.exact.policy import Decision, PolicyTable, SUWRPolicy, all_masks, as_table
from suwr.exact.problem import FiniteProblem
from suwr.exact.solve import minimise
from suwr.exact.states import Floats, Ints, check_memory
from suwr.exceptions import SuwrError

# A masked state: for each feature the code of its value, or None if it is hidden.
Pattern = tuple[int | None, ...]


@dataclass(frozen=True)
class LeakCertificate:
    """Proof by leakage: the policy leaks, and no SUWR policy does.

    Attributes
    ----------
    table : PolicyTable
        The policy.
    witness : LeakageWitness
        Two rows that agree on the revealed values of a mask but select it with unequal
        probability.

    Examples
    --------
    >>> from suwr.exact import leaky_pair, represent
    >>> certificate = represent(*leaky_pair()).certificate
    >>> type(certificate).__name__, certificate.verify()
    ('LeakCertificate', True)
    """

    table: PolicyTable
    witness: LeakageWitness

    def verify(self) -> bool:
        """Check that both rows have positive probability, agree, and have unequal probabilities."""
        w = self.witness
        rows = self.table.problem.locate([w.x.tolist(), w.x_other.tolist()])
        a, b = (self.table.problem.codes[row] for row in rows)
        columns = np.flatnonzero((self.table.masks == w.mask).all(axis=1))
        if len(columns) != 1 or (a[w.mask] != b[w.mask]).any():
            return False
        first, second = self.table.probabilities[rows, columns[0]]
        return bool(first != second)


@dataclass(frozen=True)
class RayCertificate:
    """Proof by a reward for stopping whose expectation no SUWR policy can reach.

    If the weight w(s) of every state is at least the sum of the weights of its children, for any
    feature revealed next, then Σ θ(s) w(s) ≤ w(∅) for every SUWR policy, because no step increases
    the expected weight. A policy with a larger expectation is not a SUWR policy. The weights are a
    dual ray of the linear program in :func:`suwr.exact.represent`.

    Attributes
    ----------
    table : PolicyTable
        The policy.
    weights : dict
        w(s) of each masked state, a tuple of codes with None for hidden features.

    Examples
    --------
    >>> from suwr.exact import five_blocks, represent
    >>> certificate = represent(*five_blocks()).certificate
    >>> int(certificate.reward), int(certificate.bound), certificate.verify()
    (5, 4, True)
    """

    table: PolicyTable
    weights: Mapping[Pattern, Fraction]

    @property
    def reward(self) -> Fraction:
        """Σ θ(s) w(s), the expected reward of the policy."""
        return sum(
            (theta * self.weights[state] for state, theta in thetas(self.table).items()),
            Fraction(0),
        )

    @property
    def bound(self) -> Fraction:
        """w(∅), the upper bound for all SUWR policies."""
        return self.weights[(None,) * self.table.problem.n_features]

    def verify(self) -> bool:
        """Check every inequality in exact arithmetic.

        Those of steps that reveal several features follow by revealing them one at a time.
        """
        states = patterns(self.table)
        if not states.keys() <= self.weights.keys():
            return False
        for state, members in states.items():
            for j, code in enumerate(state):
                children = {reveal(row, state, j) for row in members}
                weight = sum(self.weights[child] for child in children)
                if code is None and weight > self.weights[state]:
                    return False
        return self.reward > self.bound + Fraction(1, 10**9)

    def text(self) -> str:
        """Format the states with non-zero weight as text, one per line."""
        problem = self.table.problem
        earned = thetas(self.table)
        lines = [f"policy earns {self.reward}, a SUWR policy at most {self.bound}"]
        for state in sorted(self.weights, key=lambda s: (sum(c is not None for c in s), str(s))):
            if self.weights[state]:
                theta = earned.get(state, Fraction(0))
                lines.append(f"{describe(state, problem)}  w = {self.weights[state]}  θ = {theta}")
        return "\n".join(lines)


def thetas(table: PolicyTable) -> dict[Pattern, Fraction]:
    """θ(s) of every masked state in which the policy stops with positive probability."""
    found: dict[Pattern, Fraction] = {}
    for m, mask in enumerate(table.masks):
        for row, probability in enumerate(table.probabilities[:, m]):
            if probability > 0:
                codes = table.problem.codes[row]
                state = tuple(int(c) if h else None for c, h in zip(codes, mask, strict=True))
                found[state] = Fraction(float(probability)).limit_denominator(10**12)
    return found


def patterns(table: PolicyTable) -> dict[Pattern, list[tuple[int, ...]]]:
    """Every masked state of positive probability, with the rows that agree with it."""
    n_features = table.problem.n_features
    members: dict[Pattern, list[tuple[int, ...]]] = {}
    for row in table.problem.codes.tolist():
        for bits in range(2**n_features):
            state = tuple(row[j] if bits >> j & 1 else None for j in range(n_features))
            members.setdefault(state, []).append(tuple(row))
    return members


def reveal(row: tuple[int, ...], state: Pattern, feature: int) -> Pattern:
    """The state after a feature of the row is revealed."""
    return (*state[:feature], row[feature], *state[feature + 1 :])


def describe(state: Pattern, problem: Any) -> str:
    """Format a state as text, with * for hidden features."""
    values = [
        "*" if code is None else str(problem.alphabets[j].values[code])
        for j, code in enumerate(state)
    ]
    return "".join(values) if all(len(v) == 1 for v in values) else ", ".join(values)


def certificate_from_rewards(
    table: PolicyTable, rewards: Mapping[Pattern, Fraction]
) -> RayCertificate:
    """Turn rewards into weights that satisfy every inequality exactly.

    w(s) is the maximal expected reward of a SUWR policy from s on: the larger of the reward for
    stopping in s and the best sum over the values of one more feature.
    """
    weights: dict[Pattern, Fraction] = {}
    members = patterns(table)
    for state in sorted(members, key=lambda s: sum(code is None for code in s)):
        options = [rewards.get(state, Fraction(0))]
        for j, code in enumerate(state):
            if code is None:
                children = {reveal(row, state, j) for row in members[state]}
                options.append(sum((weights[child] for child in children), Fraction(0)))
        weights[state] = max(options)
    return RayCertificate(table, weights)


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
    if counted.reward > counted.bound + margin and counted.verify():
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
        if certificate.verify():
            return certificate
    raise SuwrError(
        "No SUWR policy was found, but the certificate is not significant given rounding errors. "
        "Increase the 'tolerance' parameter of represent."
    )
