"""Experiment 2: Syn1 to Syn6, training and test rows apart (the paper's Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suwr_experiments.cells import Cell
from suwr_experiments.data import Task
from suwr_experiments.fitting import constant_loss, validation_rows
from suwr_experiments.measuring import classification_scores, leakage_verdict, reveal_steps
from suwr_experiments.options import Options
from suwr_experiments.registry import Experiment
from suwr_experiments.synthetic import (
    BRANCHES,
    CONTROL,
    relevant_columns,
    selection_metrics,
    synthetic,
)

__all__ = ["BUDGETS", "EXPERIMENT", "METHODS", "SHARES", "SyntheticExperiment"]

METHODS = (
    "SUWR", "AllFeatures", "Oracle", "L2X", "INVASE", "REALX", "TabNet", "CAE", "GDFS", "DIME",
)  # fmt: skip
NARROW = tuple(f"Syn{number}" for number in range(1, 7))
WIDE = tuple(f"{name}x100" for name in NARROW)

#: λ of SUWR's path, as shares of the loss of the best constant prediction.
SHARES = (0.004, 0.0063, 0.01, 0.016, 0.025)
#: Most steps in the figure of budget against sparsity, with and without a price.
BUDGETS, BUDGET_SHARES, BUDGET_DATA = (2, 4, 7, 11), (0.0, 0.01), "Syn1"
# Nobody tells SUWR how many features matter.
MAX_STEPS = 11
TRAIN_SEED, TEST_SEED = 0, 100


@dataclass(frozen=True)
class _Scale:
    """How large a preset is."""

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
    # Twice the default number of predictors, and a little longer: what the authors' code takes
    # more than 400 epochs for.
    "full": _Scale(NARROW, budgets=BUDGETS, suwr={"n_predictors": 4, "max_epochs": 120}),
    "wide": _Scale(WIDE),
}


class SyntheticExperiment(Experiment):
    """Cells, rows and measurements of Syn1 to Syn6."""

    def cells(self, options: Options) -> list[Cell]:
        """Every method on every set; for SUWR the whole λ path, and the budgets on one set."""
        scale = _SCALES[options.preset]
        names = options.pick("data", NARROW + WIDE) if options.data else scale.data
        methods = options.pick("methods", METHODS)
        grid: dict[str, Cell] = {}
        # Seeds outermost: an unfinished run has every method once before any twice.
        for seed in range(options.seeds or scale.seeds):
            for method in methods:
                for data in names:
                    for cell in _variants(scale, data, method, seed, options.audit and seed == 0):
                        grid[cell.key] = cell
        return list(grid.values())

    def shape(self, cell: Cell) -> str:
        """See `Experiment`; the number of columns counts too."""
        return f"{_columns(cell.data)} {cell.shape()}"

    def load(self, cell: Cell) -> Task:
        """Rows of a set: seed 0 to train on, seed 100 to test on."""
        number, n_columns = _number(cell.data), _columns(cell.data)
        train = synthetic(number, cell.n_train or 10_000, TRAIN_SEED, n_columns)
        test = synthetic(number, cell.n_test or 10_000, TEST_SEED, n_columns)
        return Task(
            train.X, train.y, test.X, test.y,
            told={"relevant": partial(relevant_columns, number)},
            facts={"relevant": test.relevant},
        )  # fmt: skip

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Scores on test rows and on the model's own validation rows, and what is selected when."""
        masks = model.select(task.X_test)
        held = validation_rows(model, task)
        X_held, y_held = task.X[held], task.y[held]
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
        if _number(cell.data) in BRANCHES:
            low = task.X_test[:, CONTROL] < 0
            below = masks[low, : CONTROL + 1].mean(axis=0)
            metrics["column_share_low"] = below.round(5).tolist()
        steps = reveal_steps(model, task.X_test)
        if steps is not None:
            # Share of the rows by the step that shows x11; the first entry is 'never'.
            metrics["control_step"] = _shares(steps[:, CONTROL], masks.shape[1])
        return metrics | leakage_verdict(cell, model, task)

    def write_tables(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.benchmark_tables`."""
        from suwr_experiments.benchmark_tables import write_tables

        return write_tables(records, folder)

    def write_figures(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.benchmark_figures`."""
        from suwr_experiments.benchmark_figures import write_figures

        return write_figures(records, folder)


def _variants(scale: _Scale, data: str, method: str, seed: int, audit: bool) -> list[Cell]:
    """The cells of one method on one set: one, or SUWR's path."""

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
    from suwr_experiments.presets import preset

    return [cell(**(preset(f"syn{_number(data)}", method) | epochs))]


def _number(data: str) -> int:
    return int(data[3])


def _columns(data: str) -> int:
    return int(data.partition("x")[2] or 11)


def _shares(values: Any, most: int) -> list[float]:
    """Share of 0, 1, …, most among whole numbers."""
    counts = np.bincount(values, minlength=most + 1)
    return (counts / counts.sum()).round(6).tolist()


EXPERIMENT = SyntheticExperiment()
