"""Evidence that the features of a table are informative at all.

A policy that is trained on noise learns to reveal what its predictors have memorised. Before the
policy is trained, the predictors are therefore tested on rows that they were not trained on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.stats import t as student
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Folds, to_models

__all__ = ["informative"]

Predict = Callable[[Tensor, Loss], Tensor]

# Probability of finding evidence in a table without any.
LEVEL = 0.05
# Rows of each fold that are tested.
MAX_ROWS = 2_000
# Predictors whose loss on their own training rows is lower than a constant's by less than this
# fraction have not learned enough to be tested.
MIN_TRAINING_GAIN = 0.05


@torch.no_grad()
def informative(network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds) -> Tensor:
    """Test whether features are informative, or whether the predictors have only memorised rows.

    The cross-fitted loss without features is compared with the losses with all features and with
    every single unit, by one-sided paired t-tests with Bonferroni correction. Features are taken to
    be uninformative if no test is significant although all features reduce the loss of the
    predictors' own training rows.

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

    def losses(mask: Tensor, predict: Predict = network.cross_fitted) -> Tensor:
        prediction = predict(inputs.reveal(rows.values, mask), loss)
        return to_models(loss.of_prediction(prediction, rows.targets) * rows.weight)

    units = torch.arange(inputs.n_units, device=rows.device)
    masks = [~nothing, *(inputs.add(nothing, unit) for unit in units)]
    baseline = losses(nothing)
    gains = torch.stack([baseline - losses(mask) for mask in masks])
    in_fold = losses(nothing, network.in_fold) - losses(~nothing, network.in_fold)
    memorised = in_fold.mean(dim=-1) > MIN_TRAINING_GAIN
    network.train()
    n = gains.shape[-1]
    if n < 2:
        return ~memorised
    error = gains.std(dim=-1) / n**0.5
    statistic = gains.mean(dim=-1) / error.clamp_min(torch.finfo(error.dtype).tiny)
    threshold = float(student.isf(LEVEL / len(masks), n - 1))
    return (statistic > threshold).any(dim=0) | ~memorised
