"""Certified stopping: choose the cheapest stopping rule whose risk is provably at most a level.

Fixed-sequence testing rejects the hypothesis 'the risk is at least the level' for the policies of
an ordered family until the first that fails. See ``docs/theory/guarantee.md``.

The policies are ordered from 'reveal more' to 'reveal less', by the threshold of the stopping rule
and, for a model of a range, by λ. The order does not depend on the calibration rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from suwr._utils.text import printable
from suwr._utils.validation import Interval, check_choice, check_real, parameter_error, warn_caller
from suwr.estimators.fitted import FittedPolicy
from suwr.estimators.risks import (
    RISKS,
    Certificate,
    Digests,
    Losses,
    RiskFunction,
    binomial_p_value,
    fixed_sequence,
    hoeffding_bentkus_p_value,
    losses_of,
    row_digests,
    smallest_sample,
    warn_known_rows,
)
from suwr.exceptions import CertificationWarning, UnsupportedModelError
from suwr.nn.rollout import (
    NEVER,
    Policy,
    confident_stopping,
    never_stopping,
    roll_out_paths,
    shift_stopping,
)
from suwr.nn.step import Starts

FloatArray = NDArray[np.float64]
# λ, None for a model without a range, and the policy at it.
Policies = Sequence[tuple[float | None, FittedPolicy]]
# Values of λ between the ends of a range.
N_WEIGHTS = 33


def thresholds(rule: str) -> FloatArray:
    """Return the stop thresholds of the family in increasing order; -inf never stops.

    Parameters
    ----------
    rule : {'confidence', 'gain'}
        Thresholds of 'confidence' are logarithms of odds, from 1e-13 to 1e13. Thresholds of 'gain'
        are in units of the stop temperature. They are close to one another around 0, which is the
        original rule, and have a constant ratio far from it.
    """
    if rule == "confidence":
        return np.concatenate([[-np.inf], np.linspace(-30.0, 30.0, 601)])
    half = 0.2 * np.sinh(np.linspace(0.0, 12.0, 241))
    return np.concatenate([[-np.inf], -half[:0:-1], half])


class Candidate(NamedTuple):
    """One policy of the family: a path and the threshold at which it stops."""

    path: int
    threshold: float


@dataclass(frozen=True)
class Calibration:
    """Paths of the calibration rows at one λ.

    Attributes
    ----------
    sparsity_weight : float or None
    policy : Policy
    rule : {'confidence', 'gain'}
    signal, loss, cost : ndarray of shape (n, n_steps + 1)
        In every state of the path; the signal is compared with the threshold.
    complete : ndarray of bool, shape (n,)
    """

    sparsity_weight: float | None
    policy: Policy
    rule: str
    signal: NDArray[np.float32]
    loss: FloatArray
    cost: FloatArray
    complete: NDArray[np.bool_]

    def stop_at(self, threshold: float) -> NDArray[np.intp]:
        """Return the number of steps of each row."""
        return np.argmax(self.signal <= np.float32(threshold), axis=1)

    def stopping_at(self, threshold: float) -> Policy:
        """Return the policy that stops at a threshold."""
        if threshold == -np.inf:
            return never_stopping(self.policy)
        if self.rule == "confidence":
            return confident_stopping(self.policy, float(np.exp(threshold)))
        return shift_stopping(self.policy, threshold)

    def answered(self, steps: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows stop before the maximum number of steps or reveal everything."""
        return (steps < self.signal.shape[1] - 1) | self.complete


def calibrate(
    policies: Policies, values: torch.Tensor, losses: Losses, full: FloatArray, rule: str
) -> list[Calibration]:
    """Return the paths of encoded rows at every λ."""
    results = []
    for weight, fitted in policies:
        paths = roll_out_paths(fitted.policy, values)
        n, states, _ = paths.prediction.shape
        stopped = fitted.target.shown(paths.prediction.reshape(n * states, -1))
        stopped = stopped.reshape(n, states, -1)
        loss = np.stack([losses(stopped[:, t], full) for t in range(states)], axis=1)
        signal = paths.gain if rule == "gain" else paths.log_odds
        found = Calibration(weight, fitted.policy, rule, signal, loss, paths.cost, paths.complete)
        results.append(found)
    return results


