"""The algorithm shared by INVASE and REAL-X: independent Bernoulli selection with a cost penalty.

The predictor is first trained alone on masks of independent fair coin flips. Until it has learned
something, only the penalty distinguishes selections, and the selector would drop every unit. Then
selector and predictor are trained jointly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr._utils.validation import Interval, Options
from suwr.baselines.base import SELECTOR_CONSTRAINTS, BaseSelector
from suwr.baselines.training import (
    Schedule,
    SelectorNetwork,
    SelectorPhase,
    make_adamw,
    predictor_phase,
)
from suwr.estimators.table import TrainingData
from suwr.nn.inputs import MaskedInputs, soft_columns
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, optimizer_step

__all__ = ["BasePenalised", "coin_flip_masks", "coin_flip_phase", "log_probability"]

# Epochs of the predictor's pretraining, as a fraction of the epochs of joint training.
PRETRAINING_FRACTION = 0.25


def coin_flip_masks(inputs: MaskedInputs, n: int, generator: torch.Generator) -> Tensor:
    """Masks over columns in which each unit is revealed with probability ½, ``(n, n_columns)``."""
    flips = torch.rand(n, inputs.n_units, generator=generator, device=generator.device) < 0.5
    return soft_columns(inputs, flips.to(torch.float32)) > 0.5


def coin_flip_phase(
    network: SelectorNetwork, data: TrainingData, folds: Folds, schedule: Schedule
) -> SelectorPhase:
    """Return a phase that trains the predictor on coin-flip masks, validated on fixed ones."""
    inputs, generator = data.inputs, folds.generator
    validation_mask = coin_flip_masks(inputs, len(data.validation), generator)
    return predictor_phase(
        network, data, folds, lambda index: coin_flip_masks(inputs, len(index), generator),
        validation_mask, schedule, "EVAL-X",
    )  # fmt: skip


def log_probability(scores: Tensor, selected: Tensor) -> Tensor:
    """log ζ(h | x) of independent selections with logits ``scores``, ``(n,)``.

    Examples
    --------
    >>> p = log_probability(torch.zeros(1, 2), torch.tensor([[True, False]])).exp()
    >>> round(float(p), 4)
    0.25
    """
    target = selected.to(scores.dtype)
    return -F.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class BasePenalised(BaseSelector):
    """A selection probability for each unit, and a penalty λ ‖h‖ on the selection."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SELECTOR_CONSTRAINTS,
        "sparsity_weight": [Options("auto"), Interval(Real, 0)],
    }
    _predicts_any_mask: ClassVar[bool] = True
    # Whether the method uses a network that predicts from the whole row.
    _with_baseline: ClassVar[bool]

    sparsity_weight: float | Literal["auto"] = "auto"

    @abstractmethod
    def _selector_loss(
        self, data: TrainingData, rows: Rows, unit_costs: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Loss of the selector for each row, ``(n,)``; ``unit_costs`` are multiplied by λ."""

    @abstractmethod
    def _predictor_loss(self, data: TrainingData, rows: Rows, generator: torch.Generator) -> Tensor:
        """Loss of the predictor, and of the baseline if there is one, for each row ``(n,)``."""

    def _n_epochs(self) -> int:
        return self.max_epochs + max(1, round(PRETRAINING_FRACTION * self.max_epochs))

    def _phases(
        self, data: TrainingData, generator: torch.Generator
    ) -> Sequence[Callable[[], Phase]]:
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        network = self._build_network(data, baseline=self._with_baseline, dropout=0.2)
        self.network_ = network
        schedule, folds = self._schedule(data), Folds(data.rows, generator)
        short = schedule.scaled(PRETRAINING_FRACTION)
        return [
            lambda: coin_flip_phase(network, data, folds, short),
            lambda: self._joint_phase(data, folds, schedule),
        ]

    def _joint_phase(self, data: TrainingData, folds: Folds, schedule: Schedule) -> SelectorPhase:
        """Alternate updates of the selector and of the predictors."""
        network, generator = self.network_, folds.generator
        # In units of the loss of the best constant prediction, like the losses.
        unit_costs = data.inputs.costs * (self.sparsity_weight_ / self.constant_loss_)
        selector = make_adamw(network.selector, schedule, weight_decay=0.0)
        predictors = make_adamw(network.predictors(), schedule)

        def update(index: Tensor, progress: float) -> Tensor:
            rows = data.rows[index]
            # Without dropout, whose noise would exceed the effect of a single unit on the loss.
            network.eval()
            loss = self._selector_loss(data, rows, unit_costs, generator)
            optimizer_step(selector, (loss * rows.weight).mean())
            network.train()
            loss = (self._predictor_loss(data, rows, generator) * rows.weight).mean()
            optimizer_step(predictors, loss)
            return loss

        return SelectorPhase(
            self._method_name(), network, folds, schedule, [selector, predictors], update,
            lambda: self._validate(data, unit_costs),
        )  # fmt: skip

    def _validate(self, data: TrainingData, unit_costs: Tensor) -> Metrics:
        """``L(f(x ⊙ h), y) + λ ‖h‖`` of the validation rows under the deterministic selection."""
        rows, network = data.validation, self.network_
        selected = (network.scores(rows.values) > 0).to(torch.float32)
        mask = soft_columns(data.inputs, selected) > 0.5
        outputs = network.outputs(data.inputs.reveal(rows.values, mask))
        losses = data.loss.per_row(outputs, rows.targets)
        objective = losses + selected @ unit_costs
        return Metrics(
            validation_objective=float((objective * rows.weight).mean()),
            mean_cost=float((selected @ data.inputs.costs * rows.weight).mean()),
        )

    def _choose(self, values: Tensor) -> Tensor:
        return self.network_.scores(values) > 0
