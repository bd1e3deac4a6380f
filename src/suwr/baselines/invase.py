"""INVASE: a variable number of features per row, by actor-critic (Yoon et al. 2019).

A selector, the actor, gives each unit a selection probability given the whole row. A subset *h* is
sampled; a critic predicts from *x ⊙ h* and a baseline network from the whole row. The selector
maximises

    E_h [ L_baseline - L_critic(h) ] - λ E_h ‖h‖

by the score-function gradient; the second expectation has a closed form. At inference the units
with a probability above one half are selected.

`BasePenalised` is the algorithm shared with REAL-X: independent Bernoulli selection with a cost
penalty.

The predictor is first trained alone on masks of independent fair coin flips. Until it has learned
something, only the penalty distinguishes selections, and the selector would drop every unit. Then
selector and predictor are trained jointly.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr._utils.validation import Interval, Options, parameter
from suwr.baselines.base import (
    BaseSelector,
    PhaseBuilders,
    Schedule,
    SelectorNetwork,
    SelectorPhase,
    make_adamw,
    predictor_phase,
)
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import MaskedInputs
from suwr.training.data import Folds, Rows

# Epochs of the predictor's pretraining, as a fraction of the epochs of joint training.
PRETRAINING_FRACTION = 0.25


def coin_flip_masks(inputs: MaskedInputs, n: int, generator: torch.Generator) -> Tensor:
    """Masks over columns in which each unit is revealed with probability ½, ``(n, n_columns)``."""
    draws = torch.rand(n, inputs.n_units, generator=generator, device=generator.device)
    return inputs.union(draws < 0.5)


def coin_flip_phase(
    network: SelectorNetwork, data: TrainingData, folds: Folds, schedule: Schedule
) -> SelectorPhase:
    """Return a phase that trains the predictor on coin-flip masks, validated on fixed ones."""
    masks = partial(coin_flip_masks, data.inputs, generator=folds.generator)
    return predictor_phase(network, data, folds, masks, schedule, "EVAL-X")


def log_probability(scores: Tensor, selected: Tensor) -> Tensor:
    """log ζ(h | x) of independent selections with logits ``scores``, ``(n,)``.

    Examples
    --------
    >>> p = log_probability(torch.zeros(1, 2), torch.tensor([[True, False]])).exp()
    >>> round(float(p), 4)
    0.25
    """
    target = selected.to(scores.dtype)
    return -F.binary_cross_entropy_with_logits(scores, target, reduction="none").sum(dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class BasePenalised(BaseSelector):
    """A selection probability for each unit, and a penalty λ ‖h‖ on the selection."""

    _predicts_any_mask: ClassVar[bool] = True
    # Whether the method uses a network that predicts from the whole row.
    _with_baseline: ClassVar[bool]

    sparsity_weight: float | Literal["auto"] = parameter("auto", Options("auto"), Interval(Real, 0))

    @abstractmethod
    def _selector_loss(
        self, data: TrainingData, rows: Rows, unit_costs: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Loss of the selector for each row, ``(n,)``; ``unit_costs`` are multiplied by λ."""

    @abstractmethod
    def _predictor_loss(self, data: TrainingData, rows: Rows, generator: torch.Generator) -> Tensor:
        """Loss of the predictor, and of the baseline if there is one, for each row ``(n,)``."""

    def _n_epochs(self) -> int:
        return self.max_epochs + self._pretraining_epochs

    @property
    def _pretraining_epochs(self) -> int:
        return max(1, round(PRETRAINING_FRACTION * self.max_epochs))

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        self.network_ = self._build_network(data, 0.2, baseline=self._with_baseline)
        schedule = self._schedule(data)
        short = replace(schedule, max_epochs=self._pretraining_epochs)
        return [
            lambda: coin_flip_phase(self.network_, data, folds, short),
            lambda: self._joint_phase(data, folds, schedule),
        ]

    def _joint_phase(self, data: TrainingData, folds: Folds, schedule: Schedule) -> SelectorPhase:
        """Alternate updates of the selector and of the predictors."""
        network, generator = self.network_, folds.generator
        # In units of the loss of the best constant prediction, like the losses.
        unit_costs = data.inputs.costs * (self.sparsity_weight_ / self.constant_loss_)

        def of_selector(index: Tensor, progress: float) -> Tensor:
            rows = data.rows[index]
            # Without dropout, whose noise would exceed the effect of a single unit on the loss.
            network.eval()
            losses = self._selector_loss(data, rows, unit_costs, generator)
            return (losses * rows.weight).mean()

        def of_predictors(index: Tensor, progress: float) -> Tensor:
            rows = data.rows[index]
            network.train()
            return (self._predictor_loss(data, rows, generator) * rows.weight).mean()

        steps = [
            (make_adamw(network.selector, schedule, weight_decay=0.0), of_selector),
            (make_adamw(network.predictors(), schedule), of_predictors),
        ]
        validate = partial(self._validate, data, unit_costs)
        return SelectorPhase(self._method_name(), network, folds, schedule, steps, validate)

    def _validate(self, data: TrainingData, unit_costs: Tensor) -> tuple[float, float]:
        """``L(f(x ⊙ h), y) + λ ‖h‖`` of the validation rows under the deterministic selection."""
        rows, network = data.validation, self.network_
        chosen = self._choose(rows.values)
        outputs = network.outputs(data.inputs.reveal(rows.values, data.inputs.union(chosen)))
        selected = chosen.to(torch.float32)
        objective = data.loss.per_row(outputs, rows.targets) + selected @ unit_costs
        mean_cost = (selected @ data.inputs.costs * rows.weight).mean()
        return float((objective * rows.weight).mean()), float(mean_cost)

    def _choose(self, values: Tensor) -> Tensor:
        return self.network_.scores(values) > 0


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
        mask, loss = data.inputs.union(selected), data.loss
        critic = self.network_.outputs(data.inputs.reveal(rows.values, mask))
        baseline = self.network_.baseline_outputs(rows.values)
        return loss.per_row(critic, rows.targets), loss.per_row(baseline, rows.targets)


def _sample(scores: Tensor, generator: torch.Generator) -> Tensor:
    """Sample units independently with the selector's probabilities, bool ``(n, n_units)``."""
    uniform = torch.rand(scores.shape, generator=generator, device=scores.device)
    return uniform < scores.detach().sigmoid()


class INVASEClassifier(TableClassifier, BaseINVASE):
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


class INVASERegressor(TableRegressor, BaseINVASE):
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
