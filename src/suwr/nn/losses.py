"""Losses, one class per kind of target.

Losses are divided by ``unit``, the loss of the best constant prediction, so that the same training
configuration suits every data set.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["CrossEntropy", "Loss", "SquaredError"]


class Loss(Protocol):
    """A loss *L(f(x ⊙ h), y)*."""

    def targets(self, y: Tensor) -> Tensor:
        """Targets in the format of `per_row`, ``(n, n_outputs)``."""
        ...

    def predict(self, outputs: Tensor) -> Tensor:
        """Predictions from network outputs: class probabilities, or values."""
        ...

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from network outputs."""
        ...

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from predictions."""
        ...


class CrossEntropy:
    """Cross-entropy in nats, for hard or soft class targets.

    Parameters
    ----------
    n_classes : int
    unit : float, default=1.0
    """

    def __init__(self, n_classes: int, unit: float = 1.0) -> None:
        self.n_classes = n_classes
        self.unit = unit

    def targets(self, y: Tensor) -> Tensor:
        """One-hot targets of class numbers; class probabilities ``(n, n_classes)`` as they are."""
        if y.dim() == 2:
            return y.to(torch.float32)
        return torch.nn.functional.one_hot(y.long(), self.n_classes).to(torch.float32)

    def predict(self, outputs: Tensor) -> Tensor:
        """Class probabilities."""
        return outputs.softmax(dim=-1)

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of every row."""
        return -(targets * outputs.log_softmax(dim=-1)).sum(dim=-1) / self.unit

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of class probabilities, clipped to stay finite."""
        return -(targets * prediction.clamp_min(1e-12).log()).sum(dim=-1) / self.unit


class SquaredError:
    """Squared error of a single output.

    Parameters
    ----------
    unit : float, default=1.0
    """

    def __init__(self, unit: float = 1.0) -> None:
        self.unit = unit

    def targets(self, y: Tensor) -> Tensor:
        """Targets as a column."""
        return y.to(torch.float32).unsqueeze(-1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The outputs themselves."""
        return outputs

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared error of every row."""
        return (outputs - targets).square().sum(dim=-1) / self.unit

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Squared error of every row."""
        return self.per_row(prediction, targets)
