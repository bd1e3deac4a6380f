"""Experiment 1: policies of all methods on a finite problem (the paper's Figure 1).

Every method trains on all rows of the problem, and its policy is evaluated exactly: expected
squared error and expected number of features over all rows. Points below the Pareto front of the
linear program are impossible without leakage.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import check_choice
from suwr.exact import FiniteProblem, gap, pareto_front, solve, toy_problem
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import Experiment, Task, audit_report
from suwr_experiments.presets import PATHS, preset

__all__ = ["LEAKING", "METHODS", "ParetoExperiment", "problem_of"]

#: Methods whose selector reads whole rows.
LEAKING = ("L2X", "INVASE", "REALX", "TabNet")
METHODS = (
    "SUWR", *LEAKING, "GDFS", "DIME", "CAE", "GlobalOptimum", "AllFeatures", "Oracle", "LP",
)  # fmt: skip
# Repetitions of each row: every row is among the training rows, whatever the validation split.
REPEATS = 4


@dataclass(frozen=True)
class _Scale:
    """Size of a preset."""

    data: str
    seeds: int
    weights: tuple[float, ...]
    params: dict[str, Any]
    baseline_params: dict[str, Any]
    max_points: int | None = None
    # Seeds of SUWR with its default settings, beside ``params``.
    default_seeds: int = 0


# All rows are known and labels are noise-free, so overfitting is impossible: wide networks without
# regularisation, more rollouts, and a low decision temperature.
_NOISE_FREE: dict[str, Any] = {
    "max_epochs": 500,
    "hidden_size": 256,
    "batch_size": 500,
    "training": {
        "rollouts": 4,
        "stop_softness": 0.1,
        "dropout": 0.0,
        "finetune_dropout": 0.0,
        "weight_decay": 0.0,
        "pretrain_fraction": 0.2,
        "finetune_fraction": 0.1,
    },
}

_SCALES = {
    "mini": _Scale("toy4", 1, (0.1,), {"max_epochs": 2}, {"max_epochs": 2, "patience": None}, 1),
    "quick": _Scale(
        "toy6", 1, (0.1, 0.3), {"max_epochs": 60}, {"max_epochs": 60, "patience": None}, 3
    ),
    # As many updates as in the paper's 2000 epochs without repeated rows.
    "full": _Scale(
        "toy",
        5,
        (0.3, 0.4, 0.5, 0.8, 1.5),
        _NOISE_FREE,
        {"max_epochs": 500, "patience": 250},
        default_seeds=1,
    ),
}


def problem_of(data: str) -> FiniteProblem:
    """Problem by name: ``"toy"`` is the paper's, with ten features; ``"toy4"`` has four."""
    return toy_problem(int(data[3:] or 10))


