"""What pretrained predictors show on rows that they were not trained on.

A policy that is trained on noise learns to reveal what its predictors have memorised; `informative`
tests for it before the policy is trained. `interactions` estimates which units are informative
jointly, for the exploration.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Folds, Rows, to_models
from suwr.training.independence import FALSE_COLUMNS, FALSE_PAIRS, unit_scores_of_rows

__all__ = ["informative", "interactions"]

Predict = Callable[[Tensor, Loss], Tensor]

# Approximate probability that the tests of independence find evidence in a table without any.
LEVEL = 0.01
# Rows of each fold that are tested.
MAX_ROWS = 2_000
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

    There is none if the predictors have only memorised their training rows (all features together
    reduce the loss on these, but not the cross-fitted loss) and no test of independence between
    a unit and the target is significant.

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

    def gain(predict: Predict) -> Tensor:
        """Mean reduction of the loss by all features, of each model."""
        none, every = (
            loss.of_prediction(predict(inputs.reveal(rows.values, mask), loss), rows.targets)
            for mask in (nothing, ~nothing)
        )
        return to_models((none - every) * rows.weight).mean(dim=-1)

    result = (gain(network.cross_fitted) > 0) | (gain(network.in_fold) <= MIN_TRAINING_GAIN)
    for model in torch.nonzero(~result)[:, 0].tolist():
        own = Rows(*(to_models(part)[model] for part in (rows.values, rows.targets, rows.weight)))
        smallest = unit_scores_of_rows(inputs, own).min()
        result[model] = bool(smallest < LEVEL / (FALSE_COLUMNS + FALSE_PAIRS))
    network.train()
    return result


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
        return to_models(loss.of_prediction(found, targets) * rows.weight).mean(dim=1)

    empty = losses(pairs.new_empty(0))
    units = torch.arange(n_units, device=rows.device).unsqueeze(1)
    single = torch.stack([empty - losses(unit) for unit in units])
    result = torch.zeros(len(empty), n_units, n_units, device=rows.device)
    for i, j in pairs.tolist():
        joint = empty - losses(pairs.new_tensor([i, j]))
        result[:, i, j] = result[:, j, i] = joint - single[i] - single[j]
    network.train()
    return result.clamp_min(0.0)
