"""Everything that training can be told, with the values that worked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from suwr.training.optim import fade

if TYPE_CHECKING:
    from suwr.nn.rollout import Policy

__all__ = ["TUNABLE", "Epoch", "Progress", "Settings"]


@dataclass(frozen=True)
class Epoch:
    """What training reports after every epoch.

    Attributes
    ----------
    phase : str
    number, total : int
        Of this phase; the first is 1.
    value : float
        Validation objective, or the training loss where there is no policy yet.
    policy : Policy or None
        The policy as it stands, where there is one; valid until the report returns.
    """

    phase: str
    number: int
    total: int
    value: float
    policy: Policy | None = None


Progress = Callable[[Epoch], None]


@dataclass(frozen=True)
class Settings:
    """How a model is trained. Losses are in units of the best constant prediction's loss.

    Attributes
    ----------
    sparsity_weight : float, tuple or Tensor
        λ, divided by the loss of the best constant prediction; ``(low, high)`` for a policy that is
        told λ; numbers of their own for several models that are trained together.
    max_steps, units_per_step : int
        *T*, and how many units one step reveals.
    max_epochs : int
        Epochs of policy training. Pretraining and fine-tuning take fixed fractions of it.
    batch_size : int
    """

    sparsity_weight: float | tuple[float, float] | Tensor | tuple[Tensor, Tensor]
    max_steps: int
    units_per_step: int = 1
    max_epochs: int = 100
    batch_size: int = 500
    # Largest random mask, in units; None is all of them.
    most_units: int | None = None
    # Matrix products in bfloat16 where the device is built for it; decisions stay in float32.
    mixed_precision: bool = False

    pretrain_fraction: float = 0.3
    pretrain_masks: int = 8
    predictor_rate: float = 3e-3
    weight_decay: float = 0.1
    dropout: float = 0.2

    # The predictors go on learning beside the policy, at this share of their first rate.
    joint_rate: float = 0.1
    rollouts: int = 2
    policy_rate: float = 2e-3
    reward_scale: float = 7.0
    exploration_start: float = 1.0
    exploration_end: float = 0.05
    exploration_fraction: float = 0.6
    # Even a sure stop goes on this often, so that the gain of going on stays known.
    least_continuation: float = 0.1
    # And never for certain: in a wide table most of what a long rollout finds is noise.
    most_continuation: float = 0.9
    entropy_weight: float = 0.02
    # ζ_stop = sigmoid(-gain / temperature), the temperature in prices of one unit.
    stop_softness: float = 0.75
    stop_softness_end: float = 0.75
    harden_from: float = 0.5
    # Labels come from the other half's predictor at first, real ones take over in between.
    soft_until: float = 0.5
    hard_from: float = 0.8
    average_decay: float = 0.99

    # The look-ahead trainer: updates from one walk of a batch, states of each row that one update
    # is made of, and the Gumbel temperature.
    updates_per_walk: int = 8
    states_per_row: int = 1
    # Early states are passed by every row: state t is drawn as often as t ** (1 / this - 1) says.
    early_states: float = 2.0
    gain_weight: float = 0.02
    start_temperature: float = 2.0
    end_temperature: float = 0.2

    finetune_fraction: float = 0.2
    finetune_rate: float = 1e-3
    finetune_random: float = 0.3
    finetune_dropout: float = 0.1

    @property
    def pretrain_epochs(self) -> int:
        """Epochs of the first phase."""
        return max(1, round(self.pretrain_fraction * self.max_epochs))

    @property
    def finetune_epochs(self) -> int:
        """Epochs of the last phase."""
        return max(1, round(self.finetune_fraction * self.max_epochs))

    def precision(self, device: torch.device) -> AbstractContextManager[Any]:
        """The context that the forward passes of training run in."""
        if self.mixed_precision and device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return nullcontext()

    def rounded(self, values: Tensor) -> Tensor:
        """Values as the products of mixed precision take them: half of what must be moved."""
        mixed = self.mixed_precision and values.is_cuda
        return values.to(torch.bfloat16) if mixed else values

    def stop_temperature(self, price: float, share: float = 0.0) -> float:
        """Softness of ζ_stop after a ``share`` of the training, in units of one unit's price.

        Soft at first, so that no decision is settled early. A soft stop ends many rollouts that
        ought to go on, which makes going on look worse than it is: so it hardens.
        """
        hardened = 1.0 - fade(share, self.harden_from, 1.0)
        softness = self.stop_softness * (self.stop_softness_end / self.stop_softness) ** hardened
        return softness * self.reward_scale * max(price, 1e-3)


#: Settings that no parameter of an estimator stands for.
TUNABLE = tuple(
    sorted(
        {f.name for f in fields(Settings)}
        - {"sparsity_weight", "max_steps", "units_per_step", "max_epochs", "batch_size"}
    )
)


TrainingRun = Settings


class _Defaults:
    """Expert settings; None is the default of the trainer."""

    @classmethod
    def from_mapping(cls, given: Any, owner: str) -> Any:
        """Validate a mapping."""
        from suwr._utils.validation import parameter_error

        for name, value in given.items():
            if name not in TUNABLE:
                expected = f"a mapping with some of the keys {', '.join(TUNABLE)}"
                raise parameter_error("training", owner, expected, {name: value})
            if not isinstance(value, int | float) or not abs(value) < float("inf"):
                raise parameter_error("training", owner, f"finite for {name!r}", value)
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that are not None."""
        return {k: v for k, v in vars(self).items() if v is not None}


TrainingConfig: Any = make_dataclass(
    "TrainingConfig", [(n, Any, None) for n in TUNABLE], bases=(_Defaults,), frozen=True
)
