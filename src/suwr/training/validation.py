"""The validation objective, and the comparison of a policy with a constant and one fixed subset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr._utils.text import format_number, percent
from suwr._utils.validation import warn_caller
from suwr.exceptions import UninformativeModelWarning
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Network, SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.step import reveal_units, training_starts
from suwr.training.config import Settings, SparsityWeights
from suwr.training.data import Folds, Rows
from suwr.training.teacher import Lesson

__all__ = [
    "BestState", "CrossFittedLoss", "HeldOutComparison", "Objective", "Task", "ValidationObjective",
    "compare_held_out", "is_falling", "row_objectives", "tail_share", "validation_objective",
]  # fmt: skip

# Random masks of each fold that `CrossFittedLoss` evaluates.
CROSS_FITTED_MASKS = 1_000


class Objective(NamedTuple):
    """The objective on validation rows.

    Attributes
    ----------
    value : float
        Weighted mean of ``L(f(x ⊙ h), y) + λ ‖h‖``.
    mean_cost : float
        Weighted mean of ``‖h‖``.
    """

    value: float
    mean_cost: float


@torch.no_grad()
def validation_objective(
    policy: Policy,
    loss: Loss,
    rows: Rows,
    sparsity_weight: float | Tensor,
    condition: Tensor | None = None,
) -> Objective:
    """The objective of a policy under greedy inference.

    Parameters
    ----------
    policy : Policy
    loss : Loss
    rows : Rows
    sparsity_weight : float or Tensor of shape (n,)
        λ.
    condition : Tensor of shape (n,), optional
        Position of λ in its range, for every row.
    """
    losses, costs = row_objectives(policy, loss, rows, condition)
    value = ((losses + sparsity_weight * costs) * rows.weight).mean()
    return Objective(float(value), float((costs * rows.weight).mean()))


@torch.no_grad()
def row_objectives(
    policy: Policy, loss: Loss, rows: Rows, condition: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Loss and cost of every row under greedy inference; see `validation_objective`."""
    losses, costs = torch.empty_like(rows.weight), torch.empty_like(rows.weight)
    for place, part in rows.blocks():
        at = None if condition is None else condition[place]
        starts = training_starts(policy.inputs, part.values, part.costs)
        trace = policy.rollout(part.values, condition=at, starts=starts)
        mask = torch.as_tensor(trace.mask, device=policy.device)
        costs[place] = torch.as_tensor(trace.cost, device=policy.device).to(costs.dtype)
        losses[place] = loss.of_prediction(policy.predict(part.values, mask), part.targets)
    return losses, costs


class ValidationObjective:
    """Evaluates a network on validation rows.

    Parameters
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
    rows : Rows
        Validation rows.
    settings : Settings
    """

    def __init__(
        self, network: Network, inputs: MaskedInputs, loss: Loss, rows: Rows, settings: Settings
    ) -> None:
        self.loss, self.rows = loss, rows
        weights = SparsityWeights.of(settings, rows.device)
        self.weight, self.condition = weights.spread(len(rows))
        self.policy = Policy(
            network, inputs, loss, settings.max_steps, settings.units_per_step,
            min(BLOCK, len(rows)), None if weights.ratio is None else 0.0,
        )  # fmt: skip

    def __call__(self) -> Objective:
        """The objective of the present weights."""
        return validation_objective(self.policy, self.loss, self.rows, self.weight, self.condition)


@dataclass(frozen=True)
class Task:
    """The learning problem.

    Attributes
    ----------
    inputs : MaskedInputs
    loss : Loss
    rows, validation : Rows
        Training and validation rows; the latter choose the best epoch.
    settings : Settings
    lesson : Lesson or None
        What a teacher knows of the training rows.
    taught : Settings or None
        The settings of what follows the lesson.
    """

    inputs: MaskedInputs
    loss: Loss
    rows: Rows
    validation: Rows
    settings: Settings
    lesson: Lesson | None = None
    taught: Settings | None = None

    def validate(self, network: Network) -> ValidationObjective:
        """The objective of a network on the validation rows."""
        return ValidationObjective(network, self.inputs, self.loss, self.validation, self.settings)


