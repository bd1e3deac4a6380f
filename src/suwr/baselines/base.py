"""Base classes of the baselines, and the network and phase of those that select in one pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from torch import Tensor, nn
from torch.nn import functional as F

from suwr._utils.progress import training_progress
from suwr._utils.validation import Interval
from suwr.data.units import Patches
from suwr.estimators.table import (
    TABLE_CONSTRAINTS,
    TableModel,
    TrainingData,
    consistent,
    read_masks,
    seeded,
)
from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.rollout import BLOCK
from suwr.training.data import Folds, Rows
from suwr.training.loop import (
    History,
    Metrics,
    Phase,
    cosine_decay,
    optimizer_step,
    run_phases,
    set_rate,
)
from suwr.training.validation import BestState

__all__ = [
    "SELECTOR_CONSTRAINTS", "BaseBaseline", "BaseSelector", "Schedule", "SelectorNetwork",
    "SelectorPhase", "evaluate_in_blocks", "make_adamw", "masked_loss", "predictor_phase",
    "same_units", "top_units",
]  # fmt: skip

# As in SUWR's predictor; replaces the batch normalisation of the published networks.
WEIGHT_DECAY = 0.1


def evaluate_in_blocks(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to blocks of a fixed number of rows, the last one zero-padded.

    As in `suwr.nn.rollout`: matrix products of different shapes may round differently, and the
    result for a row must not depend on the size of its batch.
    """
    parts = []
    for start in range(0, len(tensors[0]), BLOCK):
        block = [tensor[start : start + BLOCK] for tensor in tensors]
        n_rows = len(block[0])
        padded = [F.pad(part, (0, 0, 0, BLOCK - n_rows)) for part in block]
        parts.append(function(*padded)[:n_rows])
    return torch.cat(parts)


def top_units(scores: Tensor, k: int) -> Tensor:
    """Mask of the ``k`` units with the largest scores in each row, bool ``(n, n_units)``.

    Examples
    --------
    >>> top_units(torch.tensor([[0.1, 3.0, 2.0]]), 2)
    tensor([[False,  True,  True]])
    """
    selected = torch.zeros_like(scores, dtype=torch.bool)
    return selected.scatter(1, scores.topk(k, dim=1).indices, True)