def ordered_family(paths: list[Calibration]) -> list[Candidate]:
    """Order the policies from 'reveal more' to 'reveal less'."""
    if paths[0].rule == "confidence":
        # λ changes only the stopping policy, which is replaced, and the order of the units.
        middle = len(paths) // 2
        return [Candidate(middle, float(t)) for t in thresholds("confidence")]

    def scaled(path: int) -> FloatArray:
        policy = paths[path].policy
        condition = None if policy.condition is None else torch.tensor(policy.condition)
        return thresholds("gain") * float(policy.network.temperature(condition))

    last = len(paths) - 1
    return [
        *(Candidate(0, float(t)) for t in scaled(0) if t < 0),
        *(Candidate(path, 0.0) for path in range(len(paths))),
        *(Candidate(last, float(t)) for t in scaled(last) if t > 0),
    ]


# Rows that design the strata of `per='steps'` and the first policy of `abstain=True`; not tested.
DESIGN_FRACTION = 0.2
# Strata of steps begin where this fraction of the design rows has stopped.
STEPS_FRACTION = 0.2


@dataclass(frozen=True)
class Request:
    """The arguments of ``certify`` except for the calibration rows, validated."""

    risk: str | RiskFunction
    level: float
    confidence: float
    per: str | None
    abstain: bool
    tolerance: float | None
    rule: str = "auto"

    def __post_init__(self) -> None:
        unit = Interval(Real, 0, 1, closed="neither")
        check_real(self.level, "level", "certify", unit)
        check_real(self.confidence, "confidence", "certify", unit)
        if not callable(self.risk):
            check_choice(self.risk, "risk", "certify", RISKS)
        check_choice(self.rule, "rule", "certify", ("auto", "confidence", "gain"))
        if self.per is not None:
            check_choice(self.per, "per", "certify", ("steps", "class"))
        if not isinstance(self.abstain, bool):
            raise parameter_error("abstain", "certify", "a bool", self.abstain)
        if self.tolerance is not None:
            check_real(self.tolerance, "tolerance", "certify", Interval(Real, 0, closed="neither"))

    @property
    def name(self) -> str:
        """The name of the risk."""
        return self.risk if isinstance(self.risk, str) else getattr(self.risk, "__name__", "risk")

    def rule_of(self, classes: bool, ranged: bool) -> str:
        """What the certified policy of a classifier, or of a model of a range, stops by."""
        if self.rule == "confidence" and not classes:
            raise parameter_error("rule", "certify", "'auto' or 'gain' for a regressor", self.rule)
        if self.rule != "auto":
            return self.rule
        by_class = classes and self.risk in ("disagreement", "error")
        return "confidence" if by_class and not ranged else "gain"

    def p_value(self, losses: FloatArray) -> float:
        """The p-value of the hypothesis that the expected loss is at least the level."""
        # Whether the losses of a function are always 0 or 1 is not known.
        exact = self.risk in ("disagreement", "error")
        test = binomial_p_value if exact else hoeffding_bentkus_p_value
        return test(losses, self.level)


class Outcome(NamedTuple):
    """The risk of one policy on the calibration rows."""

    p_value: float
    risk: float
    cost: float
    answered: float
    first_step: int | None