class CrossFittedLoss:
    """Mean loss of the predictors on the fold that they were not trained on, under random masks.

    Rows and masks are drawn once, so that the losses of two epochs can be compared.

    Parameters
    ----------
    network : SeparateNetwork
    inputs : MaskedInputs
    loss : Loss
    folds : Folds
    settings : Settings
    """

    def __init__(
        self,
        network: SeparateNetwork,
        inputs: MaskedInputs,
        loss: Loss,
        folds: Folds,
        settings: Settings,
    ) -> None:
        self.network, self.inputs, self.loss, self.folds = network, inputs, loss, folds
        index = folds.indices[:, :CROSS_FITTED_MASKS]
        self.index = index.repeat(1, max(1, CROSS_FITTED_MASKS // index.shape[1]))
        # A phase that is resumed is built with another state of the generator of the folds.
        generator = torch.Generator(index.device).manual_seed(0)
        self.masks = inputs.random_masks(
            tuple(self.index.shape), generator, settings.max_random_units
        )

    @property
    def rows(self) -> Rows:
        """The rows with their present targets, which a checkpoint may have replaced."""
        return self.folds.rows[self.index]

    @torch.no_grad()
    def __call__(self) -> float:
        """The loss of the present weights."""
        rows = self.rows
        seen = self.inputs.reveal(rows.values, self.masks)
        losses = self.loss.of_prediction(self.network.cross_fitted(seen, self.loss), rows.targets)
        return float((losses * rows.weight).mean())


class BestState:
    """The weights of the best epoch.

    Parameters
    ----------
    network : Module
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.value, self.epoch = math.inf, 0
        self.state = {k: v.clone() for k, v in network.state_dict().items()}

    def update(self, value: float, epoch: int) -> bool:
        """Keep the current weights if the objective ``value`` improved; return whether it did."""
        if not value < self.value:
            return False
        self.value, self.epoch = value, epoch
        self.state = {k: v.clone() for k, v in self.network.state_dict().items()}
        return True

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, for a checkpoint."""
        weights = {f"best/{k}": v for k, v in self.state.items()}
        value = torch.tensor(self.value, dtype=torch.float64)
        return {"best": value, "best_epoch": torch.tensor(self.epoch)} | weights

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `tensors`."""
        self.value, self.epoch = float(tensors["best"]), int(tensors["best_epoch"])
        self.state = {
            k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")
        }

    def load(self) -> None:
        """Load the best weights into the network."""
        self.network.load_state_dict(self.state)


# Training rows on which the fixed subset is chosen.
SUBSET_ROWS = 1_000
# Training rows below which a fit may fail for lack of data.
FEW_ROWS = 500
# λ, relative to the loss of the best constant prediction, above which it may be the reason.
LARGE_WEIGHT = 0.05
# Epochs of policy training below which they may be the reason.
FEW_EPOCHS = 10
# Share of the variance in 1 % of the rows from which the target has a heavy tail: that of a normal
# distribution is 8 %.
HEAVY_TAIL = 0.3
# Held-out rows, of equal weight, below which a difference may be too uncertain.
FEW_HELD_OUT = 50


@dataclass(frozen=True)
class HeldOutComparison:
    """Objectives ``L(f(x ⊙ h), y) + λ ‖h‖`` on the validation rows of a fit.

    Attributes
    ----------
    n_rows : int
        Validation rows.
    objective : float
        Of the policy.
    constant : float
        Of the best constant prediction, which costs nothing.
    fixed_subset : float
        Of the same predictors with one set of units for all rows, of about the same cost.
    mean_cost : float
        Mean cost per row of the policy.
    constant_error, subset_error : float
        Standard errors of the differences between the policy's objective and those of the constant
        and the fixed subset.
    effective_rows : float
        Number of rows of equal weight that would give a mean of the same precision.
    loss : float
        Of the policy, without the costs.
    """

    n_rows: int
    objective: float
    constant: float
    fixed_subset: float
    mean_cost: float
    constant_error: float
    subset_error: float
    effective_rows: float
    loss: float

    def to_dict(self) -> dict[str, float]:
        """The attributes as floats, which model files keep exactly."""
        return {name: float(value) for name, value in asdict(self).items()}

    def warn(
        self,
        owner: str,
        n_rows: int,
        relative_weight: float,
        n_epochs: int,
        *,
        falling: bool = False,
        tail: float = 0.0,
    ) -> None:
        """Warn if the policy is not better than a constant, or worse than a fixed subset.

        Differences of less than one standard error do not count.

        Parameters
        ----------
        owner : str
            Class of the estimator.
        n_rows : int
            Training rows.
        relative_weight : float
            λ, relative to the loss of the best constant prediction.
        n_epochs : int
            Epochs of policy training.
        falling : bool, default=False
            Whether the objective was still falling at the end of these epochs.
        tail : float, default=0.0
            See `tail_share`; 0 if the loss is not the squared error.
        """
        reason, certain = (
            (
                "the features may be uninformative, or informative only jointly; try a smaller "
                "'sparsity_weight', more 'rollouts' in 'training', or more rows"
            ),
            False,
        )
        if self.mean_cost == 0:
            finding = "selects no features, like a constant prediction,"
        elif self.objective >= self.constant - self.constant_error:
            finding = "is no better than a constant prediction"
            if self.objective < self.constant and self.effective_rows < FEW_HELD_OUT:
                finding = "is not clearly better than a constant prediction"
                reason = (
                    f"by their weights, the held-out rows count as {self.effective_rows:.0f}, "
                    "which are few; try a larger 'validation_fraction'"
                )
            elif self.loss < self.constant - self.constant_error:
                certain = True
                cost = format_number(self.objective - self.loss, 4)
                reason = (
                    f"the features reduce the loss to {format_number(self.loss, 4)}, but they cost "
                    f"{cost}; try a smaller 'sparsity_weight'"
                )
        elif self.objective > self.fixed_subset + self.subset_error:
            finding = "is worse than selecting the same features for every row"
            reason = (
                "the training was too brief to choose features row by row, or the same features "
                "suit all rows; try more 'max_epochs' or more rows"
            )
        else:
            return
        if n_epochs < FEW_EPOCHS or (falling and not certain):
            still = ", and the objective was still falling" if falling else ""
            reason = f"the training was brief ('max_epochs' is {n_epochs}{still}); try more epochs"
        elif certain:
            pass
        elif tail > HEAVY_TAIL:
            reason = (
                f"the target has a heavy tail: 1 % of the rows have {percent(tail)} of its "
                "variance; try target_transform='log1p', or loss='gamma' or 'absolute_error'"
            )
        elif n_rows < FEW_ROWS:
            reason = f"{n_rows} training rows are few; try more rows or a smaller 'max_steps'"
        elif relative_weight > LARGE_WEIGHT:
            reason = "the sparsity weight is large; try a smaller 'sparsity_weight'"
        shown = [format_number(v, 4) for v in (self.objective, self.constant, self.fixed_subset)]
        warn_caller(
            f"The policy of this {owner} {finding} on {self.n_rows} held-out rows "
            f"(objective, which is the loss and the costs of features, {shown[0]}; constant "
            f"{shown[1]}, fixed subset {shown[2]}). "
            f"Likely reason: {reason}.",
            UninformativeModelWarning,
        )


@torch.no_grad()
def compare_held_out(
    policy: Policy, loss: Loss, rows: Rows, validation: Rows, sparsity_weight: float, unit: float
) -> HeldOutComparison:
    """Evaluate a policy, the best constant and a fixed subset on the validation rows.

    Parameters
    ----------
    policy : Policy
    loss : Loss
    rows, validation : Rows
        The constant and the subset are chosen on training rows.
    sparsity_weight : float
        λ, relative to the loss of the best constant prediction.
    unit : float
        That loss, in the user's units.
    """
    losses, costs = row_objectives(policy, loss, validation)
    own = losses + sparsity_weight * costs
    best = loss.best_constant(rows.targets, rows.weight)
    constant = loss.of_prediction(best.expand(len(validation), -1), validation.targets)
    units = _fixed_subset(policy, loss, rows, float((costs * validation.weight).mean()))
    fixed = constant
    if len(units) > 0:
        mask = _union(policy, units).expand(len(validation), -1)
        values = validation[slice(0, len(validation))].values
        fixed = loss.of_prediction(policy.predict(values, mask), validation.targets)
        fixed = fixed + sparsity_weight * _subset_cost(policy, units, validation)
    n = len(validation)

    def weighted(values: Tensor) -> float:
        return float((values * validation.weight).mean())

    def error(values: Tensor) -> float:
        return float((values * validation.weight).std(correction=0)) * unit / math.sqrt(n)

    return HeldOutComparison(
        n_rows=n,
        objective=weighted(own) * unit,
        constant=weighted(constant) * unit,
        fixed_subset=weighted(fixed) * unit,
        mean_cost=weighted(costs),
        constant_error=error(own - constant),
        subset_error=error(own - fixed),
        effective_rows=float(validation.weight.sum().square() / validation.weight.square().sum()),
        loss=weighted(losses) * unit,
    )


def is_falling(history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the objective of the policy was least in the last tenth of its epochs."""
    measured = [r for r in history if None not in (r["mean_cost"], r["validation_objective"])]
    phase = [r["validation_objective"] for r in measured if r["phase"] == measured[0]["phase"]]
    return len(phase) > 1 and phase.index(min(phase)) >= 0.9 * (len(phase) - 1)


def tail_share(values: NDArray[np.float64]) -> float:
    """The share of the variance of a target in the 1 % of the rows that are farthest from the mean.

    Examples
    --------
    >>> round(tail_share(np.arange(1000.0)), 3), round(tail_share(np.exp(np.arange(100.0))), 3)
    (0.03, 0.856)
    """
    values = values.astype(np.float64)
    squares = np.sort((values - values.mean()) ** 2)[::-1]
    return float(squares[: max(1, len(values) // 100)].sum()) / (float(squares.sum()) or 1.0)


def _fixed_subset(policy: Policy, loss: Loss, rows: Rows, budget: float) -> Tensor:
    """Units chosen by forward selection on training rows, of total cost near ``budget``."""
    inputs = policy.inputs
    sample = rows[slice(0, min(len(rows), SUBSET_ROWS))]
    chosen: list[int] = []
    spent = 0.0
    free = torch.ones(inputs.n_units, dtype=torch.bool, device=policy.device)
    if inputs.selectable is not None:
        free &= inputs.selectable
    while bool(free.any()):
        found = {}
        for unit in torch.nonzero(free)[:, 0].tolist():
            mask = _union(policy, inputs.costs.new_tensor([*chosen, unit]).long())
            prediction = policy.predict(sample.values, mask.expand(len(sample), -1))
            losses = loss.of_prediction(prediction, sample.targets) * sample.weight
            found[unit] = float(losses.mean())
        best = min(found, key=lambda unit: found[unit])
        taken = _union(policy, inputs.costs.new_tensor(chosen).long())
        cost = float(inputs.cost_of(inputs.costs.new_tensor([best]).long(), taken))
        if len(chosen) % policy.units_per_step == 0:
            cost += inputs.visit_cost
        # Stop where the total is nearest to the budget.
        if spent + cost - budget > budget - spent:
            break
        chosen.append(best)
        spent += cost
        free[best] = False
    return torch.tensor(chosen, dtype=torch.long, device=policy.device)


def _subset_cost(policy: Policy, units: Tensor, rows: Rows) -> Tensor:
    """Cost of acquiring ``units`` in as few steps as possible, for each row."""
    n, inputs = len(rows), policy.inputs
    mask = torch.zeros(n, inputs.n_columns, dtype=torch.bool, device=policy.device)
    total = torch.zeros(n, device=policy.device)
    for step in units.split(policy.units_per_step):
        mask, cost = reveal_units(inputs, mask, step.expand(n, -1), costs=rows.costs)
        total = total + cost
    return total


def _union(policy: Policy, units: Tensor) -> Tensor:
    """The mask that reveals all of ``units``, of shape (1, n_columns)."""
    return policy.inputs.membership[units].any(dim=0, keepdim=True)
