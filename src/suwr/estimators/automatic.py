"""The parameters that are 'auto', from the number of rows and the trainer."""

from __future__ import annotations

from typing import Any

from suwr.data.units import Patches
from suwr.estimators.table_model import TrainingData
from suwr.training.registry import MAX_ACTOR_UNITS, Trainer

__all__ = [
    "EXTENSION", "choices_by_rows", "default_bins", "default_extension", "default_folds",
    "default_predictors", "max_screened_units", "resolve_bins", "resolve_epochs",
    "resolve_extension", "resolve_folds", "resolve_predictors",
]  # fmt: skip

# Training rows from which two predictors without bins, two folds and fewer epochs suffice, and from
# which the number of relevant columns is not limited.
MANY_ROWS = 5_000
# Number of bins of a numeric column, and number of columns up to which there are bins.
DEFAULT_BINS, MAX_BINNED_COLUMNS = 8, 64
# Default epochs of the policy phase, with few and many rows, and their factor for a range of λ or
# of budgets.
DEFAULT_EPOCHS, MANY_ROWS_EPOCHS, RANGE_FACTOR = 100, 50, 1.5
# Factor of the epochs after pretraining, for few rows, if the predictors have not settled in it.
EXTENSION = 2.0


def max_screened_units(n_rows: int) -> int | None:
    """Return the largest number of units that screening keeps; None is all that are relevant."""
    return MAX_ACTOR_UNITS["columns"] if n_rows < MANY_ROWS else None


def resolve_predictors(model: Any, trainer: Trainer, n_rows: int) -> int:
    """Return the number of predictors of a fit."""
    if trainer.shared or model.predictor is not None:
        return 1
    if model.n_predictors != "auto":
        return int(model.n_predictors)
    return default_predictors(n_rows) if trainer.screens else 2


def default_predictors(n_rows: int) -> int:
    """Return the default number of predictors for a number of training rows."""
    return 4 if n_rows < MANY_ROWS else 2


def resolve_folds(model: Any, trainer: Trainer, n_rows: int) -> int:
    """Return the number of folds for cross-fitting."""
    n_predictors = resolve_predictors(model, trainer, n_rows)
    return default_folds(n_rows, n_predictors) if trainer.screens else 2


def default_folds(n_rows: int, n_predictors: int) -> int:
    """Return the default number of folds for numbers of training rows and of predictors."""
    return 4 if n_rows < MANY_ROWS and n_predictors % 4 == 0 else 2


def resolve_bins(model: Any, n_rows: int, n_columns: int) -> int:
    """Return the largest number of bins of a numeric column."""
    given = model._training_config().n_bins
    if given is not None:
        return int(given)
    images = model.network != "mlp" or isinstance(model.groups, Patches)
    if images or model.predictor is not None or model.trainer not in ("auto", "actor"):
        return 0
    return default_bins(n_rows, n_columns)


def default_bins(n_rows: int, n_columns: int) -> int:
    """Return the default number of bins for numbers of training rows and of columns."""
    return DEFAULT_BINS if n_rows < MANY_ROWS and n_columns <= MAX_BINNED_COLUMNS else 0


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


def choices_by_rows(model: Any, trainer: Trainer, data: TrainingData) -> dict[str, str]:
    """Return what is chosen by the number of training rows, and why, by parameter."""
    choices, n_rows = {}, len(data.rows)
    reason = f"for {n_rows:,} training rows"
    if model.n_predictors == "auto" and not trainer.shared and model.predictor is None:
        choices["n_predictors"] = f"{resolve_predictors(model, trainer, n_rows)}, {reason}"
    if data.inputs.pieces is not None and model._training_config().n_bins is None:
        choices["n_bins"] = f"{DEFAULT_BINS} for every second predictor, {reason}"
    if model.max_epochs == "auto":
        several = " and a range of λ" if model._has_range else ""
        n_epochs = resolve_epochs(model, trainer, n_rows)
        choices["max_epochs"] = f"{n_epochs}, {reason}{several}"
        if resolve_extension(model, trainer, n_rows) > 1:
            choices["max_epochs"] += "; twice as many if the predictors need more"
    return choices