class ParetoExperiment(Experiment):
    """Grid and exact evaluation of the toy problem."""

    def cells(self, config: RunConfig) -> list[Cell]:
        """SUWR at each λ, every baseline over its grid, and the linear program at each break."""
        check_choice(config.preset, "preset", "ParetoExperiment", tuple(_SCALES))
        scale = _SCALES[config.preset]
        names: tuple[str, ...] = (scale.data,)
        if config.datasets:
            names = config.restrict("datasets", ("toy", "toy4", "toy6"))
        methods = config.restrict("methods", METHODS)
        found = []
        for seed in range(config.seeds or scale.seeds):
            for data in names:
                for method in methods:
                    # The variation over seeds is reported for SUWR only.
                    if method == "SUWR" or config.seeds or seed == 0:
                        found += _variants(scale, data, method, seed)
        return found

    def load(self, cell: Cell) -> Task:
        """All rows of the problem: repeated for training, once for the evaluation."""
        problem = problem_of(cell.data)
        X = problem.X.astype(float)
        y = problem.label_distribution @ problem.labels.astype(float)
        repeats = (cell.n_train or REPEATS * len(X)) // len(X)
        return Task(
            np.tile(X, (repeats, 1)), np.tile(y, repeats), X, y,
            kind="Regressor", oracle_params={"relevant": _relevant}, facts={"problem": problem},
        )  # fmt: skip

    def run(self, cell: Cell, device: str) -> tuple[dict[str, Any], float]:
        """Fit and evaluate one cell, or solve the linear program."""
        if cell.method != "LP":
            return super().run(cell, device)
        start = time.perf_counter()
        weight = cell.params["sparsity_weight"]
        problem = problem_of(cell.data)
        lp = solve(problem, weight, "lp")
        metrics = {
            "objective": lp.objective,
            "loss": lp.loss,
            "n_selected": lp.n_selected,
            "dp_objective": solve(problem, weight, "dp").objective,
        }
        return metrics, time.perf_counter() - start

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Exact loss and cost of greedy inference; for SUWR, of sampled inference as well."""
        problem: FiniteProblem = task.facts["problem"]
        error = (model.predict(task.X_test) - task.y_test) ** 2
        metrics: dict[str, Any] = {
            "loss": float(error.mean()),
            "n_selected": float(model.select(task.X_test).sum(axis=1).mean()),
        }
        weight = cell.params.get("sparsity_weight")
        if cell.method == "SUWR" and weight is not None:
            sampled = gap(model, problem, weight, policy="sampled", lp=False)
            metrics |= {
                "objective": metrics["loss"] + weight * metrics["n_selected"],
                "sampled": {
                    "loss": sampled.loss,
                    "n_selected": sampled.n_selected,
                    "objective": sampled.objective,
                },
                "dp_objective": sampled.dp.objective,
            }
        return metrics | audit_report(cell, model, task, problem)


def _relevant(X: Any) -> NDArray[np.bool_]:
    """Relevant features of each row: the second of a pair only if the first is 1."""
    first = np.asarray(X)[:, 0::2] == 1
    return np.stack([np.ones_like(first), first], axis=2).reshape(len(first), -1)


def _variants(scale: _Scale, data: str, method: str, seed: int) -> list[Cell]:
    """The cells of one method: one per point of its grid."""

    def cell(**params: Any) -> Cell:
        # On a finite problem the audit is exact and cheap.
        return Cell("pareto", data, method, seed, params=params, audit=method != "LP")

    d = problem_of(data).n_features
    if method == "SUWR":
        tuned = [cell(sparsity_weight=w, max_steps=d, **scale.params) for w in scale.weights]
        default = [cell(sparsity_weight=w) for w in scale.weights]
        return tuned + (default if seed < scale.default_seeds else [])
    if method == "LP":
        # Both optima are concave in λ, and that of the dynamic program is linear between its break
        # points: equality at the break points implies equality everywhere.
        breaks = pareto_front(problem_of(data), "dp").sparsity_weight
        weights = sorted({*scale.weights, *(float(w) for w in breaks if w > 0)})
        return [cell(sparsity_weight=w) for w in weights] if seed == 0 else []
    if method == "GlobalOptimum":
        return [cell(n_units=k) for k in range(d + 1)] if seed == 0 else []
    known = preset("toy", method)
    # Small presets shorten every method; the full one changes only what the paper sets.
    changed = {
        k: v
        for k, v in scale.baseline_params.items()
        if k in known or (scale.max_points and v is not None)
    }
    return [cell(**(known | changed | point)) for point in _grid(scale, method, d)]


def _grid(scale: _Scale, method: str, d: int) -> list[dict[str, Any]]:
    """Hyper-parameters of the points of a method's curve."""
    if method == "TabNet":
        name, values = PATHS["toy", "TabNet"]
        points = [{"n_steps": steps, name: value} for steps in (1, 2, 3) for value in values[::3]]
    elif method in ("L2X", "CAE"):
        points = [{"n_units": k} for k in range(1, d, 2)]
    elif method in ("INVASE", "REALX"):
        name, values = PATHS["toy", method]
        points = [{name: value} for value in values]
    elif method == "GDFS":
        points = [{"max_steps": k} for k in range(1, d, 2)]
    elif method == "DIME":
        points = [{"max_steps": d, "sparsity_weight": w} for w in scale.weights]
    else:
        points = [{}]
    return points[: scale.max_points]