def certify(
    policies: Policies,
    X: Any,
    y: Any,
    groups: ArrayLike | None,
    request: Request,
    training: Digests | None,
) -> tuple[Policy, Certificate]:
    """Return the certified policy and its certificate, which has no digest yet.

    Parameters
    ----------
    policies : sequence of tuple
        λ and the policy at it, in increasing order of λ; None without a range.
    X, y, groups
        As in `SUWRModel.certify`.
    request : Request
    training : ndarray or None
        Digests of the training rows.
    """
    tests = _Tests.of(policies, X, y, groups, request)
    warn_known_rows(row_digests(tests.values), training)
    family, paths = ordered_family(tests.paths), tests.paths
    if callable(request.risk):
        tests.check_full()
    start = tests.first(family) if request.abstain else 0
    outcomes: list[Outcome] = []
    for candidate in family[start:]:
        outcomes.append(
            tests.outcome(candidate, paths[candidate.path].stop_at(candidate.threshold))
        )
        if outcomes[-1].p_value > 1 - request.confidence:
            break
    n_passed = fixed_sequence([o.p_value for o in outcomes], 1 - request.confidence)
    # All of them are certified at once, so the cheapest may be chosen on the same rows.
    for place in sorted(range(n_passed), key=lambda i: (outcomes[i].cost, i)):
        candidate = family[start + place]
        policy = paths[candidate.path].stopping_at(candidate.threshold)
        # Rounding may move a row to the other side of the threshold.
        certificate = tests.finish(candidate, policy)
        if certificate.p_value <= 1 - request.confidence:
            if certificate.caution:
                warn_caller(certificate.caution, CertificationWarning)
            return policy, certificate
    certificate = tests.reveal_everything()
    warn_caller(certificate.sentence + tests.shortage(), CertificationWarning)
    return never_stopping(paths[0].policy), certificate


def recompute(
    fitted: FittedPolicy,
    stated: Certificate,
    X: Any,
    y: Any,
    groups: ArrayLike | None,
    risk: RiskFunction | None,
) -> Certificate:
    """Return what a certificate would state of its own policy and other calibration rows.

    Parameters
    ----------
    fitted : FittedPolicy
        The certified policy.
    stated : Certificate
    X, y, groups
        As in `SUWRModel.certify`.
    risk : callable or None
        The function if the risk is none of `RISKS`.
    """
    per = None if stated.steps is None else "steps"
    request = Request(
        risk or stated.risk,
        stated.level,
        stated.confidence,
        per if stated.class_names is None else "class",
        stated.abstain,
        stated.tolerance,
        stated.rule,
    )
    tests = _Tests.of([(stated.sparsity_weight, fitted)], X, y, groups, request)
    if stated.reveals_everything:
        return tests.reveal_everything()
    return replace(tests.finish(Candidate(0, 0.0), fitted.policy), threshold=stated.threshold)


def _selectable(fitted: FittedPolicy) -> NDArray[np.bool_]:
    found = fitted.policy.inputs.selectable
    return np.ones(len(fitted.units), dtype=bool) if found is None else found.cpu().numpy()


class Stratum(NamedTuple):
    """Calibration rows among which the level must hold."""

    name: str
    rows: NDArray[np.intp]


