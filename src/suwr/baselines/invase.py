"""INVASE: a variable number of features per row, by actor-critic (Yoon et al. 2019).

A selector, the actor, gives each unit a selection probability given the whole row. A subset *h* is
sampled; a critic predicts from *x ⊙ h* and a baseline network from the whole row. The selector
maximises

    E_h [ L_baseline - L_critic(h) ] - λ E_h ‖h‖

by the score-function gradient; the second expectation has a closed form. At inference the units
with a probability above one half are selected.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from suwr.baselines.penalised import BasePenalised, log_probability
from suwr.estimators.table import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import soft_columns
from suwr.training.data import Rows

__all__ = ["INVASEClassifier", "INVASERegressor"]


class BaseINVASE(BasePenalised):
    """INVASE for classes and values."""

    _with_baseline: ClassVar[bool] = True

    def _selector_loss(
        self, data: TrainingData, rows: Rows, unit_costs: Tensor, generator: torch.Generator
    ) -> Tensor:
        scores = self.network_.scores(rows.values)
        selected = _sample(scores, generator)
        with torch.no_grad():
            critic, baseline = self._critic_and_baseline_losses(data, rows, selected)
        expected_cost = scores.sigmoid() @ unit_costs
        return (critic - baseline) * log_probability(scores, selected) + expected_cost

    def _predictor_loss(self, data: TrainingData, rows: Rows, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            selected = _sample(self.network_.scores(rows.values), generator)
        critic, baseline = self._critic_and_baseline_losses(data, rows, selected)
        return critic + baseline

    def _critic_and_baseline_losses(
        self, data: TrainingData, rows: Rows, selected: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Losses of predicting from the selected units and from the whole row, ``(n,)`` each."""
        mask = soft_columns(data.inputs, selected.to(torch.float32)) > 0.5
        critic = self.network_.outputs(data.inputs.reveal(rows.values, mask))
        baseline = self.network_.baseline_outputs(rows.values)
        return (
            data.loss.per_row(critic, rows.targets),
            data.loss.per_row(baseline, rows.targets),
        )


def _sample(scores: Tensor, generator: torch.Generator) -> Tensor:
    """Sample units independently with the selector's probabilities, bool ``(n, n_units)``."""
    uniform = torch.rand(scores.shape, generator=generator, device=scores.device)
    return uniform < scores.detach().sigmoid()


class INVASEClassifier(ClassificationTarget, BaseINVASE):
    """INVASE: features selected independently by an actor that reads the whole row.

    The selection may leak: it can depend on the values of features that are not selected.

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
        The value of λ used for training.

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
