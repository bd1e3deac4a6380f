"""Everything that training can be told, with the values that worked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suwr.nn.rollout import Policy

__all__ = ["Epoch", "Progress", "Settings"]


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
    sparsity_weight : float
        λ, divided by the loss of the best constant prediction.
    max_steps, units_per_step : int
        *T*, and how many units one step reveals.
    max_epochs : int
        Epochs of policy training. Pretraining and fine-tuning take fixed fractions of it.
    batch_size : int
    """

    sparsity_weight: float
    max_steps: int
    units_per_step: int = 1
    max_epochs: int = 100
    batch_size: int = 500

    pretrain_fraction: float = 0.3
    pretrain_masks: int = 8
    predictor_rate: float = 3e-3
    weight_decay: float = 0.1
    dropout: float = 0.2

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
    # Labels come from the other half's predictor at first, real ones take over in between.
    soft_until: float = 0.5
    hard_from: float = 0.8
    average_decay: float = 0.99

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

    def stop_temperature(self, mean_cost: float) -> float:
        """Softness of ζ_stop: decided where the gain differs by about one unit's price."""
        return 0.75 * self.reward_scale * max(self.sparsity_weight * mean_cost, 1e-3)
