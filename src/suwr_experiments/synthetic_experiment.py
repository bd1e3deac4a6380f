"""Experiment 2: the synthetic benchmark Syn1 to Syn6 (the paper's Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import (
    Experiment,
    Task,
    audit_report,
    classification_scores,
    constant_loss,
    reveal_steps,
    validation_rows,
)
from suwr_experiments.presets import preset
from suwr_experiments.synthetic import (
    BRANCHES,
    CONTROL,
    relevant_columns,
    selection_metrics,
    synthetic,
)

__all__ = ["BUDGETS", "METHODS", "NARROW", "SHARES", "SyntheticExperiment", "is_branched"]

METHODS = (
    "SUWR", "AllFeatures", "Oracle", "L2X", "INVASE", "REALX", "TabNet", "CAE", "GDFS", "DIME",
    "SEFA",
)  # fmt: skip
NARROW = tuple(f"Syn{number}" for number in range(1, 7))
WIDE = tuple(f"{name}x100" for name in NARROW)

#: λ of SUWR's path, relative to the loss of the best constant prediction.
SHARES = (0.004, 0.0063, 0.01, 0.016, 0.025)
#: Values of ``max_steps`` in the figure of budget against cost, with λ = 0 and λ > 0.
BUDGETS, BUDGET_SHARES, BUDGET_DATA = (2, 4, 7, 11), (0.0, 0.01), "Syn1"
# One step per column: SUWR does not receive the number of relevant features.
MAX_STEPS = 11
TRAIN_SEED, TEST_SEED = 0, 100


@dataclass(frozen=True)
class _Scale:
    """Size of a preset."""

    data: tuple[str, ...]
    seeds: int = 5
    n_rows: int | None = None
    epochs: int | None = None
    shares: tuple[float, ...] = SHARES
    budgets: tuple[int, ...] = ()
    suwr: Mapping[str, Any] = field(default_factory=dict)


_SCALES = {
    "mini": _Scale(("Syn4",), 2, 300, 2, (0.01, 0.1)),
    "quick": _Scale(("Syn2", "Syn4"), 1, 3000, 25, (0.004, 0.01, 0.025)),
    # Twice the default number of predictors, and 20 epochs more than the default.
    "full": _Scale(NARROW, budgets=BUDGETS, suwr={"n_predictors": 4, "max_epochs": 120}),
    "wide": _Scale(WIDE),
}


class SyntheticExperiment(Experiment):
    """Grid, data and evaluation of Syn1 to Syn6."""

    def cells(self, config: RunConfig) -> list[Cell]:
        """Every method on every data set; for SUWR a λ path, and the budgets on one data set."""
        scale = _SCALES[config.preset]
        names = config.restrict("datasets", NARROW + WIDE) if config.datasets else scale.data
        methods = config.restrict("methods", METHODS)
        grid: dict[str, Cell] = {}
        # Seeds in the outer loop: an interrupted run has one seed of every method first.
        for seed in range(config.seeds or scale.seeds):
            for method in methods:
                for data in names:
                    for cell in _variants(scale, data, method, seed, config.audit and seed == 0):
                        grid[cell.key] = cell
        return list(grid.values())

    def load(self, cell: Cell) -> Task:
        """Training and test rows of a data set."""
        number, n_columns = _number(cell.data), _columns(cell.data)
        train_seed, test_seed = self.seeds(cell)
        train = synthetic(number, cell.n_train or 10_000, train_seed, n_columns)
        test = synthetic(number, cell.n_test or 10_000, test_seed, n_columns)
        return Task(
            train.X, train.y, test.X, test.y,
            oracle_params={"relevant": partial(relevant_columns, number)},
            facts={"relevant": test.relevant, "probability": test.probability},
        )  # fmt: skip

    def seeds(self, cell: Cell) -> tuple[int, int]:
        """Seeds of the training and of the test rows."""
        return TRAIN_SEED, TEST_SEED

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Scores on test and validation rows, and which columns are selected at which step."""
        masks = model.select(task.X_test)
        held_out = validation_rows(model, task)
        X_held, y_held = task.X[held_out], task.y[held_out]
        metrics: dict[str, Any] = {
            "test": {
                **classification_scores(task.y_test, model.predict_proba(task.X_test)),
                **selection_metrics(masks, task.facts["relevant"]),
            },
            "validation": {
                **classification_scores(y_held, model.predict_proba(X_held)),
                "n_selected": float(model.select(X_held).sum(axis=1).mean()),
            },
            "constant_loss": constant_loss(task),
            "column_share": masks[:, : CONTROL + 1].mean(axis=0).round(5).tolist(),
            "size_share": _shares(masks.sum(axis=1), masks.shape[1]),
        }
        if hasattr(model, "sparsity_weight_"):
            metrics["sparsity_weight"] = float(model.sparsity_weight_)
        if is_branched(cell.data):
            low = task.X_test[:, CONTROL] < 0
            below = masks[low, : CONTROL + 1].mean(axis=0)
            metrics["column_share_low"] = below.round(5).tolist()
        steps = reveal_steps(model, task.X_test)
        if steps is not None:
            # Fraction of rows by the step that reveals x11; the first entry is 'never'.
            metrics["control_step"] = _shares(steps[:, CONTROL], masks.shape[1])
        return metrics | audit_report(cell, model, task)


def _variants(scale: _Scale, data: str, method: str, seed: int, audit: bool) -> list[Cell]:
    """The cells of one method on one data set; for SUWR its λ path."""

    def cell(share: float | None = None, **params: Any) -> Cell:
        return Cell(
            "synthetic", data, method, seed,
            n_train=scale.n_rows, n_test=scale.n_rows, sparsity_share=share, params=params,
            audit=audit,
        )  # fmt: skip

    epochs = {} if scale.epochs is None else {"max_epochs": scale.epochs}
    if method == "SUWR":
        own = {**epochs, **scale.suwr}
        found = [cell(share, max_steps=MAX_STEPS, **own) for share in scale.shares]
        if data == BUDGET_DATA:
            found += [
                cell(share, max_steps=budget, **own)
                for budget in scale.budgets
                for share in BUDGET_SHARES
            ]
        return found
    return [cell(**(preset(f"syn{_number(data)}", method) | epochs))]


def is_branched(data: str) -> bool:
    """Whether x11 selects between two functions in a data set: Syn4 to Syn6.

    Examples
    --------
    >>> is_branched("Syn1"), is_branched("Syn4x100")
    (False, True)
    """
    return _number(data) in BRANCHES


def _number(data: str) -> int:
    return int(data[3])


def _columns(data: str) -> int:
    return int(data.partition("x")[2] or 11)


def _shares(values: Any, most: int) -> list[float]:
    """Relative frequencies of 0, 1, …, ``most`` among integers."""
    counts = np.bincount(values, minlength=most + 1)
    return (counts / counts.sum()).round(6).tolist()
