"""Training phases of GDFS and DIME: the selection policy, and fine-tuning of the predictors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from suwr.estimators.table import TrainingData
from suwr.nn.inputs import MaskedInputs, soft_columns
from suwr.nn.networks import SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.step import reveal_units
from suwr.training.config import Settings, linear_decay
from suwr.training.data import MIN_BATCHES, Folds, Rows
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
from suwr.training.predictor import extended, fold_loss, joint_rate, weighted_loss
from suwr.training.validation import BestState, Objective

__all__ = ["GreedyPhase", "PrefixFineTuning", "Step", "prefix_masks"]

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
    units = units.scatter_add(-1, order.clamp_min(0), revealed.to(units.dtype))
    return soft_columns(inputs, units) > 0.5


class GreedyPhase(Phase):
    """Joint training of the selection policy and the predictors.

    A running average of the policy's weights is validated; its best epoch is kept.

    Parameters
    ----------
    name : str
    network : SeparateNetwork
    data : TrainingData
    folds : Folds
    settings : Settings
    explore : callable of (masked inputs, mask, progress)
        Chooses the next unit of each row, ``(n,)``.
    step_loss : callable of (rows, step, progress)
        Loss of the selection policy on single steps of the rows ``(n_folds, m)``.
    validate : callable of (policy)
        Returns the validation objective.
    """

    def __init__(
        self,
        name: str,
        network: SeparateNetwork,
        data: TrainingData,
        folds: Folds,
        settings: Settings,
        explore: Callable[[Tensor, Tensor, float], Tensor],
        step_loss: Callable[[Rows, Step, float], Tensor],
        validate: Callable[[Policy], Objective],
    ) -> None:
        super().__init__(extended(settings.max_epochs, network.predictor, settings))
        self.name, self.network, self.data = name, network, data
        self.folds, self.settings = folds, settings
        self.explore, self.step_loss, self.validate = explore, step_loss, validate
        self.average = copy.deepcopy(network.policy)
        self.averaged = network.with_modules(policy=self.average)
        self.policy = Policy(
            self.averaged, data.inputs, data.loss, settings.max_steps,
            block=min(BLOCK, len(data.validation)),
        )  # fmt: skip
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
            set_rate(
                self.policy_optimizer, settings.policy_rate * cosine_decay(progress, floor=0.05)
            )
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
        objective = self.validate(self.policy)
        # Early epochs, with a high temperature or much exploration, are good by chance only.
        if progress >= 0.5:
            self.best.update(objective.value, self.epoch)
        return Metrics(
            float(total) / n_batches,
            float(objective.value),
            float(objective.mean_cost),
            self.policy,
        )

    def finish(self) -> None:
        """See `Phase`."""
        if bool(torch.isfinite(self.best.value).all()):
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
        loss = self.step_loss(repeated, joined, progress)
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
            unit = self.explore(inputs.reveal(values, mask), mask, progress)
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
        return Rows(rows.values, rows.targets.lerp(predictions, softness), rows.weight)


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
        noise = torch.rand((members, len(rows)), generator=generator, device=device)
        shuffled, total = noise.argsort(dim=1), torch.zeros((), device=device)
        self.network.train()
        for number in range(n_batches):
            progress = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.finetune_rate * cosine_decay(progress))
            place = torch.arange(number * batch, (number + 1) * batch, device=device) % len(rows)
            index = shuffled[:, place].repeat(1, 2)
            length = torch.full_like(index, n_steps)
            length[:, :batch] = torch.randint(
                0, n_steps + 1, (members, batch), generator=generator, device=device
            )
            mask = prefix_masks(self.inputs, self.order[index], length)
            loss = weighted_loss(self.network, self.inputs, self.loss, rows[index], mask)
            ensemble_step(self.optimizer, self.network.predictor, loss)
            total = total + loss.detach()
        return Metrics(float(total) / n_batches)