class SelectorNetwork(nn.Module):
    """A selector that scores units given the whole row, and a predictor of *x ⊙ h*.

    Parameters
    ----------
    n_values, n_columns, n_units, n_outputs : int
        As in `suwr.nn.networks.Architecture`.
    hidden_size, n_layers : int
        Width and number of the hidden layers of each network.
    baseline : bool, default=False
        Whether to add a third network that predicts from the whole row.
    dropout : float, default=0.0
        Dropout rate of the predictor and the baseline.
    image_shape : tuple of int, optional
        Makes the predictor a convolutional network over images of this shape.
    """

    def __init__(
        self,
        n_values: int,
        n_columns: int,
        n_units: int,
        n_outputs: int,
        hidden_size: int,
        n_layers: int,
        *,
        baseline: bool = False,
        dropout: float = 0.0,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        n_in = n_values + n_columns
        self.selector = EnsembleMLP(1, n_values, hidden_size, n_layers, n_units)
        self.predictor: Ensemble
        if image_shape is None:
            self.predictor = EnsembleMLP(1, n_in, hidden_size, n_layers, n_outputs, dropout)
        else:
            self.predictor = EnsembleConv(1, image_shape, 0, hidden_size, n_outputs, dropout)
        self.baseline = (
            EnsembleMLP(1, n_values, hidden_size, n_layers, n_outputs, dropout)
            if baseline
            else None
        )

    def predictors(self) -> nn.ModuleList:
        """The predictor and, if there is one, the baseline."""
        return nn.ModuleList(n for n in (self.predictor, self.baseline) if n is not None)

    def scores(self, values: Tensor) -> Tensor:
        """Scores of the units given the whole row, ``(n, n_units)``."""
        return self.selector(values.unsqueeze(0))[0]

    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs of the predictor given *[x ⊙ h, h]*, ``(n, n_outputs)``."""
        return self.predictor(inputs.unsqueeze(0))[0]

    def baseline_outputs(self, values: Tensor) -> Tensor:
        """Outputs of the baseline given the whole row, ``(n, n_outputs)``."""
        assert self.baseline is not None
        return self.baseline(values.unsqueeze(0))[0]


@dataclass(frozen=True)
class Schedule:
    """Length and learning rate of a training phase.

    Attributes
    ----------
    max_epochs, batch_size : int
    learning_rate : float
        Initial learning rate; follows a cosine down to a tenth of it.
    patience : int or None
        Number of epochs without improvement on the validation rows after which training stops;
        None disables early stopping.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None = None

    def scaled(self, fraction: float) -> Schedule:
        """The same schedule with a fraction of the epochs."""
        return replace(self, max_epochs=max(1, round(fraction * self.max_epochs)))


def make_adamw(
    module: nn.Module, schedule: Schedule, weight_decay: float = WEIGHT_DECAY
) -> torch.optim.AdamW:
    """Return an AdamW optimizer for the parameters of a module."""
    return torch.optim.AdamW(
        module.parameters(), lr=schedule.learning_rate, weight_decay=weight_decay
    )


class SelectorPhase(Phase):
    """Gradient updates with early stopping; the best epoch by validation loss is kept.

    Parameters
    ----------
    name : str
    network : Module
    folds : Folds
        The training rows.
    schedule : Schedule
    optimizers : list of AdamW
        Optimizers whose learning rate follows the schedule.
    update : callable of (row indices, progress)
        Makes one update and returns the training loss. ``progress`` is the completed fraction of
        the phase.
    validate : callable
        Returns the validation objective of the network, and the mean cost if it selects.
    keep_last : bool, default=False
        Keep the last epoch instead of the best one, for annealed objectives.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        folds: Folds,
        schedule: Schedule,
        optimizers: list[torch.optim.AdamW],
        update: Callable[[Tensor, float], Tensor],
        validate: Callable[[], Metrics],
        *,
        keep_last: bool = False,
    ) -> None:
        super().__init__(schedule.max_epochs)
        self.name, self.network, self.folds, self.schedule = name, network, folds, schedule
        self.update, self.validate, self.keep_last = update, validate, keep_last
        self.modules = {"network": network}
        self.optimizers = {str(i): optimizer for i, optimizer in enumerate(optimizers)}
        self.best = BestState(network)
        self.epochs_without_improvement = 0

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        schedule, network = self.schedule, self.network
        n_batches = self.folds.n_batches(schedule.batch_size)
        network.train()
        total = torch.zeros((), device=self.folds.indices.device)
        for number, index in enumerate(self.folds.batches(schedule.batch_size)):
            progress = (self.epoch + number / n_batches) / schedule.max_epochs
            for optimizer in self.optimizers.values():
                set_rate(optimizer, schedule.learning_rate * cosine_decay(progress, floor=0.1))
            total = total + self.update(index.flatten(), progress).detach()
        network.eval()
        with torch.no_grad():
            metrics = self.validate()
        if not self.keep_last or self.epoch + 1 == schedule.max_epochs:
            best = float(self.best.value)
            self.best.update(torch.tensor([metrics.validation_objective]), self.epoch)
            improved = float(self.best.value) < best
            self.epochs_without_improvement = 0 if improved else self.epochs_without_improvement + 1
        return replace(metrics, training_loss=float(total) / n_batches)

    @property
    def done(self) -> bool:
        """See `Phase`; early stopping ends the phase."""
        patience = self.schedule.patience
        stalled = patience is not None and self.epochs_without_improvement >= patience
        return stalled or super().done

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        self.network.eval()


def masked_loss(
    network: SelectorNetwork, inputs: MaskedInputs, loss: Loss, rows: Rows, mask: Tensor
) -> Tensor:
    """Weighted mean loss of the predictor under hard masks."""
    outputs = network.outputs(inputs.reveal(rows.values, mask))
    return (loss.per_row(outputs, rows.targets) * rows.weight).mean()


def predictor_phase(
    network: SelectorNetwork,
    data: TrainingData,
    folds: Folds,
    masks: Callable[[Tensor], Tensor],
    validation_mask: Tensor,
    schedule: Schedule,
    name: str = "predictor",
) -> SelectorPhase:
    """Return a phase that trains the predictor alone.

    Parameters
    ----------
    network : SelectorNetwork
    data : TrainingData
    folds : Folds
    masks : callable
        From row indices ``(b,)`` to the masks that they are trained with, ``(b, n_columns)``.
    validation_mask : Tensor of bool, shape (n_validation, n_columns)
    schedule : Schedule
    name : str
    """
    optimizer = make_adamw(network.predictor, schedule)
    inputs, loss = data.inputs, data.loss

    def update(index: Tensor, progress: float) -> Tensor:
        value = masked_loss(network, inputs, loss, folds.rows[index], masks(index))
        optimizer_step(optimizer, value)
        return value

    def validate() -> Metrics:
        value = masked_loss(network, inputs, loss, data.validation, validation_mask)
        return Metrics(validation_objective=float(value))

    return SelectorPhase(name, network, folds, schedule, [optimizer], update, validate)


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
        return self.target_.shown(predictions.cpu().numpy())

    def _selected_units(self, X: Any) -> NDArray[np.bool_]:
        """Selected units of each row of a table, ``(n, n_units)``."""
        return self._evaluate(self._choose, X)

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        return self.target_.shown(self._evaluate(self._final_predictions, X))

    @consistent
    def select(self, X: Any) -> NDArray[np.bool_]:
        """Select the columns from which each row is predicted.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row, in the order of the columns of ``X``.
        """
        selected = self._selected_units(X).astype(np.float32)
        return self._in_order_of(X, selected @ self.units_.membership.astype(np.float32) > 0)

    @consistent
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
    @consistent
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
        given = self._in_order_of_fit(X, given)
        table.check_revealed(given)
        values = self._encode(table)
        result = self._predict_with(values, torch.as_tensor(given, device=values.device))
        return self.target_.outputs(result)
