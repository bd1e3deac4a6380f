"""Configuration of the training, and the sparsity weight λ: fixed, or sampled from a range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal

import torch
from torch import Tensor

from suwr._utils.validation import (
    Interval,
    Options,
    check_fields,
    parameter,
    parameter_error,
)
from suwr.data.encode import MAX_BINS
from suwr.nn.networks import Network
from suwr.nn.step import evenly_spread

__all__ = ["Settings", "SparsityWeights", "TrainingConfig", "condition_of", "linear_decay"]

_POSITIVE = Interval(Real, 0, None, closed="neither")
_NON_NEGATIVE = Interval(Real, 0, None, closed="left")
_FRACTION = Interval(Real, 0, 1, closed="both")
_BELOW_ONE = Interval(Real, 0, 1, closed="left")
_ABOVE_ZERO = Interval(Real, 0, 1, closed="right")
_COUNT = Interval(Integral, 1)

# Share of uniformly random choices of units at the end of the exploration.
FINAL_EXPLORATION = 0.05


def linear_decay(progress: float, start: float, end: float) -> float:
    """1 before ``start``, 0 from ``end`` on, linear in between.

    Examples
    --------
    >>> [linear_decay(progress, 0.2, 0.6) for progress in (0.0, 0.2, 0.6, 1.0)]
    [1.0, 1.0, 0.0, 0.0]
    """
    return min(1.0, max(0.0, (end - progress) / (end - start)))


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Networks and optimisation, for the ``training`` parameter of an estimator.

    The defaults work well on most data; tune `rollouts`, ``max_epochs`` and `hidden_size` first.
    Losses are relative to that of the best constant prediction. Points in time are fractions of
    the policy phase. Where a default is None, the trainer chooses.

    Parameters
    ----------
    hidden_size, n_layers : int, default=128, 3
        Width and number of the hidden layers of each network.
    n_predictors : int or 'auto', default='auto'
        Size of the ensemble whose mean is the prediction, an even number. While the policy is
        trained, each member is trained on half of the rows; with fewer than 5,000 training rows,
        multiples of 4 are trained on three quarters of them. Larger ensembles predict better, but
        take longer. 'auto' is 4 for tables of fewer than 5,000 training rows, else 2.
    network : {'mlp', 'conv'}, default='mlp'
        'conv' is a convolutional network over the masked image and its mask; it requires ``groups``
        to be `Patches` and ignores ``n_layers``.
    batch_size : int or 'auto', default='auto'
        'auto' gives about 18 batches per epoch, of 100 to 4096 rows each.
    validation_fraction : float, default=0.1
        Fraction of the rows that is held out to choose the best epoch.
    n_bins : int or None, default=None
        Largest number of quantile bins of a numeric column, at most 256. The position of a number
        in each bin is encoded besides the number itself, so that networks can follow a target with
        steps, such as the output of a model of trees; on few rows with noisy labels they overfit.
        There are none if this is less than 2. None is 8 bins for ``trainer='actor'`` with fewer
        than 5,000 training rows and at most 64 columns, which only every second predictor reads,
        and not the policy; otherwise none.
    max_random_units : int or None, default=None
        Largest number of units in the random masks that train the predictors, at least 1. None is
        all units, and for ``trainer='lookahead'`` twice as many as the policy can reveal.
    pretrain_fraction : float or None, default=None
        Largest number of epochs of predictor pretraining relative to ``max_epochs``, at least 0;
        one epoch always remains. Pretraining ends when the loss has settled. None is 0.3 for
        ``trainer='lookahead'`` and 1 otherwise.
    pretrain_masks : int or None, default=None
        Random masks per row in a pretraining batch, at least 1. None is 2 for
        ``trainer='lookahead'`` and 4 otherwise.
    predictor_rate : float, default=3e-3
        Initial learning rate of the predictors, positive.
    weight_decay : float or None, default=None
        Weight decay of the predictors, at least 0; a stronger one is chosen if they overfit. See
        `suwr.training.predictor.Pretraining`. None is 0.1, and 0.05 with a teacher.
    dropout : float or None, default=None
        Dropout rate of the predictors, in [0, 1). None is 0.2, and 0.1 with a teacher.
    joint_rate : float or None, default=None
        Learning rate of the predictors during the policy phase, relative to ``predictor_rate``, at
        least 0. None is 0.3 for ``trainer='lookahead'``; otherwise 1 if the loss of the predictors
        was still falling at the end of pretraining, and 0.1 if not.
    rollouts : int or None, default=None
        Rollouts per row in a batch of the actor, at least 1. None is 2, and 1 with a teacher.
    policy_rate : float, default=2e-3
        Initial learning rate of the policy, positive.
    reward_scale : float, default=7.0
        Factor of the losses in the policy objective, positive.
    exploration_fraction : float, default=0.6
        Part of the policy phase in which exploration decreases, in (0, 1].
    min_continuation, max_continuation : float, default=0.1, 0.9
        Bounds of the probability that a rollout continues although the policy stops, in [0, 1].
        The lower bound keeps the gain of continuing estimated everywhere; the upper bound avoids
        long rollouts over uninformative features of wide tables.
    stop_softness : float, default=0.75
        Temperature of ζ_stop = sigmoid(-gain / temperature), relative to the cost of one unit of
        mean cost; positive.
    label_weight : float or None, default=None
        Weight of the label in the targets that reward the actor, in [0, 1]; the rest is a
        prediction from all features, which has less variance. See `suwr.training.actor`. None is
        0.3 up to 300 training rows, 0.5 from 800 on, and linear in between: the fewer rows there
        are, the more the policy would overfit the labels.
    policy_dropout : float, default=0.1
        Dropout rate of the actor's policy, in [0, 1).
    average_decay : float, default=0.99
        Decay of the exponential moving average of the policy weights, in [0, 1).
    finetune_fraction : float or None, default=None
        Epochs of predictor fine-tuning relative to ``max_epochs``, at least 0; one epoch always
        remains. None is 0.2 for ``trainer='lookahead'`` and 0.5 otherwise.
    finetune_rate : float, default=1e-3
        Initial learning rate of fine-tuning, positive.
    finetune_dropout : float or None, default=None
        Dropout rate of the predictors in fine-tuning, in [0, 1). None is 0.1, and 0.05 with a
        teacher.

    Examples
    --------
    >>> TrainingConfig(rollouts=4).rollouts
    4
    >>> TrainingConfig(policy_dropout=1.5)
    Traceback (most recent call last):
    ValueError: The 'policy_dropout' parameter of TrainingConfig must be a float in the range [0, \
1). Got 1.5 instead.
    """

    hidden_size: int = parameter(128, _COUNT)
    n_layers: int = parameter(3, _COUNT)
    n_predictors: int | Literal["auto"] = parameter("auto", Options("auto"), Interval(Integral, 2))
    network: Literal["mlp", "conv"] = parameter("mlp", Options("mlp", "conv"))
    batch_size: int | Literal["auto"] = parameter("auto", Options("auto"), Interval(Integral, 2))
    validation_fraction: float = parameter(0.1, Interval(Real, 0, 1, closed="neither"))

    n_bins: int | None = parameter(None, None, Interval(Integral, 0, MAX_BINS))
    max_random_units: int | None = parameter(None, None, _COUNT)

    pretrain_fraction: float | None = parameter(None, None, _NON_NEGATIVE)
    pretrain_masks: int | None = parameter(None, None, _COUNT)
    predictor_rate: float = parameter(3e-3, _POSITIVE)
    weight_decay: float | None = parameter(None, None, _NON_NEGATIVE)
    dropout: float | None = parameter(None, None, _BELOW_ONE)

    joint_rate: float | None = parameter(None, None, _NON_NEGATIVE)
    rollouts: int | None = parameter(None, None, _COUNT)
    policy_rate: float = parameter(2e-3, _POSITIVE)
    reward_scale: float = parameter(7.0, _POSITIVE)
    exploration_fraction: float = parameter(0.6, _ABOVE_ZERO)
    min_continuation: float = parameter(0.1, _FRACTION)
    max_continuation: float = parameter(0.9, _FRACTION)
    stop_softness: float = parameter(0.75, _POSITIVE)
    label_weight: float | None = parameter(None, None, _FRACTION)
    policy_dropout: float = parameter(0.1, _BELOW_ONE)
    average_decay: float = parameter(0.99, _BELOW_ONE)

    finetune_fraction: float | None = parameter(None, None, _NON_NEGATIVE)
    finetune_rate: float = parameter(1e-3, _POSITIVE)
    finetune_dropout: float | None = parameter(None, None, _BELOW_ONE)

    def __post_init__(self) -> None:
        check_fields(self, "TrainingConfig")
        if (n := self.n_predictors) != "auto" and n % 2:
            raise parameter_error("n_predictors", "TrainingConfig", "an even number", n)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], owner: str) -> TrainingConfig:
        """Build a configuration from some of its fields by name.

        Parameters
        ----------
        given : mapping
        owner : str
            Class of the estimator, for the error message.
        """
        names = [field.name for field in fields(TrainingConfig)]
        for name, value in given.items():
            if name not in names:
                expected = f"a mapping with some of the keys {', '.join(names)}"
                raise parameter_error("training", owner, expected, {name: value})
        return TrainingConfig(**given)

    def to_dict(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}


