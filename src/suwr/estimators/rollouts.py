"""`RolloutModel`: rollouts of estimators that reveal units step by step, and given masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr._utils.draws import RowDraws
from suwr.data.frame import Table
from suwr.estimators.randomness import make_draws
from suwr.estimators.starts import warn_distance
from suwr.estimators.table_model import TableModel, read_masks
from suwr.nn.rollout import Policy, Trace, mask_probability
from suwr.nn.step import Starts

__all__ = ["PolicyKind", "RolloutModel"]

PolicyKind = Literal["greedy", "sampled"]


class RolloutModel(TableModel):
    """An estimator with a fitted ``policy_``.

    Every decision reads only what has been revealed before it; see `suwr.nn.rollout`.
    """

    leak_free_by_construction: ClassVar[bool] = True
    _fitted_attribute: ClassVar[str] = "policy_"

    policy_: Policy
    max_steps_: int

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
                warn_distance(self, policy, values, here, owner)
            first += rows.n_rows
            yield values, trace

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
        if make_draws(policy, 0, table.n_rows, "mask_probability") is None:
            final = np.concatenate([trace.mask for _, trace in self._rollouts(table, chosen)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
            table.check_revealed(np.asarray(flat.any(axis=1)))
            result = mask_probability(chosen, self._encode(table), flat)
        return result[:, 0] if given.ndim == 2 else result
