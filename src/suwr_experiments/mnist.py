"""Experiment 3: digits by single pixels, Fashion by 3×3 patches (the paper's Figure 4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from suwr.data.units import Patches
from suwr_experiments.cells import Cell
from suwr_experiments.data import Task
from suwr_experiments.fitting import constant_loss, validation_rows
from suwr_experiments.measuring import classification_scores, leakage_verdict
from suwr_experiments.options import Options
from suwr_experiments.registry import Experiment

__all__ = ["EXPERIMENT", "METHODS", "RANGE", "READ_AT", "SHARES", "WIDTHS", "MNISTExperiment"]

METHODS = ("SUWR", "AllFeatures", "CAE", "REALX", "GDFS")
#: Side of the square that one step reveals.
PATCH = {"mnist": 1, "fashion-mnist": 3}
SIDE = 28
#: λ of SUWR's curve, in nats: one model for the whole range.
RANGE = (0.0005, 0.2)
#: Models of a single λ beside it, as shares of the loss of the best constant prediction.
SHARES = (0.002, 0.016)
#: Pixels that one step reveals in further models for the whole range.
WIDTHS = (2, 5)
#: Networks with convolutions, for Fashion: fewer steps and epochs, since each costs more.
CONV = {"network": "conv", "max_steps": 20, "max_epochs": 24, "n_predictors": 2}
#: Mean numbers of units at which the curve is read off; λ is found by validation rows. A little
#: under the numbers that people ask for, so that test rows do not take more.
READ_AT = (2, 3, 4, 4.9, 5.9, 7.9, 9.8, 12, 14.7, 19.6, 25, 29.4, 40, 49)
#: SUWR's own settings by set, most steps of the greedy rivals, and budgets of CAE.
SUWR: dict[str, dict[str, int]] = {
    "mnist": {"max_steps": 100},
    "fashion-mnist": {"max_steps": 30, "n_predictors": 4},
}
GREEDY_STEPS = {"mnist": 50, "fashion-mnist": 20}
BUDGETS = {"mnist": (10, 20, 30, 50), "fashion-mnist": (5, 10, 15, 20)}
# The published λ of REAL-X weigh the share of selected units.
REALX_WEIGHTS = (3.0, 6.0, 12.0, 20.0)
NETWORK: dict[str, Any] = {"hidden_size": 512, "n_layers": 2, "batch_size": 1024}
# Epochs at full scale. The greedy rivals lower their temperature slowly; one of their epochs is an
# update for every step, so that fewer of them do where there are more steps.
EPOCHS = {"SUWR": 30}
GREEDY_EPOCHS = {"mnist": 50, "fashion-mnist": 100}
OTHER_EPOCHS = 60


@dataclass(frozen=True)
class _Scale:
    """How large a preset is."""

    data: tuple[str, ...]
    seeds: int = 3
    n_rows: int | None = None
    max_steps: int | None = None
    some: int | None = None
    params: tuple[tuple[str, Any], ...] = ()
    suwr: tuple[tuple[str, Any], ...] = ()


_SCALES = {
    "mini": _Scale(("fashion-mnist",), 1, 300, 3, 1, (("max_epochs", 1), ("hidden_size", 8))),
    # Ten patches, 8,000 images: minutes on two cores. Where walks are short, half of the updates
    # from each and more epochs teach as much in less time.
    "quick": _Scale(
        ("fashion-mnist",), 1, 8000, 10, 1,
        (("max_epochs", 16), ("hidden_size", 256), ("batch_size", 128)),
        (("n_predictors", 2), ("training", {"updates_per_walk": 4})),
    ),
    "full": _Scale(tuple(PATCH)),
}  # fmt: skip


class MNISTExperiment(Experiment):
    """Cells and measurements of the image sets."""

    def cells(self, options: Options) -> list[Cell]:
        """Every method over the values that move it along its curve."""
        if options.preset not in _SCALES:
            raise ValueError(
                f"The 'preset' parameter must be one of {', '.join(_SCALES)} for 'mnist'. "
                f"Got {options.preset!r} instead."
            )
        scale = _SCALES[options.preset]
        names = options.pick("data", tuple(PATCH)) if options.data else scale.data
        found = []
        for seed in range(options.seeds or scale.seeds):
            for method in options.pick("methods", METHODS):
                for data in names:
                    points = _points(scale, data, method)[: scale.some]
                    found += [
                        Cell(
                            "mnist", data, method, seed, n_train=scale.n_rows,
                            n_test=scale.n_rows, sparsity_share=share,
                            params=params
                            | dict(scale.params)
                            | dict(scale.suwr if method == "SUWR" else ()),
                            audit=options.audit and seed == 0,
                        )
                        for share, params in points
                    ]  # fmt: skip
        return found

    def shape(self, cell: Cell) -> str:
        """See `Experiment`; pixels and patches are different units."""
        return f"{cell.data} {cell.shape()}"

    def load(self, cell: Cell) -> Task:
        """The published split; the first rows of it where there are to be fewer."""
        data = _images(cell.data)
        train, test = slice(cell.n_train), slice(cell.n_test)
        return Task(
            data.X_train[train], data.y_train[train], data.X_test[test], data.y_test[test],
            groups=Patches((SIDE, SIDE), size=PATCH[cell.data]),
        )  # fmt: skip

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Accuracy, and the mean number of units and of pixels, on test and validation rows."""
        held = validation_rows(model, task)
        parts = {
            "test": (task.X_test, task.y_test),
            "validation": (task.X[held], task.y[held]),
        }
        metrics: dict[str, Any] = {
            name: {
                **classification_scores(y, model.predict_proba(X)),
                "n_units": float(model.cost(X).mean()),
                "n_selected": float(model.select(X).sum(axis=1).mean()),
            }
            for name, (X, y) in parts.items()
        }
        metrics["constant_loss"] = constant_loss(task)
        if getattr(model, "weight_range_", None) is not None:
            metrics["curve"] = _curve(model, task)
        if hasattr(model, "predict_steps"):
            # A budget cut short is a budget: one model gives the whole curve.
            label = model.predict_steps(task.X_test).argmax(axis=2)
            right = model.classes_[label] == task.y_test[:, None]
            metrics["accuracy_after"] = right.mean(axis=0).round(5).tolist()
        return metrics | leakage_verdict(cell, model, task)

    def write_tables(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.mnist_results`."""
        from suwr_experiments.mnist_results import write_tables

        return write_tables(records, folder)

    def write_figures(self, records: list[dict[str, Any]], folder: Path) -> list[Path]:
        """See `suwr_experiments.mnist_results`."""
        from suwr_experiments.mnist_results import write_figures

        return write_figures(records, folder)


def _curve(model: Any, task: Task) -> list[dict[str, float]]:
    """Test figures of a model of a range of λ, where validation rows take so many units."""
    least, most = model.weight_range_.n_units[[-1, 0]]
    points = []
    for k in (k for k in READ_AT if least <= k <= most):
        mask = model.select(task.X_test, mean_features=k)
        label = model.classes_[model.predict_masked(task.X_test, mask).argmax(axis=1)]
        points.append(
            {
                "asked": float(k),
                "n_units": float(model.cost(task.X_test, mean_features=k).mean()),
                "n_selected": float(mask.sum(axis=1).mean()),
                "accuracy": float((label == task.y_test).mean()),
            }
        )
    return points


def _points(scale: _Scale, data: str, method: str) -> list[tuple[float | None, dict[str, Any]]]:
    """λ as a share, and parameters, of every cell of a method."""
    units = SIDE * SIDE
    same = {**NETWORK, "max_epochs": EPOCHS.get(method, OTHER_EPOCHS)}
    if method == "GDFS":
        steps = scale.max_steps or GREEDY_STEPS[data]
        same |= {"max_epochs": GREEDY_EPOCHS[data], "max_steps": steps}
    if method == "SUWR":
        same |= SUWR[data]
        same["max_steps"] = most = scale.max_steps or same["max_steps"]
        whole = {**same, "sparsity_weight": list(RANGE)}
        one = [(share, same) for share in SHARES]
        wide = [
            (None, {**whole, "units_per_step": width, "max_steps": most // width})
            for width in WIDTHS
            if data == "mnist"
        ]
        conv = [] if data == "mnist" else [(None, whole | CONV)]
        return [(None, whole), *one, *wide, *conv]
    if method == "AllFeatures" and data != "mnist":
        return [(None, same), (None, {**same, "network": CONV["network"]})]
    if method == "CAE":
        return [(None, {**same, "n_units": k}) for k in BUDGETS[data]]
    if method == "REALX":
        return [(None, {**same, "sparsity_weight": w / units}) for w in REALX_WEIGHTS]
    return [(None, same)]


@lru_cache(maxsize=2)
def _images(name: str) -> Any:
    from suwr_experiments.images import load_images

    return load_images(name)


EXPERIMENT = MNISTExperiment()
