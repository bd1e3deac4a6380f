"""`BaseSUWR`: parameters and fitting of `SUWRClassifier` and `SUWRRegressor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from suwr._utils.files import check_writable
from suwr._utils.progress import report_choices, training_progress
from suwr._utils.validation import Interval, Options, parameter_error
from suwr.data.encode import TableEncoder
from suwr.data.units import Patches, Units
from suwr.estimators.automatic import (
    choices_by_rows,
    max_screened_units,
    resolve_bins,
    resolve_epochs,
    resolve_extension,
    resolve_folds,
    resolve_predictors,
)
from suwr.estimators.checkpoint import FileCheckpoint, check_seed, fingerprint
from suwr.estimators.costs import check_resumable_costs, model_budgets
from suwr.estimators.external import check_predictor, fixed_predictor_trainer
from suwr.estimators.held_out import record_held_out
from suwr.estimators.randomness import seeded
from suwr.estimators.row_digests import training_digests
from suwr.estimators.sequential import PolicyKind
from suwr.estimators.table_model import TABLE_CONSTRAINTS, TrainingData, image_shape
from suwr.estimators.weight_range import WeightRange, check_range, check_sparsity_weight
from suwr.estimators.writable import WritableModel
from suwr.nn.distributed import ProcessGroup
from suwr.nn.inputs import POSITION_KNOTS
from suwr.nn.networks import Architecture, Network
from suwr.nn.rollout import Policy
from suwr.training.config import Settings, TrainingConfig
from suwr.training.registry import TRAINERS, Trainer, default_trainer
from suwr.training.screening import Screening
from suwr.training.trainer import Task
from suwr.training.validation import compare_held_out

__all__ = ["BaseSUWR", "PolicyKind"]

# Default limit of `max_steps`: longer narratives are hard to read.
DEFAULT_MAX_STEPS = 32


class FitPlan(NamedTuple):
    """What one fit trains, and why."""

    trainer: Trainer
    task: Task
    architecture: Architecture
    screening: Screening | None
    choices: dict[str, str]


class BaseSUWR(WritableModel):
    """Sequential unmasking without reversion (SUWR) as a scikit-learn estimator."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TABLE_CONSTRAINTS,
        "sparsity_weight": None,
        "max_steps": [None, Interval(Integral, 1)],
        "max_epochs": [Options("auto"), Interval(Integral, 1)],
        "units_per_step": [Interval(Integral, 1)],
        "n_predictors": [Options("auto"), Interval(Integral, 2)],
        "trainer": [Options("auto", *TRAINERS)],
        "network": [Options("mlp", "conv")],
        "training": [None, TrainingConfig, Mapping],
        "checkpoint": [None, str, os.PathLike],
        "predictor": None,
        "known_at_start": None,
        "setup_costs": None,
        "visit_cost": [Interval(Real, 0)],
        "max_cost": None,
        "missing": [Options("value", "unrecorded")],
        "columns": [None, Mapping],
    }

    weight_range_: WeightRange | None
    history_: list[dict[str, Any]]
    choices_: dict[str, str]
    validation_: dict[str, float]
    selectable_units_: NDArray[np.bool_]

    def __init__(
        self,
        *,
        sparsity_weight: float | Literal["auto"] | tuple[float, float] = "auto",
        max_steps: int | None = None,
        groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None,
        costs: Mapping[str, float] | ArrayLike | Callable[..., Any] | None = None,
        setup_costs: Mapping[str, tuple[float, Sequence[str]]] | None = None,
        units_per_step: int = 1,
        visit_cost: float = 0.0,
        max_cost: tuple[float, float] | None = None,
        known_at_start: Sequence[str] | Mapping[str, float] | ArrayLike | None = None,
        missing: Literal["value", "unrecorded"] = "value",
        hidden_size: int = 128,
        n_layers: int = 3,
        n_predictors: int | Literal["auto"] = "auto",
        max_epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        trainer: str = "auto",
        network: Literal["mlp", "conv"] = "mlp",
        predictor: Any = None,
        training: TrainingConfig | Mapping[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        columns: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.sparsity_weight = sparsity_weight
        self.max_steps = max_steps
        self.groups = groups
        self.costs = costs
        self.setup_costs = setup_costs
        self.units_per_step = units_per_step
        self.visit_cost = visit_cost
        self.max_cost = max_cost
        self.known_at_start = known_at_start
        self.missing = missing
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.n_predictors = n_predictors
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.network = network
        self.predictor = predictor
        self.training = training
        self.checkpoint = checkpoint
        self.columns = columns
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, costs: Any = None
    ) -> Any:
        """Train the policy and the predictor.

        If ``torch.distributed`` is initialized (for instance by ``torchrun``), its processes train
        one model together: all of them must call `fit` with the same data, parameters and
        ``random_state``, and all of them get the same model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            A numeric array, or a pandas or polars frame with numeric, string, categorical or
            boolean columns. NaN means 'missing', which is treated as a value.
        y : array-like of shape (n,)
            Class labels, or numbers for regression.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        costs : array-like of shape (n, n_units) or data frame, optional
            Costs of the units of each row, as in `select`; requires ``costs=None`` in the
            constructor. Rows whose costs are not given are charged the means later.

        Returns
        -------
        self
            If `fit` raises an exception or is interrupted, the estimator remains as it was.
        """
        with self._fit_aside() as model:
            checkpoint = model._train(X, y, sample_weight, costs)
            if checkpoint is not None:
                checkpoint.remove()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> FileCheckpoint | None:
        """Fit and return the checkpoint, so that a caller can save the model before removing it."""
        with self._fit_aside() as model:
            return model._train(X, y, sample_weight)

    def _train(
        self, X: Any, y: Any, sample_weight: Any, costs: Any = None
    ) -> FileCheckpoint | None:
        """Set the fitted attributes of an unfitted estimator; return its checkpoint."""
        data = self._prepare(X, y, sample_weight, costs)
        process_group = self._process_group(data)
        is_main = process_group is None or process_group.is_main
        checkpoint = self._checkpoint(data, is_main)
        verbose = self.verbose if is_main else 0
        with seeded(self.device_, data.seed) as generator:
            plan = self._plan(data, generator, X)
            trainer, task = plan.trainer, plan.task
            report_choices(plan.choices, verbose)
            with training_progress(trainer.n_epochs(task.settings), verbose) as progress:
                network, history = trainer.train(
                    plan.architecture, task.inputs, task.loss, task.rows, task.validation,
                    task.settings, generator, progress, checkpoint=checkpoint,
                    process_group=process_group,
                )  # fmt: skip
        self._finish(data, plan, self._extended(data, plan, network), history)
        return checkpoint

    def _extended(self, data: TrainingData, plan: FitPlan, network: Network) -> Network:
        """The network of all units, from that of the units that the screening kept."""
        if plan.screening is None:
            return network
        return plan.screening.extend(network, self._architecture(data, plan.trainer))

    def _plan(self, data: TrainingData, generator: torch.Generator, X: Any = None) -> FitPlan:
        """Choose what the parameters leave open, from the numbers of rows and columns."""
        choices: dict[str, str] = {}
        patches = isinstance(self.groups, Patches)
        fixed = None if self.predictor is None else fixed_predictor_trainer(self, X)
        automatic = self.trainer == "auto" and fixed is None
        screening, n_units = None, data.inputs.n_units
        if not patches and fixed is None and (automatic or TRAINERS[self.trainer].screens):
            limit = max_screened_units(len(data.rows))
            screening = Screening.of(data.inputs, data.rows, generator, limit)
            n_units = n_units if screening is None else screening.n_kept
        budgets = data.inputs.budgets is not None
        trainer = fixed or TRAINERS.get(self.trainer) or default_trainer(n_units, patches, budgets)
        if automatic:
            kind = " and budgets" if budgets else ""
            choices["trainer"] = f"{trainer.name}, for {n_units} units{kind}"
        if not trainer.screens:
            screening = None
        if screening is not None:
            total = data.inputs.n_units
            choices["screening"] = (
                f"{n_units} of {total} units, by the significance of their effects and interactions"
            )
        choices |= choices_by_rows(self, trainer, data)
        architecture = self._architecture(data, trainer)
        task = Task(
            data.inputs, data.loss, data.rows, data.validation,
            self._settings(data, trainer, n_units),
        )  # fmt: skip
        if screening is not None:
            task = screening.restrict(task)
            architecture = screening.restrict_architecture(architecture)
        return FitPlan(trainer, task, architecture, screening, choices)

    @property
    def _has_range(self) -> bool:
        """Whether the model is trained for a range of λ or of budgets."""
        return isinstance(self.sparsity_weight, tuple | list) or self.max_cost is not None

    def _prepare(self, X: Any, y: Any, sample_weight: Any, costs: Any = None) -> TrainingData:
        """Validate the parameters and read the arguments of `fit`."""
        self._check_parameters()
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
            check_seed(self, "The 'checkpoint' parameter", "a resumed fit draws the same numbers")
            check_resumable_costs(self)
        data = self._training_data(X, y, sample_weight, costs)
        self.weight_range_ = self.dates_ = self.training_file_ = None
        self._install(self.encoder_, self.units_, torch.device(self.device_), None)
        return data

    def _check_parameters(self) -> None:
        """See `TableModel`."""
        super()._check_parameters()
        check_sparsity_weight(self.sparsity_weight, self.trainer, type(self).__name__)
        check_predictor(self)
        model_budgets(self)
        self._training_config()
        if (n := self.n_predictors) != "auto" and n % 2:
            raise parameter_error("n_predictors", type(self).__name__, "an even number", n)
        image_shape(self.network, self.groups)

    def _training_config(self) -> TrainingConfig:
        """Return the parameter ``training`` as a validated object."""
        if isinstance(self.training, TrainingConfig):
            return self.training
        return TrainingConfig.from_mapping(self.training or {}, type(self).__name__)

    def _n_bins(self, n_rows: int, n_columns: int) -> int:
        return resolve_bins(self, n_rows, n_columns)

    def _process_group(self, data: TrainingData) -> ProcessGroup | None:
        """Return the processes that train together, after checking that their inputs agree."""
        group = ProcessGroup.current(self.device_)
        if group is not None:
            check_seed(self, "Distributed training", "all processes draw the same numbers")
            group.check_equal(
                bytes.fromhex(self._identity(data, "checkpoint", "columns", "device", "verbose")),
                "Every process must call fit with the same data and parameters.",
            )
        return group

    def _finish(
        self, data: TrainingData, plan: FitPlan, network: Network, history: list[dict[str, Any]]
    ) -> None:
        """Store the result of training."""
        weights = network.state_dict()
        if not all(bool(torch.isfinite(weight).all()) for weight in weights.values()):
            raise FloatingPointError("Training diverged: the weights are not finite.")
        if not bool((weights["stop_temperature"] > 0).all()):
            raise FloatingPointError("Training diverged: the stop temperature is not positive.")
        self.history_, self.choices_ = history, plan.choices
        selectable = None if plan.screening is None else plan.screening.kept.cpu().numpy()
        self._install(self.encoder_, self.units_, torch.device(self.device_), network, selectable)
        weight, unit = self.sparsity_weight_ / self.constant_loss_, self.constant_loss_
        comparison = compare_held_out(
            self.policy_, data.loss, data.rows, data.validation, weight, unit
        )
        self.validation_ = comparison.to_dict()
        record_held_out(self, data.validation)
        self._training_digests_ = training_digests((data.rows, data.validation))
        comparison.warn(type(self).__name__, len(data.rows), weight, plan.task.settings.max_epochs)
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.weight_range_ = WeightRange.measure(low, high, self.policy_, data.validation)

    def _step_size(self) -> int:
        """Return the number of units per step, at most all of them."""
        return min(int(self.units_per_step), len(self.units_))

    def _settings(self, data: TrainingData, trainer: Trainer, n_units: int) -> Settings:
        """Return the settings of this fit; λ is in units of the best constant prediction's loss."""
        unit, given = self.constant_loss_, self.sparsity_weight
        weight: float | tuple[float, float] = self.sparsity_weight_ / unit
        if isinstance(given, tuple | list):
            weight = (given[0] / unit, given[1] / unit)
        return trainer.configure(
            self._training_config(),
            sparsity_weight=weight,
            max_steps=self._max_steps(n_units),
            units_per_step=self._step_size(),
            max_epochs=resolve_epochs(self, trainer, len(data.rows)),
            extension=resolve_extension(self, trainer, len(data.rows)),
            n_folds=resolve_folds(self, trainer, len(data.rows)),
            batch_size=self._batch_size(len(data.rows)),
        )

    def _architecture(self, data: TrainingData, trainer: Trainer) -> Architecture:
        return Architecture(
            **self._network_sizes(data),
            n_members=resolve_predictors(self, trainer, len(data.rows)),
            shared=trainer.shared,
            conditioned=self._has_range,
            n_knots=POSITION_KNOTS if self._has_range else 1,
            image_shape=image_shape(self.network, self.groups),
            # The uncertainty features are functions of class probabilities.
            informed=trainer.informed and self._n_outputs() > 1,
        )

    def _checkpoint(self, data: TrainingData, writes: bool) -> FileCheckpoint | None:
        if self.checkpoint is None:
            return None
        identity = self._identity(data, "checkpoint", "columns", "verbose")
        return FileCheckpoint(self.checkpoint, identity, writes=writes)

    def _identity(self, data: TrainingData, *ignored: str) -> str:
        """Return a digest of the rows and of all parameters except the ``ignored`` ones."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in ignored}
        return fingerprint(parameters, [*data.rows.tensors(), *data.validation.tensors()])

    def _install(
        self,
        encoder: TableEncoder,
        units: Units,
        device: torch.device,
        network: Network | None,
        selectable: NDArray[np.bool_] | None = None,
    ) -> None:
        """Set the fitted attributes; `suwr.load` calls this too."""
        self.encoder_, self.units_ = encoder, units
        self.selectable_units_ = np.ones(len(units), bool) if selectable is None else selectable
        self.device_ = str(device)
        self.max_steps_ = self._max_steps(int(self.selectable_units_.sum()))
        # Rows have the largest budget unless given.
        condition = None if self.max_cost is None else 1.0
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.sparsity_weight_, condition = (low * high) ** 0.5, 0.0
        else:
            self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        if network is not None:
            inputs, loss = self._parts(selectable)
            self.policy_ = Policy(
                network.eval(), inputs, loss, self.max_steps_, self._step_size(),
                condition=condition,
            )  # fmt: skip

    def _max_steps(self, n_units: int) -> int:
        limit = DEFAULT_MAX_STEPS if self.max_steps is None else self.max_steps
        return min(limit, -(-n_units // self._step_size()))

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        check_is_fitted(self, "policy_")
        if self.weight_range_ is None or self._is_certified():
            return super()._policy_at(sparsity_weight, mean_features)
        return self.policy_.at(self.weight_range_.condition(sparsity_weight, mean_features))
