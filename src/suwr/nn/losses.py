"""Losses, one class per kind of target.

Losses are divided by ``unit``, the loss of the best constant prediction, so that the same training
configuration suits every data set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

# Bound of the logarithms of predictions with a log link, whose exponentials stay finite.
MAX_LOG = 30.0
# Least positive target of the gamma deviance, in units of the mean.
MIN_TARGET = 1e-30


class Loss(ABC):
    """A loss *L(f(x ⊙ h), y)*.

    Parameters
    ----------
    unit : float, default=1.0

    Attributes
    ----------
    linear_in_targets : bool
        Whether the difference between the losses of two predictions is linear in the target. Only
        then may a target be averaged with a prediction of it: the expected difference is the same.
    """

    linear_in_targets: ClassVar[bool] = True

    def __init__(self, unit: float = 1.0) -> None:
        self.unit = unit

    @abstractmethod
    def targets(self, y: Tensor) -> Tensor:
        """Targets in the format of `per_row`, ``(n, n_outputs)``."""

    def smoothed(self, targets: Tensor, weight: Tensor) -> Tensor:
        """The targets of training rows as the networks learn them; by default, unchanged."""
        return targets

    def predict(self, outputs: Tensor) -> Tensor:
        """Predictions from network outputs: class probabilities, or values."""
        return outputs

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from network outputs."""
        return self.of_prediction(self.predict(outputs), targets)

    @abstractmethod
    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Loss of every row from predictions."""

    def best_constant(self, targets: Tensor, weight: Tensor) -> Tensor:
        """The constant prediction ``(n_outputs,)`` of least weighted mean loss; often the mean."""
        return (targets * weight.unsqueeze(-1)).sum(dim=0) / weight.sum()


class CrossEntropy(Loss):
    """Cross-entropy in nats, for hard or soft class targets.

    Parameters
    ----------
    n_classes : int
    unit : float, default=1.0
    """

    def __init__(self, n_classes: int, unit: float = 1.0) -> None:
        super().__init__(unit)
        self.n_classes = n_classes

    def targets(self, y: Tensor) -> Tensor:
        """One-hot targets of class numbers; class probabilities ``(n, n_classes)`` as they are."""
        if y.dim() == 2:
            return y.to(torch.float32)
        return torch.nn.functional.one_hot(y.long(), self.n_classes).to(torch.float32)

    def smoothed(self, targets: Tensor, weight: Tensor) -> Tensor:
        """Targets of *n* rows in which the best constant prediction counts as one further row.

        Few rows do not tell whether an event is rare or impossible: predictions that are certain
        wherever no training row contradicts them are punished by the first exception.
        """
        n = len(targets)
        return (n * targets + self.best_constant(targets, weight)) / (n + 1)

    def predict(self, outputs: Tensor) -> Tensor:
        """Class probabilities."""
        return outputs.softmax(dim=-1)

    def per_row(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of every row."""
        return -(targets * outputs.log_softmax(dim=-1)).sum(dim=-1) / self.unit

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of class probabilities, clipped to stay finite."""
        return -(targets * prediction.clamp_min(1e-12).log()).sum(dim=-1) / self.unit


class ValueLoss(Loss):
    """Loss of a single output, which is a value or its logarithm.

    Parameters
    ----------
    unit : float, default=1.0

    Attributes
    ----------
    link : {'identity', 'log'}
        Function from a prediction to the network output.
    degree : int
        *k* in *L(c p, c y) = c^k L(p, y)*.
    """

    link: ClassVar[Literal["identity", "log"]] = "identity"
    degree: ClassVar[int] = 1

    def targets(self, y: Tensor) -> Tensor:
        """Targets as a column."""
        return y.to(torch.float32).unsqueeze(-1)


class SquaredError(ValueLoss):
    """Squared error of a single output.

    Parameters
    ----------
    unit : float, default=1.0
    """

    degree = 2

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Squared error of every row."""
        return (prediction - targets).square().sum(dim=-1) / self.unit


class PinballLoss(ValueLoss):
    """Pinball loss, whose expectation is minimal at a quantile.

    Parameters
    ----------
    quantile : float
        In (0, 1).
    unit : float, default=1.0
    """

    linear_in_targets: ClassVar[bool] = False

    def __init__(self, quantile: float, unit: float = 1.0) -> None:
        super().__init__(unit)
        self.quantile = quantile

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Pinball loss of every row."""
        above = targets - prediction
        return torch.maximum(self.quantile * above, (self.quantile - 1) * above)[..., 0] / self.unit

    def best_constant(self, targets: Tensor, weight: Tensor) -> Tensor:
        """The weighted quantile of the targets: the least value with enough weight up to it."""
        order = targets[:, 0].argsort()
        share = weight[order].double().cumsum(dim=0) / weight.double().sum()
        # Sums of equal weights may miss the quantile by rounding.
        place = int(torch.searchsorted(share, self.quantile - 1e-12))
        return targets[order[min(place, len(order) - 1)]]


class AbsoluteError(PinballLoss):
    """Absolute error: twice the pinball loss of the median.

    Parameters
    ----------
    unit : float, default=1.0
    """

    def __init__(self, unit: float = 1.0) -> None:
        super().__init__(0.5, unit / 2)


class _LogLink(ValueLoss):
    """Loss of positive predictions, whose logarithms are the outputs."""

    link = "log"

    def predict(self, outputs: Tensor) -> Tensor:
        """The exponentials of the outputs."""
        return outputs.clamp(-MAX_LOG, MAX_LOG).exp()


class PoissonDeviance(_LogLink):
    """Poisson deviance, for counts and other targets of at least zero.

    Parameters
    ----------
    unit : float, default=1.0
    """

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Poisson deviance of every row."""
        ratio = torch.xlogy(targets, targets) - torch.xlogy(targets, prediction)
        return 2 * (ratio - targets + prediction)[..., 0] / self.unit


class GammaDeviance(_LogLink):
    """Gamma deviance, for positive targets whose standard deviation grows with their mean.

    Parameters
    ----------
    unit : float, default=1.0
    """

    degree = 0

    def of_prediction(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Gamma deviance of every row."""
        ratio = targets.clamp_min(MIN_TARGET) / prediction
        return 2 * (ratio - ratio.log() - 1)[..., 0] / self.unit
