"""The network and the training phase of the baselines that select in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suwr.estimators.table import TrainingData
from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.rollout import BLOCK
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, cosine_decay, optimizer_step, set_rate
from suwr.training.validation import BestState

__all__ = [
    "Schedule",
    "SelectorNetwork",
    "SelectorPhase",
    "evaluate_in_blocks",
    "make_adamw",
    "masked_loss",
    "predictor_phase",
    "top_units",
]

# As in SUWR's predictor; replaces the batch normalisation of the published networks.
WEIGHT_DECAY = 0.1


def evaluate_in_blocks(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to blocks of a fixed number of rows, the last one zero-padded.

    As in `suwr.nn.rollout`: matrix products of different shapes may round differently, and the
    result for a row must not depend on the size of its batch.
    """
    parts = []
    for start in range(0, len(tensors[0]), BLOCK):
        block = [tensor[start : start + BLOCK] for tensor in tensors]
        n_rows = len(block[0])
        padded = [F.pad(part, (0, 0, 0, BLOCK - n_rows)) for part in block]
        parts.append(function(*padded)[:n_rows])
    return torch.cat(parts)


def top_units(scores: Tensor, k: int) -> Tensor:
    """Mask of the ``k`` units with the largest scores in each row, bool ``(n, n_units)``.

    Examples
    --------
    >>> top_units(torch.tensor([[0.1, 3.0, 2.0]]), 2)
    tensor([[False,  True,  True]])
    """
    selected = torch.zeros_like(scores, dtype=torch.bool)
    return selected.scatter(1, scores.topk(k, dim=1).indices, True)


