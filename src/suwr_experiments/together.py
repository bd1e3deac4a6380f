"""Many models in one training: for sweeps over seeds, λ and data sets on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suwr._utils.progress import training_progress
from suwr.estimators.base import BaseSUWR
from suwr.estimators.table_model import TrainingData, seeded
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Rows

__all__ = ["fit_together"]


def fit_together(
    models: Sequence[BaseSUWR], tables: Sequence[tuple[Any, Any]], *, verbose: int = 0
) -> None:
    """Fit several estimators in one go; each gets its own rows, λ and seed.

    The networks are evaluated as one stack, so that a GPU is busy with few large products instead
    of many small ones. Every model is trained as `fit` trains it, with other random numbers.

    Parameters
    ----------
    models : sequence of SUWRClassifier, or of SUWRRegressor
        Equal in all parameters but ``sparsity_weight``, ``random_state`` and ``verbose``; each is
        fitted in place. A range of λ must be the same for all.
    tables : sequence of (X, y)
        One for each model: equally many rows, columns and classes.
    verbose : int, default=0
        Show a progress bar.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> models = [SUWRClassifier(max_epochs=2, random_state=seed) for seed in (0, 1)]
    >>> fit_together(models, [(X, y), (X, y)])
    >>> [model.predict(X).shape for model in models]
    [(150,), (150,)]
    """
    if len(models) == 0 or len(models) != len(tables):
        raise ValueError(
            f"'tables' must hold one (X, y) for each model. Got {len(models)} models and "
            f"{len(tables)} tables instead."
        )
    _check_equal(models)
    parts = [model._prepare(X, y, None) for model, (X, y) in zip(models, tables, strict=True)]
    first = models[0]
    architectures = {model._architecture(data) for model, data in zip(models, parts, strict=True)}
    if len(architectures) > 1 or len({(len(d.rows), len(d.validation)) for d in parts}) > 1:
        raise ValueError("'tables' must have equally many rows, columns and classes.")
    loss, units = _common_loss(models, parts)
    settings = replace(
        first._settings(parts[0]), sparsity_weight=_weights(models, units, first.device_)
    )
    trainer = first._trainer()
    with (
        seeded(first.device_, parts[0].seed) as generator,
        training_progress(trainer.n_epochs(settings), verbose) as progress,
    ):
        network, history = trainer.train(
            architectures.pop(), parts[0].inputs, loss,
            _stacked([d.rows for d in parts]), _stacked([d.validation for d in parts]), settings,
            generator, progress, n_models=len(models),
        )  # fmt: skip
    assert isinstance(network, SeparateNetwork)
    for model, data, part in zip(models, parts, network.split(), strict=True):
        model._finish(data, part, history)


def _check_equal(models: Sequence[BaseSUWR]) -> None:
    """Refuse what cannot be trained as one stack."""
    free = ("sparsity_weight", "random_state", "verbose")
    first = models[0]
    for model in models:
        refused = model.trainer == "reinforce" or model.network == "conv" or model.checkpoint
        if refused:
            raise ValueError(
                "'models' must have trainer='auto', 'actor' or 'lookahead', network='mlp' and no "
                "checkpoint."
            )
        same = type(model) is type(first) and all(
            value is (other := first.get_params(deep=False)[name]) or value == other
            for name, value in model.get_params(deep=False).items()
            if name not in free
        )
        if not same:
            raise ValueError(f"'models' must be equal in all parameters but {', '.join(free)}.")
    given = [model.sparsity_weight for model in models]
    ranges = {tuple(weight) for weight in given if isinstance(weight, tuple | list)}
    if ranges and (
        len(ranges) > 1 or not all(isinstance(weight, tuple | list) for weight in given)
    ):
        raise ValueError("'models' must have one range as their sparsity_weight, or numbers only.")


def _weights(
    models: Sequence[BaseSUWR], units: Sequence[float], device: str
) -> Tensor | tuple[Tensor, Tensor]:
    """λ of every model in its unit; the two ends of it where they have a range."""
    unit = torch.tensor(units, device=device)
    given = models[0].sparsity_weight
    if isinstance(given, tuple | list):
        return given[0] / unit, given[1] / unit
    return torch.tensor([model.sparsity_weight_ for model in models], device=device) / unit


def _common_loss(
    models: Sequence[BaseSUWR], parts: Sequence[TrainingData]
) -> tuple[Loss, list[float]]:
    """One loss for all models, and the unit of each in which λ is counted."""
    own = [model.constant_loss_ for model in models]
    loss = parts[0].loss
    if isinstance(loss, CrossEntropy):
        mean = float(np.mean(own))
        return CrossEntropy(loss.n_classes, mean), [mean] * len(own)
    # Values are standardised for each model, so their losses already are in its own unit.
    return loss, own


def _stacked(rows: Sequence[Rows]) -> Rows:
    """Rows of all models, one after the other."""
    return Rows(*(torch.cat(part) for part in zip(*(vars(r).values() for r in rows), strict=True)))