@dataclass(frozen=True, kw_only=True)
class Settings(TrainingConfig):
    """All settings of one fit: the configuration, and what follows from the data and estimator.

    Parameters
    ----------
    sparsity_weight : float or tuple of two floats
        λ, relative to the loss of the best constant prediction; ``(low, high)`` for a policy
        conditioned on λ.
    max_steps, units_per_step : int
        *T*, and the number of units revealed per step.
    max_epochs : int
        Epochs of the policy phase.
    batch_size : int
    extension : float, default=1.0
        Factor of the epochs after pretraining if the loss of the predictors has not settled in it.
    n_folds : int, default=2
        Folds of the training rows for cross-fitting.
    mixed_precision : bool, default=False
        Evaluate networks in bfloat16 on CUDA; inference stays in float32.
    finetune_random : float, default=1.0
        Weight of random masks in fine-tuning, relative to the final masks.
    **config
        See `TrainingConfig`; `Trainer.configure` resolves None.
    """

    sparsity_weight: float | tuple[float, float]
    max_steps: int
    units_per_step: int = 1
    max_epochs: int = 100
    batch_size: int = 500
    extension: float = 1.0
    n_folds: int = 2
    mixed_precision: bool = False
    pretrain_fraction: float = 1.0
    pretrain_masks: int = 4
    rollouts: int = 2
    weight_decay: float = 0.1
    dropout: float = 0.2
    finetune_fraction: float = 0.5
    finetune_random: float = 1.0
    finetune_dropout: float = 0.1

    @property
    def pretrain_epochs(self) -> int:
        """Epochs of predictor pretraining."""
        return max(1, round(self.pretrain_fraction * self.max_epochs))

    @property
    def finetune_epochs(self) -> int:
        """Epochs of predictor fine-tuning."""
        return max(1, round(self.finetune_fraction * self.max_epochs))

    def exploration(self, progress: float) -> float:
        """Share of random choices of units at a point of the policy phase."""
        decay = linear_decay(progress, 0.0, self.exploration_fraction)
        return FINAL_EXPLORATION + decay * (1.0 - FINAL_EXPLORATION)

    def target_weight(self, n_rows: int) -> float:
        """The `label_weight` of a fit on ``n_rows`` training rows."""
        if self.label_weight is not None:
            return self.label_weight
        return 0.5 - 0.2 * linear_decay(n_rows, 300, 800)

    def precision(self, device: torch.device) -> torch.autocast:
        """The autocast context of forward passes during training."""
        mixed = self.mixed_precision and device.type == "cuda"
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=mixed)

    def stop_temperature(self, cost: float) -> float:
        """Temperature of ζ_stop for units of weighted ``cost``."""
        return self.stop_softness * self.reward_scale * max(cost, 1e-3)


