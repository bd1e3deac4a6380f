"""What the baselines that need no steps have in common: their networks, and selecting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from suwr.baselines.method import METHOD_CONSTRAINTS, BaseMethod
from suwr.baselines.networks import SelectorNetwork, in_blocks
from suwr.baselines.training import Schedule
from suwr.estimators.table_model import TrainingData, read_masks
from suwr.training.loop import Progress

__all__ = [
    "COMMON_CONSTRAINTS",
    "BaseBaseline",
    "BaseGlobal",
    "BaseSelector",
    "MaskedPredictions",
]

COMMON_CONSTRAINTS: dict[str, Any] = {
    **METHOD_CONSTRAINTS,
    "patience": [None, Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
}


@dataclass(kw_only=True, eq=False, repr=False)
class BaseBaseline(BaseMethod):
    """A baseline with one network, trained by one schedule."""

    _parameter_constraints: ClassVar[dict[str, Any]] = COMMON_CONSTRAINTS
    _fitted_attribute: ClassVar[str] = "network_"
    leak_free_by_construction: ClassVar[bool] = False

    patience: int | None = None
    learning_rate: float = 1e-3

    # What the methods differ in.

    @abstractmethod
    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> nn.Module:
        """Train from start to finish."""

    @abstractmethod
    def _choices(self, X: Any) -> NDArray[np.bool_]:
        """The units of each row of a table, ``(n, n_units)``."""

    # Fitting.

    def _learn(self, data: TrainingData, generator: torch.Generator, progress: Progress) -> None:
        self.network_: Any = self._train(data, generator, progress).eval()

    def _schedule(self, data: TrainingData) -> Schedule:
        return Schedule(
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
            learning_rate=self.learning_rate,
            patience=self.patience,
        )

    def _build(self, data: TrainingData, **options: Any) -> SelectorNetwork:
        network = SelectorNetwork(
            n_values=data.rows.values.shape[1],
            n_columns=data.inputs.n_columns,
            n_units=data.inputs.n_units,
            n_outputs=self._n_outputs(),
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
            **options,
        )
        return network.to(self.device_)

    # Using a fitted model.

    def _columns(self, chosen: Tensor) -> Tensor:
        """Masks over columns: the union of the chosen units."""
        membership = torch.as_tensor(self.units_.membership, device=chosen.device)
        return chosen.to(torch.float32) @ membership.to(torch.float32) > 0

    def _outputs(self, values: Tensor, mask: Tensor) -> Tensor:
        """What the predictor says of *x ⊙ h*, ``(n, n_outputs)``."""
        inputs, loss = self._parts()
        return loss.predict(self.network_.outputs(inputs.reveal(values, mask)))

    @torch.inference_mode()
    def _predict_from(self, values: Tensor, mask: Tensor) -> NDArray[np.float64]:
        return self._in_user_units(in_blocks(self._outputs, values, mask).cpu().numpy())

    def select(self, X: Any) -> NDArray[np.bool_]:
        """The columns that the prediction of each row uses.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row.
        """
        return self._choices(X).astype(np.float32) @ self.units_.membership.astype(np.float32) > 0

    def cost(self, X: Any) -> NDArray[np.float64]:
        """‖h‖ of each row: the number of selected units, or the sum of their costs.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        return self._choices(X) @ self.units_.costs


class BaseSelector(BaseBaseline):
    """A baseline that chooses from encoded rows, a bounded number of them at once."""

    @abstractmethod
    def _choose(self, values: Tensor) -> Tensor:
        """The units of each encoded row, bool ``(n, n_units)``."""

    def _final_outputs(self, values: Tensor) -> Tensor:
        """Predictions from what the model selects itself."""
        return self._outputs(values, self._columns(self._choose(values)))

    @torch.inference_mode()
    def _per_row(self, evaluate: Callable[[Tensor], Tensor], X: Any) -> NDArray[Any]:
        chunks = self._chunks(self._read(X))
        return np.concatenate([in_blocks(evaluate, values).cpu().numpy() for values in chunks])

    def _choices(self, X: Any) -> NDArray[np.bool_]:
        return self._per_row(self._choose, X)

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        return self._in_user_units(self._per_row(self._final_outputs, X))


class BaseGlobal(BaseSelector):
    """A baseline that selects the same units, ``selected_units_``, for every row."""

    # One and the same mask for every row tells nothing.
    leak_free_by_construction: ClassVar[bool] = True

    selected_units_: NDArray[np.intp]

    def _choose(self, values: Tensor) -> Tensor:
        chosen = torch.zeros(len(values), len(self.units_), dtype=torch.bool, device=values.device)
        chosen[:, torch.as_tensor(self.selected_units_, device=values.device)] = True
        return chosen


class MaskedPredictions(BaseSelector):
    """A baseline whose predictor takes any mask."""

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
        result = self._predict_from(values, torch.as_tensor(given, device=values.device))
        return result if self._class_labels() is not None else result[:, 0]
