"""DIME: greedy selection by estimated information gain (Gadgil et al. 2024).

A value network estimates, given what is revealed, the expected decrease of the loss if unit *i* is
revealed next; for cross-entropy, the conditional mutual information I(y; x_i | x_S). It regresses

    L(f(x_S), y) - L(f(x_{S ∪ i}), y)

along its own ε-greedy rollouts. For classes the estimate is a fraction of the entropy of the
prediction, which is an upper bound of the information. The next unit is the one with the largest
gain per cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

import torch
from torch import Tensor

from suwr._utils.validation import Interval, Options, parameter
from suwr.baselines.greedy import (
    BaseGreedy,
    GreedyPhase,
    RuleStopping,
    Step,
    Stopping,
    staged_decay,
)
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import Architecture, PolicyOutputs, SeparateNetwork
from suwr.nn.step import decide
from suwr.training.data import Rows

# Temperature of the softmax over gain per cost, for sampled inference.
SAMPLING_TEMPERATURE = 0.01
# Gains are multiplied by this factor for regression, like the rewards of SUWR.
GAIN_SCALE = 7.0
# Cost floor, so that free units have a finite gain/cost ratio.
MIN_COST = 1e-3


def unbounded_gain(raw: Tensor, loss: Loss) -> Tensor:
    """Gains from raw outputs: fractions of the entropy for classes, absolute for values."""
    return raw.sigmoid() if isinstance(loss, CrossEntropy) else raw / GAIN_SCALE


def bounded_gain(raw: Tensor, prediction: Tensor, loss: Loss) -> Tensor:
    """Gains from raw outputs; for classes, between 0 and the entropy of the prediction.

    Examples
    --------
    >>> certain, fair = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> bounded_gain(torch.ones(1, 3), certain, CrossEntropy(2)).abs().tolist()
    [[0.0, 0.0, 0.0]]
    >>> round(bounded_gain(torch.full((1, 1), 99.0), fair, CrossEntropy(2)).item(), 4)
    0.6931
    """
    gain = unbounded_gain(raw, loss)
    if not isinstance(loss, CrossEntropy):
        return gain
    entropy = -torch.special.xlogy(prediction, prediction).sum(dim=-1, keepdim=True)
    return gain * entropy / loss.unit


class DIMENetwork(SeparateNetwork):
    """A value network in place of the selection policy, and a stopping rule.

    Parameters
    ----------
    architecture : Architecture
    inputs : MaskedInputs
        The units and their costs.
    loss : Loss
    stopping : Stopping
    """

    def __init__(
        self, architecture: Architecture, inputs: MaskedInputs, loss: Loss, stopping: Stopping
    ) -> None:
        super().__init__(architecture)
        self.units, self.loss, self.stopping = inputs, loss, stopping

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """See `suwr.nn.networks.Network`."""
        prediction = self.loss.predict(self.predict(inputs)).mean(dim=0)
        gain = bounded_gain(self.policy_outputs(inputs).logits, prediction, self.loss)
        ratio = gain / self.units.costs.clamp_min(MIN_COST)
        stop_logit = self.stopping.logit(self.units, inputs, ratio, prediction)
        return stop_logit, PolicyOutputs(-stop_logit, ratio / SAMPLING_TEMPERATURE)

    def rank(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """Rank units by gain per cost as `decide` does, without the predictors or stopping.

        The entropy is the same factor for all units of a row and does not change their order.
        """
        found = self.policy_outputs(inputs)
        ratio = unbounded_gain(found.logits, self.loss) / self.units.costs.clamp_min(MIN_COST)
        return torch.full_like(found.gain, -torch.inf), PolicyOutputs(found.gain, ratio)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseDIME(RuleStopping, BaseGreedy):
    """DIME for classes and values."""

    stopping: Literal["cost", "budget", "confidence"] = parameter(
        "cost", Options("cost", "budget", "confidence")
    )
    sparsity_weight: float | Literal["auto"] = parameter("auto", Options("auto"), Interval(Real, 0))
    exploration: float = parameter(0.05, Interval(Real, 0, 1, closed="right"))

    def _objective_weight(self) -> float:
        if self.stopping != "cost":
            return 0.0
        return self._resolve_weight(self.sparsity_weight) / self.constant_loss_

    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        return DIMENetwork(architecture, data.inputs, data.loss, self._stopping_rule())

    def _stopping_rule(self) -> Stopping:
        if self.stopping == "cost":
            return Stopping(sparsity_weight=self.sparsity_weight_ / self.constant_loss_)
        return super()._stopping_rule()

    def _explore(self, phase: GreedyPhase, seen: Tensor, mask: Tensor, progress: float) -> Tensor:
        assert isinstance(phase.network, DIMENetwork)
        epsilon = staged_decay(progress, self.exploration, self.exploration * 0.2**4, 5)
        decision = decide(phase.network.rank, phase.data.inputs, seen, mask)
        ratio, generator = decision.raw_logits, phase.folds.generator
        noise = torch.rand(ratio.shape, generator=generator, device=ratio.device)
        explores = torch.rand(len(ratio), 1, generator=generator, device=ratio.device) < epsilon
        scores = torch.where(explores, noise, ratio)
        return replace(decision, raw_logits=scores).finite_logits.argmax(dim=1)

    def _step_loss(self, phase: GreedyPhase, rows: Rows, step: Step, progress: float) -> Tensor:
        network, inputs, loss = phase.network, phase.data.inputs, phase.data.loss
        seen = inputs.reveal(rows.values, step.before)
        with torch.no_grad():
            # By predictors that were not trained on these rows.
            before = network.cross_fitted(seen, loss)
            after = network.cross_fitted(inputs.reveal(rows.values, step.after), loss)
            decrease = loss.of_prediction(before, rows.targets)
            decrease = decrease - loss.of_prediction(after, rows.targets)
        raw = network.policy_outputs(seen.flatten(0, 1)).logits.unflatten(0, rows.weight.shape)
        gain = bounded_gain(raw, before, loss)
        error = GAIN_SCALE * (gain.gather(-1, step.unit.unsqueeze(-1))[..., 0] - decrease)
        return (error.square() * rows.weight).mean()


class DIMEClassifier(TableClassifier, BaseDIME):
    """DIME: units in decreasing order of estimated information gain per cost.

    Like SUWR it decides from what is revealed, but it looks only one step ahead: features that are
    informative only jointly have no gain individually. `select`, `explain`, `acquire`,
    `predict_masked` and `mask_probability` are those of `suwr.SUWRClassifier`.

    Parameters
    ----------
    stopping : {'cost', 'budget', 'confidence'}, default='cost'
        'cost' stops if no unit is expected to decrease the loss by λ per unit of cost; 'budget' if
        the next unit would exceed ``max_cost``, or after ``max_steps``; 'confidence' if a class has
        at least the probability ``confidence``.
    sparsity_weight : float or 'auto', default='auto'
        λ of ``stopping='cost'``; 'auto' is 1 % of the loss of the best constant prediction.
    max_cost : float or None, default=None
        Maximum total cost of the units of a row, for ``stopping='budget'``. A unit that is covered
        by other, overlapping units counts as paid for.
    confidence : float, default=0.95
        Probability at which to stop, for ``stopping='confidence'``.
    exploration : float, default=0.05
        Initial *ε*, the probability of trying a random unit in training. It is divided by five
        after each of five equal stages.
    max_steps : int or None, default=None
        Maximum number of units revealed in a row. None means all units, but at most 32.
    groups, costs
        As in `suwr.SUWRClassifier`.
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
        The maximum number of units revealed in a row.
    sparsity_weight_ : float
        The value of λ.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import DIMEClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = DIMEClassifier(max_epochs=3, random_state=0).fit(X, y)
    >>> clf.select(X).shape
    (150, 4)
    """


class DIMERegressor(TableRegressor, BaseDIME):
    """DIME for squared error; see `DIMEClassifier`. ``stopping='confidence'`` is not available.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import DIMERegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = DIMERegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
