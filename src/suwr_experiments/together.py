"""Train many models as one stack, for sweeps over seeds, λ and data sets on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suwr._utils.progress import training_progress
from suwr.estimators.base import FitPlan, SUWRModel
from suwr.estimators.table import TrainingData, seeded
from suwr.nn.losses import CrossEntropy, Loss
from suwr.training.data import Rows

__all__ = ["fit_together"]


def fit_together(
    models: Sequence[SUWRModel], tables: Sequence[tuple[Any, Any]], *, verbose: int = 0
) -> None:
    """Fit several estimators at once, each with its own rows, λ and seed.

    The networks are evaluated as one stack, so that a GPU computes a few large products instead of
    many small ones. The training is that of `fit`, with other random numbers.

    Parameters
    ----------
    models : sequence of SUWRClassifier, or of SUWRRegressor
        Fitted in place. They may differ in ``sparsity_weight``, ``random_state`` and ``verbose``
        only, and a range of λ must be the same for all.
    tables : sequence of (X, y)
        One per model, with equal numbers of rows, columns and classes.
    verbose : int, default=0
        Whether to show a progress bar.

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
            f"'tables' must hold one (X, y) per model. Got {len(models)} models and "
            f"{len(tables)} tables instead."
        )
    _check_equal(models)
    with ExitStack() as stack:
        # No model changes unless the whole stack is trained.
        fresh = [stack.enter_context(model._fit_aside()) for model in models]
        _train_stack(fresh, tables, verbose)


def _train_stack(
    models: Sequence[SUWRModel], tables: Sequence[tuple[Any, Any]], verbose: int
) -> None:
    parts = [model._prepare(X, y, None) for model, (X, y) in zip(models, tables, strict=True)]
    first = models[0]
    generator = torch.Generator(first.device_)
    plans = [model._plan(data, generator) for model, data in zip(models, parts, strict=True)]
    if len({_kept(plan) for plan in plans}) > 1:
        raise ValueError("'tables' must have equal units after the screening of wide tables.")
    architectures = {plan.architecture for plan in plans}
    if len(architectures) > 1 or len({(len(d.rows), len(d.validation)) for d in parts}) > 1:
        raise ValueError("'tables' must have equal numbers of rows, columns and classes.")
    loss, units = _common_loss(models, parts)
    settings = replace(
        plans[0].task.settings, sparsity_weight=_weights(models, units, first.device_)
    )
    trainer, tasks = plans[0].trainer, [plan.task for plan in plans]
    with (
        seeded(first.device_, parts[0].seed) as generator,
        training_progress(trainer.n_epochs(settings), verbose) as progress,
    ):
        network, history = trainer.train(
            architectures.pop(), tasks[0].inputs, loss,
            _stacked([task.rows for task in tasks]), _stacked([task.validation for task in tasks]),
            settings, generator, progress, n_models=len(models),
        )  # fmt: skip
    for model, data, plan, part in zip(models, parts, plans, network.split(), strict=True):
        model._finish(data, plan, model._extended(data, plan, part), history)


def _kept(plan: FitPlan) -> tuple[bool, ...] | None:
    """The units that the screening of a plan keeps."""
    return None if plan.screening is None else tuple(plan.screening.kept.tolist())


def _check_equal(models: Sequence[SUWRModel]) -> None:
    """Raise an error if the models cannot train as one stack."""
    free = ("sparsity_weight", "random_state", "verbose")
    first = models[0]
    for model in models:
        if model.network == "conv" or model.checkpoint:
            raise ValueError("'models' must have network='mlp' and no checkpoint.")
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
        raise ValueError(
            "'models' must have either the same range or single numbers as sparsity_weight."
        )


def _weights(
    models: Sequence[SUWRModel], units: Sequence[float], device: str
) -> Tensor | tuple[Tensor, Tensor]:
    """λ of every model in units of its loss; for a range of λ, both ends."""
    unit = torch.tensor(units, device=device)
    given = models[0].sparsity_weight
    if isinstance(given, tuple | list):
        return given[0] / unit, given[1] / unit
    return torch.tensor([model.sparsity_weight_ for model in models], device=device) / unit


def _common_loss(
    models: Sequence[SUWRModel], parts: Sequence[TrainingData]
) -> tuple[Loss, list[float]]:
    """A common loss of all models, and the unit of λ for each of them."""
    own = [model.constant_loss_ for model in models]
    loss = parts[0].loss
    if isinstance(loss, CrossEntropy):
        mean = float(np.mean(own))
        return CrossEntropy(loss.n_classes, mean), [mean] * len(own)
    # Targets are standardised per model, so each loss is already in the unit of its model.
    return loss, own


def _stacked(rows: Sequence[Rows]) -> Rows:
    """Concatenate the rows of all models."""
    return Rows(*(torch.cat(part) for part in zip(*(r.tensors() for r in rows), strict=True)))
