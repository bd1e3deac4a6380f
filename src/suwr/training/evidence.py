"""What pretrained predictors show on rows that they were not trained on.

A policy that is trained on noise learns to reveal what its predictors have memorised; `informative`
tests for it before the policy is trained. `interactions` estimates which units are informative
jointly, for the exploration.
"""

from __future__ import annotations

import torch
from scipy.stats import t as student
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Folds, to_models

__all__ = ["informative", "interactions"]

# Probability of finding evidence in a table without any.
LEVEL = 0.02
# Rows of each fold that are tested, and number of training rows that a test needs.
MAX_ROWS, MIN_ROWS = 2_000, 30
# Predictors whose loss on their own training rows is lower than a constant's by less than this
# fraction have not learned enough to be tested.
MIN_TRAINING_GAIN = 0.05
# Masks evaluated to estimate the interactions, and bounds of the rows of each fold among them.
INTERACTION_MASKS = 60_000
INTERACTION_ROWS = (50, 300)
# Largest number of units that are revealed at random before an interaction is measured.
CONTEXT_UNITS = 3


@torch.no_grad()
def informative(network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds) -> Tensor:
    """Whether there is evidence that features are informative, for each model.

    There is none if the predictors have learned their training rows, but their predictions for the
    held-out fold, from all features, are not correlated with the targets there. The loss would be
    too strict a criterion: with few rows, predictors are overconfident, and worse than a constant
    although their predictions are informative. Fewer than `MIN_ROWS` rows are not tested.

    Parameters
    ----------
    network : SeparateNetwork
        With pretrained predictors.
    inputs : MaskedInputs
    loss : Loss
    folds : Folds

    Returns
    -------
    Tensor of bool, shape (n_models,)
    """
    network.eval()
    rows = folds.rows[folds.indices[:, :MAX_ROWS]]
    nothing = torch.zeros((*rows.weight.shape, inputs.n_columns), dtype=torch.bool)
    nothing = nothing.to(rows.device)
    cross_fitted = network.cross_fitted(inputs.reveal(rows.values, ~nothing), loss)
    own = [
        loss.of_prediction(network.in_fold(inputs.reveal(rows.values, mask), loss), rows.targets)
        for mask in (nothing, ~nothing)
    ]
    network.train()
    gain = to_models((own[0] - own[1]) * rows.weight, folds.n_folds)
    learned = gain.mean(dim=-1) > MIN_TRAINING_GAIN
    products = (_centred(cross_fitted) * _centred(rows.targets)).sum(dim=-1)
    products = to_models(products * rows.weight, folds.n_folds)
    n = products.shape[-1]
    if n < MIN_ROWS:
        return torch.ones_like(learned)
    # Half of the rows count: an effect that two folds share by chance contributes to the covariance
    # of either, since each of them trains predictors that are tested on the other.
    error = products.std(dim=-1) / (n / 2) ** 0.5
    statistic = products.mean(dim=-1) / error.clamp_min(torch.finfo(error.dtype).tiny)
    return (statistic > float(student.isf(LEVEL, n / 2 - 1))) | ~learned


def _centred(values: Tensor) -> Tensor:
    """Values of each fold ``(2 · n_models, n, n_outputs)`` minus their mean.

    Numeric targets and their predictions are replaced by ranks, since a few outliers would dominate
    the covariance.
    """
    if values.shape[-1] == 1:
        numbers = values[..., 0].contiguous()
        ordered = numbers.sort(dim=1).values
        # Equal values share their mean rank.
        ranks = [torch.searchsorted(ordered, numbers, right=right) for right in (False, True)]
        values = (ranks[0] + ranks[1]).to(values.dtype).unsqueeze(-1)
    return values - values.mean(dim=1, keepdim=True)


@torch.no_grad()
def interactions(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds, label_weight: float
) -> Tensor:
    """How much more two units reduce the loss together than separately.

    The mean over rows and random contexts of ``g(i, j) - g(i) - g(j)``, with ``g`` the reduction of
    the cross-fitted loss, where it is positive.

    Returns
    -------
    Tensor of shape (n_models, n_units, n_units)
    """
    network.eval()
    n_units = inputs.n_units
    pairs = torch.combinations(torch.arange(n_units, device=folds.indices.device))
    least, most = INTERACTION_ROWS
    size = min(folds.size, max(least, min(most, INTERACTION_MASKS // max(1, len(pairs)))))
    rows = folds.rows[folds.indices[:, :size]]
    everything = torch.ones((*rows.weight.shape, inputs.n_columns), dtype=torch.bool)
    everything = everything.to(rows.device)
    targets = network.in_fold(inputs.reveal(rows.values, everything), loss)
    targets = targets.lerp(rows.targets, label_weight)
    context = inputs.random_masks(tuple(rows.weight.shape), folds.generator, CONTEXT_UNITS)

    def losses(units: Tensor) -> Tensor:
        mask = context
        for unit in units:
            mask = inputs.add(mask, unit)
        found = network.cross_fitted(inputs.reveal(rows.values, mask), loss)
        losses = loss.of_prediction(found, targets) * rows.weight
        return to_models(losses, folds.n_folds).mean(dim=1)

    empty = losses(pairs.new_empty(0))
    units = torch.arange(n_units, device=rows.device).unsqueeze(1)
    single = torch.stack([empty - losses(unit) for unit in units])
    result = torch.zeros(len(empty), n_units, n_units, device=rows.device)
    for i, j in pairs.tolist():
        joint = empty - losses(pairs.new_tensor([i, j]))
        result[:, i, j] = result[:, j, i] = joint - single[i] - single[j]
    network.train()
    return result.clamp_min(0.0)
