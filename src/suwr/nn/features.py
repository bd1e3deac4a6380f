"""Inputs of the policy besides the masked row: predictive uncertainty, and the position of λ."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = [
    "N_UNCERTAINTY_FEATURES",
    "POSITION_KNOTS",
    "UncertaintyStopPolicy",
    "encode_position",
    "uncertainty_features",
]

# Number of `uncertainty_features`.
N_UNCERTAINTY_FEATURES = 5
# Knots of `encode_position` in new models.
POSITION_KNOTS = 6


def encode_position(position: Tensor, n_knots: int) -> Tensor:
    """Encode the position of λ in its range by piecewise linear functions of it.

    Function ``i`` is 1 at the knot ``i`` of ``n_knots`` equidistant ones and 0 at all others, so
    that a network can learn what differs between parts of the range.

    Parameters
    ----------
    position : Tensor of shape (...)
        From -1 (low end) to 1 (high end).
    n_knots : int
        1 returns the position itself, as in models of version 0.1.

    Returns
    -------
    Tensor of shape (..., n_knots)

    Examples
    --------
    >>> encode_position(torch.tensor([-1.0, 0.5]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    """
    position = position.unsqueeze(-1)
    if n_knots == 1:
        return position
    knots = torch.linspace(-1.0, 1.0, n_knots, device=position.device)
    return (1.0 - (position - knots).abs() * ((n_knots - 1) / 2)).clamp_min(0.0)


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