class _Tests:
    """The tests of a policy: in every stratum of rows, and for every number of steps."""

    def __init__(
        self,
        request: Request,
        fitted: FittedPolicy,
        values: torch.Tensor,
        full_loss: FloatArray,
        paths: list[Calibration],
    ) -> None:
        self.request, self.values, self.full_loss, self.paths = request, values, full_loss, paths
        self.design, self.tested = _split(len(values), request.abstain or request.per == "steps")
        self.strata = [Stratum("", self.tested)]
        self.blank = Certificate(
            risk=request.name,
            level=float(request.level),
            confidence=float(request.confidence),
            n_rows=len(self.tested),
            empirical_risk=0.0,
            p_value=0.0,
            mean_cost=0.0,
            full_cost=fitted.units.total_cost(_selectable(fitted)),
            rule=paths[0].rule,
            threshold=0.0,
            tolerance=None if request.tolerance is None else float(request.tolerance),
            abstain=request.abstain,
            classes=fitted.target.labels is not None,
        )

    @classmethod
    def of(
        cls, policies: Policies, X: Any, y: Any, groups: ArrayLike | None, request: Request
    ) -> _Tests:
        """Read the calibration rows and evaluate the policies; see `certify`."""
        fitted = policies[0][1]
        target, inputs = fitted.target, fitted.policy.inputs
        if inputs.budgets is not None:
            raise UnsupportedModelError(
                "Models that were fitted with 'max_cost' cannot be certified: a budget, not the "
                "risk, decides when their rows stop."
            )
        table = fitted.read(X)
        if table.n_rows == 0:
            raise ValueError("'X_cal' must have at least one row.")
        names = target.labels or ()
        if request.per == "class" and not names:
            raise parameter_error("per", "certify", "None or 'steps' for a regressor", request.per)
        labels = _read_groups(groups, table.n_rows)
        loss_of = losses_of(target, request.risk, y, table.n_rows, request.tolerance)
        shown = np.zeros((table.n_rows, len(fitted.names)), dtype=bool)
        for unit in np.flatnonzero(_selectable(fitted)):
            shown[:, fitted.units.columns_of(int(unit))] = True
        table.check_revealed(shown)
        values = fitted.encode(table)
        full = fitted.predict(values, shown)
        rule = request.rule_of(target.labels is not None, policies[0][0] is not None)
        paths = calibrate(policies, values, loss_of, full, rule)
        tests = cls(request, fitted, values, loss_of(full, full), paths)
        if request.per == "class":
            classes = full.argmax(axis=1) if y is None else target.read(y, table.n_rows)
            # A class without calibration rows is an empty stratum, in which no policy passes.
            kind = "predicted" if y is None else "true"
            tests._divide(classes, "class", list(enumerate(names)))
            tests.blank = replace(tests.blank, class_names=tuple(map(str, names)), class_kind=kind)
        if labels is not None:
            known = tuple(np.unique(labels).tolist())
            tests._divide(labels, "group", [(group, group) for group in known])
            tests.blank = replace(tests.blank, groups=known)
        return tests

    def _divide(self, labels: NDArray[Any], kind: str, known: list[tuple[Any, Any]]) -> None:
        """Divide strata by the labels of the rows; ``known`` has all labels and their names."""
        self.strata = [
            Stratum(f"{name} of {kind} {printable(str(own))}", rows[labels[rows] == label])
            for (name, rows), (label, own) in product(self.strata, known)
        ]

    def p_of(self, loss: FloatArray, answered: NDArray[np.bool_]) -> float:
        """The largest p-value of a stratum, each conditional on the rows being answered."""
        return max(self.request.p_value(loss[rows[answered[rows]]]) for _, rows in self.strata)

    def empty(self, path: Calibration) -> tuple[float, bool]:
        """The largest risk of a stratum if rows stop at once, and whether it meets the level."""
        loss = path.loss[:, 0]
        risk = max(float(loss[rows].mean()) for _, rows in self.strata)
        passes = self.p_of(loss, np.ones(len(loss), dtype=bool)) <= 1 - self.request.confidence
        return risk, passes or risk <= self.request.level

    def check_full(self) -> None:
        """Raise an error if not even everything revealed passes the test."""
        request, full_loss = self.request, self.full_loss
        p = self.p_of(full_loss, np.ones(len(full_loss), dtype=bool))
        if p > 1 - request.confidence:
            raise ValueError(
                f"The risk {request.name!r} cannot be certified: with all features revealed it is "
                f"{full_loss.mean():.3g} on the calibration rows, and its p-value is {p:.3g}."
                f"{self.shortage()}"
            )

    def outcome(self, candidate: Candidate, steps: NDArray[np.intp]) -> Outcome:
        """Test a policy by the number of steps of each row."""
        path, row = self.paths[candidate.path], np.arange(len(steps))
        loss, cost = path.loss[row, steps], path.cost[row, steps]
        answered = path.answered(steps) if self.request.abstain else np.ones(len(steps), dtype=bool)
        p, first_step = self.p_of(loss, answered), None
        if self.request.per == "steps":
            # The strata follow from the design rows alone.
            first_step = int(np.quantile(steps[self.design], STEPS_FRACTION, method="higher"))
            for last_step in range(first_step, int(steps.max()) + 1):
                p = max(p, self.p_of(loss, answered & (steps <= last_step)))
        used = self.tested[answered[self.tested]]
        risk = float(loss[used].mean()) if len(used) else 0.0
        return Outcome(p, risk, float(cost.mean()), float(answered.mean()), first_step)

    def finish(self, candidate: Candidate, policy: Policy) -> Certificate:
        """Return the certificate of the policy of a candidate."""
        starts = Starts.usual(policy.inputs, len(self.values))
        steps = policy.rollout(self.values, starts=starts).n_steps
        path, found = self.paths[candidate.path], self.outcome(candidate, steps)
        empty_risk, needs_nothing = self.empty(path)
        return replace(
            self.blank,
            empirical_risk=found.risk,
            p_value=found.p_value,
            mean_cost=found.cost,
            threshold=_stored(path.rule, candidate.threshold),
            sparsity_weight=path.sparsity_weight,
            steps=found.first_step,
            answered=found.answered,
            empty_risk=empty_risk,
            needs_nothing=needs_nothing,
            outcomes=_digest(path.loss[np.arange(len(steps)), steps], steps),
        )

    def reveal_everything(self) -> Certificate:
        """Return the certificate of the policy that reveals everything."""
        return replace(
            self.blank,
            empirical_risk=float(self.full_loss.mean()),
            mean_cost=self.blank.full_cost,
            threshold=_stored(self.blank.rule, -np.inf),
            sparsity_weight=self.paths[0].sparsity_weight,
            abstain=False,
            reveals_everything=True,
            needs_nothing=False,
            outcomes=_digest(self.full_loss, np.zeros(len(self.values), dtype=np.intp)),
        )

    def shortage(self) -> str:
        """Which stratum has too few rows for any test, as a sentence; '' if none has."""
        needed = smallest_sample(self.request.level, 1 - self.request.confidence)
        name, rows = min(self.strata, key=lambda stratum: len(stratum.rows))
        if len(rows) >= needed:
            return ""
        return f" At least {needed} rows are needed; there are only {len(rows)}{name}."

    def first(self, family: list[Candidate]) -> int:
        """Return the first policy that answers enough of the design rows to be tested."""
        needed = smallest_sample(self.request.level, 1 - self.request.confidence)
        for number, candidate in enumerate(family):
            path = self.paths[candidate.path]
            answered = path.answered(path.stop_at(candidate.threshold))[self.design]
            if answered.mean() * len(self.tested) >= 2 * needed:
                return number
        return len(family)


