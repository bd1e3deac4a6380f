"""The parameters that are 'auto', from the number of rows and the trainer."""

from __future__ import annotations

from typing import Any

from suwr.training.registry import Trainer

__all__ = [
    "EXTENSION", "default_extension", "resolve_epochs", "resolve_extension", "resolve_predictors",
]  # fmt: skip

# Training rows from which two predictors and fewer epochs suffice.
MANY_ROWS = 5_000
# Default epochs of the policy phase, with few and many rows, and their factor for a range of λ or
# of budgets.
DEFAULT_EPOCHS, MANY_ROWS_EPOCHS, RANGE_FACTOR = 100, 50, 1.5
# Factor of the epochs after pretraining, for few rows, if the predictors have not settled in it.
EXTENSION = 2.0


def resolve_predictors(model: Any, trainer: Trainer, n_rows: int) -> int:
    """Return the number of predictors of a fit."""
    if trainer.shared or model.predictor is not None:
        return 1
    if model.n_predictors != "auto":
        return int(model.n_predictors)
    return 4 if trainer.screens and n_rows < MANY_ROWS else 2


def resolve_epochs(model: Any, trainer: Trainer, n_rows: int) -> int:
    """Return the maximum number of epochs of the policy phase."""
    if model.max_epochs != "auto":
        return int(model.max_epochs)
    n_epochs = MANY_ROWS_EPOCHS if trainer.screens and n_rows >= MANY_ROWS else DEFAULT_EPOCHS
    return round(n_epochs * (RANGE_FACTOR if trainer.screens and model._has_range else 1.0))


def resolve_extension(model: Any, trainer: Trainer, n_rows: int) -> float:
    """Return the `extension` of `Settings`; a number of epochs that is given is never exceeded."""
    return default_extension(n_rows) if trainer.screens and model.max_epochs == "auto" else 1.0


def default_extension(n_rows: int) -> float:
    """Return the `extension` of `Settings` for a number of training rows."""
    return EXTENSION if n_rows < MANY_ROWS else 1.0
