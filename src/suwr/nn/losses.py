"""What a prediction costs: one small object per kind of target.

Outputs of an ensemble are ``(n_members, n, n_outputs)``. Losses are divided by ``unit``, the loss
of the best constant prediction, so that one set of training settings suits every table.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["CrossEntropy", "Loss", "SquaredError"]


class Loss(Protocol):
    """A loss *L(f(x ⊙ h), y)* that is linear in a (possibly soft) target."""

    def targets(self, y: Tensor) -> Tensor:
        """Targets as the rows that `per_row` takes, ``(n, n_outputs)``."""
        ...

    def predict(self, outputs: Tensor) -> Tensor:
        """What the outputs say, one member each: probabilities, or values."""
        ...

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from raw outputs."""
        ...

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from a finished prediction."""
        ...


class CrossEntropy:
    """Negative log-likelihood of the true class, in nats."""

    def __init__(self, n_classes: int, unit: float = 1.0) -> None:
        self.n_classes = n_classes
        self.unit = unit

    def targets(self, y: Tensor) -> Tensor:
        """One-hot rows."""
        return torch.nn.functional.one_hot(y.long(), self.n_classes).to(torch.float32)

    def predict(self, outputs: Tensor) -> Tensor:
        """Class probabilities."""
        return outputs.softmax(dim=-1)

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of every row."""
        return -(targets * outputs.log_softmax(dim=-1)).sum(dim=-1) / self.unit

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of finished probabilities, kept finite."""
        return -(targets * prediction.clamp_min(1e-12).log()).sum(dim=-1) / self.unit


class SquaredError:
    """Squared error of a single output."""

    def __init__(self, unit: float = 1.0) -> None:
        self.unit = unit

    def targets(self, y: Tensor) -> Tensor:
        """Values as a column."""
        return y.to(torch.float32).unsqueeze(-1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The values themselves."""
        return outputs

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared error of every row."""
        return (outputs - targets).square().sum(dim=-1) / self.unit

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Squared error of every row."""
        return self.per_row(prediction, targets)
