"""INVASE: any number of features per row, by actor and critic (Yoon et al. 2019).

A selector reads the whole row and gives every unit a probability. A subset *h* is drawn; a critic
predicts from *x ⊙ h*, a baseline network from all of *x*. The selector climbs the gradient of

    E_h [ L_baseline - L_critic(h) ] - λ E_h ‖h‖

by the log-trick; the second expectation is known in closed form. Critic and baseline learn for a
while before the selector starts. The prediction uses the units of probability above one half.
"""

from __future__ import annotations

import torch
from torch import Tensor

from suwr.baselines.networks import SelectorNetwork, soft_columns
from suwr.baselines.penalised import BasePenalised, log_probability
from suwr.baselines.training import adam, run_epochs
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.rows import Folds
from suwr.nn.schedule import step
from suwr.nn.settings import Progress

__all__ = ["INVASEClassifier", "INVASERegressor"]

# Share of the training in which critic and baseline learn under random subsets, before the selector
# starts: as long as the critic knows nothing, only the price counts and everything is dropped.
WARM_UP = 0.25


class BaseINVASE(BasePenalised):
    """INVASE for any target."""

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        network, schedule = self._build(data, baseline=True, dropout=0.2), self._schedule(data)
        assert network.baseline is not None
        inputs, loss, price = data.inputs, data.loss, self._price(data)
        selector = adam(network.selector, schedule, decay=0.0)
        critic, baseline = adam(network.predictor, schedule), adam(network.baseline, schedule)

        def update(index: Tensor, share: float) -> None:
            rows = data.rows[index]
            scores = network.scores(rows.values)
            probability = scores.sigmoid()
            draws = torch.rand(scores.shape, generator=generator, device=scores.device)
            chosen = draws < probability.detach()
            mask = soft_columns(inputs, chosen.to(torch.float32)) > 0.5
            with_mask = loss.per_row(
                network.outputs(inputs.reveal(rows.values, mask)), rows.targets
            )
            with_all = loss.per_row(network.baseline_outputs(rows.values), rows.targets)
            worse = (with_mask - with_all).detach()
            penalty = probability @ price
            value = worse * log_probability(scores, chosen) + penalty
            if share >= WARM_UP:
                step(selector, (value * rows.weight).mean())
            step(critic, (with_mask * rows.weight).mean())
            step(baseline, (with_all * rows.weight).mean())

        run_epochs(
            network, Folds(data.rows, generator), schedule, [selector, critic, baseline], update,
            lambda: self._validation_value(network, data, price), progress, "INVASE",
            first_useful=WARM_UP,
        )  # fmt: skip
        return network


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
    """INVASE for squared error; see `INVASEClassifier`."""
