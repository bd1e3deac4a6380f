"""Training of the predictor *f*: pretraining on random masks, fine-tuning on the policy's masks."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.nn.ensembles import Ensemble, EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.nn.step import training_starts
from suwr.training.config import Settings, SparsityWeights
from suwr.training.data import MIN_BATCHES, Folds, Rows, shuffled
from suwr.training.loop import (
    Metrics,
    Phase,
    State,
    cosine_decay,
    ensemble_step,
    make_optimizer,
    set_rate,
    update_average,
)
from suwr.training.validation import BestState, CrossFittedLoss, Task

__all__ = [
    "FineTuning", "Pretraining", "extended", "fold_loss", "ignore_pieces", "joint_rate",
    "pretraining_state", "restore_pretraining", "weighted_loss",
]  # fmt: skip

# Updates of the predictors before their loss on held-out rows counts: on small tables, the loss
# under large masks soon becomes worse, while that under small masks still improves.
MIN_UPDATES = 200
# Pretraining ends after this many updates in which the loss was not lowered by `MIN_IMPROVEMENT`
# times the loss of the best constant prediction.
PATIENCE, MIN_IMPROVEMENT = 400, 1e-3
# The predictors overfit if the loss has risen by this much. They are then trained with this weight
# decay, or that of the settings if it is stronger, with which the loss settles sooner.
OVERFITTING = 0.05
STRONG_WEIGHT_DECAY, STRONG_PATIENCE = 5.0, 160
# Decay of the averaged weights.
AVERAGE_DECAY = 0.98
# `joint_rate` of predictors whose loss has settled in pretraining, and of others. The former would
# overfit at a higher rate; the latter have not yet learned what there is, and mislead the policy.
SETTLED_RATE, UNSETTLED_RATE = 0.1, 1.0


def ignore_pieces(network: SeparateNetwork, inputs: MaskedInputs, policy: bool) -> None:
    """Let every second predictor ignore positions in bins, if there are any, and the ``policy``.

    Predictors with and without bins err differently, and errors partly cancel in their mean.
    """
    if inputs.pieces is None:
        return
    assert isinstance(network.policy, EnsembleMLP)
    assert isinstance(network.predictor, EnsembleMLP)
    architecture = network.architecture
    ignored = F.pad(inputs.pieces, (0, architecture.n_inputs - architecture.n_values))
    network.predictor.ignore(ignored, slice(0, None, 2))
    if policy:
        network.policy.ignore(F.pad(ignored, (0, architecture.n_conditions)))


def weighted_loss(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, rows: Rows, mask: Tensor
) -> Tensor:
    """Weighted mean loss of the predictors under masks.

    ``rows`` and ``mask`` have one leading entry per predictor.
    """
    return _mean_loss(network, loss, inputs.reveal(rows.values, mask), rows.targets, rows.weight)


def fold_loss(
    network: SeparateNetwork, loss: Loss, folds: Folds, seen: Tensor, rows: Rows
) -> Tensor:
    """As `weighted_loss`, with the rows of each fold for predictors that do not hold it out.

    ``seen`` are the masked inputs; they and ``rows`` have one leading entry per fold.
    """
    order = folds.training_folds().repeat_interleave(network.group)
    return _mean_loss(network, loss, seen[order], rows.targets[order], rows.weight[order])


def _mean_loss(
    network: SeparateNetwork, loss: Loss, seen: Tensor, targets: Tensor, weight: Tensor
) -> Tensor:
    outputs = network.predictor(seen).float()
    return (loss.per_row(outputs, targets) * weight).mean()


def pretraining_batch(folds: Folds, settings: Settings) -> int:
    """Rows of a batch in pretraining: of one fold, which a predictor reads, half of a batch."""
    return folds.n_folds * settings.batch_size // 2


class Pretraining(Phase):
    """Train each predictor on its folds under random masks of all sizes.

    An interaction of two features is learned only from masks that reveal both, which small masks
    rarely do.

    Tables differ by more than a factor of ten in the number of epochs and in the weight decay that
    predictors need. Training ends when the loss on held-out folds has settled. If it increases, the
    predictors overfit, and training continues with a stronger weight decay until it has settled
    again. The best epoch is kept, and its weight decay for the further training of the predictors.
    The losses are those of exponentially averaged weights, which are smooth.

    Parameters
    ----------
    network : SeparateNetwork
    task : Task
    folds : Folds
    """

    name = "pretraining"

    def __init__(self, network: SeparateNetwork, task: Task, folds: Folds) -> None:
        settings = task.settings
        super().__init__(settings.pretrain_epochs)
        self.network, self.inputs, self.loss = network, task.inputs, task.loss
        self.folds = self.stored_folds = folds
        self.settings = settings
        network.predictor.dropout = settings.dropout
        self.average = copy.deepcopy(network.predictor)
        averaged = network.with_modules(predictor=self.average)
        self.validate = CrossFittedLoss(averaged, task.inputs, task.loss, folds, settings)
        self.best = BestState(self.average)
        self.optimizer = make_optimizer(network.predictor)
        self.modules = {"network": network, "average": self.average}
        self.optimizers = {"predictor": self.optimizer}
        self.average.eval()
        decay = settings.weight_decay
        self.tensors = self.best.tensors() | {
            "weight_decay": torch.tensor(decay),
            "best_weight_decay": torch.tensor(decay),
            # Loss below which an improvement counts, and the last epoch with one.
            "reference": torch.tensor(torch.inf),
            "improved": torch.tensor(0),
            # The last epoch before the strong weight decay; 0 if there was none.
            "strong_since": torch.tensor(0),
            "settled": torch.tensor(False),
        }

    @property
    def done(self) -> bool:
        """Whether all epochs are over, or the loss has settled at the best weight decay."""
        return super().done or bool(self.tensors["settled"])

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        settings, folds, predictor = self.settings, self.folds, self.network.predictor
        decay, device = float(self.tensors["weight_decay"]), folds.indices.device
        predictor.weight_decay = torch.full_like(predictor.weight_decay, decay, device=device)
        batch_size = pretraining_batch(folds, settings)
        n_batches = folds.n_batches(batch_size)
        total = torch.zeros((), device=folds.indices.device)
        self.network.train()
        for number, index in enumerate(folds.batches(batch_size)):
            progress = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.predictor_rate * cosine_decay(progress, floor=0.1))
            own = index[folds.training_folds().repeat_interleave(self.network.group)]
            rows = folds.rows[own.repeat(1, settings.pretrain_masks)]
            mask = self.inputs.random_masks(
                tuple(rows.weight.shape), folds.generator, settings.max_random_units
            )
            with settings.precision(rows.values.device):
                value = weighted_loss(self.network, self.inputs, self.loss, rows, mask)
            ensemble_step(self.optimizer, predictor, value)
            step = self.epoch * n_batches + number
            update_average(self.average, predictor, min(AVERAGE_DECAY, step / (step + 10)))
            total = total + value.detach()
        self._judge(self.validate())
        return Metrics(float(total) / n_batches)

    def _judge(self, loss: float) -> None:
        """Keep the best epoch, and decide whether to continue with which weight decay."""
        tensors, epoch = self.tensors, self.epoch + 1
        n_batches = self.folds.n_batches(pretraining_batch(self.folds, self.settings))
        if epoch * n_batches < MIN_UPDATES and epoch < self.epochs:
            return
        if self.best.update(loss, epoch):
            tensors["best_weight_decay"].copy_(tensors["weight_decay"])
        tensors |= self.best.tensors()
        if loss < float(tensors["reference"]) - MIN_IMPROVEMENT:
            tensors["reference"].fill_(loss)
            tensors["improved"].fill_(epoch)
        strong = int(tensors["strong_since"])
        updates = (epoch - max(int(tensors["improved"]), strong)) * n_batches
        if not strong and loss - self.best.value > OVERFITTING:
            tensors["strong_since"].fill_(epoch)
            tensors["weight_decay"].clamp_min_(STRONG_WEIGHT_DECAY)
        else:
            tensors["settled"].fill_(updates > (STRONG_PATIENCE if strong else PATIENCE))

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        predictor = self.network.predictor
        predictor.load_state_dict(self.average.state_dict())
        chosen = self.tensors["best_weight_decay"].to(self.folds.indices.device)
        predictor.weight_decay = chosen.expand(self.network.architecture.n_members).clone()
        predictor.settled = bool(self.tensors["settled"]) or int(self.tensors["strong_since"]) > 0
        super().finish()


def joint_rate(predictor: Ensemble, settings: Settings) -> float:
    """Learning rate of pretrained predictors while the policy is trained."""
    share = settings.joint_rate
    if share is None:
        share = SETTLED_RATE if predictor.settled else UNSETTLED_RATE
    return settings.predictor_rate * share


def pretraining_state(predictor: Ensemble) -> State:
    """What later phases use of pretraining besides the weights, for their checkpoints."""
    return {"weight_decay": predictor.weight_decay, "settled": torch.tensor(predictor.settled)}


def restore_pretraining(predictor: Ensemble, state: State) -> None:
    """Put the `pretraining_state` of a checkpoint into predictors."""
    predictor.weight_decay = state["weight_decay"]
    predictor.settled = bool(state["settled"])


def extended(n_epochs: int, predictor: Ensemble, settings: Settings) -> int:
    """Number of epochs of a phase after pretraining: more if the predictors have more to learn."""
    return n_epochs if predictor.settled else round(settings.extension * n_epochs)


class FineTuning(Phase):
    """Train all predictors on all rows under the masks that the finished policy selects.

    Half of the masks stay random, so that predictions before the last step stay accurate. The best
    epoch by validation is kept, or the predictors as they were: on few rows with noisy labels,
    fine-tuning overfits. The first epochs, of a large learning rate, are often worse than the last.

    Parameters
    ----------
    network : SeparateNetwork
    task : Task
    folds : Folds
    stored : Folds, optional
        Those of a lesson, to be part of the state of the phase.
    """

    name = "fine-tuning"

    def __init__(
        self, network: SeparateNetwork, task: Task, folds: Folds, stored: Folds | None = None
    ) -> None:
        settings = task.settings
        super().__init__(extended(settings.finetune_epochs, network.predictor, settings))
        self.network, self.inputs, self.loss = network, task.inputs, task.loss
        self.folds, self.stored_folds = folds, stored or folds
        self.settings = settings
        self.weights = SparsityWeights.of(settings, folds.rows.device)
        self.validate = task.validate(network)
        self.masks: Tensor | None = None
        network.eval()
        self.best = BestState(network)
        self.best.update(self.validate().value, 0)
        network.predictor.dropout = settings.finetune_dropout
        self.optimizer = make_optimizer(network.predictor)
        self.modules = {"network": network}
        self.optimizers = {"predictor": self.optimizer}
        self.tensors = self.best.tensors() | pretraining_state(network.predictor)

    def restore(self, state: State) -> None:
        """See `Phase`."""
        super().restore(state)
        self.best.restore(self.tensors)
        predictor = self.network.predictor
        restore_pretraining(predictor, self.tensors)
        self.epochs = extended(self.settings.finetune_epochs, predictor, self.settings)

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        settings, rows, generator = self.settings, self.folds.rows, self.folds.generator
        self.network.eval()
        final = self._final_masks()
        n, n_members = len(rows), self.network.architecture.n_members
        order = torch.arange(n, device=final.device).expand(n_members, n)
        order = shuffled(order, generator)
        batch = min(settings.batch_size, n)
        n_batches, total = max(MIN_BATCHES, n // batch), torch.zeros((), device=final.device)
        mask_weight = torch.tensor([1.0, settings.finetune_random], device=final.device)
        mask_weight = mask_weight.repeat_interleave(batch)
        self.network.train()
        for number in range(n_batches):
            progress = (self.epoch + number / n_batches) / self.epochs
            set_rate(self.optimizer, settings.finetune_rate * cosine_decay(progress))
            index = order[:, torch.arange(number * batch, (number + 1) * batch) % n]
            random = self.inputs.random_masks(
                tuple(index.shape), generator, settings.max_random_units
            )
            taken = rows[index.repeat(1, 2)]
            weighted = Rows(taken.values, taken.targets, taken.weight * mask_weight)
            mask = torch.cat([final[index], random], dim=1)
            with settings.precision(mask.device):
                value = weighted_loss(self.network, self.inputs, self.loss, weighted, mask)
            ensemble_step(self.optimizer, self.network.predictor, value)
            total = total + value.detach()
        self.network.eval()
        objective = self.validate()
        self.best.update(objective.value, self.epoch + 1)
        self.tensors |= self.best.tensors()
        return Metrics(float(total) / n_batches, *objective, self.validate.policy)

    def finish(self) -> None:
        """See `Phase`."""
        self.best.load()
        super().finish()

    def _final_masks(self) -> Tensor:
        """The masks that the finished policy selects, ``(n_rows, n_columns)``.

        They change only for a range of λ or of budgets, of which each epoch takes other values.
        """
        fixed = self.weights.ratio is None and self.inputs.budgets is None
        if self.masks is not None and fixed:
            return self.masks
        rows, inputs, settings = self.folds.rows, self.inputs, self.settings
        policy = Policy(
            self.network, inputs, self.loss, settings.max_steps, settings.units_per_step
        )
        turn = 0 if fixed else self.epoch
        condition = self.weights.spread(len(rows), turn)[1]
        mask = torch.empty(len(rows), inputs.n_columns, dtype=torch.bool, device=policy.device)
        for place, part in rows.blocks():
            at = None if condition is None else condition[place]
            starts = training_starts(inputs, part.values, turn=turn)
            trace = policy.rollout(part.values, condition=at, starts=starts)
            mask[place] = torch.as_tensor(trace.mask, device=policy.device)
        self.masks = mask
        return mask
