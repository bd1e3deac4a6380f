"""Benchmark of tables: SUWR and its rivals over a range of costs.

A cell gives one curve of a method on one split, or one point of it for a single λ. The seed of a
cell is the number of the split and the seed of the training. Rows, splits and units are the same
for all methods.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from suwr._utils.validation import check_choice
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import (
    Experiment,
    Task,
    audit_report,
    constant_loss,
    fit_alone,
    make_model,
)
from suwr_experiments.points import Point, budget_points, confidence_points, cost_thresholds
from suwr_experiments.tabular_data import TABLES, Source, read_source, split_rows
from suwr_experiments.tabular_methods import (
    boosting_points,
    cart_points,
    l1_points,
    prediction_loss,
    rank_units,
    unit_columns,
)

__all__ = [
    "DEFAULT_SHARE", "METHODS", "N_SPLITS", "Scale", "TablesExperiment", "calibration_error",
    "point_scores",
]  # fmt: skip

#: Methods in the order in which a split runs them. Cheap ones first.
METHODS = (
    "CART", "L1", "Boosting", "SUWR", "GDFS", "DIME", "SEFA", "SUWRRange", "GDFSEqual",
    "AllFeatures", "FixedSubset",
)  # fmt: skip
# Methods that run table by table, so that a partial run compares them on the first tables.
_TIERS = (METHODS[:3], METHODS[3:9], METHODS[9:])

#: λ of SUWR, relative to the loss of the best constant prediction; DIME's gains are scaled alike.
SHARES = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.3)
#: The default of the estimators.
DEFAULT_SHARE = 0.01
#: Range of λ of one model, and the number of λ that are evaluated.
RANGE, N_IN_RANGE = (0.0005, 0.3), 14
#: Stopping rules that are compared.
STOPS = {"DIME": ("budget", "cost", "confidence"), "SEFA": ("budget", "confidence")}
#: Largest budget of the greedy methods and of fixed subsets.
MAX_UNITS = 10
# Sizes of the fixed subsets that a network is trained on.
NETWORK_SUBSETS = (1, 2, 3, 5, 7, 10)
N_BINS = 15
#: Splits of the preset 'full'.
N_SPLITS = 5


@dataclass(frozen=True)
class Scale:
    """Size of a preset."""

    data: tuple[str, ...]
    splits: int
    epochs: int | None = None
    shares: tuple[float, ...] = SHARES
    max_units: int = MAX_UNITS
    methods: tuple[str, ...] = METHODS


class TablesExperiment(Experiment):
    """Grid, data and evaluation of the tables.

    Attributes
    ----------
    name : str
    sources : mapping from str to Source
        The tables by name.
    scales : mapping from str to Scale
        The presets by name.
    """

    name: ClassVar[str] = "tables"
    sources: ClassVar[Mapping[str, Source]] = TABLES
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(("wine", "diabetes"), 1, 2, (DEFAULT_SHARE, 0.12), 3),
        "full": Scale(tuple(TABLES), N_SPLITS),
    }

    def cells(self, config: RunConfig) -> list[Cell]:
        """Every method on every table, split by split."""
        check_choice(config.preset, "preset", type(self).__name__, tuple(self.scales))
        scale = self.scales[config.preset]
        names = config.restrict("datasets", tuple(self.sources)) if config.datasets else scale.data
        methods = config.restrict("methods", scale.methods)
        splits = config.splits or tuple(range(config.seeds or scale.splits))
        found = []
        for split in splits:
            for tier in _TIERS:
                for data in names:
                    for method in (m for m in tier if m in methods):
                        audit = config.audit and split == 0
                        found += self._variants(scale, data, method, split, audit)
        return found

    def load(self, cell: Cell) -> Task:
        """Training and validation rows of a split as training rows, and its test rows."""
        data = read_source(cell.data, self.sources[cell.data])
        train, validation, test = split_rows(len(data.y), cell.seed)
        rows = np.concatenate([train, validation])
        X = data.X.iloc[rows].reset_index(drop=True)
        X_test = data.X.iloc[test].reset_index(drop=True)
        groups = {name: list(columns) for name, columns in (data.groups or {}).items()}
        return Task(
            X, data.y[rows], X_test, data.y[test], data.kind, groups=groups or None,
            # The first rows of X are the training rows, the others the validation rows.
            facts={"n_fit": len(train)},
        )  # fmt: skip

    def run(self, cell: Cell, device: str) -> tuple[dict[str, Any], float]:
        """Fit and evaluate one cell; return its metrics and the duration of the fits in seconds."""
        task = self.load(cell)
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if cell.method in _CLASSICAL:
                curves = _CLASSICAL[cell.method](cell, task, device)
                metrics = _metrics(task, curves)
            else:
                model, _ = fit_alone(_estimator_cell(cell, task), task, device)
                metrics = self.measure(cell, model, task)
        seconds = time.perf_counter() - start
        messages = sorted({str(w.message) for w in caught if w.category is UserWarning})
        return metrics | {"warnings": messages}, seconds

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """Scores of every point of the curve of a fitted model."""
        curves = {cell.params.get("stopping", "path"): list(_model_points(cell, model, task))}
        return _metrics(task, curves) | audit_report(cell, model, task)

    def _variants(
        self, scale: Scale, data: str, method: str, split: int, audit: bool
    ) -> list[Cell]:
        """The cells of one method on one split of a table."""

        def cell(share: float | None = None, **params: Any) -> Cell:
            return Cell(
                self.name, data, method, split, sparsity_share=share, params=params | epochs,
                audit=audit,
            )  # fmt: skip

        uses_epochs = method not in ("CART", "L1", "Boosting")
        epochs = {} if scale.epochs is None or not uses_epochs else {"max_epochs": scale.epochs}
        if method == "SUWR":
            # The default first.
            return [cell(share) for share in sorted(scale.shares, key=lambda s: s != DEFAULT_SHARE)]
        if method == "SUWRRange":
            return [cell(share_range=list(RANGE))]
        if method in ("GDFS", "GDFSEqual"):
            return [cell(max_steps=scale.max_units)]
        if method in STOPS:
            regression = self.sources[data].n_classes is None
            stops = [stop for stop in STOPS[method] if not (regression and stop == "confidence")]
            # The default of DIME; that of SEFA is a budget.
            own = {"max_steps": 32} if method == "SEFA" else {}
            steps = {"budget": {"max_steps": scale.max_units}}
            return [cell(stopping=stop, **steps.get(stop, own)) for stop in stops]
        if method == "FixedSubset":
            return [cell(max_units=scale.max_units)]
        return [cell()]


def _estimator_cell(cell: Cell, task: Task) -> Cell:
    """The cell of an estimator: a relative range of λ becomes absolute."""
    content = cell.to_dict()
    if cell.method == "GDFSEqual":
        content["params"]["n_predictors"] = "auto"
        return Cell.from_dict(content | {"method": "GDFS"})
    if cell.method != "SUWRRange":
        return cell
    low, high = content["params"].pop("share_range")
    unit = constant_loss(task)
    content["params"]["sparsity_weight"] = (low * unit, high * unit)
    return Cell.from_dict(content | {"method": "SUWR"})


def _model_points(cell: Cell, model: Any, task: Task) -> Iterator[Point]:
    """Points of the curve of a fitted network."""
    X = task.X_test

    def point(setting: float, **at: float) -> Point:
        masks = model.select(X, **at)
        revealed = masks.astype(np.float32) @ model.units_.membership.T.astype(np.float32) > 0
        return Point(setting, revealed @ model.units_.costs, model.predict_masked(X, masks, **at))

    if cell.method == "SUWRRange":
        low, high = model.sparsity_weight
        # The ends of the range must not be exceeded by rounding.
        for weight in np.clip(np.geomspace(low, high, N_IN_RANGE), low, high):
            yield point(float(weight), sparsity_weight=float(weight))
    elif cell.params.get("stopping", "budget") == "budget" and hasattr(model, "predict_steps"):
        yield from budget_points(model, X)
    elif cell.params.get("stopping") == "confidence":
        yield from confidence_points(model, X)
    elif cell.params.get("stopping") == "cost":
        for value in cost_thresholds(model):
            yield point(value)
    elif cell.method == "SUWR":
        yield point(cell.sparsity_share or 0.0)
    else:
        predict = getattr(model, "predict_proba", model.predict)
        yield Point(0.0, model.cost(X), predict(X))


Curves = dict[str, list[Point]]


def _fixed_subset(cell: Cell, task: Task, device: str) -> Curves:
    """Boosting, and the network without selection, on the first units of one order."""
    params = dict(cell.params)
    order = rank_units(task, params.pop("max_units"), cell.seed)
    names, units = task.X.columns, unit_columns(task)
    network = Cell("tables", cell.data, "AllFeatures", cell.seed, params=params)
    points = []
    for k in (k for k in NETWORK_SUBSETS if k <= len(order)):
        columns = names[np.concatenate([units[unit] for unit in order[:k]])]
        subset = Task(task.X[columns], task.y, task.X_test[columns], task.y_test, task.kind)
        model = make_model(network, subset, device).fit(subset.X, subset.y)
        predict = getattr(model, "predict_proba", model.predict)
        points.append(Point(k, np.full(len(subset.X_test), float(k)), predict(subset.X_test)))
    return {"boosting": boosting_points(task, cell.seed, order), "network": points}


_CLASSICAL = {
    "CART": lambda cell, task, device: {"path": cart_points(task, cell.seed)},
    "L1": lambda cell, task, device: l1_points(task, cell.seed),
    "Boosting": lambda cell, task, device: {"path": boosting_points(task, cell.seed, None)},
    "FixedSubset": _fixed_subset,
}


def _metrics(task: Task, curves: Curves) -> dict[str, Any]:
    """Scores of all points, and the loss of the best constant prediction on the test rows."""
    found = {}
    for name, points in curves.items():
        rows = [point_scores(task, point) for point in points]
        found[name] = {key: [row[key] for row in rows] for key in rows[0]}
    n_test = len(task.y_test)
    classes = task.kind == "Classifier"
    share = np.bincount(task.y) / len(task.y) if classes else task.y.mean()
    constant = np.tile(share, (n_test, 1)) if classes else np.full(n_test, share)
    return {
        "curves": found,
        "constant": point_scores(task, Point(0.0, np.zeros(n_test), constant)),
        "n_units": len(unit_columns(task)),
        "n_train": len(task.y),
        "n_test": n_test,
    }


def point_scores(task: Task, point: Point) -> dict[str, float]:
    """Mean cost, loss and, for classes, accuracy, AUROC and calibration error of a point.

    AUROC is that of each class against the others, averaged over the classes.
    """
    y, prediction = task.y_test, point.prediction
    scores = {
        "setting": float(point.setting),
        "cost": float(point.cost.mean()),
        "loss": prediction_loss(task, y, prediction),
    }
    if task.kind == "Classifier":
        scores["accuracy"] = float((prediction.argmax(axis=1) == y).mean())
        columns = [1] if prediction.shape[1] == 2 else range(prediction.shape[1])
        present = [c for c in columns if 0 < (y == c).sum() < len(y)]
        scores["auroc"] = float(np.mean([roc_auc_score(y == c, prediction[:, c]) for c in present]))
        scores["calibration_error"] = calibration_error(y, prediction)
    return {name: float(f"{value:.6g}") for name, value in scores.items()}


def calibration_error(y: NDArray[Any], probability: NDArray[np.float64]) -> float:
    """Expected calibration error of the most probable class, in 15 bins of equal width.

    Examples
    --------
    >>> calibration_error(np.array([0, 0, 0, 1]), np.tile([0.75, 0.25], (4, 1)))
    0.0
    """
    confidence = probability.max(axis=1)
    correct = probability.argmax(axis=1) == y
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gap = np.bincount(bins, correct - confidence, minlength=N_BINS)
    return float(np.abs(gap).sum() / len(y))