def condition_of(weight: float, low: float, high: float) -> float:
    """Position of λ in its range on a logarithmic scale: -1 is ``low``, 1 is ``high``.

    Examples
    --------
    >>> condition_of(0.1, 0.01, 1.0)
    0.0
    """
    return 2.0 * math.log(weight / low) / math.log(high / low) - 1.0


# Training rows from which two predictors without bins, two folds and fewer epochs suffice, and from
# which the number of relevant columns is not limited.
MANY_ROWS = 5_000
# Number of bins of a numeric column, and number of columns up to which there are bins.
DEFAULT_BINS, MAX_BINNED_COLUMNS = 8, 64
# The same for targets of a teacher, and bins of all columns together.
TAUGHT_BINS, TAUGHT_TABLE_BINS = 32, 512
# Default epochs of the policy phase, with few and many rows and with a teacher, and their factor
# for a range of λ or of budgets.
DEFAULT_EPOCHS, MANY_ROWS_EPOCHS, TAUGHT_EPOCHS, RANGE_FACTOR = 100, 50, 25, 1.5
# Bounds of the rows of a batch with a teacher, and batches of an epoch.
TAUGHT_BATCH, TAUGHT_BATCHES = (100, 500), 28
# Factor of the epochs after pretraining, for few rows, if the predictors have not settled in it.
EXTENSION = 2.0


