"""`CertifiableModel`: guarantees of a fitted model, and their protection against changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from suwr._utils.validation import Interval, check_choice, check_real
from suwr.estimators.certificate import Certificate, policy_digest
from suwr.estimators.conformal import SCORES, Conformal, conformal_quantile, scores_of_classes
from suwr.estimators.regression_target import RegressionTarget
from suwr.estimators.sequential import SequentialModel
from suwr.exceptions import ModelFileError
from suwr.nn.rollout import Policy

if TYPE_CHECKING:
    from suwr.estimators.risks import RiskFunction

__all__ = ["CertifiableModel", "restore_guarantees", "store_guarantees"]


class CertifiableModel(SequentialModel):
    """A sequential model that `certify` and `conformalize` give guarantees.

    A guarantee holds for one policy. It is bound to the digest of the model: if the parameters, the
    weights or the encoding of a certified model are changed, its methods raise a ``ValueError``.
    """

    certificate_: Certificate
    conformal_: Conformal
    # See `suwr.estimators.row_digests`; None in copies and in models that were loaded.
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
        from suwr.estimators.certification import Request, certify

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
