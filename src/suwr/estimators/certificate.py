"""`Certificate` and `CertifiableModel`: the guarantees of a fitted model, and their protection.

The digests of the training rows stay in memory. In a model file they would tell everybody who has a
row whether the model was fitted on it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr._utils.text import format_value, printable
from suwr._utils.validation import Interval, check_choice, check_real, warn_caller
from suwr._utils.views import view
from suwr.estimators.risks import SCORES, Conformal, conformal_quantile, scores_of_classes
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.targets import RegressionTarget
from suwr.exceptions import CertificationWarning, ModelFileError
from suwr.nn.rollout import Policy
from suwr.training.data import Rows

if TYPE_CHECKING:
    from suwr.estimators.risks import RiskFunction

__all__ = [
    "RISKS", "CertifiableModel", "Certificate", "WritableModel", "policy_digest",
    "restore_guarantees", "row_digests", "store_guarantees", "training_digests", "warn_known_rows",
]  # fmt: skip

Digests = NDArray[np.uint64]
# Training rows whose digests are kept, drawn at random from more.
MAX_DIGESTS = 10_000
# Probability of a wrong warning if calibration rows are new rows.
SIGNIFICANCE = 1e-3


def row_digests(values: Tensor) -> Digests:
    """Return a 64-bit digest of each encoded row.

    Parameters
    ----------
    values : Tensor of shape (n, n_values)
    """
    rows = np.ascontiguousarray(values.cpu().numpy())
    data = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return np.frombuffer(data, dtype=np.uint64)


def training_digests(parts: Sequence[Rows]) -> Digests:
    """Return the digests of the rows of a fit, of a random sample if there are many."""
    total = sum(map(len, parts))
    # The seed is fixed: the generator of the fit draws the same numbers as without.
    chosen = np.random.RandomState(0).permutation(total)[:MAX_DIGESTS]
    found, first = [], 0
    for rows in parts:
        here = np.sort(chosen[(chosen >= first) & (chosen < first + len(rows))]) - first
        found.append(row_digests(rows.values[torch.as_tensor(here, device=rows.values.device)]))
        first += len(rows)
    return np.concatenate(found)


def warn_known_rows(digests: Digests, training: Digests | None) -> None:
    """Warn if calibration rows are training rows, or mostly one and the same row.

    Rows of few distinct values equal training rows by chance. If they are new rows, they do so as
    often as one training row equals another; the test is Fisher's exact one.

    Parameters
    ----------
    digests : ndarray of shape (n,)
        Of the calibration rows.
    training : ndarray of shape (m,) or None
        Of the training rows; None if they are not known.
    """
    n = len(digests)
    most = int(np.unique(digests, return_counts=True)[1].max())
    if n > 1 and most > n / 2:
        warn_caller(
            f"{most:,} of the {n:,} calibration rows are the same row. The guarantee holds only if "
            "new rows are this one as often.",
            CertificationWarning,
        )
    if training is None:
        return
    known = int(np.isin(digests, training).sum())
    counts = np.unique(training, return_counts=True)[1]
    m, repeated = len(training), int(counts[counts > 1].sum())
    if hypergeom.sf(known - 1, n + m, known + repeated, n) <= SIGNIFICANCE:
        warn_caller(
            f"{known:,} of the {n:,} calibration rows equal rows that the model was fitted on. The "
            "guarantee requires rows that 'fit' has not used.",
            CertificationWarning,
        )


#: The built-in risks; a callable has the name of the function.
RISKS = ("disagreement", "error", "loss")
# Groups or classes that a sentence lists by name.
_MAX_LISTED = 4
# Fields that earlier certificates lack; None in `from_dict`, and left out by `to_dict`.
_ADDED = ("class_names", "class_kind", "empty_risk", "needs_nothing")


@dataclass(frozen=True)
class Certificate:
    """The guarantee that ``certify`` established; see the attribute ``certificate_``.

    With probability at least ``confidence`` over the calibration rows, the expected risk of a new
    exchangeable row is at most ``level``.

    Attributes
    ----------
    risk : str
        'disagreement', 'error', 'loss' or the name of the function.
    level, confidence : float
    n_rows : int
        Calibration rows that the policy was tested on.
    empirical_risk : float
        Mean risk of these rows; of the answered ones if ``abstain``.
    p_value : float
        Of the hypothesis that the risk is at least ``level``; the largest over all groups, classes
        and numbers of steps. 0 if everything is revealed, which has no risk by definition.
    mean_cost, full_cost : float
        Mean cost of the calibration rows, and the cost of revealing everything.
    rule : {'confidence', 'gain'}
        What the policy stops by.
    threshold : float
        'confidence': the policy stops where the odds of all other classes against the predicted one
        are at most this. 'gain': where the expected gain of continuing is at most this, in units of
        the loss of the best constant prediction.
    sparsity_weight : float or None
        λ, for a model that was fitted for a range.
    tolerance : float or None
        Difference of predicted values that does not count; regression only.
    groups : tuple of str or None
        The groups in each of which the guarantee holds.
    steps : int or None
        The guarantee also holds among the rows that stop within t steps, for each t from this on.
    abstain : bool
        Whether the guarantee is for answered rows only; rows that use up ``max_steps`` abstain.
    answered : float
        Fraction of the calibration rows that are answered.
    reveals_everything : bool
        Whether no cheaper policy passed the test, so that every feature is revealed.
    classes : bool
        Whether predictions are classes.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    class_names : tuple of str or None
        The classes in each of which the guarantee holds.
    class_kind : {'true', 'predicted'} or None
        What these are classes of: the labels, or the predictions with everything revealed.
    empty_risk : float or None
        Mean risk, on the same rows, of the policy that stops at once; the largest over all groups
        and classes. None if everything is revealed.
    needs_nothing : bool or None
        Whether the policy that stops at once meets the level on these rows too, so that the
        guarantee says little.

    Examples
    --------
    >>> c = Certificate("disagreement", 0.05, 0.95, 500, 0.02, 0.001, 3.1, 30.0, "gain", 0.01)
    >>> print(c.sentence)  # doctest: +NORMALIZE_WHITESPACE
    Certified on 500 rows: with probability 95 %, at most 5 % of new rows would be predicted
    otherwise if all features were revealed.
    """

    risk: str
    level: float
    confidence: float
    n_rows: int
    empirical_risk: float
    p_value: float
    mean_cost: float
    full_cost: float
    rule: str
    threshold: float
    sparsity_weight: float | None = None
    tolerance: float | None = None
    groups: tuple[str, ...] | None = None
    steps: int | None = None
    abstain: bool = False
    answered: float = 1.0
    reveals_everything: bool = False
    classes: bool = True
    digest: str = ""
    class_names: tuple[str, ...] | None = None
    class_kind: str | None = None
    empty_risk: float | None = None
    needs_nothing: bool | None = None

    @property
    def sentence(self) -> str:
        """The guarantee in one sentence, and the `caution`."""
        if self.reveals_everything:
            return (
                f"No policy that leaves features unrevealed could be certified at {self._risk} "
                f"with probability {_percent(self.confidence)}, so all features are revealed."
            )
        found = (
            f"Certified on {self.n_rows:,} rows: with probability {_percent(self.confidence)}, "
            f"{self._claim}{self._scope}."
        )
        return f"{found} {self.caution}" if self.caution else found

    @property
    def caution(self) -> str:
        """That the guarantee is met without acquiring any feature, if it is; '' otherwise."""
        if not self.needs_nothing or self.empty_risk is None:
            return ""
        by_row = self.risk in ("disagreement", "error")
        if by_row and self.classes and self.class_names is None:
            other = "for each class (per='class') or for the loss (risk='loss')"
        elif by_row and not self.classes:
            other = "for the loss (risk='loss') or for a smaller tolerance"
        else:
            other = "for a smaller level"
        return (
            "This is met without acquiring any feature: the prediction at the start has a risk of "
            f"{100 * self.empty_risk:.2g} % on these rows. A guarantee {other} says more."
        )

    @property
    def _risk(self) -> str:
        return f"a risk ({printable(self.risk)}) of at most {_percent(self.level)}"

    @property
    def _claim(self) -> str:
        level = _percent(self.level)
        rows = "answered rows" if self.abstain else "new rows"
        by = "" if self.tolerance is None else f" by more than {format_value(self.tolerance)}"
        if self.risk == "disagreement":
            how = "otherwise" if self.classes else f"differently{by}"
            return (
                f"at most {level} of {rows} would be predicted {how} if all features were revealed"
            )
        if self.risk == "error":
            wrong = "wrongly" if self.classes else f"wrongly{by}"
            return (
                f"at most {level} of {rows} are predicted {wrong} that would be predicted "
                "correctly if all features were revealed"
            )
        row = "an answered row" if self.abstain else "a new row"
        if self.risk == "loss":
            unit = (
                "loss of the best constant prediction"
                if self.tolerance is None
                else f"square of {format_value(self.tolerance)}"
            )
            return (
                f"the expected loss of {row} exceeds the loss with all features revealed by at "
                f"most {level} of the {unit}"
            )
        return f"the expected risk ({printable(self.risk)}) of {row} is at most {level}"

    @property
    def _scope(self) -> str:
        parts = []
        if self.class_names is not None:
            kind = "true class" if self.class_kind == "true" else "class that all features predict"
            groups = "" if self.groups is None else f" of each group ({_listed(self.groups)})"
            parts.append(f"in each {kind} ({_listed(self.class_names)}){groups}")
        elif self.groups is not None:
            parts.append(f"in each group ({_listed(self.groups)})")
        if self.steps is not None:
            parts.append(
                f"also among the rows that stop within t steps, for every t ≥ {self.steps}"
            )
        return "".join(f", {part}" for part in parts)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in state.items() if v is not None or k not in _ADDED}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Create a certificate from the output of `to_dict`, after checking every value."""
        known = {field.name: field.type for field in fields(cls)}
        state: dict[str, Any] = dict.fromkeys(_ADDED) | dict(stored)
        if set(state) != set(known):
            raise ValueError("The certificate does not have the expected fields.")
        for name, kind in known.items():
            if not _is_a(state[name], str(kind)):
                raise ValueError(f"The field {name!r} of the certificate is invalid.")
        state = {k: tuple(v) if isinstance(v, list) else v for k, v in state.items()}
        found = cls(**state)
        if found.class_kind not in (None, "true", "predicted"):
            raise ValueError("The classes of the certificate are invalid.")
        if (found.class_kind is None) != (found.class_names is None):
            raise ValueError("The classes of the certificate are invalid.")
        if found.rule not in ("confidence", "gain") or found.threshold != found.threshold:
            raise ValueError("The stopping rule of the certificate is invalid.")
        if not (0 < found.level < 1 and 0 < found.confidence < 1 and found.n_rows > 0):
            raise ValueError("The level of the certificate is invalid.")
        return found


