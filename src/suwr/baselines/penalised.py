"""What INVASE and REAL-X share: independent coin flips per unit, at a price."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor
from torch.nn import functional as F

from suwr.baselines.base import COMMON_CONSTRAINTS, MaskedPredictions
from suwr.baselines.networks import SelectorNetwork, soft_columns
from suwr.estimators.table_model import TrainingData

__all__ = ["BasePenalised", "log_probability"]


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

    def _check_params(self) -> None:
        self._check_weight(self.sparsity_weight)

    def _price(self, data: TrainingData) -> Tensor:
        """Price of each unit, in units of the best constant prediction's loss."""
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        return data.inputs.costs * (self.sparsity_weight_ / self.constant_loss_)

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
