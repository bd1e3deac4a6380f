"""The registry of trainers.

To add a trainer, write a module with a subclass of `suwr.training.trainer.Trainer` and list an
instance in ``TRAINERS``: the ``trainer`` parameter of the estimators accepts its name.
"""

from __future__ import annotations

from suwr.training.actor import ActorTrainer
from suwr.training.config import MANY_ROWS
from suwr.training.lookahead import LookaheadTrainer
from suwr.training.reinforce import ReinforceTrainer
from suwr.training.trainer import Trainer

__all__ = ["MAX_ACTOR_UNITS", "TRAINERS", "Trainer", "default_trainer", "max_screened_units"]

TRAINERS: dict[str, Trainer] = {
    trainer.name: trainer for trainer in (ActorTrainer(), LookaheadTrainer(), ReinforceTrainer())
}

# Largest number of units for which 'auto' chooses the actor over look-ahead. A patch is informative
# by itself, whereas columns often are only jointly, which a one-step look-ahead cannot see.
MAX_ACTOR_UNITS = {"patches": 32, "columns": 128}


def default_trainer(n_units: int, patches: bool = False, budgets: bool = False) -> Trainer:
    """The trainer that ``trainer='auto'`` stands for.

    Parameters
    ----------
    n_units : int
    patches : bool, default=False
        Whether units are the patches of an image.
    budgets : bool, default=False
        Whether the policy is trained for budgets, which only the actor supports.

    Examples
    --------
    >>> default_trainer(20).name, default_trainer(784, patches=True).name
    ('actor', 'lookahead')
    """
    limit = MAX_ACTOR_UNITS["patches" if patches else "columns"]
    return TRAINERS["actor" if n_units <= limit or budgets else "lookahead"]


def max_screened_units(n_rows: int) -> int | None:
    """Return the largest number of units that screening keeps; None is all that are relevant."""
    return MAX_ACTOR_UNITS["columns"] if n_rows < MANY_ROWS else None
