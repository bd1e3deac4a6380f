"""Base classes of the baselines, and the network and phase of those that select in one pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from torch import Tensor, nn

from suwr._utils.progress import training_progress
from suwr._utils.validation import Interval, check_parameters, parameter
from suwr.data.costs import check_unit_costs
from suwr.data.frame import Table
from suwr.data.units import Patches
from suwr.estimators.fitted import chunks
from suwr.estimators.table import (
    TableModel,
    TrainingData,
    consistent,
    read_masks,
    seeded,
)
from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture
from suwr.nn.rollout import BLOCK, in_blocks
from suwr.training.config import TrainingConfig
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

# As in SUWR's predictor; replaces the batch normalisation of the published networks.
WEIGHT_DECAY = 0.1


PhaseBuilders = Sequence[Callable[[], Phase]]


class SelectorNetwork(nn.Module):
    """A selector that scores units given the whole row, and a predictor of *x ⊙ h*.

    Parameters
    ----------
    architecture : Architecture
        With an ``image_shape``, the predictor is a convolutional network over images.
    dropout : float, default=0.0
        Dropout rate of the predictor and the baseline.
    baseline : bool, default=False
        Whether to add a third network that predicts from the whole row.
    """

    def __init__(
        self, architecture: Architecture, dropout: float = 0.0, baseline: bool = False
    ) -> None:
        super().__init__()
        a = architecture

        def network(n_in: int, n_out: int, rate: float) -> EnsembleMLP:
            return EnsembleMLP(1, n_in, a.hidden_size, a.n_layers, n_out, rate)

        self.selector = network(a.n_values, a.n_units, 0.0)
        self.predictor: Ensemble
        if a.image_shape is None:
            self.predictor = network(a.n_inputs, a.n_outputs, dropout)
        else:
            self.predictor = EnsembleConv(1, a.image_shape, 0, a.hidden_size, a.n_outputs, dropout)
        self.baseline = network(a.n_values, a.n_outputs, dropout) if baseline else None

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
    steps : list of (AdamW, callable of (row indices, progress))
        The steps of an update: an optimizer, whose learning rate follows the schedule, and the loss
        that it minimises, of which the last one is recorded. ``progress`` is the completed fraction
        of the phase.
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
        steps: Sequence[tuple[torch.optim.AdamW, Callable[[Tensor, float], Tensor]]],
        validate: Callable[[], tuple[float, float | None]],
        *,
        keep_last: bool = False,
    ) -> None:
        super().__init__(schedule.max_epochs)
        self.name, self.network, self.folds, self.schedule = name, network, folds, schedule
        self.steps, self.validate, self.keep_last = steps, validate, keep_last
        self.modules = {"network": network}
        self.optimizers = {str(i): optimizer for i, (optimizer, _) in enumerate(steps)}
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
            for optimizer, loss in self.steps:
                set_rate(optimizer, schedule.learning_rate * cosine_decay(progress, floor=0.1))
                value = loss(index.flatten(), progress)
                optimizer_step(optimizer, value)
            total = total + value.detach()
        network.eval()
        with torch.no_grad():
            objective, cost = self.validate()
        if not self.keep_last or self.epoch + 1 == schedule.max_epochs:
            improved = self.best.update(objective, self.epoch)
            self.epochs_without_improvement = 0 if improved else self.epochs_without_improvement + 1
        return Metrics(float(total) / n_batches, objective, cost)

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
    masks: Callable[[int], Tensor] | tuple[Tensor, Tensor],
    schedule: Schedule,
    name: str = "predictor",
) -> SelectorPhase:
    """Return a phase that trains the predictor alone.

    Parameters
    ----------
    network : SelectorNetwork
    data : TrainingData
    folds : Folds
    masks : callable, or a pair of Tensors of bool
        Masks ``(n, n_columns)`` for any ``n`` rows, or those of the training and validation rows.
    schedule : Schedule
    name : str
    """
    optimizer = make_adamw(network.predictor, schedule)
    inputs, loss, held_out = data.inputs, data.loss, data.validation
    held_out_mask = masks(len(held_out)) if callable(masks) else masks[1]

    def of_rows(index: Tensor, progress: float) -> Tensor:
        mask = masks(len(index)) if callable(masks) else masks[0][index]
        return masked_loss(network, inputs, loss, folds.rows[index], mask)

    def validate() -> tuple[float, None]:
        return float(masked_loss(network, inputs, loss, held_out, held_out_mask)), None

    return SelectorPhase(name, network, folds, schedule, [(optimizer, of_rows)], validate)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseBaseline(TableModel):
    """Common parameters and ``fit`` of all baselines.

    The generated ``__init__`` is keyword-only and stores every parameter unchanged, as
    scikit-learn requires.

    A method implements `_phases`. It may override `_n_epochs`, `_n_folds`, `_n_bins` and
    `_split_rows`.
    """

    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None
    costs: Mapping[str, float] | ArrayLike | None = None
    hidden_size: int = 128
    n_layers: int = 3
    max_epochs: int = parameter(100, Interval(Integral, 1))
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: Any = None
    verbose: int | None = None

    history_: History = field(init=False)

    @abstractmethod
    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        """Training phases; each is created when the previous one has finished."""

    def _method_name(self) -> str:
        """Name of the method, used as the name of its main training phase."""
        return type(self).__name__.removesuffix("Classifier").removesuffix("Regressor")

    def _n_epochs(self) -> int:
        """Total number of epochs of all training phases, for the progress bar."""
        return self.max_epochs

    def _n_folds(self, n_rows: int) -> int:
        """Number of folds of the training rows."""
        return 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name = type(self).__name__
        check_unit_costs(self.costs, name)
        # Parameters of networks may be what the settings of the same name may be.
        allowed = {f.name: f.metadata["allowed"] for f in fields(TrainingConfig)}
        check_parameters(name, allowed, vars(self))

    def _training_config(self) -> TrainingConfig:
        """See `TableModel`; the other settings of a baseline are its own parameters."""
        return TrainingConfig(
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
            batch_size=self.batch_size,
            validation_fraction=self.validation_fraction,
        )

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
            folds = Folds(data.rows, generator, n_folds=self._n_folds(len(data.rows)))
            self.history_ = run_phases(self._phases(data, folds), generator, progress)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSelector(BaseBaseline):
    """A baseline that selects the units of a row in one pass.

    A method implements `_choose` and `_phases`, which sets ``network_``.
    """

    _fitted_attribute: ClassVar[str] = "network_"
    # Whether the predictor was trained on varying masks, so that `predict_masked` is meaningful.
    _predicts_any_mask: ClassVar[bool] = False
    leak_free_by_construction: ClassVar[bool] = False

    patience: int | None = parameter(None, None, Interval(Integral, 1))
    learning_rate: float = parameter(1e-3, Interval(Real, 0, closed="neither"))

    network_: Any = field(init=False)

    def _choose(self, values: Tensor) -> Tensor:
        """Selected units of encoded rows, bool ``(n, n_units)``."""
        raise NotImplementedError("Override either `_choose` or `_selected_units`.")

    # Fitting.

    def _schedule(self, data: TrainingData) -> Schedule:
        batch_size = self._batch_size(len(data.rows))
        return Schedule(self.max_epochs, batch_size, self.learning_rate, self.patience)

    def _build_network(
        self,
        data: TrainingData,
        dropout: float = 0.0,
        baseline: bool = False,
        image_shape: tuple[int, int] | None = None,
    ) -> SelectorNetwork:
        architecture = Architecture(**self._network_sizes(data), image_shape=image_shape)
        return SelectorNetwork(architecture, dropout, baseline).to(self.device_)

    # Inference.

    def _column_masks(self, selected: Tensor) -> Tensor:
        """Masks over columns: the union of the selected units, bool ``(n, n_columns)``."""
        return self._parts()[0].union(selected)

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
        for rows in chunks(self._read(X)):
            values = self._encode(rows)
            rows.check_revealed(self._read_cells(values))
            parts.append(in_blocks(function, BLOCK, values).cpu().numpy())
        return np.concatenate(parts)

    def _read_cells(self, values: Tensor) -> NDArray[np.bool_]:
        """Cells that selection and prediction read, bool ``(n, n_columns)``."""
        return np.ones((len(values), self.n_features_in_), dtype=bool)

    @torch.inference_mode()
    def _predict_with(self, table: Table, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """*f(x ⊙ h)* for given masks on the scale of ``y``, ``(n, n_outputs)``."""
        table.check_revealed(masks)
        values, mask = self._encode(table), torch.as_tensor(masks, device=self.device_)
        predictions = in_blocks(self._masked_predictions, BLOCK, values, mask)
        return self.target_.shown(predictions.cpu().numpy())

    def _selected_units(self, X: Any) -> NDArray[np.bool_]:
        """Selected units of each row of a table, ``(n, n_units)``."""
        return self._evaluate(self._choose, X)

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        predictions = self._evaluate(self._final_predictions, X)
        return self.target_.shown(predictions)

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
        return self.target_.outputs(self._predict_with(table, given))


@dataclass(kw_only=True, eq=False, repr=False)
class FixedSelector(BaseSelector):
    """A baseline that selects the same units in every row; `fit` sets ``selected_units_``."""

    leak_free_by_construction: ClassVar[bool] = True

    selected_units_: NDArray[np.intp] = field(init=False)

    def _choose(self, values: Tensor) -> Tensor:
        units = torch.as_tensor(self.selected_units_, device=values.device)
        selected = torch.zeros(len(values), len(self.units_), dtype=torch.bool, device=units.device)
        return selected.index_fill(1, units, True)

    def _read_cells(self, values: Tensor) -> NDArray[np.bool_]:
        return self._column_masks(self._choose(values)).cpu().numpy()
