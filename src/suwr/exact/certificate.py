"""Certificates that a policy is not a SUWR policy, and their verification.

Verification uses plain Python and exact fractions, independently of the solvers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from suwr.exact.leakage import LeakageWitness
from suwr.exact.policy import PolicyTable

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

    def verify(self, units_per_step: int | None = None) -> bool:
        """Check every inequality in exact arithmetic.

        Parameters
        ----------
        units_per_step : int, default=None
            Maximum number of features that a step may reveal; unlimited if None. One is
            sufficient: the inequalities of larger steps follow by revealing their features one at a
            time.
        """
        n_features = self.table.problem.n_features
        most = n_features if units_per_step is None else units_per_step
        states = patterns(self.table)
        if not states.keys() <= self.weights.keys():
            return False
        for state, members in states.items():
            hidden = [j for j in range(n_features) if state[j] is None]
            for size in range(1, min(most, len(hidden)) + 1):
                for units in combinations(hidden, size):
                    children = {reveal(row, state, units) for row in members}
                    if sum(self.weights[child] for child in children) > self.weights[state]:
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


def reveal(row: tuple[int, ...], state: Pattern, units: tuple[int, ...]) -> Pattern:
    """The state after the features ``units`` of the row are revealed."""
    return tuple(row[j] if j in units else code for j, code in enumerate(state))


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
                children = {reveal(row, state, (j,)) for row in members[state]}
                options.append(sum((weights[child] for child in children), Fraction(0)))
        weights[state] = max(options)
    return RayCertificate(table, weights)
