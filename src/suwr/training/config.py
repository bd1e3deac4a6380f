"""Configuration of the training, and the sparsity weight λ: fixed, or sampled from a range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from suwr._utils.validation import Interval, check_parameters, parameter_error
from suwr.data.encode import MAX_BINS
from suwr.nn.networks import Network
from suwr.nn.step import evenly_spread

__all__ = [
    "Settings", "SparsityWeights", "TrainingConfig", "condition_of",
    "linear_decay",
]  # fmt: skip

_POSITIVE = Interval(Real, 0, None, closed="neither")
_NON_NEGATIVE = Interval(Real, 0, None, closed="left")
_FRACTION = Interval(Real, 0, 1, closed="both")
_BELOW_ONE = Interval(Real, 0, 1, closed="left")
_ABOVE_ZERO = Interval(Real, 0, 1, closed="right")
_COUNT = Interval(Integral, 1)


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
    """Hyperparameters of the training, for the ``training`` parameter of an estimator.

    The defaults work well on most data; tune `rollouts`, ``max_epochs`` and ``hidden_size`` first.
    Losses are relative to that of the best constant prediction. Points in time are fractions of
    the policy phase. Where a default is None, the trainer chooses.

    Parameters
    ----------
    n_bins : int or None, default=None
        Largest number of quantile bins of a numeric column, at most 256. The position of a number
        in each bin is encoded besides the number itself, so that networks can follow a target with
        steps, such as the output of a model of trees; on few rows with noisy labels they overfit.
        There are none if this is less than 2. None is 8 bins for ``trainer='actor'`` with fewer
        than 5,000 training rows and at most 64 columns, which only every second predictor reads,
        and not the policy; otherwise none.
    max_random_units : int or None, default=None
        Largest number of units in the random masks that train the predictors, at least 1. None is
        all units, and ``2 * max_steps * units_per_step`` for ``trainer='lookahead'``.
    mixed_precision : bool or None, default=None
        Evaluate networks in bfloat16 during training on CUDA; inference stays in float32. None is
        True for ``trainer='lookahead'`` and False otherwise.
    pretrain_fraction : float or None, default=None
        Largest number of epochs of predictor pretraining relative to ``max_epochs``, at least 0;
        one epoch always remains. Pretraining ends when the loss has settled. None is 0.3 for
        ``trainer='lookahead'`` and 1 otherwise.
    pretrain_masks : int or None, default=None
        Random masks per row in a pretraining batch, at least 1. None is 2 for
        ``trainer='lookahead'`` and 4 otherwise.
    predictor_rate : float, default=3e-3
        Initial learning rate of the predictors, positive.
    weight_decay : float, default=0.1
        Weight decay of the predictors, at least 0; a stronger one is chosen if they overfit. See
        `suwr.training.predictor.Pretraining`.
    dropout : float, default=0.2
        Dropout rate of the predictors, in [0, 1).
    joint_rate : float or None, default=None
        Learning rate of the predictors during the policy phase, relative to ``predictor_rate``, at
        least 0. None is 0.3 for ``trainer='lookahead'``; otherwise 1 if the loss of the predictors
        was still falling at the end of pretraining, and 0.1 if not.
    rollouts : int, default=2
        Rollouts per row in a batch of the actor, at least 1.
    policy_rate : float, default=2e-3
        Initial learning rate of the policy, positive.
    reward_scale : float, default=7.0
        Factor of the losses in the policy objective, positive.
    exploration_end : float, default=0.05
        Fraction of uniformly random choices of units after ``exploration_fraction`` of the policy
        phase, in [0, 1]; at its start, all choices are random.
    exploration_fraction : float, default=0.6
        Part of the policy phase in which exploration decreases, in (0, 1].
    min_continuation, max_continuation : float, default=0.1, 0.9
        Bounds of the probability that a rollout continues although the policy stops, in [0, 1].
        The lower bound keeps the gain of continuing estimated everywhere; the upper bound avoids
        long rollouts over uninformative features of wide tables.
    entropy_weight : float, default=0.02
        Weight of the entropy bonus of the selection policy, at least 0; decreases to 0.
    stop_softness, stop_softness_end : float, default=0.75, 0.75
        Temperature of ζ_stop = sigmoid(-gain / temperature), relative to the cost of one unit of
        mean cost; positive. It changes geometrically from the first to the second value between
        ``harden_from`` and the end.
    harden_from : float, default=0.5
        Start of that change, in [0, 1).
    label_weight : float or None, default=None
        Weight of the label in the targets that reward the actor, in [0, 1]; the rest is a
        prediction from all features, which has less variance. See `suwr.training.actor`. None is
        0.3 up to 300 training rows, 0.5 from 800 on, and linear in between: the fewer rows there
        are, the more the policy would overfit the labels.
    policy_weight_decay : float, default=0.1
        Weight decay of the actor's policy, at least 0.
    policy_dropout : float, default=0.1
        Dropout rate of the actor's policy, in [0, 1).
    average_decay : float, default=0.99
        Decay of the exponential moving average of the policy weights, in [0, 1).
    updates_per_walk : int, default=8
        Gradient updates of the look-ahead trainer per rollout of a batch, at least 1.
    finetune_fraction : float or None, default=None
        Epochs of predictor fine-tuning relative to ``max_epochs``, at least 0; one epoch always
        remains. None is 0.2 for ``trainer='lookahead'`` and 0.5 otherwise.
    finetune_rate : float, default=1e-3
        Initial learning rate of fine-tuning, positive.
    finetune_random : float or None, default=None
        Weight of random masks in fine-tuning, relative to the final masks; at least 0. None is 0.3
        for ``trainer='lookahead'`` and 1 otherwise.
    finetune_dropout : float, default=0.1
        Dropout rate of the predictors in fine-tuning, in [0, 1).

    Examples
    --------
    >>> TrainingConfig(rollouts=4).rollouts
    4
    >>> TrainingConfig(dropout=1.5)
    Traceback (most recent call last):
    ValueError: The 'dropout' parameter of TrainingConfig must be a float in the range [0, 1). Got \