def _split(n_rows: int, needed: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Divide the rows into those that design the tests and those that are tested."""
    if not needed:
        return np.arange(0), np.arange(n_rows)
    # The rows may be sorted. The seed is fixed, since a user must not be able to choose the split.
    order = np.random.RandomState(0).permutation(n_rows)
    n_design = max(1, round(DESIGN_FRACTION * n_rows))
    return np.sort(order[:n_design]), np.sort(order[n_design:])


def _read_groups(groups: ArrayLike | None, n_rows: int) -> NDArray[Any] | None:
    if groups is None:
        return None
    labels = column_or_1d(np.asarray(groups))
    check_consistent_length(labels, np.empty(n_rows))
    missing = [value for value in labels.tolist() if value is None or value != value]
    if missing:
        raise parameter_error("groups", "certify", "a label for every row", missing[0])
    return labels.astype(str)


def _digest(losses: FloatArray, steps: NDArray[np.intp]) -> str:
    """Return the SHA-256 of how many steps each row takes, and whether its loss is above one half.

    The last digits of other losses depend on the platform.
    """
    outcomes = np.column_stack([steps, losses > 0.5]).tolist()
    return hashlib.sha256(json.dumps(outcomes, separators=(",", ":")).encode()).hexdigest()


def _stored(rule: str, threshold: float) -> float:
    """Return the threshold as odds or as a gain; infinity has no JSON form."""
    return float(np.exp(threshold)) if rule == "confidence" else max(threshold, -NEVER)