def default_predictors(n_rows: int) -> int:
    """Return the default number of predictors of labels for a number of training rows."""
    return 4 if n_rows < MANY_ROWS else 2


def default_folds(n_rows: int, n_predictors: int) -> int:
    """Return the default number of folds for numbers of training rows and of predictors."""
    return 4 if n_rows < MANY_ROWS and n_predictors % 4 == 0 else 2


def default_bins(n_rows: int, n_columns: int) -> int:
    """Return the default number of bins for numbers of training rows and of columns."""
    return DEFAULT_BINS if n_rows < MANY_ROWS and n_columns <= MAX_BINNED_COLUMNS else 0


def taught_bins(n_columns: int) -> int:
    """Return the default number of bins for targets of a teacher, which often have steps.

    Examples
    --------
    >>> [taught_bins(n) for n in (5, 20, 64, 65)]
    [32, 25, 8, 0]
    """
    n_bins = min(TAUGHT_BINS, TAUGHT_TABLE_BINS // n_columns)
    return n_bins if n_bins >= DEFAULT_BINS else 0


def default_extension(n_rows: int) -> float:
    """Return the `extension` of `Settings` for a number of training rows."""
    return EXTENSION if n_rows < MANY_ROWS else 1.0


# Least number of training rows for which a teacher is fitted by default, and of epochs: a brief fit
# would take most of its time for the teacher.
MIN_TAUGHT, MIN_TAUGHT_EPOCHS = 30, 20
# Bounds of the recombinations of each training row, least rows of a lesson, and most rows.
COPIES, LESSON_ROWS, MAX_LESSON_ROWS = (7, 19), 4_000, 40_000


def n_copies(n_rows: int) -> int:
    """Return the number of recombinations of each training row.

    Examples
    --------
    >>> [n_copies(n) for n in (100, 400, 2_000, 20_000)]
    [19, 10, 7, 1]
    """
    least, most = COPIES
    wanted = min(most, max(least, LESSON_ROWS // n_rows))
    return max(1, min(wanted, MAX_LESSON_ROWS // n_rows - 1))


@dataclass(frozen=True)
class SparsityWeights:
    """λ of every row.

    Attributes
    ----------
    weight : float
        λ, or the low end of its range.
    ratio : float or None
        High end of the range divided by the low end; None if λ is fixed.
    device : torch.device
    """

    weight: float
    ratio: float | None
    device: torch.device

    @classmethod
    def of(cls, settings: Settings, device: torch.device) -> SparsityWeights:
        """The sparsity weights of the settings."""
        given = settings.sparsity_weight
        if isinstance(given, tuple):
            return cls(given[0], given[1] / given[0], device)
        return cls(given, None, device)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """λ of ``n`` rows, log-uniform in a range, and its position in the range.

        Both are ``(n,)``; the position is None if λ is fixed.
        """
        if self.ratio is None:
            return self._at(torch.zeros(n, device=self.device))[0], None
        return self._at(torch.rand(n, generator=generator, device=self.device))

    def spread(self, n: int, turn: int = 0) -> tuple[Tensor, Tensor | None]:
        """As `draw`, but deterministic and evenly spread over the range in every ``turn``."""
        if self.ratio is None:
            return self._at(torch.zeros(n, device=self.device))[0], None
        return self._at(evenly_spread(n, turn, self.device).to(torch.float32))

    def importance(self, weight: Tensor) -> Tensor:
        """Factors ∝ 1/√λ of the gain that a network outputs, whose errors matter relative to λ."""
        if self.ratio is None:
            return torch.ones_like(weight)
        return (self.weight * self.ratio**0.5 / weight).sqrt()

    def set_temperature(self, network: Network, settings: Settings, mean_cost: float) -> None:
        """Set the stop temperature of the network, which is proportional to λ.

        ``mean_cost`` is the mean cost of a unit.
        """
        ratio = 1.0 if self.ratio is None else self.ratio
        # Gains at the two ends of a range are scaled by `importance`, hence the fourth roots.
        ends = torch.tensor([
            settings.stop_temperature(self.weight * mean_cost) * ratio**0.25,
            settings.stop_temperature(self.weight * ratio * mean_cost) / ratio**0.25,
        ])  # fmt: skip
        network.stop_temperature.copy_(ends if network.architecture.conditioned else ends[0])

    def _at(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        return self.weight * (self.ratio or 1.0) ** uniform, 2.0 * uniform - 1.0