class SelectorNetwork(nn.Module):
    """A selector that scores units given the whole row, and a predictor of *x ⊙ h*.

    Parameters
    ----------
    n_values, n_columns, n_units, n_outputs : int
        As in `suwr.nn.networks.Architecture`.
    hidden_size, n_layers : int
        Width and number of the hidden layers of each network.
    baseline : bool, default=False
        Whether to add a third network that predicts from the whole row.
    dropout : float, default=0.0
        Dropout rate of the predictor and the baseline.
    image_shape : tuple of int, optional
        Makes the predictor a convolutional network over images of this shape.
    """

    def __init__(
        self,
        n_values: int,
        n_columns: int,
        n_units: int,
        n_outputs: int,
        hidden_size: int,
        n_layers: int,
        *,
        baseline: bool = False,
        dropout: float = 0.0,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        n_in = n_values + n_columns
        self.selector = EnsembleMLP(1, n_values, hidden_size, n_layers, n_units)
        self.predictor: Ensemble
        if image_shape is None:
            self.predictor = EnsembleMLP(1, n_in, hidden_size, n_layers, n_outputs, dropout)
        else:
            self.predictor = EnsembleConv(1, image_shape, 0, hidden_size, n_outputs, dropout)
        self.baseline = (
            EnsembleMLP(1, n_values, hidden_size, n_layers, n_outputs, dropout)
            if baseline
            else None
        )

    def predictors(self) -> nn.ModuleList:
        """The predictor and, if there is one, the baseline."""
        return nn.ModuleList(n for n in (self.predictor, self.baseline) if n is not None)

    def scores(self, values: Tensor) -> Tensor:
        """Scores of the units given the whole row, ``(n, n_units)``."""
        return self.selector(values.unsqueeze(0))[0]

    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs of the predictor given *[x ⊙ h, h]*, ``(n, n_outputs)``."""
        return self.predictor(inputs.unsqueeze(0))[0]

    def baseline_outputs(self, values: Tensor) -> Tensor:
        """Outputs of the baseline given the whole row, ``(n, n_outputs)``."""
        assert self.baseline is not None
        return self.baseline(values.unsqueeze(0))[0]


@dataclass(frozen=True)
class Schedule:
    """Length and learning rate of a training phase.

    Attributes
    ----------
    max_epochs, batch_size : int
    learning_rate : float
        Initial learning rate; follows a cosine down to a tenth of it.
    patience : int or None
        Number of epochs without improvement on the validation rows after which training stops;
        None disables early stopping.
    """

    max_epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None = None

    def scaled(self, fraction: float) -> Schedule:
        """The same schedule with a fraction of the epochs."""
        return replace(self, max_epochs=max(1, round(fraction * self.max_epochs)))


def make_adamw(
    module: nn.Module, schedule: Schedule, weight_decay: float = WEIGHT_DECAY
) -> torch.optim.AdamW:
    """Return an AdamW optimizer for the parameters of a module."""
    return torch.optim.AdamW(
        module.parameters(), lr=schedule.learning_rate, weight_decay=weight_decay
    )


class SelectorPhase(Phase):
    """Gradient updates with early stopping; the best epoch by validation loss is kept.

    Parameters
    ----------
    name : str
    network : Module
    folds : Folds
        The training rows.
    schedule : Schedule
    optimizers : list of AdamW
        Optimizers whose learning rate follows the schedule.
    update : callable of (row indices, progress)
        Makes one update and returns the training loss. ``progress`` is the completed fraction of
        the phase.
    validate : callable
        Returns the validation objective of the network, and the mean cost if it selects.
    keep_last : bool, default=False
        Keep the last epoch instead of the best one, for annealed objectives.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        folds: Folds,
        schedule: Schedule,
        optimizers: list[torch.optim.AdamW],
        update: Callable[[Tensor, float], Tensor],
        validate: Callable[[], Metrics],
        *,
        keep_last: bool = False,
    ) -> None:
        super().__init__(schedule.max_epochs)
        self.name, self.network, self.folds, self.schedule = name, network, folds, schedule
        self.update, self.validate, self.keep_last = update, validate, keep_last
        self.modules = {"network": network}
        self.optimizers = {str(i): optimizer for i, optimizer in enumerate(optimizers)}
        self.best = BestState(network)
        self.epochs_without_improvement = 0

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        schedule, network = self.schedule, self.network
        n_batches = self.folds.n_batches(schedule.batch_size)
        network.train()
        total = torch.zeros((), device=self.folds.indices.device)
        for number, index in enumerate(self.folds.batches(schedule.batch_size)):
            progress = (self.epoch + number / n_batches) / schedule.max_epochs
            for optimizer in self.optimizers.values():
                set_rate(optimizer, schedule.learning_rate * cosine_decay(progress, floor=0.1))
            total = total + self.update(index.flatten(), progress).detach()
        network.eval()
        with torch.no_grad():
            metrics = self.validate()
        if not self.keep_last or self.epoch + 1 == schedule.max_epochs:
            best = float(self.best.value)
            self.best.update(torch.tensor([metrics.validation_objective]), self.epoch)
            improved = float(self.best.value) < best
            self.epochs_without_improvement = 0 if improved else self.epochs_without_improvement + 1
        return replace(metrics, training_loss=float(total) / n_batches)

    @property
    def done(self) -> bool:
        """See `Phase`; early stopping ends the phase."""
        patience = self.schedule.patience
        stalled = patience is not None and self.epochs_without_improvement >= patience
        return stalled or super().done

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        self.network.eval()


def masked_loss(
    network: SelectorNetwork, inputs: MaskedInputs, loss: Loss, rows: Rows, mask: Tensor
) -> Tensor:
    """Weighted mean loss of the predictor under hard masks."""
    outputs = network.outputs(inputs.reveal(rows.values, mask))
    return (loss.per_row(outputs, rows.targets) * rows.weight).mean()


def predictor_phase(
    network: SelectorNetwork,
    data: TrainingData,
    folds: Folds,
    masks: Callable[[Tensor], Tensor],
    validation_mask: Tensor,
    schedule: Schedule,
    name: str = "predictor",
) -> SelectorPhase:
    """Return a phase that trains the predictor alone.

    Parameters
    ----------
    network : SelectorNetwork
    data : TrainingData
    folds : Folds
    masks : callable
        From row indices ``(b,)`` to the masks that they are trained with, ``(b, n_columns)``.
    validation_mask : Tensor of bool, shape (n_validation, n_columns)
    schedule : Schedule
    name : str
    """
    optimizer = make_adamw(network.predictor, schedule)
    inputs, loss = data.inputs, data.loss

    def update(index: Tensor, progress: float) -> Tensor:
        value = masked_loss(network, inputs, loss, folds.rows[index], masks(index))
        optimizer_step(optimizer, value)
        return value

    def validate() -> Metrics:
        value = masked_loss(network, inputs, loss, data.validation, validation_mask)
        return Metrics(validation_objective=float(value))

    return SelectorPhase(name, network, folds, schedule, [optimizer], update, validate)