1.5 instead.
    """

    n_bins: int | None = None
    max_random_units: int | None = None
    mixed_precision: bool | None = None

    pretrain_fraction: float | None = None
    pretrain_masks: int | None = None
    predictor_rate: float = 3e-3
    weight_decay: float = 0.1
    dropout: float = 0.2

    joint_rate: float | None = None
    rollouts: int = 2
    policy_rate: float = 2e-3
    reward_scale: float = 7.0
    exploration_end: float = 0.05
    exploration_fraction: float = 0.6
    min_continuation: float = 0.1
    max_continuation: float = 0.9
    entropy_weight: float = 0.02
    stop_softness: float = 0.75
    stop_softness_end: float = 0.75
    harden_from: float = 0.5
    label_weight: float | None = None
    policy_weight_decay: float = 0.1
    policy_dropout: float = 0.1
    average_decay: float = 0.99

    updates_per_walk: int = 8

    finetune_fraction: float | None = None
    finetune_rate: float = 1e-3
    finetune_random: float | None = None
    finetune_dropout: float = 0.1

    constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bins": [None, Interval(Integral, 0, MAX_BINS)],
        "max_random_units": [None, _COUNT],
        "mixed_precision": [None, bool],
        "pretrain_fraction": [None, _NON_NEGATIVE],
        "pretrain_masks": [None, _COUNT],
        "predictor_rate": [_POSITIVE],
        "weight_decay": [_NON_NEGATIVE],
        "dropout": [_BELOW_ONE],
        "joint_rate": [None, _NON_NEGATIVE],
        "rollouts": [_COUNT],
        "policy_rate": [_POSITIVE],
        "reward_scale": [_POSITIVE],
        "exploration_end": [_FRACTION],
        "exploration_fraction": [_ABOVE_ZERO],
        "min_continuation": [_FRACTION],
        "max_continuation": [_FRACTION],
        "entropy_weight": [_NON_NEGATIVE],
        "stop_softness": [_POSITIVE],
        "stop_softness_end": [_POSITIVE],
        "harden_from": [_BELOW_ONE],
        "label_weight": [None, _FRACTION],
        "policy_weight_decay": [_NON_NEGATIVE],
        "policy_dropout": [_BELOW_ONE],
        "average_decay": [_BELOW_ONE],
        "updates_per_walk": [_COUNT],
        "finetune_fraction": [None, _NON_NEGATIVE],
        "finetune_rate": [_POSITIVE],
        "finetune_random": [None, _NON_NEGATIVE],
        "finetune_dropout": [_BELOW_ONE],
    }

    def __post_init__(self) -> None:
        check_parameters("TrainingConfig", self.constraints, vars(self))

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
    sparsity_weight : float, tuple or Tensor
        λ, relative to the loss of the best constant prediction; ``(low, high)`` for a policy
        conditioned on λ; tensors of shape ``(n_models,)`` for several models.
    max_steps, units_per_step : int
        *T*, and the number of units revealed per step.
    max_epochs : int
        Epochs of the policy phase.
    batch_size : int
    extension : float, default=1.0
        Factor of the epochs after pretraining if the loss of the predictors has not settled in it.
    n_folds : int, default=2
        Folds of the training rows for cross-fitting.
    **config
        See `TrainingConfig`; `Trainer.configure` resolves None.
    """

    sparsity_weight: float | tuple[float, float] | Tensor | tuple[Tensor, Tensor]
    max_steps: int
    units_per_step: int = 1
    max_epochs: int = 100
    batch_size: int = 500
    extension: float = 1.0
    n_folds: int = 2
    mixed_precision: bool = False
    pretrain_fraction: float = 1.0
    pretrain_masks: int = 4
    finetune_fraction: float = 0.5
    finetune_random: float = 1.0

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
        return self.exploration_end + decay * (1.0 - self.exploration_end)

    def target_weight(self, n_rows: int) -> float:
        """The `label_weight` of a fit on ``n_rows`` training rows."""
        if self.label_weight is not None:
            return self.label_weight
        return 0.5 - 0.2 * linear_decay(n_rows, 300, 800)

    def precision(self, device: torch.device) -> AbstractContextManager[Any]:
        """The autocast context of forward passes during training."""
        if self.mixed_precision and device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def rounded(self, values: Tensor) -> Tensor:
        """Values in the precision of the forward passes, which halves the memory traffic."""
        mixed = self.mixed_precision and values.is_cuda
        return values.to(torch.bfloat16) if mixed else values

    def stop_temperature(self, cost: float, progress: float = 0.0) -> float:
        """Temperature of ζ_stop for units of weighted ``cost``, at a point of the policy phase.

        A soft stopping policy keeps decisions open early in training, but ends rollouts that should
        continue and thereby underestimates the gain of continuing; `stop_softness_end` hardens it.
        """
        hardened = 1.0 - linear_decay(progress, self.harden_from, 1.0)
        softness = self.stop_softness * (self.stop_softness_end / self.stop_softness) ** hardened
        return softness * self.reward_scale * max(cost, 1e-3)


