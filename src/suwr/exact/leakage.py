"""Exact leakage of a policy: the two definitions of the paper and its main corollary.

The three results are computed independently of each other, so that tests can verify the theorems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from suwr.exact.policy import PolicyTable, as_table
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints


@dataclass(frozen=True)
class LeakageWitness:
    """Two rows that agree on the revealed values of a mask but select it with unequal probability.

    Attributes
    ----------
    x, x_other : ndarray
        The two rows; x ⊙ h = x' ⊙ h.
    mask : ndarray of bool
        The mask h.
    probability, probability_other : float
        ζ(h | x) and ζ(h | x').

    Examples
    --------
    >>> from suwr.exact import leakage, leaky_pair
    >>> witness = leakage(*leaky_pair()).condition.witness
    >>> bool((witness.x[witness.mask] == witness.x_other[witness.mask]).all())
    True
    >>> witness.probability == witness.probability_other
    False
    """

    x: NDArray[Any]
    x_other: NDArray[Any]
    mask: NDArray[np.bool_]
    probability: float
    probability_other: float


@dataclass(frozen=True)
class LeakageAmount:
    """Result of one test of leakage.

    Attributes
    ----------
    leaks : bool
        Whether the two sides of the definition differ by more than the tolerance.
    bits : float
        Expected information in the selection beyond the revealed values.
    witness : LeakageWitness or None
        A pair of rows that proves the leakage.

    Examples
    --------
    >>> from suwr.exact import leakage, leaky_pair
    >>> amount = leakage(*leaky_pair()).label
    >>> amount.leaks, round(amount.bits, 2)
    (True, 1.25)
    """

    leaks: bool
    bits: float
    witness: LeakageWitness | None


@dataclass(frozen=True)
class LeakageReport:
    """Label leakage, feature leakage, and the condition that is equivalent to neither occurring.

    Attributes
    ----------
    label : LeakageAmount
        p(y | x[in]) against p(y | x[in], h), and I(h; y | revealed values).
    feature : LeakageAmount
        p(x[ex] | x[in]) against p(x[ex] | x[in], h), and I(h; hidden values | revealed values).
    condition : LeakageAmount
        p(h | x[in]) against p(h | x): the main corollary.

    Examples
    --------
    >>> from suwr.exact import five_blocks, leakage
    >>> report = leakage(*five_blocks())
    >>> report.label.leaks, report.feature.leaks, report.condition.leaks
    (False, False, False)
    """

    label: LeakageAmount
    feature: LeakageAmount
    condition: LeakageAmount

    @property
    def leaks(self) -> bool:
        """Whether there is label leakage or feature leakage."""
        return self.label.leaks or self.feature.leaks

    @property
    def witness(self) -> LeakageWitness | None:
        """The pair of rows that violates the condition most; None if the policy is leak-free."""
        return self.condition.witness

    def summary(self) -> str:
        """Format the three results as text, one per line."""
        lines = []
        for name in ("label", "feature", "condition"):
            part: LeakageAmount = getattr(self, name)
            verdict = "leaks" if part.leaks else "none"
            lines.append(f"{name:<10}{verdict:<7}{part.bits:.6f} bits")
        return "\n".join(lines)


def leakage(problem: FiniteProblem, policy: Any, *, tolerance: float = 1e-9) -> LeakageReport:
    """Measure the label leakage and the feature leakage of a policy.

    Leakage in bits is the expectation, over rows and selections, of
    log₂ p(z | x[in], h) / p(z | x[in]), where z is the label or the hidden values: the conditional
    mutual information of the selection and z given the revealed values. It is 0 if and only if
    there is no leakage.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    policy : object
        A policy in any form that :func:`suwr.exact.as_table` accepts.
    tolerance : float, default=1e-9
        Differences and probabilities up to this value are treated as 0. Models in single precision
        need about 1e-5.

    Returns
    -------
    LeakageReport

    Examples
    --------
    Table 1 of the paper: the selection determines all hidden values.

    >>> from suwr.exact import leakage, leaky_pair
    >>> problem, masks = leaky_pair()
    >>> print(leakage(problem, masks).summary())
    label     leaks  1.250000 bits
    feature   leaks  1.250000 bits
    condition leaks  1.250000 bits
    """
    table = as_table(problem, policy)
    groups = [_groups(problem, mask) for mask in table.masks]
    label, feature, condition = (
        _amount((part(table, m, group, tolerance) for m, group in enumerate(groups)), tolerance)
        for part in (_label_part, _feature_part, _condition_part)
    )
    return LeakageReport(label, feature, condition)


# Bits, the largest difference, and a function that finds the witness, of one mask.
Part = tuple[float, float, Callable[[], LeakageWitness]]


def _amount(parts: Iterable[Part], tolerance: float) -> LeakageAmount:
    total, worst = 0.0, 0.0
    find_witness: Callable[[], LeakageWitness] | None = None
    for bits, difference, find in parts:
        total += bits
        if difference > worst:
            worst, find_witness = difference, find
    leaks = worst > tolerance
    witness = find_witness() if leaks and find_witness is not None else None
    return LeakageAmount(leaks, max(total, 0.0), witness)


def _groups(problem: FiniteProblem, mask: NDArray[np.bool_]) -> Ints:
    """Group of each row; rows of one group agree on the revealed values."""
    if not mask.any():
        return np.zeros(problem.n_rows, dtype=np.int64)
    _, group = np.unique(problem.codes[:, mask], axis=0, return_inverse=True)
    return group.reshape(-1)


def _label_part(table: PolicyTable, m: int, group: Ints, tolerance: float) -> Part:
    """Label leakage by definition: compare p(y | x[in], h) with p(y | x[in])."""
    problem = table.problem
    joint = problem.p * table.probabilities[:, m]
    prior = _label_given_group(problem, group, problem.p)
    posterior = _label_given_group(problem, group, joint)
    weight = np.bincount(group, weights=joint)
    reachable = weight > tolerance * np.bincount(group, weights=problem.p)
    ratio = np.divide(posterior, prior, out=np.ones_like(posterior), where=posterior > 0)
    bits = float(weight @ (posterior * np.log2(ratio)).sum(axis=1))
    difference = np.abs(posterior - prior) * reachable[:, None]
    g, label = np.unravel_index(int(np.argmax(difference)), difference.shape)
    rows = np.flatnonzero(group == g)
    return bits, float(difference[g, label]), lambda: _label_witness(table, m, rows, int(label))


def _label_given_group(problem: FiniteProblem, group: Ints, weight: Floats) -> Floats:
    shape = (int(group.max()) + 1, problem.n_rows)
    totals = np.bincount(group, weights=weight)[group]
    share = np.divide(weight, totals, out=np.zeros_like(weight), where=totals > 0)
    gather = sparse.csr_array((share, (group, np.arange(problem.n_rows))), shape=shape)
    return (gather @ problem.label_distribution).toarray()


def _label_witness(table: PolicyTable, m: int, rows: Ints, label: int) -> LeakageWitness:
    """Two rows of the group that differ both in ζ and in the probability of the label.

    Such a pair exists: if the rows of largest and smallest ζ agree on the label, then ζ of any row
    that disagrees with them differs from one of theirs.
    """
    zeta = table.probabilities[rows, m]
    label_probability = table.problem.label_distribution[rows].toarray()[:, label]
    high, low = int(np.argmax(zeta)), int(np.argmin(zeta))
    other = int(np.argmax(np.abs(label_probability - label_probability[high])))
    pairs = [(high, low), (high, other), (other, low)]
    gaps = [
        abs(zeta[a] - zeta[b]) * abs(label_probability[a] - label_probability[b]) for a, b in pairs
    ]
    a, b = pairs[int(np.argmax(gaps))]
    return _witness(table, m, int(rows[a]), int(rows[b]))


def _feature_part(table: PolicyTable, m: int, group: Ints, tolerance: float) -> Part:
    """Feature leakage by definition: compare p(x[ex] | x[in], h) with p(x[ex] | x[in])."""
    p = table.problem.p
    joint = p * table.probabilities[:, m]
    total = np.bincount(group, weights=p)[group]
    weight = np.bincount(group, weights=joint)[group]
    prior = p / total
    posterior = np.divide(joint, weight, out=np.zeros_like(p), where=weight > 0)
    positive = posterior > 0
    bits = float(joint[positive] @ np.log2(posterior[positive] / prior[positive]))
    difference = np.abs(posterior - prior) * (weight > tolerance * total)
    row = int(np.argmax(difference))
    rows = np.flatnonzero(group == group[row])
    # The row whose posterior increased most, and the one whose posterior decreased most.
    return bits, float(difference[row]), lambda: _extremes(table, m, rows, posterior / prior)


def _condition_part(table: PolicyTable, m: int, group: Ints, _: float) -> Part:
    """Main corollary: compare ζ(h | x) with p(h | x[in])."""
    p, zeta = table.problem.p, table.probabilities[:, m]
    given_revealed = np.bincount(group, weights=p * zeta) / np.bincount(group, weights=p)
    expected = given_revealed[group]
    positive = zeta > 0
    bits = float((p * zeta)[positive] @ np.log2(zeta[positive] / expected[positive]))
    difference = np.abs(zeta - expected)
    row = int(np.argmax(difference))
    rows = np.flatnonzero(group == group[row])
    return bits, float(difference[row]), lambda: _extremes(table, m, rows, zeta)


def _extremes(table: PolicyTable, m: int, rows: Ints, amounts: Floats) -> LeakageWitness:
    """The rows of largest and smallest amount."""
    high, low = rows[amounts[rows].argmax()], rows[amounts[rows].argmin()]
    return _witness(table, m, int(high), int(low))


def _witness(table: PolicyTable, m: int, row: int, other: int) -> LeakageWitness:
    return LeakageWitness(
        x=table.problem.X[row],
        x_other=table.problem.X[other],
        mask=table.masks[m],
        probability=float(table.probabilities[row, m]),
        probability_other=float(table.probabilities[other, m]),
    )
