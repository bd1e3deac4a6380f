"""`SequentialModel`: estimators that reveal units step by step, and their evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from suwr._utils.validation import Interval, check_real
from suwr.data.dates import DateParts
from suwr.data.descriptions import warn_unusual
from suwr.data.frame import Table, row_labels
from suwr.data.stored import read_weight
from suwr.estimators.evaluate import Evaluation, Outcome, evaluate_outcome
from suwr.estimators.fitted import FittedPolicy, chunks
from suwr.estimators.limits import (
    RowLimits,
    charge_rows,
    check_limits,
    start_distance,
)
from suwr.estimators.risks import Certificate
from suwr.estimators.session import Acquisition, make_given
from suwr.estimators.table import TableModel, consistent, make_draws, read_masks
from suwr.narrative.effects import StepEffects
from suwr.narrative.explanation import Explanation
from suwr.nn.rollout import Policy, Trace, mask_probability
from suwr.nn.step import Starts, training_starts
from suwr.training.data import Rows

PolicyKind = Literal["greedy", "sampled"]


class SequentialModel(TableModel):
    """An estimator that selects, predicts, explains and acquires step by step.

    Every decision reads only what has been revealed before it; see `suwr.nn.rollout`.
    """

    leak_free_by_construction: ClassVar[bool] = True
    _fitted_attribute: ClassVar[str] = "policy_"

    # The columns of dates whose parts the model was fitted on; see `suwr fit --dates`.
    dates_: DateParts | None = None
    # The options --sep, --encoding and --decimal of `suwr fit`, by which later commands read files.
    csv_format_: Mapping[str, Any] | None = None
    # Numbers of training and held-out rows.
    n_rows_: tuple[int, int] | None = None
    # SHA-256 of the file that `suwr fit` has read.
    training_file_: str | None = None

    policy_: Policy
    max_steps_: int
    report_: Evaluation | None
    # How often steps move the predictions of held-out rows; None in files of earlier versions.
    step_effects_: StepEffects | None = None
    feature_importances_: NDArray[np.float64] | None

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        """Return the policy for a λ within the range that the model was fitted for."""
        check_is_fitted(self, "policy_")
        if sparsity_weight is not None or mean_features is not None:
            raise ValueError(f"A {type(self).__name__} is fitted for a single trade-off.")
        return self.policy_

    @consistent
    def fitted_policy(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> FittedPolicy:
        """Return the policy at one λ with all that it needs to decide about rows.

        Parameters
        ----------
        sparsity_weight, mean_features : float, optional
            As in `select`.
        """
        return self._fitted(self._policy_at(sparsity_weight, mean_features))

    def _fitted(self, policy: Policy) -> FittedPolicy:
        return FittedPolicy(
            policy=policy,
            encoder=self.encoder_,
            units=self.units_,
            target=self.target_,
            groups=self.groups,
            columns=self.columns,
            owner=type(self).__name__,
            certificate=self._certificate(),
            read=self._read,
            file_digest=self._file_digest,
            effects=self.step_effects_,
            target_name=self.target_name_,
        )

    def _certificate(self) -> Certificate | None:
        """Return the guarantee of the model, if it has one."""
        return None

    def _file_digest(self) -> str:
        """Return the SHA-256 digest of the model file."""
        raise ValueError(
            f"A receipt requires a model that can be saved. Got {type(self).__name__} instead."
        )

    @consistent
    def predict_masked(
        self,
        X: Any,
        masks: ArrayLike,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """Return *f(x ⊙ h)*, the predictions for given masks.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d)
        sparsity_weight, mean_features : float, optional
            As in `select`. Accepted for symmetry with `predict`: the masks are given, and the
            predictor does not depend on λ.

        Returns
        -------
        ndarray of shape (n, n_classes) or (n,)
            Class probabilities, or values for regression.
        """
        table = self._read(X)
        fitted = self.fitted_policy(sparsity_weight, mean_features)
        given = read_masks(masks, table.n_rows, self.n_features_in_, (2,))
        given = self._in_order_of_fit(X, given)
        table.check_revealed(given)
        return self.target_.outputs(fitted.predict(fitted.encode(table), given))

    @consistent
    def mask_probability(
        self,
        X: Any,
        masks: ArrayLike,
        *,
        policy: PolicyKind = "greedy",
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """Return ζ(h | x), the exact probability that the policy selects each mask.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d) or (n, m, d)
            One mask per row, or ``m`` masks per row. A single mask is used for every row, and a
            single row of ``X`` for every mask.
        policy : {'greedy', 'sampled'}, default='greedy'
            As in `select`. The greedy policy is deterministic: its probabilities are 0 or 1.
        sparsity_weight, mean_features : float, optional
            As in `select`.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
        """
        table = self._read(X)
        given = np.asarray(masks)
        if given.ndim == 2 and table.n_rows == 1 and len(given) != 1:
            table = table.take(np.zeros(len(given), dtype=np.intp))
        given = read_masks(given, table.n_rows, self.n_features_in_, (2, 3))
        given = self._in_order_of_fit(X, given)
        flat = given[:, None, :] if given.ndim == 2 else given
        fitted = self.fitted_policy(sparsity_weight, mean_features)
        if make_draws(policy, 0, table.n_rows, "mask_probability") is None:
            final = np.concatenate([trace.mask for _, trace in fitted.rollouts(table)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
            table.check_revealed(np.asarray(flat.any(axis=1)))
            result = mask_probability(fitted.policy, fitted.encode(table), flat)
        return result[:, 0] if given.ndim == 2 else result

    def _begin(
        self, owner: str, X: Any, table: Table, limits: RowLimits
    ) -> tuple[FittedPolicy, Starts | None]:
        """Read the limits of a call: the policy that decides, and where rows start."""
        limited = check_limits(owner, limits)
        fitted = self.fitted_policy(limits.get("sparsity_weight"), limits.get("mean_features"))
        if not limited:
            return fitted, Starts.usual(fitted.policy.inputs, table.n_rows)
        return fitted, fitted.read_starts(owner, table.n_rows, limits, self._column_order(X))

    def _predict_final(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Predict from the features that the greedy policy selects."""
        table, parts, masks = self._read(X), [], []
        fitted, starts = self._begin("predict", X, table, limits)
        for values, trace in fitted.rollouts(table, starts=starts, owner="predict"):
            parts.append(fitted.predict(values, trace.mask))
            masks.append(trace.mask)
        labels = row_labels(X, table.n_rows)
        warn_unusual(self.encoder_, table, np.concatenate(masks), "predict", labels)
        return np.concatenate(parts)

    @consistent
    def select(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        **limits: Unpack[RowLimits],
    ) -> NDArray[np.bool_]:
        """Select the columns that the prediction of each row uses.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy : {'greedy', 'sampled'}, default='greedy'
            'greedy' reveals the most probable unit and stops when the stop probability is at least
            one half; 'sampled' draws both decisions at random. Both are SUWR policies. All methods
            have the same default.
        random_state : int, RandomState, None or array of int of shape (n,), default=None
            Seed of the 'sampled' policy. The draws of a row follow from the seed and from the
            position of the row in ``X``: whatever the other rows are, they are the same. An array
            gives every row a seed of its own, by which it has the same draws at every position,
            alone and in any batch; a row that is alone has the same for this int. Rows of equal
            seeds have equal draws. A seed must not depend on hidden values, or the selection leaks
            them.
        **limits
            What the policy may use: the other parameters below, all of them keywords.

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row, in the order of the columns of ``X``.

        Other Parameters
        ----------------
        sparsity_weight : float, optional
            λ to decide by, for a model that was fitted for a range ``(low, high)``. The geometric
            mean of the range unless given.
        mean_features : float, optional
            The same choice as a budget: the mean number of *units* that the validation rows reveal.
            A group or a patch is one unit, however many columns it has and whatever it costs; units
            are columns if the model has no ``groups``.
        known : bool array of shape (n, d) or (d,), or list of column names, optional
            Columns that are revealed at no cost before the first decision, as a mask in the order
            of the columns of ``X``, or by name. They are part of the mask. A known cell that is
            missing is revealed as missing.
        available : bool array of shape (n, n_units) or (n_units,), optional
            Units that may be revealed; the best of the rest is taken. Neither ``known`` nor
            ``available`` may depend on hidden values, or the selection leaks them.
        max_cost : float or array of shape (n,), optional
            Budget of each row. A unit that costs more than what is left of it is not available.
        exactly : float or array of shape (n,), optional
            As ``max_cost``, but a row stops only when it can afford no further unit.
        costs : array of shape (n, n_units) or data frame, optional
            Costs of the units of each row; those of the model unless given. They count in budgets
            and in `cost`. The policy does not read them, unless they are columns of ``X`` as well,
            for instance among ``known_at_start``. Like ``available``, they must be known before the
            first decision and not depend on hidden values, or a selection within a budget leaks
            these values.
        """
        table = self._read(X)
        draws = make_draws(policy, random_state, table.n_rows, "select")
        fitted, starts = self._begin("select", X, table, limits)
        rollouts = fitted.rollouts(table, draws=draws, starts=starts, owner="select")
        return self._in_order_of(X, np.concatenate([trace.mask for _, trace in rollouts]))

    @consistent
    def cost(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Return ‖h‖ of each row: the number of revealed units, or the sum of their costs.

        Set-up costs and the costs of visits are included. Known columns cost nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        ndarray of shape (n,)
        """
        table = self._read(X)
        fitted, starts = self._begin("cost", X, table, limits)
        rollouts = fitted.rollouts(table, starts=starts, owner="cost")
        return charge_rows(self.units_, [trace.order for _, trace in rollouts], starts)

    @consistent
    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        confidence: float = 0.95,
        **limits: Unpack[RowLimits],
    ) -> Evaluation:
        """Evaluate the predictions for rows with known targets.

        Loss, score, calibration and cost with confidence intervals, beside a constant prediction
        and the predictor with all features revealed. ``print(evaluation)`` shows a table.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows that the model was not fitted on.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        confidence : float, default=0.95
            Confidence level of the intervals.
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        Evaluation
        """
        check_real(confidence, "confidence", "evaluate", Interval(Real, 0, 1, closed="neither"))
        table = self._read(X)
        fitted, starts = self._begin("evaluate", X, table, limits)
        truth = self.target_.read(y, table.n_rows)
        weight = read_weight(sample_weight, table.n_rows)
        predictions, orders = [], []
        for values, trace in fitted.rollouts(table, starts=starts):
            predictions.append(fitted.predict(values, trace.mask))
            orders.append(trace.order)
        own = self._outcome(predictions, charge_rows(self.units_, orders, starts))
        everything = None
        # The predictions from all cells need all of them to be valid.
        if not table.invalid:
            full = np.ones((1, len(fitted.names)), dtype=bool)
            found = [fitted.encode(rows) for rows in chunks(table)]
            shown = [fitted.predict(v, np.repeat(full, len(v), axis=0)) for v in found]
            everything = self._outcome(shown, self._total_costs(table.n_rows, starts))
        return self._evaluate(truth, own, everything, weight, confidence)

    @consistent
    def explain(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        **limits: Unpack[RowLimits],
    ) -> Explanation:
        """Return the narrative of each row: revealed units in order, with every prediction.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy, random_state
            As in `select`.
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        Explanation
        """
        table = self._read(X)
        draws = make_draws(policy, random_state, table.n_rows, "explain")
        fitted, starts = self._begin("explain", X, table, limits)
        return fitted.explain(table, row_labels(X, table.n_rows), draws, starts)

    @consistent
    def start_distance(
        self,
        X: Any,
        known: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.intp]:
        """Return how far the states with known columns are from those that the policy visits.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Only known cells are read.
        known, sparsity_weight, mean_features
            As in `select`.

        Returns
        -------
        ndarray of int, shape (n,)
            The number of known units that the policy would not have revealed by itself; 0 if it
            passes through this state.
        """
        table = self._read(X)
        limits: RowLimits = {
            "known": known, "sparsity_weight": sparsity_weight, "mean_features": mean_features
        }  # fmt: skip
        fitted, starts = self._begin("start_distance", X, table, limits)
        if starts is None or starts.known is None:
            return np.zeros(table.n_rows, dtype=np.intp)
        table.check_revealed(starts.known.cpu().numpy())
        return start_distance(fitted.policy, fitted.encode(table), starts.known).cpu().numpy()

    @consistent
    def acquire(
        self,
        *,
        known: Mapping[str, Any] | None = None,
        unavailable: Sequence[str] = (),
        max_cost: float | None = None,
        exactly: float | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> Acquisition:
        """Start a session that requests the features of a new row one unit at a time.

        Parameters
        ----------
        known : mapping, optional
            Values by column that are revealed at no cost before the first decision.
        unavailable : list of str, optional
            Units that cannot be acquired.
        max_cost, exactly, sparsity_weight, mean_features : float, optional
            As in `select`.
        costs : mapping of str to float, or array-like of shape (n_units,), optional
            Costs of the units of this row, as in `select`. Units that a mapping does not name have
            the costs of the model.

        Returns
        -------
        Acquisition
        """
        fitted = self.fitted_policy(sparsity_weight, mean_features)
        given = make_given(fitted, known, unavailable, max_cost, exactly, costs)
        session = Acquisition(fitted, given)
        session.warn_distance()
        return session

    # Evaluation.

    def _record_held_out(self, rows: Rows) -> None:
        """Set what the validation rows of a fit tell about the model."""
        fitted, shown, costs, full = self._fitted(self.policy_), [], [], []
        policy, effects = fitted.policy, np.zeros(len(self.units_))
        target = self.target_.numbers(rows.targets.cpu().numpy())
        steps = StepEffects.of(None if self.target_.labels is not None else np.asarray(target))
        with torch.no_grad():
            for _, part in rows.blocks():
                starts = training_starts(policy.inputs, part.values, part.costs)
                trace = policy.rollout(part.values, record=True, starts=starts)
                effects += self._unit_effects(trace)
                steps.count(trace.order, fitted.shown_states(trace))
                shown.append(fitted.predict(part.values, trace.mask))
                full.append(fitted.predict(part.values, np.ones_like(trace.mask)))
                costs.append(charge_rows(self.units_, [trace.order], starts))
        self.step_effects_ = steps if steps.threshold > 0 else None
        own = self._outcome(shown, np.concatenate(costs))
        total = self._total_costs(len(rows), Starts(costs=rows.costs))
        everything = self._outcome(full, total)
        weight = rows.weight.cpu().numpy().astype(np.float64)
        self.report_ = self._evaluate(target, own, everything, weight, 0.95)
        importances = np.zeros(self.n_features_in_)
        for unit in np.flatnonzero(effects):
            columns = self.units_.columns_of(int(unit))
            importances[columns] += effects[unit] / len(columns)
        total = importances.sum()
        self.feature_importances_ = importances / total if total > 0 else importances

    def _unit_effects(self, trace: Trace) -> NDArray[np.float64]:
        """Return the summed changes of the predictions by the steps that reveal each unit."""
        assert trace.prediction is not None
        effects = np.zeros(len(self.units_))
        for t in range(trace.order.shape[1]):
            units = trace.order[:, t]
            active = units >= 0
            rows = np.flatnonzero(active.any(axis=1))
            change = np.abs(trace.prediction[rows, t + 1] - trace.prediction[rows, t]).sum(axis=1)
            # As in `suwr.narrative.explanation`: units that are revealed together share the effect.
            shared = (change / active[rows].sum(axis=1))[:, None] * active[rows]
            np.add.at(effects, np.maximum(units[rows], 0), shared)
        return effects

    def _outcome(self, shown: Sequence[NDArray[np.float64]], cost: NDArray[np.float64]) -> Outcome:
        return Outcome(self.target_.normalized(np.concatenate(shown)), cost)

    def _total_costs(self, n: int, starts: Starts | None) -> NDArray[np.float64]:
        """Return the cost of all units for each row that starts from nothing."""
        steps = self.units_.all_steps()
        starts = None if starts is None else replace(starts, known=None)
        return charge_rows(self.units_, [np.broadcast_to(steps, (n, *steps.shape[1:]))], starts)

    def _evaluate(
        self,
        target: NDArray[Any],
        own: Outcome,
        all_features: Outcome | None,
        weight: NDArray[np.float64],
        confidence: float,
    ) -> Evaluation:
        prior = self.target_.constant
        if prior is None:
            # An older model file: the prediction before anything is revealed.
            values = torch.zeros((1, len(self.encoder_.column_of)), device=self.device_)
            mask = np.zeros((1, self.n_features_in_), dtype=bool)
            prior = self._fitted(self.policy_).predict(values, mask)
        constant = Outcome(
            np.repeat(np.atleast_2d(prior), len(target), axis=0), np.zeros(len(target))
        )
        return evaluate_outcome(
            self.target_, target, own, constant, all_features, weight, confidence
        )
