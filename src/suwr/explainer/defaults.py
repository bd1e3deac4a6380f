"""What an explainer chooses by default, from the outputs of the model and the number of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from suwr.training.config import TrainingConfig

__all__ = ["MAX_EPOCHS", "MAX_ROWS", "default_training", "default_weight"]

# Largest number of queried rows, which bounds the duration of the fit.
MAX_ROWS = 40_000
# Epochs of the policy phase: outputs are free of label noise, and there are many rows.
MAX_EPOCHS = 40
# Largest number of bins of a numeric column, and of all columns together.
MAX_COLUMN_BINS, MAX_TABLE_BINS = 32, 512
# Outputs are free of label noise, so predictors need less regularisation than those of labels.
NOISE_FREE = {
    "label_weight": 1.0, "dropout": 0.1, "finetune_dropout": 0.05, "weight_decay": 0.05
}  # fmt: skip


def default_weight(outputs: NDArray[np.float64]) -> float | Literal["auto"]:
    """Return λ, from all outputs of the model, of shape (n, n_classes) or (n,).

    For probabilities, λ is 2 % of the loss of the best constant prediction, but at most 1 % of
    that of two equally probable classes: the loss grows with the number of classes, but what is
    gained by the features that tell the last two classes apart does not.

    Examples
    --------
    >>> default_weight(np.array([2.5, 3.0]))
    'auto'
    >>> round(default_weight(np.eye(4)), 5)
    0.00693
    >>> round(default_weight(np.array([[0.98, 0.02], [0.96, 0.04]])), 5)
    0.00269
    """
    if outputs.ndim == 1:
        return "auto"
    return min(0.02 * float(entropy(outputs.mean(axis=0))), 0.01 * math.log(2.0))


def default_training(
    given: TrainingConfig | Mapping[str, Any] | None, n_columns: int
) -> TrainingConfig | dict[str, Any]:
    """Return the training of the estimator, for the parameter ``training`` of the explainer.

    Outputs of a model are free of label noise, and often have steps, which bins can follow.

    Examples
    --------
    >>> config = default_training({"rollouts": 4}, 20)
    >>> config["n_bins"], config["dropout"], config["rollouts"]
    (25, 0.1, 4)
    """
    if isinstance(given, TrainingConfig):
        return given
    n_bins = min(MAX_COLUMN_BINS, MAX_TABLE_BINS // n_columns)
    return {**NOISE_FREE, "n_bins": n_bins, **(given or {})}
