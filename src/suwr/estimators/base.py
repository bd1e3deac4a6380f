"""What `SUWRClassifier` and `SUWRRegressor` have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from suwr._utils.files import check_writable
from suwr._utils.progress import training_progress
from suwr.data.encoding import TableEncoder
from suwr.data.units import Patches, Units
from suwr.estimators.checkpoint import FileCheckpoint, fingerprint
from suwr.estimators.sequential import PolicyKind, SequentialModel
from suwr.estimators.table_model import TrainingData, image_shape, seeded
from suwr.estimators.weight_range import WeightRange, check_range
from suwr.nn.distributed import ProcessGroup
from suwr.nn.networks import Architecture, Network
from suwr.nn.rollout import Policy
from suwr.training.config import Settings, TrainingConfig
from suwr.training.registry import TRAINERS, Trainer, default_trainer

__all__ = ["BaseSUWR", "PolicyKind"]

# Without `max_steps`, no more than this many: a longer story is no explanation.
DEFAULT_MOST_STEPS = 32


class BaseSUWR(SequentialModel):
    """Sequential unmasking without reversion, behind scikit-learn's interface.

    Every decision of a fitted model reads only what was revealed before it; see
    `suwr.nn.rollout`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sparsity_weight": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="left"),
            tuple,
            list,
        ],
        "max_steps": [None, Interval(Integral, 1, None, closed="left")],
        "groups": "no_validation",
        "costs": "no_validation",
        "units_per_step": [Interval(Integral, 1, None, closed="left")],
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "n_predictors": [Interval(Integral, 2, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "trainer": [StrOptions({"auto", *TRAINERS})],
        "network": [StrOptions({"mlp", "conv"})],
        "training": [None, TrainingConfig, Mapping],
        "checkpoint": [None, str, os.PathLike],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    weight_range_: WeightRange | None

    def __init__(
        self,
        *,
        sparsity_weight: float | Literal["auto"] | tuple[float, float] = "auto",
        max_steps: int | None = None,
        groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        units_per_step: int = 1,
        hidden_size: int = 128,
        n_layers: int = 3,
        n_predictors: int = 2,
        max_epochs: int = 100,
        batch_size: int | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        trainer: Literal["auto", "actor", "lookahead", "reinforce"] = "auto",
        network: Literal["mlp", "conv"] = "mlp",
        training: TrainingConfig | Mapping[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.sparsity_weight = sparsity_weight
        self.max_steps = max_steps
        self.groups = groups
        self.costs = costs
        self.units_per_step = units_per_step
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.n_predictors = n_predictors
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.network = network
        self.training = training
        self.checkpoint = checkpoint
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Train policy and predictor.

        Where ``torch.distributed`` was started (by ``torchrun``), its processes train one model
        together. All of them call `fit` with the same data, parameters and ``random_state``, and
        all of them end with the same model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Numbers, or the columns of a pandas or polars frame: numbers, text, categories,
            booleans. NaN means 'missing', which is a value like any other.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        self
        """
        checkpoint = self._fit(X, y, sample_weight)
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> FileCheckpoint | None:
        """Do what `fit` does, but leave the checkpoint to the caller: it may save the model first.

        Between the end of a fit and the file of its model nothing may be lost.
        """
        data = self._prepare(X, y, sample_weight)
        trainer, settings = self._trainer(), self._settings(data)
        process_group = self._process_group(data)
        is_main = process_group is None or process_group.is_main
        checkpoint = self._checkpoint(data, is_main)
        with (
            seeded(self.device_, data.seed) as generator,
            training_progress(
                trainer.n_epochs(settings), self.verbose if is_main else 0
            ) as progress,
        ):
            network, history = trainer.train(
                self._architecture(data),
                data.inputs,
                data.loss,
                data.rows,
                data.validation,
                settings,
                generator,
                progress,
                checkpoint=checkpoint,
                process_group=process_group,
            )
        self._finish(data, network, history)
        return checkpoint

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> TrainingData:
        """Check the parameters and read what `fit` was given."""
        self._validate_params()
        self._check_sparsity()
        self._training_config()
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
            self._check_seed("The 'checkpoint' parameter", "a fit that goes on is the same fit")
        if self.n_predictors % 2:
            raise ValueError(
                f"The 'n_predictors' parameter of {type(self).__name__} must be even: half of them "
                f"learn from each half of the rows. Got {self.n_predictors} instead."
            )
        image_shape(self.network, self.groups)
        data = self._training_data(X, y, sample_weight)
        self.weight_range_ = None
        self._install(self.encoder_, self.units_, torch.device(self.device_), None)
        return data

    def _check_seed(self, who: str, why: str) -> None:
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                f"{who} needs 'random_state' to be an int, so that {why}. "
                f"Got {self.random_state!r} instead."
            )

    def _process_group(self, data: TrainingData) -> ProcessGroup | None:
        """The processes that train together, once they agree on what."""
        group = ProcessGroup.current(self.device_)
        if group is not None:
            self._check_seed("Training by several processes", "all of them draw the same numbers")
            group.check_equal(
                bytes.fromhex(self._identity(data, "checkpoint", "device", "verbose")),
                "Every process must call fit with the same data and parameters.",
            )
        return group

    def _check_sparsity(self) -> None:
        """Refuse a λ, or a range of it, that cannot be meant."""
        if not isinstance(self.sparsity_weight, tuple | list):
            self._check_weight(self.sparsity_weight)
            return
        check_range(self.sparsity_weight, type(self).__name__)
        if self.trainer != "auto" and not TRAINERS[self.trainer].supports_range:
            raise ValueError(
                "The 'sparsity_weight' parameter must be a number or 'auto' with "
                f"trainer={self.trainer!r}, which supports no range."
            )

    def _training_config(self) -> TrainingConfig:
        """Return the parameter ``training`` as a validated object."""
        given = self.training
        if isinstance(given, TrainingConfig):
            return given
        return TrainingConfig.from_mapping(given or {}, type(self).__name__)

    def _finish(self, data: TrainingData, network: Network, history: list[dict[str, Any]]) -> None:
        """Store the result of training."""
        self.history_ = history
        device = torch.device(self.device_)
        self._install(self.encoder_, self.units_, device, network)
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.weight_range_ = WeightRange.measure(low, high, self.policy_, data.validation)

    def _width(self) -> int:
        """Units of one step; more than all of them are all of them."""
        return min(int(self.units_per_step), len(self.units_))

    def _trainer(self) -> Trainer:
        if self.trainer != "auto":
            return TRAINERS[self.trainer]
        return default_trainer(len(self.units_), isinstance(self.groups, Patches))

    def _settings(self, data: TrainingData) -> Settings:
        unit, given = self.constant_loss_, self.sparsity_weight
        weight = (
            (given[0] / unit, given[1] / unit)
            if isinstance(given, tuple | list)
            else self.sparsity_weight_ / unit
        )
        return self._trainer().configure(
            self._training_config(),
            sparsity_weight=weight,
            max_steps=self.max_steps_,
            units_per_step=self._width(),
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
        )

    def _architecture(self, data: TrainingData) -> Architecture:
        trainer = self._trainer()
        return Architecture(
            n_values=data.rows.values.shape[1],
            n_columns=data.inputs.n_columns,
            n_units=data.inputs.n_units,
            n_outputs=self._n_outputs(),
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
            n_members=1 if trainer.shared else self.n_predictors,
            shared=trainer.shared,
            conditioned=isinstance(self.sparsity_weight, tuple | list),
            image_shape=image_shape(self.network, self.groups),
            # The uncertainty features are functions of class probabilities.
            informed=trainer.informed and self._n_outputs() > 1,
        )

    def _checkpoint(self, data: TrainingData, writes: bool) -> FileCheckpoint | None:
        if self.checkpoint is None:
            return None
        identity = self._identity(data, "checkpoint", "verbose")
        return FileCheckpoint(self.checkpoint, identity, writes=writes)

    def _identity(self, data: TrainingData, *ignored: str) -> str:
        """A digest of the rows and of all parameters but some."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in ignored}
        rows = [*vars(data.rows).values(), *vars(data.validation).values()]
        return fingerprint(parameters, rows)

    def _install(
        self, encoder: TableEncoder, units: Units, device: torch.device, network: Network | None
    ) -> None:
        """Store what a fitted model consists of; `suwr.load` calls this too."""
        self.encoder_ = encoder
        self.units_ = units
        self.device_ = str(device)
        most = -(-len(units) // self._width())
        limit = min(DEFAULT_MOST_STEPS, most) if self.max_steps is None else self.max_steps
        self.max_steps_ = min(limit, most)
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.sparsity_weight_, middle = (low * high) ** 0.5, 0.0
        else:
            self.sparsity_weight_, middle = self._resolve_weight(self.sparsity_weight), None
        if network is not None:
            inputs, loss = self._parts()
            self.policy_ = Policy(
                network.eval(), inputs, loss, self.max_steps_, self._width(),
                condition=middle,
            )  # fmt: skip

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        check_is_fitted(self, "policy_")
        if self.weight_range_ is None:
            return super()._policy_at(sparsity_weight, mean_features)
        return self.policy_.at(self.weight_range_.condition(sparsity_weight, mean_features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `suwr.load` reads: tensors and JSON, no code."""
        from suwr.estimators.persistence import save

        check_is_fitted(self, "policy_")
        save(self, path)
