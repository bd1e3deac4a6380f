"""The validation objective, and the weights of the epoch that minimises it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Network, SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.step import training_starts
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows, to_models
from suwr.training.rollouts import rollout_together
from suwr.training.sparsity import SparsityWeights

__all__ = [
    "BestState",
    "CrossFittedLoss",
    "Objective",
    "ValidationObjective",
    "row_objectives",
    "validation_objective",
]

# Random masks of each fold that `CrossFittedLoss` evaluates.
CROSS_FITTED_MASKS = 1_000


class Objective(NamedTuple):
    """The objective of each model on validation rows, both of shape (n_models,).

    Attributes
    ----------
    value : Tensor
        Weighted mean of ``L(f(x ⊙ h), y) + λ ‖h‖``.
    mean_cost : Tensor
        Weighted mean of ``‖h‖``.
    """

    value: Tensor
    mean_cost: Tensor


@torch.no_grad()
def validation_objective(
    policy: Policy,
    loss: Loss,
    rows: Rows,
    sparsity_weight: float | Tensor,
    condition: Tensor | None = None,
) -> Objective:
    """The objective of a single policy under greedy inference.

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
    return Objective(value.cpu().reshape(1), (costs * rows.weight).mean().cpu().reshape(1))


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
    """Evaluates the models of a network on validation rows.

    Parameters
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
    rows : Rows
        Validation rows; those of several models are concatenated.
    settings : Settings
    weights : SparsityWeights
    """

    def __init__(
        self,
        network: Network,
        inputs: MaskedInputs,
        loss: Loss,
        rows: Rows,
        settings: Settings,
        weights: SparsityWeights,
    ) -> None:
        self.network, self.inputs, self.loss, self.rows = network, inputs, loss, rows
        self.settings, self.weights = settings, weights
        self.n_models = network.n_models
        middle = None if weights.ratio is None else 0.0
        self.policy = Policy(
            network, inputs, loss, settings.max_steps, settings.units_per_step,
            min(BLOCK, len(rows)), middle,
        )  # fmt: skip

    def __call__(self) -> Objective:
        """The objective of every model."""
        if self.n_models == 1:
            weight, condition = self.weights.spread(len(self.rows))
            return validation_objective(
                self.policy, self.loss, self.rows, weight[0],
                None if condition is None else condition[0],
            )  # fmt: skip
        return self._together()

    @torch.no_grad()
    def _together(self) -> Objective:
        m, settings = self.n_models, self.settings
        values = self.rows.values.unflatten(0, (m, -1))
        weight, condition = self.weights.spread(values.shape[1])
        mask, cost = rollout_together(
            self.network, self.inputs, self.loss, values, settings.max_steps,
            settings.units_per_step, condition,
            None if self.rows.costs is None else self.rows.costs.unflatten(0, (m, -1)),
        )  # fmt: skip
        prediction = self.network.consensus(self.inputs.reveal(values, mask), self.loss)
        losses = self.loss.of_prediction(prediction, self.rows.targets.unflatten(0, (m, -1)))
        of_row = self.rows.weight.unflatten(0, (m, -1))
        value = ((losses + weight * cost) * of_row).mean(dim=1)
        return Objective(value.cpu(), (cost * of_row).mean(dim=1).cpu())


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
        self.network, self.inputs, self.loss = network, inputs, loss
        self.n_folds = folds.n_folds
        index = folds.indices[:, :CROSS_FITTED_MASKS]
        self.rows = folds.rows[index.repeat(1, max(1, CROSS_FITTED_MASKS // index.shape[1]))]
        self.masks = inputs.random_masks(
            tuple(self.rows.weight.shape), folds.generator, settings.max_random_units
        )

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """The loss of each model, ``(n_models,)``."""
        seen = self.inputs.reveal(self.rows.values, self.masks)
        losses = self.loss.of_prediction(
            self.network.cross_fitted(seen, self.loss), self.rows.targets
        )
        return to_models(losses * self.rows.weight, self.n_folds).mean(dim=1).cpu()


class BestState:
    """The weights of the best epoch of each model.

    Parameters
    ----------
    network : Module
    n_models : int, default=1
    """

    def __init__(self, network: nn.Module, n_models: int = 1) -> None:
        self.network = network
        self.value = torch.full((n_models,), torch.inf)
        self.epoch = torch.zeros(n_models, dtype=torch.int64)
        self.state = {k: v.clone() for k, v in network.state_dict().items()}

    def update(self, value: Tensor, epoch: int) -> None:
        """Keep the current weights of the models whose objective ``value`` improved."""
        better = value < self.value
        self.value = torch.where(better, value, self.value)
        self.epoch = torch.where(better, epoch, self.epoch)
        if not bool(better.any()):
            return
        for name, tensor in self.network.state_dict().items():
            if len(better) == 1:
                self.state[name] = tensor.clone()
                continue
            # The first dimension holds the weights of all models, one model after the other.
            chosen = better.to(tensor.device).repeat_interleave(len(tensor) // len(better))
            shape = (-1,) + (1,) * (tensor.dim() - 1)
            self.state[name] = torch.where(chosen.view(shape), tensor, self.state[name])

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, for a checkpoint."""
        weights = {f"best/{k}": v for k, v in self.state.items()}
        return {"best": self.value, "best_epoch": self.epoch} | weights

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `tensors`."""
        self.value, self.epoch = tensors["best"].cpu(), tensors["best_epoch"].cpu()
        self.state = {
            k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")
        }

    def load(self) -> None:
        """Load the best weights into the network."""
        self.network.load_state_dict(self.state)
