"""`SequentialModel`: the methods of estimators that reveal units step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from suwr.data.dates import DateParts
from suwr.data.descriptions import warn_unusual
from suwr.data.frame import row_labels
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.costs import charge_rows
from suwr.estimators.evaluation import Evaluation
from suwr.estimators.randomness import make_draws
from suwr.estimators.rollouts import PolicyKind, RolloutModel
from suwr.estimators.session_input import make_given
from suwr.estimators.starts import read_starts, start_distance, warn_distance
from suwr.narrative.explanation import Explanation

__all__ = ["PolicyKind", "SequentialModel"]


class SequentialModel(RolloutModel):
    """An estimator that selects, predicts, explains and acquires step by step."""

    # The columns of dates whose parts the model was fitted on; see `suwr fit --dates`.
    dates_: DateParts | None = None
    # SHA-256 of the file that `suwr fit` has read.
    training_file_: str | None = None
    report_: Evaluation | None
    feature_importances_: NDArray[np.float64] | None

    def _predict_final(
        self,
        X: Any,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
        **limits: Any,
    ) -> NDArray[np.float64]:
        """Predict from the features that the greedy policy selects."""
        policy, parts, masks = self._policy_at(sparsity_weight, mean_features), [], []
        table = self._read(X)
        starts = read_starts(self, "predict", table.n_rows, **limits)
        for values, trace in self._rollouts(table, policy, starts=starts, owner="predict"):
            mask = torch.as_tensor(trace.mask, device=values.device)
            parts.append(policy.predict(values, mask).cpu().numpy())
            masks.append(trace.mask)
        labels = row_labels(X, table.n_rows)
        warn_unusual(self.encoder_, table, np.concatenate(masks), "predict", labels)
        return self._in_user_units(np.concatenate(parts))

    def select(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
        known: Any = None,
        available: Any = None,
        max_cost: Any = None,
        exactly: Any = None,
        costs: Any = None,
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
        sparsity_weight : float, optional
            λ to decide by, for a model that was fitted for a range ``(low, high)``. The geometric
            mean of the range unless given.
        mean_features : float, optional
            The same choice as a budget: the mean number of *units* that the validation rows reveal.
            A group or a patch is one unit, however many columns it has and whatever it costs; units
            are columns if the model has no ``groups``.
        known : bool array of shape (n, d) or (d,), or list of column names, optional
            Columns that are revealed at no cost before the first decision. They are part of the
            mask. A known cell that is missing is revealed as missing.
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
            The mask *h* of each row.
        """
        table = self._read(X)
        draws = make_draws(policy, random_state, table.n_rows, "select")
        chosen = self._policy_at(sparsity_weight, mean_features)
        starts = read_starts(
            self, "select", table.n_rows, known, available, max_cost, exactly, costs
        )
        rollouts = self._rollouts(table, chosen, draws=draws, starts=starts, owner="select")
        return np.concatenate([trace.mask for _, trace in rollouts])

    def cost(
        self,
        X: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
        known: Any = None,
        available: Any = None,
        max_cost: Any = None,
        exactly: Any = None,
        costs: Any = None,
    ) -> NDArray[np.float64]:
        """Return ‖h‖ of each row: the number of revealed units, or the sum of their costs.

        Set-up costs and the costs of visits are included. Known columns cost nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features : float, optional
            As in `select`.
        known, available, max_cost, exactly, costs
            As in `select`.

        Returns
        -------
        ndarray of shape (n,)
        """
        policy, table = self._policy_at(sparsity_weight, mean_features), self._read(X)
        starts = read_starts(self, "cost", table.n_rows, known, available, max_cost, exactly, costs)
        rollouts = self._rollouts(table, policy, starts=starts, owner="cost")
        return charge_rows(self.units_, [trace.order for _, trace in rollouts], starts)

    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        confidence: float = 0.95,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
        costs: Any = None,
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
        sparsity_weight, mean_features, costs
            As in `select`.

        Returns
        -------
        Evaluation
        """
        from suwr.estimators.held_out import evaluate_rows

        policy = self._policy_at(sparsity_weight, mean_features)
        return evaluate_rows(self, X, y, sample_weight, confidence, policy, costs)

    def explain(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
        known: Any = None,
        available: Any = None,
        max_cost: Any = None,
        exactly: Any = None,
        costs: Any = None,
    ) -> Explanation:
        """Return the narrative of each row: revealed units in order, with every prediction.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy, random_state, sparsity_weight, mean_features
            As in `select`.
        known, available, max_cost, exactly, costs
            As in `select`.

        Returns
        -------
        Explanation
        """
        from suwr.estimators.results import explain_rows

        table, chosen = self._read(X), self._policy_at(sparsity_weight, mean_features)
        draws = make_draws(policy, random_state, table.n_rows, "explain")
        starts = read_starts(
            self, "explain", table.n_rows, known, available, max_cost, exactly, costs
        )
        return explain_rows(self, table, row_labels(X, table.n_rows), chosen, draws, starts)

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
        policy, table = self._policy_at(sparsity_weight, mean_features), self._read(X)
        starts = read_starts(self, "start_distance", table.n_rows, known)
        if starts is None or starts.known is None:
            return np.zeros(table.n_rows, dtype=np.intp)
        table.check_revealed(starts.known.cpu().numpy())
        return start_distance(policy, self._encode(table), starts.known).cpu().numpy()

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
        warn_distance(self, policy, session._encoded()[0], session._starts, "acquire")
        return session
