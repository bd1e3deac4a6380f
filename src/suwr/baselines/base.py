"""Base classes of the baselines: parameters, fitting, selection and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from torch import Tensor

from suwr._utils.progress import training_progress
from suwr._utils.validation import Interval
from suwr.baselines.training import Schedule, SelectorNetwork, evaluate_in_blocks
from suwr.data.units import Patches
from suwr.estimators.table import TABLE_CONSTRAINTS, TableModel, TrainingData, read_masks, seeded
from suwr.training.loop import History, Phase, run_phases

__all__ = [
    "SELECTOR_CONSTRAINTS",
    "BaseBaseline",
    "BaseSelector",
    "same_units",
]

SELECTOR_CONSTRAINTS: dict[str, Any] = {
    **TABLE_CONSTRAINTS,
    "patience": [None, Interval(Integral, 1)],
    "learning_rate": [Interval(Real, 0, closed="neither")],
}


def same_units(values: Tensor, units: NDArray[np.intp], n_units: int) -> Tensor:
    """Select the same units in every row.

    Parameters
    ----------
    values : Tensor of shape (n, n_values)
    units : ndarray of int
        Indices of the selected units.
    n_units : int
        Number of all units.

    Returns
    -------
    Tensor of bool, shape (n, n_units)

    Examples
    --------
    >>> same_units(torch.zeros(2, 3), np.array([0, 2]), 3).tolist()
    [[True, False, True], [True, False, True]]
    """
    selected = torch.zeros(len(values), n_units, dtype=torch.bool, device=values.device)
    selected[:, torch.as_tensor(units, device=values.device)] = True
    return selected


@dataclass(kw_only=True, eq=False, repr=False)
class BaseBaseline(TableModel):
    """Common parameters and ``fit`` of all baselines.

    The generated ``__init__`` is keyword-only and stores every parameter unchanged, as
    scikit-learn requires.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = TABLE_CONSTRAINTS

    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None
    costs: Mapping[str, float] | ArrayLike | None = None
    hidden_size: int = 128
    n_layers: int = 3
    max_epochs: int = 100
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: Any = None
    verbose: int | None = None

    history_: History = field(init=False)

    @abstractmethod
    def _phases(
        self, data: TrainingData, generator: torch.Generator
    ) -> Sequence[Callable[[], Phase]]:
        """Training phases; each is created when the previous one has finished."""

    def _method_name(self) -> str:
        """Name of the method, used as the name of its main training phase."""
        return type(self).__name__.removesuffix("Classifier").removesuffix("Regressor")

    def _n_epochs(self) -> int:
        """Total number of epochs of all training phases, for the progress bar."""
        return self.max_epochs

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Fit the selector and the predictor.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Numbers, or a pandas or polars frame with numeric, string, categorical and boolean
            columns. NaN means 'missing' and is treated as a value of its own.
        y : array-like of shape (n,)
            Class labels or target values.
        sample_weight : array-like of shape (n,), optional
            Rows of weight zero are ignored.

        Returns
        -------
        self
            If `fit` raises an exception or is interrupted, the estimator remains as it was.
        """
        with self._fit_aside() as model:
            model._train(X, y, sample_weight)
        return self

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """Set the fitted attributes of an unfitted estimator."""
        self._check_parameters()
        data = self._training_data(X, y, sample_weight)
        with (
            seeded(self.device_, data.seed) as generator,
            training_progress(self._n_epochs(), self.verbose) as progress,
        ):
            phases = self._phases(data, generator)
            self.history_ = run_phases(phases, generator, progress)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSelector(BaseBaseline):
    """A baseline that selects the units of a row in one pass.

    A method implements `_choose` and `_phases`, which sets ``network_``.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = SELECTOR_CONSTRAINTS
    _fitted_attribute: ClassVar[str] = "network_"
    # Whether the predictor was trained on varying masks, so that `predict_masked` is meaningful.
    _predicts_any_mask: ClassVar[bool] = False
    leak_free_by_construction: ClassVar[bool] = False

    patience: int | None = None
    learning_rate: float = 1e-3

    network_: Any = field(init=False)

    def _choose(self, values: Tensor) -> Tensor:
        """Selected units of encoded rows, bool ``(n, n_units)``."""
        raise NotImplementedError("Override either `_choose` or `_selected_units`.")

    # Fitting.

    def _schedule(self, data: TrainingData) -> Schedule:
        return Schedule(
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
            learning_rate=self.learning_rate,
            patience=self.patience,
        )

    def _build_network(self, data: TrainingData, **options: Any) -> SelectorNetwork:
        network = SelectorNetwork(**self._network_sizes(data), **options)
        return network.to(self.device_)

    # Inference.

    def _column_masks(self, selected: Tensor) -> Tensor:
        """Masks over columns: the union of the selected units, bool ``(n, n_columns)``."""
        if self.units_.single:
            # The identity matrix is a view with negative strides, which torch refuses.
            return selected
        membership = torch.as_tensor(self.units_.membership, device=selected.device)
        return selected.to(torch.float32) @ membership.to(torch.float32) > 0

    def _masked_predictions(self, values: Tensor, mask: Tensor) -> Tensor:
        """*f(x ⊙ h)* on the scale of the network, ``(n, n_outputs)``."""
        inputs, loss = self._parts()
        return loss.predict(self.network_.outputs(inputs.reveal(values, mask)))

    def _final_predictions(self, values: Tensor) -> Tensor:
        """Predictions from the units that `_choose` selects, ``(n, n_outputs)``."""
        return self._masked_predictions(values, self._column_masks(self._choose(values)))

    @torch.inference_mode()
    def _evaluate(self, function: Callable[[Tensor], Tensor], X: Any) -> NDArray[Any]:
        """Apply a function of encoded rows to a table."""
        parts = []
        for rows in self._chunks(self._read(X)):
            values = self._encode(rows)
            rows.check_revealed(self._read_cells(values))
            parts.append(evaluate_in_blocks(function, values).cpu().numpy())
        return np.concatenate(parts)

    def _read_cells(self, values: Tensor) -> NDArray[np.bool_]:
        """Cells that selection and prediction read, bool ``(n, n_columns)``."""
        if not self.leak_free_by_construction:
            return np.ones((len(values), self.n_features_in_), dtype=bool)
        # The units are fixed in `fit`.
        return self._column_masks(self._choose(values)).cpu().numpy()

    @torch.inference_mode()
    def _predict_with(self, values: Tensor, mask: Tensor) -> NDArray[np.float64]:
        """*f(x ⊙ h)* for given masks on the scale of ``y``, ``(n, n_outputs)``."""
        predictions = evaluate_in_blocks(self._masked_predictions, values, mask)
        return self._in_user_units(predictions.cpu().numpy())

    def _selected_units(self, X: Any) -> NDArray[np.bool_]:
        """Selected units of each row of a table, ``(n, n_units)``."""
        return self._evaluate(self._choose, X)

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        return self._in_user_units(self._evaluate(self._final_predictions, X))

    def select(self, X: Any) -> NDArray[np.bool_]:
        """Select the columns from which each row is predicted.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row.
        """
        selected = self._selected_units(X).astype(np.float32)
        return selected @ self.units_.membership.astype(np.float32) > 0

    def cost(self, X: Any) -> NDArray[np.float64]:
        """Compute the cost ‖h‖ of each row: the total cost of its selected units.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            The number of selected units, or the sum of their ``costs``.
        """
        return self._selected_units(X) @ self.units_.costs

    @available_if(lambda self: self._predicts_any_mask)
    def predict_masked(self, X: Any, masks: ArrayLike) -> NDArray[np.float64]:
        """Predict *f(x ⊙ h)* for given masks.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes) or (n,)
            Class probabilities, or values.
        """
        table = self._read(X)
        given = read_masks(masks, table.n_rows, self.n_features_in_, (2,))
        table.check_revealed(given)
        values = self._encode(table)
        result = self._predict_with(values, torch.as_tensor(given, device=values.device))
        return result if self._class_labels() is not None else result[:, 0]
