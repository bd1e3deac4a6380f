"""`SequentialModel`: estimators that reveal units step by step, and their evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr._utils.draws import RowDraws
from suwr._utils.validation import Interval, check_real
from suwr.data.dates import DateParts
from suwr.data.descriptions import warn_unusual
from suwr.data.frame import Table, row_labels
from suwr.data.stored import read_weight
from suwr.estimators.evaluate import Evaluation, Outcome, evaluate_outcome
from suwr.estimators.limits import (
    RowLimits,
    charge_rows,
    check_limits,
    read_starts,
    start_distance,
    warn_distance,
)
from suwr.estimators.session import Acquisition, make_given
from suwr.estimators.table import TableModel, consistent, make_draws, read_masks
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
    # SHA-256 of the file that `suwr fit` has read.
    training_file_: str | None = None

    policy_: Policy
    max_steps_: int

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        """Return the policy for a λ within the range that the model was fitted for."""
        check_is_fitted(self, "policy_")
        if sparsity_weight is not None or mean_features is not None:
            raise ValueError(f"A {type(self).__name__} is fitted for a single trade-off.")
        return self.policy_

    def _certificate_sentence(self) -> str:
        """Return the guarantee of the model in one sentence; '' if it has none."""
        return ""

    def _budget_ending(self) -> str:
        """Return how a narrative ends after the maximum number of steps; see `Narrative.ended`."""
        return "budget"

    def _rollouts(
        self,
        table: Table,
        policy: Policy,
        *,
        draws: RowDraws | None = None,
        record: bool = False,
        starts: Starts | None = None,
        owner: str = "",
    ) -> Iterator[tuple[Tensor, Trace]]:
        """Yield encoded rows and their rollouts, in chunks of bounded size.

        ``owner`` is the method that may warn that ``starts`` are unlike training.

        A cell that could not be parsed is an error if the rollout has revealed it. Its row stops
        there, since no probability is at least one half or less if the inputs are NaN.
        """
        starts, first = starts or Starts.usual(policy.inputs, table.n_rows), 0
        for rows in self._chunks(table):
            values = self._encode(rows)
            chunk = slice(first, first + rows.n_rows)
            here = None if starts is None else starts[chunk]
            drawn = None if draws is None else draws[chunk]
            trace = policy.rollout(values, draws=drawn, record=record, starts=here)
            rows.check_revealed(trace.mask)
            if owner and first == 0:
                warn_distance(policy, values, here, owner)
            first += rows.n_rows
            yield values, trace

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
        policy = self._policy_at(sparsity_weight, mean_features)
        given = read_masks(masks, table.n_rows, self.n_features_in_, (2,))
        given = self._in_order_of_fit(X, given)
        table.check_revealed(given)
        values = self._encode(table)
        prediction = policy.predict(values, torch.as_tensor(given, device=values.device))
        return self.target_.outputs(self.target_.shown(prediction.cpu().numpy()))

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
        chosen = self._policy_at(sparsity_weight, mean_features)
        if make_draws(policy, 0, table.n_rows, "mask_probability") is None:
            final = np.concatenate([trace.mask for _, trace in self._rollouts(table, chosen)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
            table.check_revealed(np.asarray(flat.any(axis=1)))
            result = mask_probability(chosen, self._encode(table), flat)
        return result[:, 0] if given.ndim == 2 else result

    def _begin(
        self, owner: str, X: Any, table: Table, limits: RowLimits
    ) -> tuple[Policy, Starts | None]:
        """Read the limits of a call: the policy that decides, and where rows start."""
        limited = check_limits(owner, limits)
        policy = self._policy_at(limits.get("sparsity_weight"), limits.get("mean_features"))
        if not limited:
            return policy, Starts.usual(policy.inputs, table.n_rows)
        self._check_limitable(owner)
        names, order = self.encoder_.names, self._column_order(X)
        return policy, read_starts(policy, names, self.units_, owner, table.n_rows, limits, order)

    def _check_limitable(self, owner: str) -> None:
        """Raise an error if rows must start as they always do."""
        if self._certificate_sentence():
            raise ValueError(
                f"{owner} cannot take 'known', 'available', 'max_cost', 'exactly' or 'costs', "
                "because the model is certified for one policy on whole rows. Use the model that "
                "it was made from."
            )

    def _predict_final(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Predict from the features that the greedy policy selects."""
        table, parts, masks = self._read(X), [], []
        policy, starts = self._begin("predict", X, table, limits)
        for values, trace in self._rollouts(table, policy, starts=starts, owner="predict"):
            mask = torch.as_tensor(trace.mask, device=values.device)
            parts.append(policy.predict(values, mask).cpu().numpy())
            masks.append(trace.mask)
        labels = row_labels(X, table.n_rows)
        warn_unusual(self.encoder_, table, np.concatenate(masks), "predict", labels)
        return self.target_.shown(np.concatenate(parts))

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
            All methods that decide have these keyword arguments:
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

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row, in the order of the columns of ``X``.
        """
        table = self._read(X)
        draws = make_draws(policy, random_state, table.n_rows, "select")
        chosen, starts = self._begin("select", X, table, limits)
        rollouts = self._rollouts(table, chosen, draws=draws, starts=starts, owner="select")
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
        policy, starts = self._begin("cost", X, table, limits)
        rollouts = self._rollouts(table, policy, starts=starts, owner="cost")
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
        policy, starts = self._begin("evaluate", X, table, limits)
        truth = self.target_.read(y, table.n_rows)
        weight = read_weight(sample_weight, table.n_rows)
        predictions, orders = [], []
        for values, trace in self._rollouts(table, policy, starts=starts):
            mask = torch.as_tensor(trace.mask, device=values.device)
            predictions.append(policy.predict(values, mask).cpu().numpy())
            orders.append(trace.order)
        paid = charge_rows(self.units_, orders, starts)
        own = self._outcome(np.concatenate(predictions), paid)
        everything = self._all_features(table, policy, starts)
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
        from suwr.estimators.results import explain_rows

        table = self._read(X)
        draws = make_draws(policy, random_state, table.n_rows, "explain")
        chosen, starts = self._begin("explain", X, table, limits)
        return explain_rows(self, table, row_labels(X, table.n_rows), chosen, draws, starts)

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
        policy, starts = self._begin("start_distance", X, table, limits)
        if starts is None or starts.known is None:
            return np.zeros(table.n_rows, dtype=np.intp)
        table.check_revealed(starts.known.cpu().numpy())
        return start_distance(policy, self._encode(table), starts.known).cpu().numpy()

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
        policy = self._policy_at(sparsity_weight, mean_features)
        given = make_given(self, known, unavailable, max_cost, exactly, costs)
        session = Acquisition(self, policy, given)
        session.warn_distance()
        return session

    # Evaluation.

    def _record_held_out(self, rows: Rows) -> None:
        """Set ``report_`` and ``feature_importances_`` from the validation rows of a fit."""
        policy, values, costs, masked = self.policy_, [], [], []
        effects = np.zeros(len(self.units_))
        with torch.no_grad():
            for _, part in rows.blocks():
                starts = training_starts(policy.inputs, part.values, part.costs)
                trace = policy.rollout(part.values, record=True, starts=starts)
                effects += self._unit_effects(trace)
                mask = torch.as_tensor(trace.mask, device=policy.device)
                values.append(policy.predict(part.values, mask).cpu().numpy())
                masked.append(policy.predict(part.values, torch.ones_like(mask)).cpu().numpy())
                costs.append(charge_rows(self.units_, [trace.order], starts))
        target = self.target_.numbers(rows.targets.cpu().numpy())
        own = self._outcome(np.concatenate(values), np.concatenate(costs))
        total = self._total_costs(len(rows), Starts(costs=rows.costs))
        everything = self._outcome(np.concatenate(masked), total)
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

    def _outcome(self, prediction: NDArray[np.float32], cost: NDArray[np.float64]) -> Outcome:
        return Outcome(self.target_.normalized(self.target_.shown(prediction)), cost)

    def _total_costs(self, n: int, starts: Starts | None) -> NDArray[np.float64]:
        """Return the cost of all units for each row that starts from nothing."""
        steps = self.units_.all_steps()
        starts = None if starts is None else replace(starts, known=None)
        return charge_rows(self.units_, [np.broadcast_to(steps, (n, *steps.shape[1:]))], starts)

    def _all_features(self, table: Table, policy: Policy, starts: Starts | None) -> Outcome | None:
        """Return the predictions from all cells; None if one of them is not valid."""
        if table.invalid:
            return None
        parts = []
        for rows in self._chunks(table):
            values = self._encode(rows)
            mask = torch.ones((len(values), self.n_features_in_), dtype=torch.bool)
            parts.append(policy.predict(values, mask.to(values.device)).cpu().numpy())
        return self._outcome(np.concatenate(parts), self._total_costs(table.n_rows, starts))

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
            mask = torch.zeros((1, self.n_features_in_), dtype=torch.bool, device=self.device_)
            prior = self.target_.shown(self.policy_.predict(values, mask).cpu().numpy())
        constant = Outcome(
            np.repeat(np.atleast_2d(prior), len(target), axis=0), np.zeros(len(target))
        )
        return evaluate_outcome(
            self.target_, target, own, constant, all_features, weight, confidence
        )


def held_out_state(model: Any) -> dict[str, Any]:
    """Return what a model file says about its target and held-out rows."""
    state: dict[str, Any] = {
        "target_name": model.target_name_,
        "report": None if model.report_ is None else model.report_.to_dict(),
        "importances": None,
    }
    if model.feature_importances_ is not None:
        state["importances"] = model.feature_importances_.tolist()
    if model.training_file_ is not None:
        state["training_file"] = model.training_file_
    if model.dates_ is not None:
        state["dates"] = model.dates_.to_list()
    return state


def restore_held_out(model: Any, state: Mapping[str, Any]) -> None:
    """Set the attributes of `held_out_state`; files of suwr 0.2.0 lack them."""
    name, report = state.get("target_name"), state.get("report")
    model.target_name_ = None if name is None else str(name)
    if state.get("training_file") is not None:
        model.training_file_ = str(state["training_file"])
    if state.get("dates") is not None:
        model.dates_ = DateParts.from_list(state["dates"])
        parts = {part for own in model.dates_.groups_.values() for part in own}
        if not parts <= set(state["names"] or ()):
            raise ValueError("The parts of its dates are not columns.")
    model.report_ = None if report is None else Evaluation.from_dict(report)
    stored = state.get("importances")
    model.feature_importances_ = None if stored is None else np.array(stored, dtype=np.float64)
    if stored is not None:
        if model.feature_importances_.shape != (model.n_features_in_,):
            raise ValueError("There must be one importance per column.")
        if not ((model.feature_importances_ >= 0) & np.isfinite(model.feature_importances_)).all():
            raise ValueError("The importances of columns must be finite and not negative.")
