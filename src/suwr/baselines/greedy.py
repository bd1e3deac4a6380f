"""Base classes of the sequential baselines: GDFS and DIME, and SEFA.

They decide from what is revealed, through the step in `suwr.nn.step`, and are therefore leak-free
by construction. GDFS and DIME are greedy one-step look-ahead on the networks of SUWR; they differ
in how the choice of the next unit is learned and in when to stop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr._utils.validation import Interval, Options, parameter_error
from suwr.baselines.base import BaseBaseline
from suwr.baselines.greedy_training import GreedyPhase, PrefixFineTuning, Step
from suwr.estimators.base import (
    EXTENSION,
    default_bins,
    default_extension,
    default_folds,
    default_predictors,
)
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.table import TABLE_CONSTRAINTS, TrainingData, image_shape
from suwr.nn.inputs import MaskedInputs
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import Phase
from suwr.training.predictor import Pretraining, ignore_pieces
from suwr.training.validation import Objective, validation_objective

__all__ = [
    "GREEDY_CONSTRAINTS",
    "SEQUENTIAL_CONSTRAINTS",
    "BaseGreedy",
    "BaseSequentialBaseline",
    "mean_step_loss",
    "staged_decay",
]

# Epochs of fine-tuning, which nothing validates, relative to those of the joint training.
FINETUNE_FRACTION = 0.2

SEQUENTIAL_CONSTRAINTS: dict[str, Any] = {
    **TABLE_CONSTRAINTS,
    "max_steps": [None, Interval(Integral, 1)],
}
GREEDY_CONSTRAINTS: dict[str, Any] = {
    **SEQUENTIAL_CONSTRAINTS,
    "n_predictors": [Options("auto"), Interval(Integral, 2)],
    "network": [Options("mlp", "conv")],
}
# Upper limit of the number of steps if `max_steps` is None, as in SUWR.
DEFAULT_MAX_STEPS = 32


def staged_decay(progress: float, start: float, end: float, stages: int) -> float:
    """Piecewise constant geometric decay from ``start`` to ``end``.

    Parameters
    ----------
    progress : float
        Completed fraction of the training.
    start, end : float
        Values of the first and of the last stage.
    stages : int
        Number of stages of equal length.

    Examples
    --------
    >>> [round(staged_decay(p, 2.0, 0.02, 3), 3) for p in (0.0, 0.5, 0.99)]
    [2.0, 0.2, 0.02]
    """
    stage = min(int(progress * stages), stages - 1)
    return start * (end / start) ** (stage / max(stages - 1, 1))


def mean_step_loss(policy: Policy, data: TrainingData) -> Objective:
    """Mean loss of the validation rows over their steps, since every budget counts; mean cost."""
    rows, device = data.validation, data.validation.values.device
    trace = policy.rollout(rows.values, record=True)
    assert trace.prediction is not None
    after_steps = torch.as_tensor(trace.prediction[:, 1:], device=device)
    losses = data.loss.of_prediction(after_steps, rows.targets.unsqueeze(1))
    # NaN after the last step of a row, whose units may cover all columns before the others do.
    losses = losses.nanmean(dim=1)
    order = torch.as_tensor(trace.order[:, :, 0], device=device)
    costs = torch.where(order >= 0, data.inputs.costs[order.clamp_min(0)], 0.0).sum(dim=1)
    value, mean_cost = ((part * rows.weight).mean().cpu() for part in (losses, costs))
    return Objective(value.reshape(1), mean_cost.reshape(1))


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSequentialBaseline(BaseBaseline, SequentialModel):
    """A baseline that reveals one unit after the other, with a limit on their number."""

    _parameter_constraints: ClassVar[dict[str, Any]] = SEQUENTIAL_CONSTRAINTS

    max_steps: int | None = None

    def _resolve_max_steps(self) -> int:
        """Maximum number of units revealed in a row."""
        limit = DEFAULT_MAX_STEPS if self.max_steps is None else self.max_steps
        return min(limit, len(self.units_))

    def predict_steps(self, X: Any) -> NDArray[np.float64]:
        """Predict after 0, 1, … ``max_steps_`` units: the curve over budgets of one model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, max_steps_ + 1, n_classes) or (n, max_steps_ + 1)
            Class probabilities, or values. A row that has stopped keeps its last prediction.
        """
        parts = []
        for _, trace in self._rollouts(self._read(X), self.policy_, record=True):
            prediction = trace.prediction
            assert prediction is not None
            steps = np.minimum(np.arange(self.max_steps_ + 1), prediction.shape[1] - 1)
            last = (~np.isnan(prediction[:, :, 0])).sum(axis=1, keepdims=True) - 1
            rows = np.arange(len(prediction))[:, None]
            parts.append(self._in_user_units(prediction[rows, np.minimum(steps, last)]))
        result = np.concatenate(parts)
        return result if self._class_labels() is not None else result[:, :, 0]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGreedy(BaseSequentialBaseline):
    """Parameters and training of a greedy sequential method.

    Training has three phases: the predictors are trained on random masks, then jointly with the
    selection policy, and finally on the masks of the trained policy.
    """

    n_predictors: int | Literal["auto"] = 2
    network: Literal["mlp", "conv"] = "mlp"

    # Implemented by each method.

    @abstractmethod
    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        """Return a network that implements the stopping rule of the method in `decide`."""

    @abstractmethod
    def _explore(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        seen: Tensor,
        mask: Tensor,
        progress: float,
        generator: torch.Generator,
    ) -> Tensor:
        """Choose the next unit of each row during training, given masked inputs, ``(n,)``."""

    @abstractmethod
    def _step_loss(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        step: Step,
        progress: float,
        generator: torch.Generator,
    ) -> Tensor:
        """Loss of the selection policy on single steps of the rows ``(2, m)``."""

    def _objective_weight(self) -> float:
        """λ of the validation objective, relative to the loss of the best constant prediction."""
        return 0.0

    def _validate(self, policy: Policy, data: TrainingData) -> Objective:
        """``L(f(x ⊙ h), y) + λ ‖h‖`` of the validation rows; the best epoch minimises it."""
        return validation_objective(policy, data.loss, data.validation, self._objective_weight())

    # Fitting.

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if (n := self.n_predictors) != "auto" and n % 2:
            raise parameter_error("n_predictors", type(self).__name__, "an even number", n)
        image_shape(self.network, self.groups)

    def _n_bins(self, n_rows: int, n_columns: int) -> int:
        return default_bins(n_rows, n_columns) if self.n_predictors == "auto" else 0

    def _n_epochs(self) -> int:
        plan = Settings(
            sparsity_weight=0.0, max_steps=1, max_epochs=self.max_epochs,
            finetune_fraction=FINETUNE_FRACTION,
        )  # fmt: skip
        later = plan.max_epochs + plan.finetune_epochs
        return plan.pretrain_epochs + round(EXTENSION * later)

    def _phases(
        self, data: TrainingData, generator: torch.Generator
    ) -> Sequence[Callable[[], Phase]]:
        self.max_steps_ = self._resolve_max_steps()
        settings = Settings(
            sparsity_weight=self._objective_weight(),
            max_steps=self.max_steps_,
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
            finetune_fraction=FINETUNE_FRACTION,
            extension=default_extension(len(data.rows)),
        )
        n = default_predictors(len(data.rows)) if self.n_predictors == "auto" else self.n_predictors
        shape = image_shape(self.network, self.groups)
        architecture = Architecture(**self._network_sizes(data), n_members=n, image_shape=shape)
        network = self._make_network(architecture, data).to(self.device_)
        ignore_pieces(network, data.inputs)
        network.predictor.dropout = settings.dropout
        network.n_folds = default_folds(len(data.rows), n)
        folds = Folds(data.rows, generator, n_folds=network.n_folds)
        self.policy_ = Policy(network, data.inputs, data.loss, self.max_steps_)
        return [
            lambda: Pretraining(network, data.inputs, data.loss, folds, settings),
            lambda: GreedyPhase(
                self._method_name(), network, data, folds, settings,
                lambda seen, mask, progress: self._explore(
                    network, data.inputs, seen, mask, progress, generator
                ),
                lambda rows, step, progress: self._step_loss(
                    network, data, rows, step, progress, generator
                ),
                lambda policy: self._validate(policy, data),
            ),
            lambda: PrefixFineTuning(network, self.policy_, folds, settings),
        ]  # fmt: skip
