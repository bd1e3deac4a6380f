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

from suwr.estimators.encoding import TableEncoder
from suwr.estimators.progress import training_progress
from suwr.estimators.sequential import PolicyKind, SequentialModel
from suwr.estimators.table_model import seeded
from suwr.masking import Patches, Units
from suwr.nn.networks import Architecture, Network
from suwr.nn.reinforce import train_reinforce
from suwr.nn.rollout import Policy
from suwr.nn.settings import Settings
from suwr.nn.training import train

__all__ = ["BaseSUWR", "PolicyKind"]

# Without `max_steps`, no more than this many: a longer story is no explanation.
DEFAULT_MOST_STEPS = 32


class BaseSUWR(SequentialModel):
    """Sequential unmasking without reversion, behind scikit-learn's interface.

    Every decision of a fitted model reads only what was revealed before it; see
    `suwr.nn.rollout`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sparsity_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_steps": [None, Interval(Integral, 1, None, closed="left")],
        "groups": "no_validation",
        "costs": "no_validation",
        "units_per_step": [Interval(Integral, 1, None, closed="left")],
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "trainer": [StrOptions({"actor", "reinforce"})],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        sparsity_weight: float | Literal["auto"] = "auto",
        max_steps: int | None = None,
        groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        units_per_step: int = 1,
        hidden_size: int = 128,
        n_layers: int = 3,
        max_epochs: int = 100,
        batch_size: int | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        trainer: Literal["actor", "reinforce"] = "actor",
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
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Train policy and predictor.

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
        self._validate_params()
        self._check_weight(self.sparsity_weight)
        data = self._training_data(X, y, sample_weight)
        device = torch.device(self.device_)
        self._install(self.encoder_, self.units_, device, None)
        settings = Settings(
            sparsity_weight=self.sparsity_weight_ / self.constant_loss_,
            max_steps=self.max_steps_,
            units_per_step=self.units_per_step,
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
        )
        architecture = Architecture(
            n_values=data.rows.values.shape[1],
            n_columns=data.inputs.n_columns,
            n_units=data.inputs.n_units,
            n_outputs=self._n_outputs(),
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
            n_members=1 if self.trainer == "reinforce" else 2,
            shared=self.trainer == "reinforce",
        )
        trainer = train_reinforce if self.trainer == "reinforce" else train
        epochs = self.max_epochs
        if self.trainer == "actor":
            epochs += settings.pretrain_epochs + settings.finetune_epochs
        with (
            seeded(self.device_, data.seed) as generator,
            training_progress(epochs, self.verbose) as progress,
        ):
            network = trainer(
                architecture, data.inputs, data.loss, data.rows, data.validation, settings,
                generator, progress,
            )  # fmt: skip
        self._install(self.encoder_, self.units_, device, network)
        return self

    def _install(
        self, encoder: TableEncoder, units: Units, device: torch.device, network: Network | None
    ) -> None:
        """Store what a fitted model consists of; `suwr.load` calls this too."""
        self.encoder_ = encoder
        self.units_ = units
        self.device_ = str(device)
        most = -(-len(units) // self.units_per_step)
        limit = min(DEFAULT_MOST_STEPS, most) if self.max_steps is None else self.max_steps
        self.max_steps_ = min(limit, most)
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        if network is not None:
            inputs, loss = self._parts()
            self.policy_ = Policy(
                network.eval(), inputs, loss, self.max_steps_, self.units_per_step
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `suwr.load` reads: tensors and JSON, no code."""
        from suwr.estimators.persistence import save

        check_is_fitted(self, "policy_")
        save(self, path)