def _percent(p: float) -> str:
    """Format a level with as many digits as it was given with."""
    return f"{100 * p:.6g} %"


def _listed(names: tuple[str, ...]) -> str:
    listed, more = ", ".join(printable(n) for n in names[:_MAX_LISTED]), len(names) - _MAX_LISTED
    return f"{listed}{f' and {more} more' if more > 0 else ''}"


def _is_a(value: Any, kind: str) -> bool:
    """Whether a value from JSON has the type of a field of the certificate."""
    if value is None:
        return kind.endswith("| None")
    if kind.startswith("tuple"):
        return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
    if kind.startswith("float"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    if kind.startswith("int"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"bool": bool, "str": str}[kind.removesuffix(" | None")])


def _output_facts(model: Any) -> list[Any]:
    """Return what determines predictions from network outputs."""
    labels = model._class_labels()
    if labels is not None:
        return [labels, None, None]
    facts = [None, model.target_center_, model.target_scale_]
    if model.loss != "squared_error":
        facts += [model.loss, model.quantile]
    return facts if model.target_transform is None else [*facts, model.target_transform]


def policy_digest(model: Any) -> str:
    """Return the SHA-256 of all that determines decisions and predictions of a fitted model."""
    policy, units = model.policy_, model.units_
    facts = {
        "kind": type(model).__name__,
        "columns": model.encoder_.names,
        "codes": [
            [code.center, code.scale, code.has_missing, str(code.type), code.categories]
            for code in model.encoder_.codes
        ],
        "units": [units.columns_of(u).tolist() for u in range(len(units))],
        "costs": [float(cost) for cost in units.costs],
        "selectable": model.selectable_units_.tolist(),
        "max_steps": [policy.max_steps, model._max_steps(int(model.selectable_units_.sum()))],
        "units_per_step": [policy.units_per_step, model._step_size()],
        "condition": policy.condition,
        "stop_odds": policy.stop_odds,
        "output": _output_facts(model),
    }  # fmt: skip
    # Digests of certificates from before these existed stay valid.
    if units.setups is not None:
        facts["setups"] = [units.setups.costs.tolist(), units.setups.of_unit.tolist()]
    if units.visits is not None:
        facts["visit_cost"] = units.visits.cost
    if policy.inputs.known is not None:
        facts["known"] = policy.inputs.known.tolist()
    if model.encoder_.unrecorded:
        facts["unrecorded"] = True
    if any(code.knots for code in model.encoder_.codes):
        facts["knots"] = [code.knots for code in model.encoder_.codes]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    for name, tensor in sorted(policy.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


class CertifiableModel(SequentialModel):
    """A sequential model that `certify` and `conformalize` give guarantees.

    A guarantee holds for one policy. It is bound to the digest of the model: if the parameters, the
    weights or the encoding of a certified model are changed, its methods raise a ``ValueError``.
    """

    certificate_: Certificate
    conformal_: Conformal
    # See `suwr.estimators.certificate`; None in copies and in models that were loaded.
    _training_digests_: NDArray[np.uint64] | None = None
    # State of the tensors at the last computation of the digest.
    _verified: tuple[Any, ...] | None = None

    def certify(
        self,
        X_cal: Any,
        y_cal: ArrayLike | None = None,
        *,
        risk: Literal["disagreement", "error", "loss"] | RiskFunction = "disagreement",
        level: float = 0.05,
        confidence: float = 0.95,
        groups: ArrayLike | None = None,
        per: Literal["steps", "class"] | None = None,
        abstain: bool = False,
        tolerance: float | None = None,
        rule: Literal["auto", "confidence", "gain"] = "auto",
    ) -> Self:
        """Choose the cheapest stopping rule whose risk is provably at most a level.

        With probability at least ``confidence`` over the calibration rows, the expected risk of a
        new row is at most ``level``. This holds for any distribution and any number of calibration
        rows, provided that calibration rows and new rows are exchangeable and that the model was
        not fitted on them. See the `theory <../theory/guarantee.md>`_.

        Parameters
        ----------
        X_cal : array-like or data frame of shape (n, d)
            Complete calibration rows that were used neither by `fit` nor to choose its parameters.
        y_cal : array-like of shape (n,), optional
            Their classes or values; required by the risks 'error' and 'loss'. The classes are those
            of ``per='class'``.
        risk : {'disagreement', 'error', 'loss'} or callable, default='disagreement'
            What may go wrong because a row stops before everything is revealed:

            - 'disagreement': the prediction is another class, or differs by more than
              ``tolerance``.
            - 'error': the prediction is wrong (by more than ``tolerance``), and with everything
              revealed it would not be.
            - 'loss': the increase of the log loss or of the ``loss`` of a regressor, from 0 to 1 in
              units of the loss of the best constant prediction, or with squared error of
              ``tolerance`` squared.
            - A function ``risk(prediction, full, y)`` of class probabilities or values, when the
              row stops and with everything revealed, that returns a number in [0, 1] per row.
        level : float, default=0.05
        confidence : float, default=0.95
        groups : array-like of shape (n,), optional
            Labels of the calibration rows: the guarantee then holds in each group.
        per : {'class', 'steps'}, optional
            'class' gives the guarantee in each class of the model, whose calibration rows must be
            enough for it: among the rows of each true class or, without ``y_cal``, among those for
            which everything revealed would predict the class. In each class of each group, if there
            are ``groups``. A classifier only.

            'steps' gives the guarantee also among the rows that stop within t steps, for each t
            from ``certificate_.steps`` on. It sets a fifth of the calibration rows aside.
        abstain : bool, default=False
            Whether rows that use up ``max_steps`` abstain; see `answered`. The guarantee is then
            for the answered rows. It sets a fifth of the calibration rows aside.
        tolerance : float, optional
            Difference of predicted values that does not count, in the units of ``y``; regression
            only.
        rule : {'auto', 'confidence', 'gain'}, default='auto'
            What the certified policy stops by: 'confidence' is the probability of the predicted
            class, 'gain' the stopping policy of the model with another threshold. For a model of a
            range of λ, the family of 'gain' also contains its λ. 'auto' is 'confidence' for the
            risks 'disagreement' and 'error' of a classifier that has no range, 'gain' otherwise.

        Returns
        -------
        estimator
            A fitted estimator of the same class with the attribute ``certificate_``. This one is
            left as it is. If no other policy passes, it reveals every feature, with a
            `suwr.exceptions.CertificationWarning`. The same warning is issued if the policy that
            stops at once meets the level too, if calibration rows are training rows, and if most of
            them are one and the same row.
        """
        from suwr.estimators.certify import Request, certify

        check_is_fitted(self, self._fitted_attribute)
        if self._is_certified():
            raise ValueError(
                f"This {type(self).__name__} is certified already. Certify the model that it was "
                "made from."
            )
        request = Request(risk, level, confidence, per, abstain, tolerance, rule)
        certified: Self = certify(self, X_cal, y_cal, groups, request)
        return certified

    def answered(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows are answered; the others abstain.

        Only models that were certified with ``abstain=True`` abstain: from rows that use up
        ``max_steps`` before the policy stops.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        policy, parts = self._policy_at(), []
        for values, trace in self._rollouts(self._read(X), policy):
            if self._budget_ending() == "budget":
                parts.append(np.ones(len(values), dtype=bool))
            else:
                parts.append((trace.n_steps < policy.max_steps) | policy.complete(trace.mask))
        return np.concatenate(parts)

    def conformalize(
        self,
        X_cal: Any,
        y_cal: ArrayLike,
        *,
        coverage: float = 0.9,
        score: Literal["auto", "lac", "aps", "absolute"] = "auto",
    ) -> Self:
        """Calibrate `predict_set` by split conformal prediction on the stopped policy.

        The set of a new exchangeable row contains its class or value with probability at least
        ``coverage``, on average over calibration rows and new rows.

        Parameters
        ----------
        X_cal : array-like or data frame of shape (n, d)
            Rows that were used neither by `fit` nor by `certify`.
        y_cal : array-like of shape (n,)
        coverage : float, default=0.9
        score : {'auto', 'lac', 'aps', 'absolute'}, default='auto'
            'lac' is one minus the probability of the class, and gives the smallest sets; 'aps' is
            the total probability of all classes that are at least as probable, and adapts the size
            of the set to the difficulty of the row; 'absolute' is the absolute residual of a
            regression, after its ``target_transform``. 'auto' is 'lac' or 'absolute'.

        Returns
        -------
        estimator
            A fitted estimator of the same class with the attribute ``conformal_``.
        """
        from suwr.estimators.risks import read_target

        check_real(coverage, "coverage", "conformalize", Interval(Real, 0, 1, closed="neither"))
        known = SCORES["values" if self._class_labels() is None else "classes"]
        chosen = check_choice(score, "score", "conformalize", ("auto", *known))
        chosen = known[0] if chosen == "auto" else chosen
        predicted = self._final_prediction(X_cal)
        target = read_target(self, y_cal, len(predicted))
        if chosen == "absolute":
            assert isinstance(self, RegressionTarget)
            transform = self._transform().forward
            scores = np.abs(transform(predicted[:, 0]) - transform(target))
        else:
            scores = scores_of_classes(predicted, chosen)[np.arange(len(target)), target]
        calibrated = copy.copy(self)
        quantile = conformal_quantile(scores, coverage)
        calibrated.conformal_ = Conformal(
            float(coverage), chosen, quantile, len(scores), self._digest()
        )
        return calibrated

    def predict_set(self, X: Any) -> NDArray[Any]:
        """Predict a set of classes, or an interval, that contains the truth with known coverage.

        Requires `conformalize`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n, n_classes), or of float, shape (n, 2)
            The classes in each set, or the ends of each interval.
        """
        check_is_fitted(self, self._fitted_attribute)
        if not hasattr(self, "conformal_"):
            raise ValueError(
                "predict_set requires a model whose sets are calibrated: call "
                "conformalize(X_cal, y_cal) first, and use the estimator that it returns."
            )
        predicted = self._final_prediction(X)
        if self.conformal_.digest != self._digest():
            raise ValueError("The model was changed after conformalize.")
        if self.conformal_.score == "absolute":
            assert isinstance(self, RegressionTarget)
            transform = self._transform()
            ends = self.conformal_.intervals(transform.forward(predicted[:, 0]))
            return transform.inverse(ends)
        return self.conformal_.sets(predicted)

    def _final_prediction(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities as `predict_proba` returns them, or values of shape (n, 1)."""
        predicted = self._predict_final(X)
        if self._class_labels() is None:
            return predicted
        return predicted / predicted.sum(axis=1, keepdims=True)

    def __getstate__(self) -> dict[str, Any]:
        # With the digests, a pickle would tell whether a given row was used for training.
        return {k: v for k, v in super().__getstate__().items() if k != "_training_digests_"}

    # Protection of guarantees.

    def _is_certified(self) -> bool:
        return hasattr(self, "certificate_")

    def _certificate_sentence(self) -> str:
        return self.certificate_.sentence if self._is_certified() else ""

    def _budget_ending(self) -> str:
        """How a narrative ends after the maximum number of steps; see `Narrative.ended`."""
        return "abstained" if self._is_certified() and self.certificate_.abstain else "budget"

    def _digest(self) -> str:
        return policy_digest(self)

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        if not self._is_certified():
            return super()._policy_at(sparsity_weight, mean_features)
        for name, value in (("sparsity_weight", sparsity_weight), ("mean_features", mean_features)):
            if value is not None:
                raise ValueError(
                    f"The {name!r} parameter cannot be chosen, because the model is certified for "
                    f"one policy. Got {value!r}. Certify the original model again instead."
                )
        self._check_unchanged()
        return self.policy_

    def _check_unchanged(self) -> None:
        """Raise a ``ValueError`` if the certificate does not belong to the model."""
        policy = self.policy_
        tensors = policy.network.state_dict().values()
        state = (
            *((tensor.data_ptr(), tensor._version) for tensor in tensors),
            id(self.encoder_), policy.max_steps, policy.units_per_step, policy.condition,
            policy.stop_odds, self.certificate_, *map(repr, self.get_params(deep=False).values()),
        )  # fmt: skip
        if state != self._verified:
            if self._digest() != self.certificate_.digest:
                raise ValueError(
                    f"This {type(self).__name__} was changed after it was certified, so that its "
                    "certificate does not hold. Certify the changed model again."
                )
            self._verified = state

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; a certified one cannot be changed.

        Parameters
        ----------
        **params

        Returns
        -------
        self
        """
        if params:
            self._refuse("set_params")
        changed: Self = super().set_params(**params)
        return changed

    @contextmanager
    def _fit_aside(self) -> Iterator[Self]:
        self._refuse("fit")
        with super()._fit_aside() as fresh:
            yield fresh

    def _refuse(self, method: str) -> None:
        if self._is_certified():
            raise ValueError(
                f"{method} would change a certified {type(self).__name__}. Use "
                "sklearn.base.clone(estimator), which has no certificate."
            )


def store_guarantees(model: CertifiableModel) -> dict[str, Any]:
    """Return the entries of a model file; certified models have format 2."""
    state: dict[str, Any] = {}
    if model._is_certified():
        model._check_unchanged()
        # An older suwr would decide by another λ of a range, and not mention the certificate.
        state |= {"format": 2, "certificate": model.certificate_.to_dict()}
    if hasattr(model, "conformal_"):
        state["conformal"] = model.conformal_.to_dict()
    return state


def restore_guarantees(model: Any, state: dict[str, Any]) -> None:
    """Set the guarantees that a model file contains, after checking that they are of this model."""
    if "certificate" in state:
        certificate = Certificate.from_dict(state["certificate"])
        weight = certificate.sparsity_weight
        if (weight is None) != (model.weight_range_ is None):
            raise ModelFileError("Its certificate is inconsistent.")
        if weight is not None:
            model.policy_ = model._policy_at(weight)
            model.sparsity_weight_ = weight
        if certificate.rule == "confidence" and not certificate.reveals_everything:
            # No odds are at most 0: the policy never stops.
            model.policy_.stop_odds = certificate.threshold or None
        if certificate.digest != policy_digest(model):
            raise ModelFileError("Its certificate belongs to another model.")
        model.certificate_ = certificate
    if "conformal" in state:
        conformal = Conformal.from_dict(state["conformal"])
        known = SCORES["values" if model._class_labels() is None else "classes"]
        if conformal.score not in known or conformal.digest != policy_digest(model):
            raise ModelFileError("Its prediction sets belong to another model.")
        model.conformal_ = conformal


class WritableModel(CertifiableModel):
    """Base class that writes model files and exports them to other formats."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file of tensors and JSON, to be read by `suwr.load`.

        Parameters
        ----------
        path : path
        """
        from suwr.estimators.files import save

        check_is_fitted(self, "policy_")
        save(self, path)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> None:
        """Write one step of Algorithm 1 as an ONNX graph, with the encoding as metadata.

        The graph maps ``values`` (encoded rows, float) and ``mask`` (revealed columns, bool) to
        ``stop_probability``, ``logits`` (-inf for units that cannot be revealed) and
        ``prediction``. It replaces hidden values itself, so they have no influence. A caller
        repeats it until ``stop_probability`` is at least one half or ``max_steps`` is reached.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced atomically.
        sparsity_weight, mean_features : float, optional
            As in `select`; an ONNX file holds the policy of one λ.

        Raises
        ------
        UnsupportedModelError
            The model has a network that cannot be exported.
        """
        limits = {"sparsity_weight": sparsity_weight, "mean_features": mean_features}
        view("deploy.onnx:export_onnx", self, path, **limits)
