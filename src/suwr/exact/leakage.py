"""Leakage of a policy, exactly: the paper's two definitions and its main corollary.

The three verdicts are computed apart from each other, so that the theorems can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from suwr.exact._arrays import Floats, Ints
from suwr.exact.problem import FiniteProblem
from suwr.exact.table import PolicyTable, as_table


@dataclass(frozen=True)
class Witness:
    """Two rows that look alike through a mask and yet get it with different probabilities.

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
    """One verdict.

    Attributes
    ----------
    leaks : bool
        Whether the two sides of the definition differ by more than the tolerance.
    bits : float
        What the selection tells beyond the revealed values, on average.
    max_difference : float
        Largest difference between the two sides.
    witness : Witness or None
        A pair of rows that shows it.

    Examples
    --------
    >>> from suwr.exact import leakage, leaky_pair
    >>> amount = leakage(*leaky_pair()).label
    >>> amount.leaks, round(amount.bits, 2)
    (True, 1.25)
    """

    leaks: bool
    bits: float
    max_difference: float
    witness: Witness | None


@dataclass(frozen=True)
class LeakageReport:
    """Label leakage, feature leakage, and the condition that excludes both.

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
        """Whether the policy leaks by definition: labels or features."""
        return self.label.leaks or self.feature.leaks

    @property
    def witness(self) -> Witness | None:
        """The pair of rows whose probabilities differ most, if any."""
        return self.condition.witness

    def summary(self) -> str:
        """Three lines for people."""
        lines = []
        for name in ("label", "feature", "condition"):
            part: LeakageAmount = getattr(self, name)
            verdict = "leaks" if part.leaks else "none"
            lines.append(f"{name:<10}{verdict:<7}{part.bits:.6f} bits")
        return "\n".join(lines)


def leakage(problem: FiniteProblem, policy: Any, *, tolerance: float = 1e-9) -> LeakageReport:
    """Measure what a policy tells beyond the values that it reveals.

    The amounts are averages, over rows and selections, of log₂ p(z | x[in], h) / p(z | x[in]),
    where z is the label or the hidden values: the mutual information of the selection and z given
    the revealed values. They are 0 exactly if nothing leaks.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    policy : object
        Any form of policy that :func:`suwr.exact.as_table` reads.
    tolerance : float, default=1e-9
        Differences up to this count as none, and so do probabilities. A model that computes in
        single precision needs about 1e-5.

    Returns
    -------
    LeakageReport

    Examples
    --------
    Table 1 of the paper: the selection tells everything that it hides.

    >>> from suwr.exact import leakage, leaky_pair
    >>> problem, masks = leaky_pair()
    >>> print(leakage(problem, masks).summary())
    label     leaks  1.250000 bits
    feature   leaks  1.250000 bits
    condition leaks  1.250000 bits
    """
    table = as_table(problem, policy)
    groups = [_groups(problem, mask) for mask in table.masks]
    return LeakageReport(
        label=_label_leakage(table, groups, tolerance),
        feature=_feature_leakage(table, groups, tolerance),
        condition=_condition(table, groups, tolerance),
    )


def _groups(problem: FiniteProblem, mask: NDArray[np.bool_]) -> Ints:
    """Number of the class of rows that look alike through the mask, for each row."""
    if not mask.any():
        return np.zeros(problem.n_rows, dtype=np.int64)
    _, group = np.unique(problem.codes[:, mask], axis=0, return_inverse=True)
    return group.reshape(-1)


def _label_leakage(table: PolicyTable, groups: list[Ints], tolerance: float) -> LeakageAmount:
    """The definition of label leakage: conditioning the label changes nothing."""
    problem = table.problem
    bits, worst, place = 0.0, 0.0, (0, 0, 0)
    for m, group in enumerate(groups):
        chosen = problem.p * table.probabilities[:, m]
        natural = _label_given_group(problem, group, problem.p)
        selected = _label_given_group(problem, group, chosen)
        weight = np.bincount(group, weights=chosen)
        possible = weight > tolerance * np.bincount(group, weights=problem.p)
        ratio = np.divide(selected, natural, out=np.ones_like(selected), where=selected > 0)
        bits += float(weight @ (selected * np.log2(ratio)).sum(axis=1))
        difference = np.abs(selected - natural) * possible[:, None]
        g, label = np.unravel_index(int(np.argmax(difference)), difference.shape)
        if difference[g, label] > worst:
            worst, place = float(difference[g, label]), (m, int(g), int(label))
    leaks = worst > tolerance
    witness = _label_witness(table, groups, *place) if leaks else None
    return LeakageAmount(leaks, max(bits, 0.0), worst, witness)


def _label_given_group(problem: FiniteProblem, group: Ints, weight: Floats) -> Floats:
    shape = (int(group.max()) + 1, problem.n_rows)
    totals = np.bincount(group, weights=weight)[group]
    share = np.divide(weight, totals, out=np.zeros_like(weight), where=totals > 0)
    gather = sparse.csr_array((share, (group, np.arange(problem.n_rows))), shape=shape)
    return (gather @ problem.label_distribution).toarray()


def _label_witness(table: PolicyTable, groups: list[Ints], m: int, g: int, label: int) -> Witness:
    """Two rows of the group that differ both in ζ and in the probability of the label.

    Such a pair exists: if the rows of greatest and least ζ agree on the label, a row that
    disagrees with them has a ζ that differs from one of theirs.
    """
    rows = np.flatnonzero(groups[m] == g)
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


def _feature_leakage(table: PolicyTable, groups: list[Ints], tolerance: float) -> LeakageAmount:
    """The definition of feature leakage: conditioning the hidden values changes nothing."""
    p = table.problem.p
    bits, worst, witness = 0.0, 0.0, None
    for m, group in enumerate(groups):
        chosen = p * table.probabilities[:, m]
        natural = p / np.bincount(group, weights=p)[group]
        weight = np.bincount(group, weights=chosen)[group]
        selected = np.divide(chosen, weight, out=np.zeros_like(p), where=weight > 0)
        positive = selected > 0
        bits += float(chosen[positive] @ np.log2(selected[positive] / natural[positive]))
        possible = weight > tolerance * np.bincount(group, weights=p)[group]
        difference = np.abs(selected - natural) * possible
        row = int(np.argmax(difference))
        if difference[row] > worst:
            worst = float(difference[row])
            # What became likelier is set against what became less likely.
            ratio = np.where(group == group[row], selected / natural, np.nan)
            witness = _witness(table, m, int(np.nanargmax(ratio)), int(np.nanargmin(ratio)))
    leaks = worst > tolerance
    return LeakageAmount(leaks, max(bits, 0.0), worst, witness if leaks else None)


def _condition(table: PolicyTable, groups: list[Ints], tolerance: float) -> LeakageAmount:
    """Main corollary: rows that look alike through a mask get it with one probability."""
    p = table.problem.p
    bits, worst, witness = 0.0, 0.0, None
    for m, group in enumerate(groups):
        zeta = table.probabilities[:, m]
        given_revealed = (np.bincount(group, weights=p * zeta) / np.bincount(group, weights=p))[
            group
        ]
        positive = zeta > 0
        terms = np.log2(zeta[positive] / given_revealed[positive])
        bits += float((p * zeta)[positive] @ terms)
        difference = np.abs(zeta - given_revealed)
        row = int(np.argmax(difference))
        if difference[row] > worst:
            worst = float(difference[row])
            alike = np.where(group == group[row], zeta, np.nan)
            witness = _witness(table, m, int(np.nanargmax(alike)), int(np.nanargmin(alike)))
    leaks = worst > tolerance
    return LeakageAmount(leaks, max(bits, 0.0), worst, witness if leaks else None)


def _witness(table: PolicyTable, m: int, row: int, other: int) -> Witness:
    return Witness(
        x=table.problem.X[row],
        x_other=table.problem.X[other],
        mask=table.masks[m],
        probability=float(table.probabilities[row, m]),
        probability_other=float(table.probabilities[other, m]),
    )