def condition_of(weight: float, low: float, high: float) -> float:
    """Position of λ in its range on a logarithmic scale: -1 is ``low``, 1 is ``high``.

    Examples
    --------
    >>> condition_of(0.1, 0.01, 1.0)
    0.0
    """
    return 2.0 * math.log(weight / low) / math.log(high / low) - 1.0


@dataclass(frozen=True)
class SparsityWeights:
    """λ of every row.

    Attributes
    ----------
    weight : Tensor of shape (n_models,)
        λ of each model, or the low end of its range.
    ratio : float or None
        High end of the range divided by the low end; None if λ is fixed.
    """

    weight: Tensor
    ratio: float | None = None

    @classmethod
    def of(cls, settings: Settings, n_models: int, device: torch.device) -> SparsityWeights:
        """The sparsity weights of the settings."""
        given = settings.sparsity_weight
        if isinstance(given, tuple):
            low, high = (torch.as_tensor(end, device=device).expand(n_models) for end in given)
            return cls(low, float(high[0] / low[0]))
        return cls(torch.as_tensor(given, device=device).expand(n_models))

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """λ of ``n`` rows of every model, log-uniform in a range, and its position in the range.

        Both are ``(n_models, n)``; the position is None if λ is fixed.
        """
        if self.ratio is None:
            return self._fixed(n), None
        uniform = torch.rand(len(self.weight), n, generator=generator, device=self.weight.device)
        return self._at(uniform)

    def spread(self, n: int, turn: int = 0) -> tuple[Tensor, Tensor | None]:
        """As `draw`, but deterministic and evenly spread over the range in every ``turn``."""
        if self.ratio is None:
            return self._fixed(n), None
        uniform = evenly_spread(n, turn, self.weight.device).to(torch.float32)
        return self._at(uniform.expand(len(self.weight), n))

    def importance(self, weight: Tensor) -> Tensor:
        """Factors ∝ 1/√λ of the gain that a network outputs, whose errors matter relative to λ."""
        if self.ratio is None:
            return torch.ones_like(weight)
        middle = self.weight.unsqueeze(-1) * self.ratio**0.5
        return (middle / weight).sqrt()

    def set_temperature(
        self, network: Network, settings: Settings, mean_cost: float, progress: float = 0.0
    ) -> None:
        """Set the stop temperature of the network, which is proportional to λ.

        Parameters
        ----------
        network : Network
        settings : Settings
        mean_cost : float
            Mean cost of a unit.
        progress : float, default=0.0
            Point of the policy phase.
        """
        ratio = 1.0 if self.ratio is None else self.ratio
        # Gains at the two ends of a range are scaled by `importance`, hence the fourth roots.
        ends = [
            [
                settings.stop_temperature(w * mean_cost, progress) * ratio**0.25,
                settings.stop_temperature(w * ratio * mean_cost, progress) / ratio**0.25,
            ]
            for w in self.weight.tolist()
        ]
        value = torch.tensor(ends, device=self.weight.device).unsqueeze(1)
        if not network.architecture.conditioned:
            value = value[..., 0]
        value = value if len(ends) > 1 else value.flatten(0, 1)[0]
        if network.stop_temperature.shape != value.shape:
            network.stop_temperature.data = torch.empty_like(value)
        # In place, because captured CUDA graphs hold its address.
        network.stop_temperature.copy_(value)

    def _fixed(self, n: int) -> Tensor:
        return self.weight.unsqueeze(1).expand(-1, n)

    def _at(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        assert self.ratio is not None
        return self.weight.unsqueeze(1) * self.ratio**uniform, 2.0 * uniform - 1.0
