"""Models that reveal one step at a time: everything that needs no more than their policy."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from suwr.estimators.acquisition import Acquisition
from suwr.estimators.table_model import TableModel, read_masks
from suwr.explanation import Explanation
from suwr.nn.probability import mask_probability
from suwr.nn.rollout import Policy, Trace

__all__ = ["PolicyKind", "SequentialModel"]

PolicyKind = Literal["greedy", "sampled"]


class SequentialModel(TableModel):
    """A fitted ``policy_`` behind scikit-learn's interface.

    Every decision reads only what was revealed before it; see `suwr.nn.rollout`.
    """

    leak_free_by_construction: ClassVar[bool] = True
    _fitted_attribute: ClassVar[str] = "policy_"

    policy_: Policy
    max_steps_: int

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        """The policy at a place of the range of λ that the model was trained for."""
        check_is_fitted(self, "policy_")
        for name, value in (("sparsity_weight", sparsity_weight), ("mean_features", mean_features)):
            if value is not None:
                raise ValueError(
                    f"The {name!r} parameter can be chosen after training only where a model was "
                    "fitted for a range, with sparsity_weight=(low, high)."
                )
        return self.policy_

    def _predict_final(
        self, X: Any, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> NDArray[np.float64]:
        """Predictions from the features that greedy inference selects."""
        policy, parts = self._policy_at(sparsity_weight, mean_features), []
        for values in self._chunks(self._read(X)):
            mask = torch.as_tensor(policy.rollout(values).mask, device=values.device)
            parts.append(policy.predict(values, mask).cpu().numpy())
        return self._in_user_units(np.concatenate(parts))

    def select(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.bool_]:
        """The columns that the prediction of each row uses.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy : {'greedy', 'sampled'}, default='greedy'
            Greedy takes the most probable unit and stops where the stop probability is at least one
            half. Sampled draws both decisions. Both are SUWR policies.
        random_state : int, RandomState or None
            Seed of the draws.
        sparsity_weight : float, optional
            Which λ to decide by, for a model that was fitted for a range of it.
        mean_features : float, optional
            The same, said as the mean number of units that the validation rows revealed.

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row.
        """
        table = self._read(X)
        generator = _make_generator(policy, random_state)
        chosen = self._policy_at(sparsity_weight, mean_features)
        return np.concatenate(
            [chosen.rollout(values, generator=generator).mask for values in self._chunks(table)]
        )

    def cost(
        self,
        X: Any,
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """‖h‖ of each row: the number of revealed units, or the sum of their costs.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        sparsity_weight, mean_features
            As in `select`.
        """
        policy, parts = self._policy_at(sparsity_weight, mean_features), []
        for values in self._chunks(self._read(X)):
            order = policy.rollout(values).order.reshape(len(values), -1)
            paid = np.where(order >= 0, self.units_.costs[np.maximum(order, 0)], 0.0)
            parts.append(paid.sum(axis=1))
        return np.concatenate(parts)

    def predict_masked(self, X: Any, masks: ArrayLike) -> NDArray[np.float64]:
        """*f(x ⊙ h)* for given masks: probabilities ``(n, n_classes)``, or values ``(n,)``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d)
        """
        table = self._read(X)
        given = read_masks(masks, table.n_rows, self.n_features_in_, (2,))
        values = self._encode(table)
        prediction = self.policy_.predict(values, torch.as_tensor(given, device=values.device))
        result = self._in_user_units(prediction.cpu().numpy())
        return result if self._class_labels() is not None else result[:, 0]

    def mask_probability(
        self,
        X: Any,
        masks: ArrayLike,
        *,
        policy: PolicyKind = "sampled",
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> NDArray[np.float64]:
        """ζ(h | x), exactly.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d) or (n, m, d)
            One mask for each row, or ``m`` of them. A length of one is repeated for every row, and
            a single row of ``X`` for every mask.
        policy : {'sampled', 'greedy'}, default='sampled'
            For greedy inference the probability is 0 or 1.
        sparsity_weight, mean_features
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
        if _make_generator(policy, 0) is None:
            final = np.concatenate([chosen.rollout(v).mask for v in self._chunks(table)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
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
    ) -> Explanation:
        """The narrative of each row: what was revealed, in which order, what it changed.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy, random_state, sparsity_weight, mean_features
            As in `select`.

        Returns
        -------
        Explanation
        """
        from suwr.estimators.narration import narrate

        table = self._read(X)
        labels = [_plain(i) for i in X.index] if hasattr(X, "iloc") else range(table.n_rows)
        generator = _make_generator(policy, random_state)
        chosen = self._policy_at(sparsity_weight, mean_features)
        traces = [
            chosen.rollout(values, generator=generator, record=True)
            for values in self._chunks(table)
        ]
        return narrate(self, table, _join(traces), list(labels), chosen)

    def acquire(
        self, *, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Acquisition:
        """Run the policy where no row exists yet: it names what to ask for next.

        Parameters
        ----------
        sparsity_weight, mean_features
            As in `select`.

        Returns
        -------
        Acquisition
        """
        return Acquisition(self, self._policy_at(sparsity_weight, mean_features))


def _make_generator(policy: str, random_state: Any) -> torch.Generator | None:
    if policy not in ("greedy", "sampled"):
        raise ValueError(
            f"The 'policy' parameter must be 'greedy' or 'sampled'. Got {policy!r} instead."
        )
    if policy == "greedy":
        return None
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator().manual_seed(int(seed))


def _join(traces: list[Trace]) -> Trace:
    """Traces of chunks as one; each is only as long as its longest row."""
    longest = max(t.order.shape[1] for t in traces)

    def pad(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
        missing = [(0, 0)] * array.ndim
        missing[1] = (0, length - array.shape[1])
        return np.pad(array, missing, constant_values=fill)

    stops = [t.stop_probability for t in traces if t.stop_probability is not None]
    predictions = [t.prediction for t in traces if t.prediction is not None]
    states = max(s.shape[1] for s in stops)
    return Trace(
        np.concatenate([t.mask for t in traces]),
        np.concatenate([pad(t.order, longest, -1) for t in traces]),
        np.concatenate([pad(s, states, np.nan) for s in stops]),
        np.concatenate([pad(p, states, np.nan) for p in predictions]),
    )


def _plain(value: Any) -> Any:
    """A row label that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, int | str) else str(value)
