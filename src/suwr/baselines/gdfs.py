"""GDFS: greedy dynamic feature selection with a fixed budget (Covert et al. 2023).

Given what is revealed, a network chooses the unit whose value most improves the *next* prediction:
the greedy policy for conditional mutual information. The choice is relaxed by the Gumbel-softmax,
so that the loss after it is differentiable; the temperature decreases in geometric stages. Every
step is trained on its own: no gradient flows from later losses to earlier choices.

As in SUWR, the predictors are pretrained on random masks, each evaluates rows that it was not
trained on, and both are fine-tuned on the masks of the trained policy: after any number of steps,
so that one model serves every budget up to its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor

from suwr._utils.validation import Interval, parameter
from suwr.baselines.greedy import BaseGreedy, GreedyPhase, Step, mean_step_loss, staged_decay
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import soft_columns, soft_reveal
from suwr.nn.networks import Architecture, PolicyOutputs, SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.nn.step import decide
from suwr.training.data import Rows
from suwr.training.validation import Objective


class GDFSNetwork(SeparateNetwork):
    """A selection policy that continues until the budget is spent, and predictors."""

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """See `suwr.nn.networks.Network`."""
        found = self.policy_outputs(inputs)
        return torch.full_like(found.gain, -torch.inf), found


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGDFS(BaseGreedy):
    """GDFS for classes and values."""

    max_steps: int | None = parameter(5, Interval(Integral, 1))
    start_temperature: float = parameter(1.0, Interval(Real, 0, closed="neither"))
    end_temperature: float = parameter(0.1, Interval(Real, 0, closed="neither"))
    n_temperatures: int = parameter(5, Interval(Integral, 1))

    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        return GDFSNetwork(architecture)

    def _validate(self, policy: Policy, data: TrainingData) -> Objective:
        """Mean loss over all steps, as published: every budget counts."""
        return mean_step_loss(policy, data)

    def _explore(self, phase: GreedyPhase, seen: Tensor, mask: Tensor, progress: float) -> Tensor:
        decision = decide(phase.network.decide, phase.data.inputs, seen, mask)
        return decision.relaxed(1.0, phase.folds.generator).argmax(dim=1)

    def _step_loss(self, phase: GreedyPhase, rows: Rows, step: Step, progress: float) -> Tensor:
        network, inputs, loss = phase.network, phase.data.inputs, phase.data.loss
        mask, values = step.before.flatten(0, 1), rows.values.flatten(0, 1)
        temperature = staged_decay(
            progress, self.start_temperature, self.end_temperature, self.n_temperatures
        )
        decision = decide(network.decide, inputs, inputs.reveal(values, mask), mask)
        weight = soft_columns(inputs, decision.relaxed(temperature, phase.folds.generator))
        relaxed_inputs = soft_reveal(inputs, values, torch.where(mask, 1.0, weight))
        # By predictors that were not trained on these rows.
        found = network.cross_fitted(relaxed_inputs.unflatten(0, rows.weight.shape), loss)
        return (loss.of_prediction(found, rows.targets) * rows.weight).mean()


class GDFSClassifier(TableClassifier, BaseGDFS):
    """Greedy dynamic feature selection: a fixed number of units, each chosen given the previous.

    Like SUWR it decides from what is revealed, but it looks only one step ahead: features that are
    informative only jointly are found by chance. `select`, `explain`, `acquire`, `predict_masked`
    and `mask_probability` are those of `suwr.SUWRClassifier`.

    Parameters
    ----------
    max_steps : int, default=5
        The budget *k*: number of units revealed in each row; capped at the number of units.
    start_temperature, end_temperature : float, default=1.0, 0.1
        Temperature of the Gumbel-softmax in the first and in the last stage.
    n_temperatures : int, default=5
        Number of stages, in geometric progression.
    groups, costs
        As in `suwr.SUWRClassifier`; the costs only affect `cost`.
    max_epochs : int, default=100
        Epochs of the joint training of policy and predictors, which are pretrained for at most as
        many. With fewer than 5,000 training rows, they are doubled if the loss of the predictors
        is still decreasing after pretraining.
    n_predictors : int or 'auto', default=2
        Even number of predictors, trained on folds as in `suwr.SUWRClassifier`. 'auto' is its
        default, with its encoding of numbers in bins: use it to compare methods with equal
        networks.
    network, hidden_size, n_layers, batch_size, validation_fraction, device, random_state, verbose
        As in `suwr.SUWRClassifier`.

    Attributes
    ----------
    policy_ : Policy
        The trained networks.
    max_steps_ : int
        The number of units revealed in each row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import GDFSClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = GDFSClassifier(max_steps=2, max_epochs=3, random_state=0).fit(X, y)
    >>> set(clf.select(X).sum(axis=1).tolist())
    {2}
    """


class GDFSRegressor(TableRegressor, BaseGDFS):
    """Greedy dynamic feature selection for squared error; see `GDFSClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import GDFSRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = GDFSRegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
