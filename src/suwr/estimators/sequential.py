"""`SequentialModel`: the methods of estimators that reveal units step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr.data.tables import Table
from suwr.data.unusual import warn_unusual
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.evaluation import Evaluation
from suwr.estimators.session_input import make_given
from suwr.estimators.starts import read_starts, start_distance, warn_distance
from suwr.estimators.table_model import TableModel, make_generator, read_masks, row_labels
from suwr.explanation import Explanation
from suwr.nn.probability import mask_probability
from suwr.nn.rollout import Policy, Trace
from suwr.nn.starts import Starts

__all__ = ["PolicyKind", "SequentialModel"]

PolicyKind = Literal["greedy", "sampled"]


class SequentialModel(TableModel):
    """An estimator with a fitted ``policy_``.

    Every decision reads only what has been revealed before it; see `suwr.nn.rollout`.
    """

    leak_free_by_construction: ClassVar[bool] = True
    _fitted_attribute: ClassVar[str] = "policy_"

    policy_: Policy
    max_steps_: int
    report_: Evaluation | None
    feature_importances_: NDArray[np.float64] | None

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        """Return the policy for a λ within the range that the model was fitted for."""
        check_is_fitted(self, "policy_")
        for name, value in (("sparsity_weight", sparsity_weight), ("mean_features", mean_features)):
            if value is not None:
                raise ValueError(
                    f"The {name!r} parameter can be chosen after fitting only if the model was "
                    "fitted for a range, with sparsity_weight=(low, high)."
                )
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
        generator: torch.Generator | None = None,
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
            here = None if starts is None else starts[first : first + rows.n_rows]
            trace = policy.rollout(values, generator=generator, record=record, starts=here)
            rows.check_revealed(trace.mask)
            if owner and first == 0:
                warn_distance(self, policy, values, here, owner)
            first += rows.n_rows
            yield values, trace

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
    ) -> NDArray[np.bool_]:
        """Select the columns that the prediction of each row uses.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy : {'greedy', 'sampled'}, default='greedy'
            'greedy' reveals the most probable unit and stops when the stop probability is at least
            one half; 'sampled' draws both decisions at random. Both are SUWR policies. All methods
            have the same default.
        random_state : int, RandomState or None, default=None
            Seed of the 'sampled' policy.
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

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row.
        """
        table = self._read(X)
        generator = make_generator(policy, random_state, "select")
        chosen = self._policy_at(sparsity_weight, mean_features)
        starts = read_starts(self, "select", table.n_rows, known, available, max_cost, exactly)
        rollouts = self._rollouts(table, chosen, generator=generator, starts=starts, owner="select")
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
    ) -> NDArray[np.float64]:
        """Return ‖h‖ of each row: the number of revealed units, or the sum of their costs.

        Known columns cost nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features : float, optional
            As in `select`.
        known, available, max_cost, exactly
            As in `select`.

        Returns
        -------
        ndarray of shape (n,)
        """
        policy, table = self._policy_at(sparsity_weight, mean_features), self._read(X)
        starts = read_starts(self, "cost", table.n_rows, known, available, max_cost, exactly)
        rollouts = self._rollouts(table, policy, starts=starts, owner="cost")
        return np.concatenate([self.units_.cost_of(trace.order) for _, trace in rollouts])

    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        confidence: float = 0.95,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
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
        sparsity_weight, mean_features : float, optional
            As in `select`.

        Returns
        -------
        Evaluation
        """
        from suwr.estimators.held_out import evaluate_rows

        policy = self._policy_at(sparsity_weight, mean_features)
        return evaluate_rows(self, X, y, sample_weight, confidence, policy)

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
        table.check_revealed(given)
        values = self._encode(table)
        prediction = policy.predict(values, torch.as_tensor(given, device=values.device))
        result = self._in_user_units(prediction.cpu().numpy())
        return result if self._class_labels() is not None else result[:, 0]

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
        flat = given[:, None, :] if given.ndim == 2 else given
        chosen = self._policy_at(sparsity_weight, mean_features)
        if make_generator(policy, 0, "mask_probability") is None:
            final = np.concatenate([trace.mask for _, trace in self._rollouts(table, chosen)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
            table.check_revealed(np.asarray(flat.any(axis=1)))
            result = mask_probability(chosen, self._encode(table), flat)
        return result[:, 0] if given.ndim == 2 else result

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
    ) -> Explanation:
        """Return the narrative of each row: revealed units in order, with every prediction.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy, random_state, sparsity_weight, mean_features
            As in `select`.
        known, available, max_cost, exactly
            As in `select`.

        Returns
        -------
        Explanation
        """
        from suwr.estimators.results import explain_rows

        table, chosen = self._read(X), self._policy_at(sparsity_weight, mean_features)
        generator = make_generator(policy, random_state, "explain")
        starts = read_starts(self, "explain", table.n_rows, known, available, max_cost, exactly)
        return explain_rows(self, table, row_labels(X, table.n_rows), chosen, generator, starts)

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

        Returns
        -------
        Acquisition
        """
        policy = self._policy_at(sparsity_weight, mean_features)
        given = make_given(self, known, unavailable, max_cost, exactly)
        session = Acquisition(self, policy, given)
        warn_distance(self, policy, session._encoded()[0], session._starts, "acquire")
        return session
