"""DIME: greedy selection by estimated information gains (Gadgil et al. 2024).

A value network estimates, from what is revealed, how much the loss is expected to fall if unit *i*
is revealed next: for cross-entropy the conditional mutual information I(y; x_i | x_S). It regresses

    L(f(x_S), y) - L(f(x_{S ∪ i}), y)

along its own ε-greedy rollouts. For classes the estimate is a share of the prediction's entropy,
which bounds the information from above. The next unit has the largest gain per cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from suwr.baselines.gdfs import staged_temperature
from suwr.baselines.greedy import GREEDY_CONSTRAINTS, BaseGreedy, Step
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import Architecture, PolicyOutputs, SeparateNetwork
from suwr.training.data import Rows

__all__ = ["DIMEClassifier", "DIMENetwork", "DIMERegressor", "bounded_gain"]

# Sampled inference draws units by a softmax of gain per cost over this share of the constant loss.
SOFTNESS = 0.01
# Gains are regressed times this, as in the core, so that one learning rate suits both.
SCALE = 7.0
# What is free is worth its gain at this price, not infinitely much.
LEAST_COST = 1e-3


def share_of_gain(raw: Tensor, loss: Loss) -> Tensor:
    """Raw outputs as shares of the entropy, for classes; for values, as gains themselves."""
    return raw.sigmoid() if isinstance(loss, CrossEntropy) else raw / SCALE


def bounded_gain(raw: Tensor, prediction: Tensor, loss: Loss) -> Tensor:
    """Estimated gains from raw outputs; for classes, between 0 and the prediction's entropy.

    Examples
    --------
    >>> certain, fair = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> bounded_gain(torch.ones(1, 3), certain, CrossEntropy(2)).abs().tolist()
    [[0.0, 0.0, 0.0]]
    >>> round(bounded_gain(torch.full((1, 1), 99.0), fair, CrossEntropy(2)).item(), 4)
    0.6931
    """
    gain = share_of_gain(raw, loss)
    if not isinstance(loss, CrossEntropy):
        return gain
    entropy = -torch.special.xlogy(prediction, prediction).sum(dim=-1, keepdim=True)
    return gain * entropy / loss.unit


@dataclass(frozen=True)
class Stopping:
    """When to stop; what is None does not matter.

    Attributes
    ----------
    price : float or None
        Stop where no unit gains this much per unit of cost.
    confidence : float or None
        Stop where a class has at least this probability.
    budget : float or None
        Stop where the next unit would cost more than is left.
    """

    price: float | None = None
    confidence: float | None = None
    budget: float | None = None


class DIMENetwork(SeparateNetwork):
    """A value network in place of the select head; stops by rule.

    Parameters
    ----------
    architecture : Architecture
    inputs : MaskedInputs
        The units, for their costs.
    loss : Loss
    stopping : Stopping
    """

    def __init__(
        self, architecture: Architecture, inputs: MaskedInputs, loss: Loss, stopping: Stopping
    ) -> None:
        super().__init__(architecture)
        self.units, self.loss, self.stopping = inputs, loss, stopping

    def gains(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Estimated gain of every unit, and the prediction that it would improve."""
        prediction = self.loss.predict(self.predict(inputs)).mean(dim=0)
        return bounded_gain(self.policy_outputs(inputs)[1], prediction, self.loss), prediction

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """See `suwr.nn.networks.Network`."""
        gain, prediction = self.gains(inputs)
        ratio = gain / self.units.costs.clamp_min(LEAST_COST)
        mask = inputs[:, self.architecture.n_values :] > 0.5
        free = self.units.available(mask)
        best = ratio.masked_fill(~free, -torch.inf).max(dim=1)
        stop = torch.zeros_like(best.values, dtype=torch.bool)
        if self.stopping.price is not None:
            stop |= best.values < self.stopping.price
        if self.stopping.confidence is not None:
            stop |= prediction.amax(dim=1) >= self.stopping.confidence
        if self.stopping.budget is not None:
            spent = torch.where(free, 0.0, self.units.costs).sum(dim=1)
            stop |= spent + self.units.costs[best.indices] > self.stopping.budget
        stop_logit = torch.where(stop, torch.inf, -torch.inf)
        return stop_logit, PolicyOutputs(-stop_logit, ratio / SOFTNESS)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseDIME(BaseGreedy):
    """DIME for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GREEDY_CONSTRAINTS,
        "stopping": [StrOptions({"cost", "budget", "confidence"})],
        "sparsity_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "budget": [None, Interval(Real, 0, None, closed="left")],
        "confidence": [Interval(Real, 0, 1, closed="both")],
        "exploration": [Interval(Real, 0, 1, closed="right")],
    }

    stopping: Literal["cost", "budget", "confidence"] = "cost"
    sparsity_weight: float | Literal["auto"] = "auto"
    budget: float | None = None
    confidence: float = 0.95
    exploration: float = 0.05

    def _check_params(self) -> None:
        self._check_weight(self.sparsity_weight)
        if self.stopping == "confidence" and not hasattr(self, "predict_proba"):
            raise ValueError(
                f"The 'stopping' parameter of {type(self).__name__} must be 'cost' or 'budget': "
                "a value has no confidence. Got 'confidence' instead."
            )

    def _objective_weight(self) -> float:
        if self.stopping != "cost":
            return 0.0
        return self._resolve_weight(self.sparsity_weight) / self.constant_loss_

    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        stopping = {
            "cost": Stopping(price=self.sparsity_weight_ / self.constant_loss_),
            "confidence": Stopping(confidence=self.confidence),
            "budget": Stopping(budget=self.budget),
        }[self.stopping]
        return DIMENetwork(architecture, data.inputs, data.loss, stopping)

    def _pick(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        shown: Tensor,
        free: Tensor,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        epsilon = staged_temperature(share, self.exploration, self.exploration * 0.2**4, 5)
        # A row's entropy weighs all of its units alike and does not change their order.
        order = share_of_gain(network.policy_outputs(shown)[1], data.loss)
        noise = torch.rand(order.shape, generator=generator, device=order.device)
        explores = torch.rand(len(order), 1, generator=generator, device=order.device) < epsilon
        score = torch.where(explores, noise, order / data.inputs.costs.clamp_min(LEAST_COST))
        return score.masked_fill(~free, -torch.inf).argmax(dim=1)

    def _step_loss(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        step: Step,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        inputs, loss = data.inputs, data.loss
        shown = inputs.reveal(rows.values, step.before)
        with torch.no_grad():
            # By the predictor of the other half, which never saw the row.
            now = network.predictor(shown, flip=True)
            after = network.predictor(inputs.reveal(rows.values, step.after), flip=True)
            fallen = loss.per_row(now, rows.targets) - loss.per_row(after, rows.targets)
        raw = network.policy_outputs(shown.flatten(0, 1))[1].unflatten(0, rows.weight.shape)
        gain = bounded_gain(raw, loss.predict(now), loss)
        error = SCALE * (gain.gather(-1, step.unit.unsqueeze(-1))[..., 0] - fallen)
        return (error.square() * rows.weight).mean()


class DIMEClassifier(ClassificationTarget, BaseDIME):
    """DIME: units in the order of their estimated information per cost.

    It decides only from what is revealed, as SUWR does, but looks one step ahead: two features that
    matter only together look worthless one by one. `select`, `explain`, `acquire`, `predict_masked`
    and `mask_probability` are those of `suwr.SUWRClassifier`.

    Parameters
    ----------
    stopping : {'cost', 'budget', 'confidence'}, default='cost'
        'cost' stops where no unit is expected to lower the loss by λ per unit of cost; 'budget'
        where the next unit would exceed ``budget``, or after ``max_steps``; 'confidence' where one
        class has at least the probability ``confidence``.
    sparsity_weight : float or 'auto', default='auto'
        λ, for 'cost'; 'auto' is 1 % of the loss of the best constant prediction.
    budget : float or None, default=None
        For 'budget': the most that the units of a row may cost together. Of overlapping units, one
        that others cover counts as paid for.
    confidence : float, default=0.95
        For 'confidence'.
    exploration : float, default=0.05
        *ε*, how often training tries a random unit at first; five stages, each with a fifth of it.
    max_steps : int or None, default=None
        Most units of a row. None allows every unit, but no more than 32.
    groups, costs
        As in `suwr.SUWRClassifier`.
    hidden_size, n_layers, max_epochs, batch_size, validation_fraction, device, random_state, \
verbose
        As in `suwr.SUWRClassifier`.

    Attributes
    ----------
    policy_ : Policy
    max_steps_ : int
    sparsity_weight_ : float
        The λ that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import DIMEClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = DIMEClassifier(max_epochs=3, random_state=0).fit(X, y)
    >>> clf.select(X).shape
    (150, 4)
    """


class DIMERegressor(RegressionTarget, BaseDIME):
    """DIME for squared error; see `DIMEClassifier`. It cannot stop by confidence.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import DIMERegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = DIMERegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
