"""The training loop that the baselines share: epochs, best epoch by validation, patience."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from suwr.baselines.networks import SelectorNetwork
from suwr.estimators.table_model import TrainingData
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.training.data import Folds, Rows
from suwr.training.loop import Epoch, Metrics, Progress, cosine_decay, optimizer_step, set_rate

__all__ = ["Schedule", "adam", "fit_predictor", "masked_loss", "run_epochs"]

# Overfitting is held back by the same decay as in the core, not by batch statistics.
WEIGHT_DECAY = 0.1


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes
    ----------
    max_epochs, batch_size : int
    learning_rate : float
        Falls along a cosine to a tenth.
    patience : int or None
        Epochs without a better validation value before training ends; None trains them all.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None = None

    def part(self, share: float) -> Schedule:
        """A phase that takes a share of the epochs."""
        return replace(self, max_epochs=max(1, round(share * self.max_epochs)))


def adam(module: nn.Module, schedule: Schedule, decay: float = WEIGHT_DECAY) -> torch.optim.AdamW:
    """The optimizer of one network."""
    return torch.optim.AdamW(module.parameters(), lr=schedule.learning_rate, weight_decay=decay)


def run_epochs(
    network: nn.Module,
    folds: Folds,
    schedule: Schedule,
    optimizers: list[torch.optim.AdamW],
    update: Callable[[Tensor, float], None],
    validate: Callable[[], float],
    progress: Progress,
    phase: str,
    *,
    first_useful: float = 0.0,
) -> None:
    """Call ``update`` on every batch and leave the best epoch by ``validate`` in ``network``.

    Parameters
    ----------
    network : Module
    folds : Folds
    schedule : Schedule
    optimizers : list of AdamW
        Their learning rates follow the schedule.
    update : callable of (row numbers, share)
        One training step; ``share`` is the part of the training that is done.
    validate : callable
        The validation loss of the network as it stands.
    progress : callable
    phase : str
    first_useful : float
        Part of the training before which no epoch is kept, as where a temperature still falls.
    """
    best, best_state, waited = float("inf"), copy.deepcopy(network.state_dict()), 0
    n_batches = folds.n_batches(schedule.batch_size)
    for epoch in range(schedule.max_epochs):
        network.train()
        share = 0.0
        for number, index in enumerate(folds.batches(schedule.batch_size)):
            share = (epoch + number / n_batches) / schedule.max_epochs
            for optimizer in optimizers:
                set_rate(optimizer, schedule.learning_rate * cosine_decay(share, floor=0.1))
            update(index.flatten(), share)
        network.eval()
        with torch.no_grad():
            value = validate()
        useful = share >= first_useful or epoch + 1 == schedule.max_epochs
        if useful and value < best:
            best, best_state, waited = value, copy.deepcopy(network.state_dict()), 0
        elif useful:
            waited += 1
        progress(Epoch(phase, epoch + 1, schedule.max_epochs, Metrics(None, value)))
        if schedule.patience is not None and waited >= schedule.patience:
            break
    network.load_state_dict(best_state)
    network.eval()


def masked_loss(
    outputs: Callable[[Tensor], Tensor],
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    mask: Tensor,
) -> Tensor:
    """Weighted mean loss of a predictor under hard masks."""
    return (
        loss.per_row(outputs(inputs.reveal(rows.values, mask)), rows.targets) * rows.weight
    ).mean()


def fit_predictor(
    network: SelectorNetwork,
    data: TrainingData,
    folds: Folds,
    masks: Callable[[Tensor], Tensor],
    validation_mask: Tensor,
    schedule: Schedule,
    progress: Progress,
    phase: str = "predictor",
) -> None:
    """Train the predictor under the masks that ``masks`` gives for a batch of row numbers."""
    optimizer = adam(network.predictor, schedule)
    inputs, loss = data.inputs, data.loss

    def update(index: Tensor, share: float) -> None:
        rows = folds.rows[index]
        optimizer_step(optimizer, masked_loss(network.outputs, inputs, loss, rows, masks(index)))

    def validate() -> float:
        rows = data.validation
        return float(masked_loss(network.outputs, inputs, loss, rows, validation_mask))

    run_epochs(network, folds, schedule, [optimizer], update, validate, progress, phase)
