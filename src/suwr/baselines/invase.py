"""INVASE: any number of features per row, by actor and critic (Yoon et al. 2019).

A selector reads the whole row and gives every unit a probability. A subset *h* is drawn; a critic
predicts from *x ⊙ h*, a baseline network from all of *x*. The selector climbs the gradient of

    E_h [ L_baseline - L_critic(h) ] - λ E_h ‖h‖

by the log-trick; the second expectation is known in closed form. The prediction uses the units of
probability above one half.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from suwr.baselines.networks import SelectorNetwork
from suwr.baselines.penalised import BasePenalised, log_probability
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import soft_columns
from suwr.training.data import Rows

__all__ = ["INVASEClassifier", "INVASERegressor"]


class BaseINVASE(BasePenalised):
    """INVASE for any target."""

    _with_baseline: ClassVar[bool] = True

    def _selector_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        price: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        scores = network.scores(rows.values)
        chosen = _draw(scores, generator)
        with torch.no_grad():
            critic, baseline = _critic_and_baseline(network, data, rows, chosen)
        return (critic - baseline) * log_probability(scores, chosen) + scores.sigmoid() @ price

    def _predictor_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        generator: torch.Generator,
    ) -> Tensor:
        with torch.no_grad():
            chosen = _draw(network.scores(rows.values), generator)
        critic, baseline = _critic_and_baseline(network, data, rows, chosen)
        return critic + baseline


def _draw(scores: Tensor, generator: torch.Generator) -> Tensor:
    """Units drawn with the selector's probabilities, bool ``(n, n_units)``."""
    draws = torch.rand(scores.shape, generator=generator, device=scores.device)
    return draws < scores.detach().sigmoid()


def _critic_and_baseline(
    network: SelectorNetwork, data: TrainingData, rows: Rows, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """Losses from the chosen units, and from the whole row."""
    mask = soft_columns(data.inputs, chosen.to(torch.float32)) > 0.5
    critic = network.outputs(data.inputs.reveal(rows.values, mask))
    baseline = network.baseline_outputs(rows.values)
    return (
        data.loss.per_row(critic, rows.targets),
        data.loss.per_row(baseline, rows.targets),
    )


class INVASEClassifier(ClassificationTarget, BaseINVASE):
    """INVASE: the features of each row, chosen by an actor that sees the whole row.

    Its selections can leak: which features are shown may tell what the hidden ones hold.

    Parameters
    ----------
    sparsity_weight : float or 'auto', default='auto'
        λ, the price of one unit of feature cost, in the units of the loss. The published λ is the
        price of *all* units: divide it by their number. 'auto' is 1 % of the loss of the best
        constant prediction.
    groups, costs
        As in `suwr.SUWRClassifier`.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Attributes
    ----------
    sparsity_weight_ : float
        The λ that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import INVASEClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> INVASEClassifier(max_epochs=5, random_state=0).fit(X, y).select(X).shape
    (150, 4)
    """


class INVASERegressor(RegressionTarget, BaseINVASE):
    """INVASE for squared error; see `INVASEClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import INVASERegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = INVASERegressor(max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
