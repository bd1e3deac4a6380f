"""Stopping by the uncertainty of the predictors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = [
    "N_UNCERTAINTY_FEATURES",
    "STOP_HIDDEN",
    "UncertaintyStopPolicy",
    "uncertainty_features",
]

# Number of `uncertainty_features`, and width of the stop network that reads them.
N_UNCERTAINTY_FEATURES, STOP_HIDDEN = 5, 32


def uncertainty_features(probability: Tensor, mask: Tensor) -> Tensor:
    """Features of the predictive uncertainty for the stopping policy.

    Parameters
    ----------
    probability : Tensor of shape (..., n_classes)
        Class probabilities.
    mask : Tensor of shape (..., n_columns)
        Revealed columns.

    Returns
    -------
    Tensor of shape (..., 5)
        Normalised entropy, the two largest probabilities, the logarithm of the probability of all
        classes but the first, and the fraction of revealed columns. The logarithm resolves small
        differences between confident predictions, on which stopping at a small λ depends.
    """
    entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
    entropy = entropy / math.log(probability.shape[-1])
    top = probability.topk(2, dim=-1)
    first, second = top.values.unbind(dim=-1)
    # Sum the other classes, since 1 - first cancels catastrophically for confident predictions.
    others = probability.scatter(-1, top.indices[..., :1], 0.0).sum(dim=-1)
    left = others.clamp_min(1e-4).log() / math.log(1e-4)
    revealed = mask.mean(dim=-1, dtype=probability.dtype)
    return torch.stack([entropy, first, second, left, revealed], dim=-1)


class UncertaintyStopPolicy(nn.Module):
    """A selection network, and a small stop network over `uncertainty_features`.

    With many units, each changes the prediction little, and the remaining gain shows best in the
    prediction itself; a large network that regresses it from the units overfits.
    """

    def __init__(self, select: nn.Module, stop: nn.Module) -> None:
        super().__init__()
        self.select, self.stop = select, stop
