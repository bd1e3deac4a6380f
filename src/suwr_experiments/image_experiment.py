"""Experiment 3: MNIST by single pixels and Fashion-MNIST by 3×3 patches (the paper's Figure 4).

MNIST by patches, as in the paper's Figures 7 and 8, is there for the sequential methods.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from suwr._utils.validation import check_choice
from suwr.data.units import Patches
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import (
    Experiment,
    Task,
    audit_report,
    classification_scores,
    constant_loss,
    fit_alone,
    validation_rows,
)
from suwr_experiments.images import ImageData, load_images
from suwr_experiments.points import Point, budget_points, confidence_points, cost_thresholds

__all__ = ["METHODS", "PATCH", "SHARES", "UNITS_PER_STEP", "ImageExperiment"]

METHODS = ("SUWR", "AllFeatures", "CAE", "REALX", "GDFS", "DIME")
#: Side of the square patch that one step reveals.
PATCH = {"mnist": 1, "mnist-patches": 3, "fashion-mnist": 3}
#: Methods on MNIST by patches.
PATCH_METHODS = ("SUWR", "GDFS")
SIDE = 28
#: Range of λ, in nats, of the model that yields SUWR's curve.
RANGE = (0.0005, 0.2)
#: λ of models with a single λ, relative to the loss of the best constant prediction.
SHARES = (0.002, 0.016)
#: ``units_per_step`` of further models for the whole range of λ.
UNITS_PER_STEP = (2, 5)
#: Convolutional networks for Fashion-MNIST: fewer steps and epochs, since each is slower.
CONV = {"network": "conv", "max_steps": 20, "max_epochs": 24, "n_predictors": 2}
#: The networks and the step limit of the paper.
PAPER_NETWORK = {"hidden_size": 200, "n_layers": 3}
PAPER = {**PAPER_NETWORK, "max_steps": 50, "n_predictors": 2}
#: Mean numbers of units at which SUWR's curve is evaluated; λ is calibrated on validation rows.
#: Slightly below round budgets, so that the mean on test rows does not exceed them.
MEAN_FEATURES = (2, 3, 4, 4.9, 5.9, 7.9, 9.8, 12, 14.7, 19.6, 25, 29.4, 40, 49)
# Parameters of SUWR, maximum number of steps of GDFS and DIME, and budgets of CAE, by data set.
SUWR: dict[str, dict[str, int]] = {
    "mnist": {"max_steps": 100},
    "mnist-patches": {"max_steps": 20},
    "fashion-mnist": {"max_steps": 30, "n_predictors": 4},
}
GREEDY_STEPS = {"mnist": 50, "mnist-patches": 20, "fashion-mnist": 20}
#: Stopping rules of DIME; each decides which epoch is kept, so that each is a fit of its own.
STOPS = ("cost", "confidence")
BUDGETS = {
    "mnist": (10, 20, 30, 50),
    "mnist-patches": (3, 5, 10, 15),
    "fashion-mnist": (5, 10, 15, 20),
}
# REAL-X as published weights the fraction of selected units by λ; divided by their number below.
REALX_WEIGHTS = (3.0, 6.0, 12.0, 20.0)
# Distributions of the number of revealed units in the training of EVAL-X, which evaluates REAL-X.
MASK_SIZES = ("binomial", "uniform")
NETWORK: dict[str, Any] = {"hidden_size": 512, "n_layers": 2, "batch_size": 1024}
# Epochs at full scale. An epoch of GDFS has one update per step, so more steps need fewer epochs.
SUWR_EPOCHS = 30
GREEDY_EPOCHS = {"mnist": 50, "mnist-patches": 100, "fashion-mnist": 100}
OTHER_EPOCHS = 60


@dataclass(frozen=True)
class _Scale:
    """Size of a preset."""

    data: tuple[str, ...]
    seeds: int = 3
    n_rows: int | None = None
    max_steps: int | None = None
    max_points: int | None = None
    params: tuple[tuple[str, Any], ...] = ()
    suwr: tuple[tuple[str, Any], ...] = ()


_SCALES = {
    "mini": _Scale(("fashion-mnist",), 1, 300, 3, 1, (("max_epochs", 1), ("hidden_size", 8))),
    # Ten patches, 8,000 images: minutes on two cores. Short rollouts need fewer updates each; more
    # epochs make up for it in less time.
    "quick": _Scale(
        ("fashion-mnist",), 1, 8000, 10, 1,
        (("max_epochs", 16), ("hidden_size", 256), ("batch_size", 128)),
        (("n_predictors", 2),),
    ),
    "full": _Scale(tuple(PATCH)),
}  # fmt: skip


class ImageExperiment(Experiment):
    """Grid, data and evaluation of the image sets."""

    def cells(self, config: RunConfig) -> list[Cell]:
        """Every method over the hyper-parameters of its curve."""
        check_choice(config.preset, "preset", "ImageExperiment", tuple(_SCALES))
        scale = _SCALES[config.preset]
        names = config.restrict("datasets", tuple(PATCH)) if config.datasets else scale.data
        found = []
        for seed in range(config.seeds or scale.seeds):
            for method in config.restrict("methods", METHODS):
                for data in names:
                    points = _points(scale, data, method)[: scale.max_points]
                    found += [
                        Cell(
                            "images", data, method, seed, n_train=scale.n_rows,
                            n_test=scale.n_rows, sparsity_share=share,
                            params=params
                            | dict(scale.params)
                            | dict(scale.suwr if method == "SUWR" else ()),
                            audit=config.audit and seed == 0,
                        )
                        for share, params in points
                    ]  # fmt: skip
        return found

    def load(self, cell: Cell) -> Task:
        """The published split, or its first rows for a small preset."""
        data = _images(cell.data.removesuffix("-patches"))
        train, test = slice(cell.n_train), slice(cell.n_test)
        return Task(
            data.X_train[train], data.y_train[train], data.X_test[test], data.y_test[test],
            groups=Patches((SIDE, SIDE), size=PATCH[cell.data]),
        )  # fmt: skip

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Accuracy and mean number of units and of pixels, on test and validation rows."""
        held_out = validation_rows(model, task)
        parts = {
            "test": (task.X_test, task.y_test),
            "validation": (task.X[held_out], task.y[held_out]),
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
        if cell.method == "REALX":
            metrics["evaluated"] = _evaluated(cell, model, task)
        return metrics | audit_report(cell, model, task) | _stopped(cell, model, task)


def _curve(model: Any, task: Task) -> list[dict[str, float]]:
    """Test scores of a model for a range of λ, at each mean number of units it can reach."""
    least, most = model.weight_range_.n_units[[-1, 0]]
    points = []
    for k in (k for k in MEAN_FEATURES if least <= k <= most):
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


def _evaluated(cell: Cell, model: Any, task: Task) -> dict[str, float]:
    """Test accuracy of EVAL-X on the masks of a selector, by the masks that it was trained on."""
    network = {name: value for name, value in cell.params.items() if name != "sparsity_weight"}
    masks, found = model.select(task.X_test), {}
    for sizes in MASK_SIZES:
        own = replace(cell, method="EVALX", params={**network, "mask_sizes": sizes}, audit=False)
        evaluator = _evaluator(json.dumps(own.to_dict()), model.device)
        prediction = evaluator.predict_masked(task.X_test, masks)
        found[sizes] = float((prediction.argmax(axis=1) == task.y_test).mean())
    return found


def _stopped(cell: Cell, model: Any, task: Task) -> dict[str, Any]:
    """Test accuracy of a greedy model under its stopping rules, applied at prediction time."""

    def curve(points: Iterable[Point]) -> list[dict[str, float]]:
        found = []
        for point in points:
            label = model.classes_[point.prediction.argmax(axis=1)]
            accuracy = float((label == task.y_test).mean())
            units = float(point.cost.mean())
            found.append({"setting": point.setting, "n_units": units, "accuracy": accuracy})
        return found

    X = task.X_test
    if cell.method == "GDFS":
        # The model truncated after k steps is the model of budget k.
        after = [point["accuracy"] for point in curve(budget_points(model, X))]
        return {
            "accuracy_after": np.round(after, 5).tolist(),
            "stopped": {"confidence": curve(confidence_points(model, X))},
        }
    if cell.method != "DIME":
        return {}
    rule = cell.params["stopping"]
    points: Iterable[Point] = confidence_points(model, X)
    if rule == "cost":
        points = (
            Point(value, model.cost(X), model.predict_proba(X)) for value in cost_thresholds(model)
        )
    return {"stopped": {rule: curve(points)}}


def _points(scale: _Scale, data: str, method: str) -> list[tuple[float | None, dict[str, Any]]]:
    """Relative λ and parameters of every cell of a method."""
    if data == "mnist-patches" and method not in PATCH_METHODS:
        return []
    if method == "SUWR":
        return _suwr_points(scale, data)
    same = {**NETWORK, "max_epochs": OTHER_EPOCHS}
    if method == "AllFeatures":
        found = [same, same | PAPER_NETWORK]
        found += [{**same, "network": CONV["network"]}] if data == "fashion-mnist" else []
    elif method == "CAE":
        found = [{**same, "n_units": k} for k in BUDGETS[data]]
    elif method == "REALX":
        found = [{**same, "sparsity_weight": w / SIDE**2} for w in REALX_WEIGHTS]
    else:
        same |= {
            "max_epochs": GREEDY_EPOCHS[data],
            "max_steps": scale.max_steps or GREEDY_STEPS[data],
            **{name: value for name, value in SUWR[data].items() if name == "n_predictors"},
        }
        if method == "DIME":
            found = [{**same, "stopping": rule} for rule in STOPS]
        else:
            found = [same, *([same | CONV] if data == "fashion-mnist" else [])]
    return [(None, params) for params in found]


def _suwr_points(scale: _Scale, data: str) -> list[tuple[float | None, dict[str, Any]]]:
    """Models for a range of λ, for single λ, with several units per step, with other networks."""
    most = scale.max_steps or SUWR[data]["max_steps"]
    same = {**NETWORK, "max_epochs": SUWR_EPOCHS, **SUWR[data], "max_steps": most}
    whole = {**same, "sparsity_weight": list(RANGE)}
    if data == "mnist-patches":
        return [(None, whole)]
    others = [whole | PAPER]
    if data == "mnist":
        others += [
            {**whole, "units_per_step": width, "max_steps": most // width}
            for width in UNITS_PER_STEP
        ]
    else:
        others.append(whole | CONV)
    one = [(share, same) for share in SHARES]
    return [(None, whole), *one, *((None, params) for params in others)]


@lru_cache(maxsize=2)
def _images(name: str) -> ImageData:
    return load_images(name)


@lru_cache(maxsize=len(MASK_SIZES))
def _evaluator(cell: str, device: str) -> Any:
    """The fitted model of a cell, given as JSON; the λ of one seed have it in common."""
    own = Cell.from_dict(json.loads(cell))
    return fit_alone(own, ImageExperiment().load(own), device)[0]
