"""Experiment 1: a small problem of which everything is known (the paper's Figure 1).

Every method is given every row, and its policy is judged exactly: expected squared error and
expected number of features over all rows, nothing sampled. What lies under the front of the linear
program is impossible without leakage.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exact import FiniteProblem, gap, pareto_front, solve, toy_problem
from suwr_experiments.cells import Cell
from suwr_experiments.data import Task
from suwr_experiments.measuring import leakage_verdict
from suwr_experiments.options import Options
from suwr_experiments.registry import Experiment

__all__ = ["EXPERIMENT", "LEAKING", "METHODS", "ParetoExperiment", "problem_of"]

#: Methods that look at whole rows.
LEAKING = ("L2X", "INVASE", "REALX", "TabNet")
METHODS = (
    "SUWR", *LEAKING, "GDFS", "DIME", "CAE", "GlobalOptimum", "AllFeatures", "Oracle", "LP",
)  # fmt: skip
# Each row several times, so that the validation part takes no row away from training.
REPEATS = 4


@dataclass(frozen=True)
class _Scale:
    """How large a preset is."""

    data: str
    seeds: int
    weights: tuple[float, ...]
    params: dict[str, Any]
    rivals: dict[str, Any]
    some: int | None = None


# Every row is known and no label is noisy, so nothing is lost by learning it to the last detail:
# wide, unregularised networks, more rollouts, and decisions that end up all but certain.
_EXACTING: dict[str, Any] = {
    "max_epochs": 500,
    "hidden_size": 256,
    "batch_size": 500,
    "training": {
        "rollouts": 4,
        "exploration_end": 0.02,
        "soft_until": 0.9,
        "hard_from": 0.95,
        "stop_softness": 0.1,
        "stop_softness_end": 0.03,
        "harden_from": 0.7,
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
    # As many updates as the paper's 2000 epochs of single rows.
    "full": _Scale(
        "toy",
        5,
        (0.3, 0.4, 0.5, 0.8, 1.5),
        _EXACTING,
        {"max_epochs": 500, "patience": 250},
    ),
}


def problem_of(data: str) -> FiniteProblem:
    """The problem of a name: ``"toy"`` is the paper's, with ten features; ``"toy4"`` has four."""
    return toy_problem(int(data[3:] or 10))


class ParetoExperiment(Experiment):
    """Cells and exact measurements of the toy problem."""

    def cells(self, options: Options) -> list[Cell]:
        """SUWR at each λ, every baseline over its grid, and the linear program where it matters."""
        if options.preset not in _SCALES:
            raise ValueError(
                f"The 'preset' parameter must be one of {', '.join(_SCALES)} for 'pareto'. "
                f"Got {options.preset!r} instead."
            )
        scale = _SCALES[options.preset]
        names = options.pick("data", ("toy", "toy4", "toy6")) if options.data else (scale.data,)
        methods = options.pick("methods", METHODS)
        found = []
        for seed in range(options.seeds or scale.seeds):
            for data in names:
                for method in methods:
                    # A rival shows by any of its policies whether it leaks; SUWR must be near the
                    # optimum with every seed.
                    if method == "SUWR" or options.seeds or seed == 0:
                        found += _variants(scale, data, method, seed)
        return found

    def load(self, cell: Cell) -> Task:
        """All rows of the problem, several times over to train on, once to be judged on."""
        problem = problem_of(cell.data)
        X = problem.X.astype(float)
        y = problem.label_distribution @ problem.labels.astype(float)
        repeats = (cell.n_train or REPEATS * len(X)) // len(X)
        return Task(
            np.tile(X, (repeats, 1)), np.tile(y, repeats), X, y,
            kind="Regressor", told={"relevant": _relevant}, facts={"problem": problem},
        )  # fmt: skip

    def run(self, cell: Cell, device: str) -> tuple[dict[str, Any], float]:
        """See `Experiment`; the linear program is solved, not fitted."""
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
        """Exact loss and features of greedy inference; for SUWR, of drawn inference too."""
        problem: FiniteProblem = task.facts["problem"]
        error = (model.predict(task.X_test) - task.y_test) ** 2
        metrics: dict[str, Any] = {
            "loss": float(error.mean()),
            "n_selected": float(model.select(task.X_test).sum(axis=1).mean()),
        }
        weight = cell.params.get("sparsity_weight")
        if cell.method == "SUWR" and weight is not None:
            drawn = gap(model, problem, weight, policy="sampled", lp=False)
            metrics |= {
                "objective": metrics["loss"] + weight * metrics["n_selected"],
                "sampled": {
                    "loss": drawn.loss,
                    "n_selected": drawn.n_selected,
                    "objective": drawn.objective,
                },
                "dp_objective": drawn.dp.objective,
            }
        return metrics | leakage_verdict(cell, model, task, problem)

    def write_tables(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.pareto_results`."""
        from suwr_experiments.pareto_results import write_tables

        return write_tables(records, folder)

    def write_figures(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.pareto_results`."""
        from suwr_experiments.pareto_results import write_figures

        return write_figures(records, folder)


def _relevant(X: Any) -> NDArray[np.bool_]:
    """What matters of a row: the second of a pair only where the first is 1."""
    first = np.asarray(X)[:, 0::2] == 1
    return np.stack([np.ones_like(first), first], axis=2).reshape(len(first), -1)


def _variants(scale: _Scale, data: str, method: str, seed: int) -> list[Cell]:
    """The cells of one method: one for each point of its grid."""

    def cell(**params: Any) -> Cell:
        # All rows can be asked about, so the verdict is exact and cheap.
        return Cell("pareto", data, method, seed, params=params, audit=method != "LP")

    d = problem_of(data).n_features
    if method == "SUWR":
        return [cell(sparsity_weight=w, max_steps=d, **scale.params) for w in scale.weights]
    if method == "LP":
        # Where the linear program agrees with the dynamic one at every break point of the latter,
        # they agree everywhere: both optima are concave in λ.
        breaks = pareto_front(problem_of(data), "dp").sparsity_weight
        weights = sorted({*scale.weights, *(float(w) for w in breaks if w > 0)})
        return [cell(sparsity_weight=w) for w in weights] if seed == 0 else []
    if method == "GlobalOptimum":
        return [cell(n_units=k) for k in range(d + 1)] if seed == 0 else []
    from suwr_experiments.presets import preset

    known = preset("toy", method)
    # A smaller preset shortens everything; the paper's scale leaves the rest to the defaults.
    changed = {
        k: v for k, v in scale.rivals.items() if k in known or (scale.some and v is not None)
    }
    return [cell(**(known | changed | point)) for point in _grid(scale, method, d)]


def _grid(scale: _Scale, method: str, d: int) -> list[dict[str, Any]]:
    """Hyper-parameters that move a method along its curve."""
    from suwr_experiments.presets import PATHS

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
    return points if scale.some is None else points[: scale.some]


EXPERIMENT = ParetoExperiment()
