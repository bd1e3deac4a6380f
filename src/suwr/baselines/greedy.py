"""Base classes of the sequential baselines, and the training phases of GDFS and DIME.

They decide from what is revealed, through the step in `suwr.nn.step`, and are therefore leak-free
by construction. GDFS and DIME are greedy one-step look-ahead on the networks of SUWR; they differ
in how the choice of the next unit is learned and in when to stop.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from torch import Tensor

from suwr._utils.validation import Interval, parameter, parameter_error
from suwr.baselines.base import BaseBaseline, PhaseBuilders
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.table import TrainingData, image_shape
from suwr.nn.inputs import MaskedInputs
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.step import reveal_units
from suwr.training.config import (
    EXTENSION,
    Settings,
    default_bins,
    default_extension,
    default_folds,
    default_predictors,
    linear_decay,
)
from suwr.training.data import MIN_BATCHES, Folds, Rows, shuffled
from suwr.training.loop import (
    Metrics,
    Phase,
    cosine_decay,
    ensemble_step,
    make_optimizer,
    optimizer_step,
    set_rate,
    update_average,
)
from suwr.training.predictor import (
    Pretraining,
    extended,
    fold_loss,
    ignore_pieces,
    joint_rate,
    weighted_loss,
)
from suwr.training.validation import BestState, Objective, Task, validation_objective


@dataclass(frozen=True)
class Stopping:
    """Stopping rule; criteria that are None are ignored.

    Attributes
    ----------
    sparsity_weight : float or None
        Stop if no unit has this gain per unit of cost.
    confidence : float or None
        Stop if a class has at least this probability.
    max_cost : float or None
        Stop if the next unit would exceed this total cost.
    """

    sparsity_weight: float | None = None
    confidence: float | None = None
    max_cost: float | None = None

    def logit(
        self, units: MaskedInputs, inputs: Tensor, scores: Tensor, prediction: Tensor
    ) -> Tensor:
        """Logit of ζ_stop: infinite in the rows that stop, minus infinity in the others.

        Parameters
        ----------
        units : MaskedInputs
        inputs : Tensor of shape (n, n_inputs)
            Masked inputs.
        scores : Tensor of shape (n, n_units)
            The next unit is the available one of largest score, a gain per cost if
            ``sparsity_weight`` is given.
        prediction : Tensor of shape (n, n_outputs)
            Class probabilities if ``confidence`` is given.

        Returns
        -------
        Tensor of shape (n,)
        """
        available = units.available(inputs[:, -units.n_columns :] > 0.5)
        best = scores.masked_fill(~available, -torch.inf).max(dim=1)
        stop = torch.zeros_like(best.values, dtype=torch.bool)
        if self.sparsity_weight is not None:
            stop |= best.values < self.sparsity_weight
        if self.confidence is not None:
            stop |= prediction.amax(dim=1) >= self.confidence
        if self.max_cost is not None:
            spent = torch.where(available, 0.0, units.costs).sum(dim=1)
            stop |= spent + units.costs[best.indices] > self.max_cost
        return torch.where(stop, torch.inf, -torch.inf)


# Number of steps of each row in one update.
STEPS_PER_ROW = 4
# Fractions of the phase until which targets are soft, and from which they are the labels.
SOFT_UNTIL, HARD_FROM = 0.5, 0.8


class Step(NamedTuple):
    """One step of each row.

    Attributes
    ----------
    before, after : Tensor of bool, shape (..., n_columns)
        Masks before and after the step.
    unit : Tensor of int, shape (...)
        The unit that the step revealed.
    """

    before: Tensor
    unit: Tensor
    after: Tensor


def prefix_masks(inputs: MaskedInputs, order: Tensor, length: Tensor) -> Tensor:
    """Masks over columns after the first ``length`` units of ``order``.

    Parameters
    ----------
    inputs : MaskedInputs
    order : Tensor of int, shape (..., n_steps)
        Units in the order in which they are revealed; -1 for none.
    length : Tensor of int, shape (...)

    Returns
    -------
    Tensor of bool, shape (..., n_columns)
    """
    position = torch.arange(order.shape[-1], device=order.device)
    revealed = (position < length.unsqueeze(-1)) & (order >= 0)
    units = torch.zeros((*order.shape[:-1], inputs.n_units), device=order.device)
    return inputs.union(units.scatter_add(-1, order.clamp_min(0), revealed.to(units.dtype)) > 0)


class GreedyPhase(Phase):
    """Joint training of the selection policy and the predictors.

    A running average of the policy's weights is validated; its best epoch is kept.

    Parameters
    ----------
    method : BaseGreedy
    network : SeparateNetwork
    data : TrainingData
    folds : Folds
    settings : Settings
    """

    def __init__(
        self,
        method: BaseGreedy,
        network: SeparateNetwork,
        data: TrainingData,
        folds: Folds,
        settings: Settings,
    ) -> None:
        super().__init__(extended(settings.max_epochs, network.predictor, settings))
        self.name, self.method = method._method_name(), method
        self.network, self.data, self.folds, self.settings = network, data, folds, settings
        self.average = copy.deepcopy(network.policy)
        self.averaged = network.with_modules(policy=self.average)
        block = min(BLOCK, len(data.validation))
        self.policy = Policy(self.averaged, data.inputs, data.loss, settings.max_steps, block=block)
        self.policy_optimizer = torch.optim.AdamW(network.policy.parameters(), weight_decay=0.0)
        self.predictor_optimizer = make_optimizer(network.predictor)
        set_rate(self.predictor_optimizer, joint_rate(network.predictor, settings))
        self.best = BestState(self.averaged)
        self.modules = {"network": network, "average": self.average}
        self.optimizers = {"policy": self.policy_optimizer, "predictor": self.predictor_optimizer}

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        settings, folds, inputs = self.settings, self.folds, self.data.inputs
        n_batches, progress = folds.n_batches(settings.batch_size), 0.0
        total = torch.zeros((), device=folds.indices.device)
        self.network.train()
        for number, index in enumerate(folds.batches(settings.batch_size)):
            progress = (self.epoch * n_batches + number) / (self.epochs * n_batches)
            rows = folds.rows[index]
            rate = settings.policy_rate * cosine_decay(progress, floor=0.05)
            set_rate(self.policy_optimizer, rate)
            visited = self._update_policy(rows, progress)
            update_average(self.average, self.network.policy, settings.average_decay)
            random = inputs.random_masks(tuple(index.shape), folds.generator)
            twice = Rows(*(torch.cat([part, part], dim=1) for part in rows.tensors()))
            mask = torch.cat([random, visited], dim=1)
            seen = inputs.reveal(twice.values, mask)
            loss = fold_loss(self.network, self.data.loss, folds, seen, twice)
            ensemble_step(self.predictor_optimizer, self.network.predictor, loss)
            total = total + loss.detach()
        self.averaged.eval()
        objective = self.method._validate(self.policy, self.data)
        # Early epochs, with a high temperature or much exploration, are good by chance only.
        if progress >= 0.5:
            self.best.update(objective.value, self.epoch)
        value, cost = float(objective.value), float(objective.mean_cost)
        return Metrics(float(total) / n_batches, value, cost, self.policy)

    def finish(self) -> None:
        """See `Phase`."""
        if math.isfinite(self.best.value):
            self.network.load_state_dict(self.best.state)
        self.network.eval()

    def _update_policy(self, rows: Rows, progress: float) -> Tensor:
        """Make one update of the policy; return the mask of each row after one of its steps.

        Each row is rolled out to the end, but the update uses a few random steps of it: the steps
        of a row are correlated, and using all of them would dominate the training time.
        """
        network = self.network
        softness = linear_decay(progress, SOFT_UNTIL, HARD_FROM)
        rows = self._soften_targets(rows, softness)
        # The predictors only evaluate the steps here: they are not updated.
        network.predictor.requires_grad_(False).eval()
        steps = self._rollout(rows, progress)
        n_drawn = min(STEPS_PER_ROW, self.settings.max_steps)
        drawn = [_draw_step(steps, self.folds.generator) for _ in range(n_drawn)]
        joined = Step(*(torch.cat(parts, dim=1) for parts in zip(*drawn, strict=True)))
        repeated = Rows(*(torch.cat([part] * n_drawn, dim=1) for part in rows.tensors()))
        loss = self.method._step_loss(self, repeated, joined, progress)
        optimizer_step(self.policy_optimizer, loss)
        network.predictor.requires_grad_(True).train()
        return drawn[0].after

    @torch.no_grad()
    def _rollout(self, rows: Rows, progress: float) -> Step:
        """Roll out the rows ``(n_folds, b)``; the results have a leading dimension of steps."""
        inputs, shape = self.data.inputs, rows.weight.shape
        values = rows.values.flatten(0, 1)
        mask = torch.zeros(len(values), inputs.n_columns, dtype=torch.bool, device=values.device)
        masks, units = [mask], []
        for _ in range(self.settings.max_steps):
            unit = self.method._explore(self, inputs.reveal(values, mask), mask, progress)
            mask = reveal_units(inputs, mask, unit.unsqueeze(-1)).mask
            masks.append(mask)
            units.append(unit)
        stacked = torch.stack(masks).unflatten(1, shape)
        return Step(stacked[:-1], torch.stack(units).unflatten(1, shape), stacked[1:])

    @torch.no_grad()
    def _soften_targets(self, rows: Rows, softness: float) -> Rows:
        """Mix the targets with predictions from the whole row, by predictors trained on others.

        As in SUWR: early in training, label noise exceeds the differences between units.
        """
        if softness == 0.0:
            return rows
        inputs = self.data.inputs
        shape = (*rows.weight.shape, inputs.n_columns)
        full = torch.ones(shape, dtype=torch.bool, device=rows.values.device)
        self.network.predictor.eval()
        predictions = self.network.cross_fitted(inputs.reveal(rows.values, full), self.data.loss)
        self.network.predictor.train()
        return replace(rows, targets=rows.targets.lerp(predictions, softness))


def _draw_step(steps: Step, generator: torch.Generator) -> Step:
    """Draw one step of each row uniformly."""
    n, *shape = steps.unit.shape
    index = torch.randint(0, n, (1, *shape), generator=generator, device=steps.unit.device)

    def take(mask: Tensor) -> Tensor:
        return mask.gather(0, index.unsqueeze(-1).expand(1, *mask.shape[1:]))[0]

    return Step(take(steps.before), steps.unit.gather(0, index)[0], take(steps.after))


class PrefixFineTuning(Phase):
    """Fine-tuning of all predictors, on all rows, with the masks along the policy's rollouts.

    Half of the masks are final ones, the others end after a random number of steps, so that one
    model predicts well at every budget up to its own.

    Parameters
    ----------
    network : SeparateNetwork
    policy : Policy
        The trained policy, with ``network``.
    folds : Folds
    settings : Settings
    """

    name = "fine-tuning"

    def __init__(
        self, network: SeparateNetwork, policy: Policy, folds: Folds, settings: Settings
    ) -> None:
        super().__init__(extended(settings.finetune_epochs, network.predictor, settings))
        self.network, self.folds, self.settings = network, folds, settings
        self.inputs, self.loss = policy.inputs, policy.loss
        rows = folds.rows
        order = policy.rollout(rows.values).order[:, :, 0]
        self.order = torch.as_tensor(order, device=rows.values.device)
        network.predictor.dropout = settings.finetune_dropout
        self.optimizer = make_optimizer(network.predictor)
        self.modules = {"network": network}
        self.optimizers = {"predictor": self.optimizer}

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        rows, generator, settings = self.folds.rows, self.folds.generator, self.settings
        device, members = rows.values.device, self.network.architecture.n_members
        n_steps, batch = self.order.shape[1], min(settings.batch_size, len(rows))
        n_batches = max(MIN_BATCHES, len(rows) // batch)
        every_row = torch.arange(len(rows), device=device).expand(members, -1)
        order, total = shuffled(every_row, generator), torch.zeros((), device=device)
        self.network.train()
        for number in range(n_batches):
            progress = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.finetune_rate * cosine_decay(progress))
            place = torch.arange(number * batch, (number + 1) * batch, device=device) % len(rows)
            index = order[:, place].repeat(1, 2)
            length = torch.full_like(index, n_steps)
            length[:, :batch] = torch.randint(
                0, n_steps + 1, (members, batch), generator=generator, device=device
            )
            mask = prefix_masks(self.inputs, self.order[index], length)
            loss = weighted_loss(self.network, self.inputs, self.loss, rows[index], mask)
            ensemble_step(self.optimizer, self.network.predictor, loss)
            total = total + loss.detach()
        return Metrics(float(total) / n_batches)


# Epochs of fine-tuning, which nothing validates, relative to those of the joint training.
FINETUNE_FRACTION = 0.2

# Upper limit of the number of steps if `max_steps` is None, as in SUWR.
DEFAULT_MAX_STEPS = 32


def staged_decay(progress: float, start: float, end: float, stages: int) -> float:
    """Piecewise constant geometric decay from ``start`` to ``end``.

    Parameters
    ----------
    progress : float
        Completed fraction of the training.
    start, end : float
        Values of the first and of the last stage.
    stages : int
        Number of stages of equal length.

    Examples
    --------
    >>> [round(staged_decay(p, 2.0, 0.02, 3), 3) for p in (0.0, 0.5, 0.99)]
    [2.0, 0.2, 0.02]
    """
    stage = min(int(progress * stages), stages - 1)
    return start * (end / start) ** (stage / max(stages - 1, 1))


def mean_step_loss(policy: Policy, data: TrainingData) -> Objective:
    """Mean loss of the validation rows over their steps, since every budget counts; mean cost."""
    rows, device = data.validation, data.validation.values.device
    trace = policy.rollout(rows.values, record=True)
    assert trace.prediction is not None
    after_steps = torch.as_tensor(trace.prediction[:, 1:], device=device)
    losses = data.loss.of_prediction(after_steps, rows.targets.unsqueeze(1))
    # NaN after the last step of a row, whose units may cover all columns before the others do.
    losses = losses.nanmean(dim=1)
    costs = torch.as_tensor(trace.cost, dtype=losses.dtype, device=device)
    return Objective(*(float((part * rows.weight).mean()) for part in (losses, costs)))


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSequentialBaseline(BaseBaseline, SequentialModel):
    """A baseline that reveals one unit after the other, with a limit on their number.

    A method implements `_phases`, which sets ``policy_`` and ``max_steps_``.
    """

    max_steps: int | None = parameter(None, None, Interval(Integral, 1))

    def _resolve_max_steps(self) -> int:
        """Maximum number of units revealed in a row."""
        limit = DEFAULT_MAX_STEPS if self.max_steps is None else self.max_steps
        return min(limit, len(self.units_))

    def predict_steps(self, X: Any) -> NDArray[np.float64]:
        """Predict after 0, 1, … ``max_steps_`` units: the curve over budgets of one model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, max_steps_ + 1, n_classes) or (n, max_steps_ + 1)
            Class probabilities, or values. A row that has stopped keeps its last prediction.
        """
        parts = []
        for _, trace in self.fitted_policy().rollouts(self._read(X), record=True):
            prediction = trace.prediction
            assert prediction is not None
            steps = np.minimum(np.arange(self.max_steps_ + 1), prediction.shape[1] - 1)
            last = (~np.isnan(prediction[:, :, 0])).sum(axis=1, keepdims=True) - 1
            rows = np.arange(len(prediction))[:, None]
            parts.append(self.target_.shown(prediction[rows, np.minimum(steps, last)]))
        result = np.concatenate(parts)
        return self.target_.outputs(result)


@dataclass(kw_only=True, eq=False, repr=False)
class RuleStopping(BaseSequentialBaseline):
    """A baseline whose stopping rule is a parameter, ``stopping``."""

    stopping: str
    max_cost: float | None = parameter(None, None, Interval(Real, 0))
    confidence: float = parameter(0.95, Interval(Real, 0, 1, closed="both"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.stopping == "confidence" and not is_classifier(self):
            expected = "another rule than 'confidence' for regression"
            raise parameter_error("stopping", type(self).__name__, expected, self.stopping)

    def _stopping_rule(self) -> Stopping:
        if self.stopping == "confidence":
            return Stopping(confidence=self.confidence)
        return Stopping(max_cost=self.max_cost)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGreedy(BaseSequentialBaseline):
    """Parameters and training of a greedy sequential method.

    Training has three phases: the predictors are trained on random masks, then jointly with the
    selection policy, and finally on the masks of the trained policy.

    A method implements `_make_network`, `_explore` and `_step_loss`. It may override
    `_objective_weight` and `_validate`.
    """

    n_predictors: int | Literal["auto"] = 2
    network: Literal["mlp", "conv"] = "mlp"

    @abstractmethod
    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        """Return a network that implements the stopping rule of the method in `decide`."""

    @abstractmethod
    def _explore(self, phase: GreedyPhase, seen: Tensor, mask: Tensor, progress: float) -> Tensor:
        """Choose the next unit of each row during training, given masked inputs, ``(n,)``."""

    @abstractmethod
    def _step_loss(self, phase: GreedyPhase, rows: Rows, step: Step, progress: float) -> Tensor:
        """Loss of the selection policy on single steps of the rows ``(n_folds, m)``."""

    def _objective_weight(self) -> float:
        """λ of the validation objective, relative to the loss of the best constant prediction."""
        return 0.0

    def _validate(self, policy: Policy, data: TrainingData) -> Objective:
        """``L(f(x ⊙ h), y) + λ ‖h‖`` of the validation rows; the best epoch minimises it."""
        return validation_objective(policy, data.loss, data.validation, self._objective_weight())

    # Fitting.

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if (n := self.n_predictors) != "auto" and n % 2:
            raise parameter_error("n_predictors", type(self).__name__, "an even number", n)

    def _n_members(self, n_rows: int) -> int:
        return default_predictors(n_rows) if self.n_predictors == "auto" else self.n_predictors

    def _n_folds(self, n_rows: int) -> int:
        return default_folds(n_rows, self._n_members(n_rows))

    def _n_bins(self, n_rows: int, n_columns: int, soft: bool) -> int:
        return default_bins(n_rows, n_columns) if self.n_predictors == "auto" else 0

    def _n_epochs(self) -> int:
        plan = Settings(
            sparsity_weight=0.0, max_steps=1, max_epochs=self.max_epochs,
            finetune_fraction=FINETUNE_FRACTION,
        )  # fmt: skip
        later = plan.max_epochs + plan.finetune_epochs
        return plan.pretrain_epochs + round(EXTENSION * later)

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.max_steps_, n = self._resolve_max_steps(), len(data.rows)
        settings = Settings(
            sparsity_weight=self._objective_weight(),
            max_steps=self.max_steps_,
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(n),
            finetune_fraction=FINETUNE_FRACTION,
            extension=default_extension(n),
        )
        shape, members = image_shape(self.network, self.groups), self._n_members(n)
        architecture = Architecture(
            **self._network_sizes(data), n_members=members, image_shape=shape
        )
        network = self._make_network(architecture, data).to(self.device_)
        ignore_pieces(network, data.inputs, policy=True)
        network.predictor.dropout, network.n_folds = settings.dropout, folds.n_folds
        self.policy_ = Policy(network, data.inputs, data.loss, self.max_steps_)
        task = Task(data.inputs, data.loss, data.rows, data.validation, settings)
        return [
            lambda: Pretraining(network, task, folds),
            lambda: GreedyPhase(self, network, data, folds, settings),
            lambda: PrefixFineTuning(network, self.policy_, folds, settings),
        ]
