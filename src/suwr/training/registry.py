"""The trainers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from suwr.nn.networks import Network
from suwr.training.config import Epoch, Progress, Settings, TrainingConfig
from suwr.training.reinforce import train_reinforce
from suwr.training.train import train

__all__ = ["TRAINERS", "Trainer", "default_trainer"]


@dataclass(frozen=True)
class Trainer:
    """A trainer and its properties."""

    name: str
    fit: Callable[..., Network]
    shared: bool = False
    supports_range: bool = True
    informed: bool = False
    defaults: Callable[[int], Mapping[str, Any]] = field(default=lambda units: {})

    def configure(self, config: TrainingConfig, **run: Any) -> Settings:
        """Return the settings of one fit."""
        given = {f.name: getattr(config, f.name) for f in fields(config)}
        given = {k: v for k, v in given.items() if v is not None}
        units = run["max_steps"] * run["units_per_step"]
        return Settings(**{**dict(self.defaults(units)), **given, **run})

    def n_epochs(self, run: Settings) -> int:
        """Return the number of epochs of all phases."""
        if self.shared:
            return run.max_epochs
        return run.max_epochs + run.pretrain_epochs + run.finetune_epochs

    def train(self, *arguments: Any, **options: Any) -> tuple[Network, list[dict[str, Any]]]:
        """Train and return the network and the history."""
        *rest, progress = arguments
        history: list[dict[str, Any]] = []

        def record(epoch: Epoch) -> None:
            policy = epoch.policy is not None
            history.append(
                {
                    "epoch": len(history) + 1,
                    "phase": epoch.phase,
                    "training_loss": None if policy else epoch.value,
                    "validation_objective": epoch.value if policy else None,
                    "mean_cost": None,
                }
            )
            progress(epoch)

        if not self.shared:
            options["trainer"] = self.name
        reporter: Progress = record
        return self.fit(*rest, reporter, **options), history


TRAINERS = {
    "actor": Trainer("actor", train),
    "lookahead": Trainer(
        "lookahead",
        train,
        informed=True,
        defaults=lambda units: {
            "most_units": 2 * units,
            "mixed_precision": True,
            "joint_rate": 0.3,
            "pretrain_masks": 2,
        },
    ),
    "reinforce": Trainer("reinforce", train_reinforce, shared=True, supports_range=False),
}


def default_trainer(n_units: int, patches: bool) -> Trainer:
    """Return the trainer for trainer='auto'."""
    return TRAINERS["actor" if n_units <= (32 if patches else 128) else "lookahead"]
