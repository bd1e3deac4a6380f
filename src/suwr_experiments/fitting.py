"""From a cell to a fitted model, alone or together with others of its shape."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from suwr_experiments.cells import Cell
from suwr_experiments.data import Task

__all__ = ["constant_loss", "fit_alone", "fit_group", "make_model", "validation_rows"]


def make_model(cell: Cell, task: Task, device: str = "cpu") -> Any:
    """The estimator of a cell, not yet fitted."""
    params: dict[str, Any] = {**cell.params, "random_state": cell.seed, "device": device}
    if cell.sparsity_share is not None:
        params["sparsity_weight"] = cell.sparsity_share * constant_loss(task)
    if task.groups is not None:
        params["groups"] = task.groups
    if cell.method == "SUWR":
        import suwr

        return getattr(suwr, f"SUWR{task.kind}")(**params)
    from suwr import baselines

    if cell.method not in baselines.METHODS:
        raise ValueError(
            f"The 'method' of a cell must be SUWR or one of {', '.join(baselines.METHODS)}. "
            f"Got {cell.method!r} instead."
        )
    told = task.told if cell.method == "Oracle" else {}
    return getattr(baselines, f"{cell.method}{task.kind}")(**params, **told)


def constant_loss(task: Task) -> float:
    """Loss of the best constant prediction on the training rows.

    Examples
    --------
    >>> X, y = np.zeros((2, 1)), np.array([0, 1])
    >>> round(constant_loss(Task(X, y, X, y)), 6)
    0.693147
    """
    if task.kind == "Regressor":
        return float(np.var(task.y))
    share = np.unique(task.y, return_counts=True)[1] / len(task.y)
    return float(-(share * np.log(share)).sum())


def fit_alone(cell: Cell, task: Task, device: str = "cpu") -> tuple[Any, float]:
    """Fit one cell; the model and the seconds that it took."""
    model = make_model(cell, task, device)
    start = time.perf_counter()
    model.fit(task.X, task.y)
    return model, time.perf_counter() - start


def fit_group(
    cells: Sequence[Cell], tasks: Sequence[Task], device: str = "cuda"
) -> tuple[list[Any], float]:
    """Fit SUWR models of one shape in one go; the models and the seconds of each.

    Seconds are the group's, divided by the number of models: what one of them costs.
    """
    models = [make_model(cell, task, device) for cell, task in zip(cells, tasks, strict=True)]
    from suwr_experiments.together import fit_together

    start = time.perf_counter()
    fit_together(models, [(task.X, task.y) for task in tasks])
    return models, (time.perf_counter() - start) / len(models)


def validation_rows(model: Any, task: Task) -> NDArray[np.intp]:
    """Training rows that a fitted model never learned from.

    The split depends on nothing but ``random_state``, which a cell fixes; so it can be drawn again.
    """
    numbers: NDArray[np.intp] = clone(model)._training_data(task.X, task.y, None).validation_numbers
    return numbers
