"""What INVASE and REAL-X share: independent draws per unit, at a price.

Both first train the predictor alone under masks of fair coin flips: as long as it knows nothing,
only the price counts and the selector drops everything. Then selector and predictor learn together.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor
from torch.nn import functional as F

from suwr.baselines.base import COMMON_CONSTRAINTS, MaskedPredictions
from suwr.baselines.networks import SelectorNetwork
from suwr.baselines.training import Schedule, adam, fit_predictor, run_epochs
from suwr.estimators.table_model import TrainingData
from suwr.nn.inputs import MaskedInputs, soft_columns
from suwr.training.data import Folds, Rows
from suwr.training.loop import Progress, optimizer_step

__all__ = ["BasePenalised", "coin_masks", "fit_on_coins", "log_probability"]

# Epochs in which the predictor learns alone, as a share of those that follow.
WARM_UP = 0.25


def coin_masks(inputs: MaskedInputs, n: int, generator: torch.Generator) -> Tensor:
    """Masks over columns from fair coin flips per unit, bool ``(n, n_columns)``."""
    flips = torch.rand(n, inputs.n_units, generator=generator, device=generator.device) < 0.5
    return soft_columns(inputs, flips.to(torch.float32)) > 0.5


def fit_on_coins(
    network: SelectorNetwork,
    data: TrainingData,
    folds: Folds,
    schedule: Schedule,
    progress: Progress,
) -> None:
    """Train the predictor under coin-flip masks; validation masks stay the same throughout."""
    inputs, generator = data.inputs, folds.generator
    fit_predictor(
        network, data, folds, lambda index: coin_masks(inputs, len(index), generator),
        coin_masks(inputs, len(data.validation), generator), schedule, progress, "EVAL-X",
    )  # fmt: skip


def log_probability(scores: Tensor, chosen: Tensor) -> Tensor:
    """log ζ(h | x) of independent choices with logits ``scores``, ``(n,)``.

    Examples
    --------
    >>> p = log_probability(torch.zeros(1, 2), torch.tensor([[True, False]])).exp()
    >>> round(float(p), 4)
    0.25
    """
    target = chosen.to(scores.dtype)
    return -F.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class BasePenalised(MaskedPredictions):
    """A selection probability for each unit, and a price λ on what is selected."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "sparsity_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    }

    sparsity_weight: float | Literal["auto"] = "auto"

    # What the methods differ in.

    _with_baseline: ClassVar[bool]

    @abstractmethod
    def _selector_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        price: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """What the selector minimises, for every row ``(n,)``."""

    @abstractmethod
    def _predictor_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        generator: torch.Generator,
    ) -> Tensor:
        """What the networks that predict minimise, for every row ``(n,)``."""

    # What they share.

    def _check_params(self) -> None:
        self._check_weight(self.sparsity_weight)

    def _n_epochs(self) -> int:
        return self.max_epochs + max(1, round(WARM_UP * self.max_epochs))

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        network = self._build(data, baseline=self._with_baseline, dropout=0.2)
        schedule, folds = self._schedule(data), Folds(data.rows, generator)
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        # In units of the best constant prediction's loss, as the losses are.
        price = data.inputs.costs * (self.sparsity_weight_ / self.constant_loss_)
        fit_on_coins(network, data, folds, schedule.part(WARM_UP), progress)
        selector = adam(network.selector, schedule, decay=0.0)
        predictors = adam(network.predictors(), schedule)

        def update(index: Tensor, share: float) -> None:
            rows = data.rows[index]
            # Dropout is for learning; its noise would drown what one unit is worth.
            network.eval()
            value = self._selector_loss(network, data, rows, price, generator)
            optimizer_step(selector, (value * rows.weight).mean())
            network.train()
            value = self._predictor_loss(network, data, rows, generator)
            optimizer_step(predictors, (value * rows.weight).mean())

        run_epochs(
            network, folds, schedule, [selector, predictors], update,
            lambda: self._validation_value(network, data, price), progress,
            self._method_name(),
        )  # fmt: skip
        return network

    def _validation_value(
        self, network: SelectorNetwork, data: TrainingData, price: Tensor
    ) -> float:
        """``L(f(x ⊙ h), y) + λ ‖h‖`` on validation rows under hard selection."""
        rows = data.validation
        chosen = network.scores(rows.values) > 0
        mask = soft_columns(data.inputs, chosen.to(torch.float32)) > 0.5
        outputs = network.outputs(data.inputs.reveal(rows.values, mask))
        lost = data.loss.per_row(outputs, rows.targets) + chosen.to(torch.float32) @ price
        return float((lost * rows.weight).mean())

    def _choose(self, values: Tensor) -> Tensor:
        return self.network_.scores(values) > 0
