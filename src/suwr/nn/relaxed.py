"""Soft choices: the relaxation that lets a gradient pass through the choice of a unit."""

from __future__ import annotations

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs

__all__ = ["gumbel", "soft_columns", "soft_reveal"]


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise: the largest of logits plus noise is a draw from their softmax."""
    waiting = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    # In place: on a GPU these passes over memory are what a step costs.
    return waiting.clamp_(min=1e-20).log_().neg_()


def soft_columns(inputs: MaskedInputs, weight: Tensor) -> Tensor:
    """Weights of columns from weights of units; for weights 0 and 1 it is the union.

    Parameters
    ----------
    inputs : MaskedInputs
    weight : Tensor of shape (..., n_units)
    """
    if inputs.single:
        return weight
    return (weight @ inputs.membership.to(weight.dtype)).clamp(max=1.0)


def soft_reveal(inputs: MaskedInputs, values: Tensor, weight: Tensor) -> Tensor:
    """``[x · w, w]``: the relaxation of `MaskedInputs.reveal`, equal to it where w is 0 or 1.

    Parameters
    ----------
    inputs : MaskedInputs
    values : Tensor of shape (..., n_values)
    weight : Tensor of shape (..., n_columns)
    """
    shown = weight if inputs.plain else weight[..., inputs.column_of]
    return torch.cat([values * shown, weight], dim=-1)
