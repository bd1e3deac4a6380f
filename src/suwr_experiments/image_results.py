"""Tables and figure of Experiment 3: accuracy against the number of units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from suwr_experiments.config import format_number
from suwr_experiments.image_experiment import (
    BUDGETS,
    CONV,
    MASK_SIZES,
    METHODS,
    PAPER_NETWORK,
    PATCH,
    STOPS,
)
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, label, mean_and_sd, mean_sd, write_text

__all__ = [
    "NAMES", "Points", "by_name", "common_seeds", "curves", "method_name", "range_models",
    "setting_grid", "verdicts", "version", "versions", "write_figures", "write_tables",
]  # fmt: skip

# Number of units, mean accuracy in percent and its standard deviation over the seeds.
Points = list[tuple[float, float, float]]
NAMES = {
    "mnist": "MNIST, single pixels",
    "mnist-patches": "MNIST, 3×3 patches",
    "fashion-mnist": "Fashion-MNIST, 3×3 patches",
}
# Names of EVAL-X by the masks that it was trained on.
_EVALUATED = {"binomial": "EVAL-X", "uniform": "EVAL-X of all sizes"}
# Lowest accuracy in the figure, in percent.
_LOWEST_SHOWN = 70.0
# Curves that are in the tables but not in the figure.
_NOT_SHOWN = ("SUWR, paper's network", "REAL-X, EVAL-X")
# Numbers of steps at which the curve of a step-by-step model is evaluated.
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50)


def version(record: Record) -> str:
    """Commit of the library that made a record; older records have its version only."""
    about = record.get("about", {})
    return about.get("commit") or about.get("versions", {}).get("suwr", "–")


def versions(records: list[Record]) -> str:
    """The versions that made some records."""
    return ", ".join(sorted({version(r) for r in records}))


def method_name(record: Record) -> str:
    """Name of a method with its network."""
    cell = record["cell"]
    name, params = label(cell["method"]), cell["params"]
    if params.get("network") == CONV["network"]:
        return f"{name}, convolutions"
    if PAPER_NETWORK.items() <= params.items():
        return f"{name}, paper's network"
    return name


def by_name(records: list[Record], data: str) -> dict[str, list[Record]]:
    """Records of one data set by the name of their method, in the order of ``METHODS``."""
    own = [r for r in records if r["cell"]["data"] == data and r["cell"]["method"] in METHODS]
    own.sort(key=lambda r: (METHODS.index(r["cell"]["method"]), method_name(r)))
    found: dict[str, list[Record]] = {}
    for record in own:
        found.setdefault(method_name(record), []).append(record)
    return found


def common_seeds(records: list[Record], data: str) -> list[Record]:
    """Records of one data set with the seeds that all of its methods have."""
    found = by_name(records, data)
    seeds = [{r["cell"]["seed"] for r in own} for own in found.values()]
    common = set.intersection(*seeds) if seeds else set()
    return [r for own in found.values() for r in own if r["cell"]["seed"] in common]


def range_models(records: list[Record], units_per_step: int = 1) -> list[Record]:
    """Records of models for a range of λ."""
    return [
        r
        for r in records
        if "curve" in r["metrics"]
        and r["cell"]["params"].get("units_per_step", 1) == units_per_step
    ]


def _by_setting(records: list[Record]) -> list[list[Record]]:
    """Seeds of every setting of a method, sorted by their mean number of units."""
    found: dict[str, list[Record]] = {}
    for r in records:
        cell = {k: v for k, v in r["cell"].items() if k not in ("experiment", "seed", "audit")}
        found.setdefault(json.dumps(cell, sort_keys=True), []).append(r)
    return sorted(
        found.values(), key=lambda own: np.mean([r["metrics"]["test"]["n_units"] for r in own])
    )


def curves(records: list[Record], data: str) -> dict[str, Points]:
    """Accuracy against the number of units of every method on one data set."""
    found = {}
    for name, own in by_name(records, data).items():
        found[name] = _curve([r for r in own if "stopping" not in r["cell"]["params"]])
        for rule in STOPS:
            stopped = [r["metrics"].get("stopped", {}) for r in own]
            found[f"{name}, {rule}"] = _stopped_curve([s[rule] for s in stopped if rule in s])
        for sizes in MASK_SIZES:
            judged = [r for r in own if "evaluated" in r["metrics"]]
            found[f"{name}, {_EVALUATED[sizes]}"] = _curve([_judged(r, sizes) for r in judged])
    return {name: points for name, points in found.items() if points}


def _curve(records: list[Record]) -> Points:
    points: Points = []
    # A model for a range of λ is the curve by itself; other settings appear in the tables only.
    ranged = range_models(records)
    for own in _by_setting(ranged or records):
        if ranged:
            points += _range_curve([r["metrics"]["curve"] for r in own])
        elif all("accuracy_after" in r["metrics"] for r in own):
            # The first entry is the prediction before any step.
            after = 100 * np.array([r["metrics"]["accuracy_after"] for r in own])
            steps = [k for k in _STEPS if k < after.shape[1]]
            points += [(float(k), *mean_and_sd(after[:, k])) for k in steps]
        else:
            units = float(np.mean([r["metrics"]["test"]["n_units"] for r in own]))
            accuracy = [100 * r["metrics"]["test"]["accuracy"] for r in own]
            points.append((units, *mean_and_sd(accuracy)))
    return sorted(points)


def _judged(record: Record, sizes: str) -> Record:
    """A record with the accuracy of EVAL-X instead of that of the method's own predictor."""
    metrics = record["metrics"]
    test = metrics["test"] | {"accuracy": metrics["evaluated"][sizes]}
    return record | {"metrics": metrics | {"test": test}}


def _range_curve(found: list[list[dict[str, float]]]) -> Points:
    """Means over the seeds at the requested numbers of units that all seeds reach."""
    requested = set.intersection(*({point["asked"] for point in curve} for curve in found))
    points: Points = []
    for number in sorted(requested):
        same = [point for curve in found for point in curve if point["asked"] == number]
        units = float(np.mean([point["n_units"] for point in same]))
        points.append((units, *mean_and_sd([100 * point["accuracy"] for point in same])))
    return points


def _stopped_curve(found: list[list[dict[str, float]]]) -> Points:
    """Means over the seeds at every threshold of a stopping rule."""
    points: Points = []
    for same in zip(*found, strict=True):
        units = float(np.mean([point["n_units"] for point in same]))
        points.append((units, *mean_and_sd([100 * point["accuracy"] for point in same])))
    return sorted(points)


def verdicts(records: list[Record]) -> set[str]:
    """Verdicts of the audits."""
    return {r["metrics"]["audit"]["verdict"] for r in records if "audit" in r["metrics"]}


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table.md`` and ``table.tex``."""
    text, latex = ["# Images"], []
    for data in PATCH:
        grid = setting_grid(records, data)
        if grid.rows:
            text += ["", f"## {NAMES[data]}", "", grid.markdown()]
            latex.append(f"% {data}\n{grid.latex()}")
    return write_text(
        folder,
        {
            "table.md": "\n".join(text) + "\n",
            "table.tex": "\n\n".join(latex) + "\n",
        },
    )


def setting_grid(records: list[Record], data: str) -> Grid:
    """Every setting of every method on one data set, with the verdict of the audit."""
    rows = []
    for name, own in by_name(records, data).items():
        for seeds in _by_setting(own):
            test = [r["metrics"]["test"] for r in seeds]
            rows.append(
                [
                    name, _setting(seeds[0]),
                    mean_sd([t["n_units"] for t in test], 2),
                    mean_sd([t["n_selected"] for t in test], 1),
                    mean_sd([100 * t["accuracy"] for t in test], 2),
                    str(len(seeds)), mean_sd([r["fit_seconds"] for r in seeds], 0),
                    versions(seeds), ", ".join(sorted(verdicts(seeds))) or "–",
                ]
            )  # fmt: skip
    header = [
        "method", "setting", "units", "pixels", "accuracy", "seeds", "fit, s", "version", "audit",
    ]  # fmt: skip
    return Grid(header, rows, n_left=2)


def _setting(record: Record) -> str:
    """Hyper-parameters that distinguish the points of a method's curve."""
    cell = record["cell"]
    if cell["sparsity_share"] is not None:
        return f"λ = {cell['sparsity_share']:g} of the constant loss"
    names = {
        "n_units": "k", "sparsity_weight": "λ", "max_steps": "T",
        "units_per_step": "units per step",
    }  # fmt: skip
    known = {k: v for k, v in cell["params"].items() if k in names}
    parts = [f"{names[k]} = {format_number(v, ' … ')}" for k, v in known.items()]
    if rule := cell["params"].get("stopping"):
        parts.append(f"stops by {rule}")
    return ", ".join(parts) or "–"


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Write ``curves``: accuracy against the number of units, one panel per data set.

    Means are over the seeds that all methods on a data set have.
    """
    from suwr_experiments.figures import plot_curves, save_figure

    reference = label("AllFeatures")
    panels: dict[str, dict[str, Points]] = {}
    limits: dict[str, float] = {}
    notes: dict[str, str] = {}
    for data in PATCH:
        own = by_name(records, data)
        for name, points in curves(common_seeds(records, data), data).items():
            shown = [point for point in points if point[0] <= max(BUDGETS[data])]
            if name == reference:
                limits[NAMES[data]] = points[0][1]
            elif shown and name not in _NOT_SHOWN and not name.startswith(reference):
                panels.setdefault(NAMES[data], {})[name] = shown
                for verdict in sorted(verdicts(own.get(name, []))):
                    notes[name] = verdict.removesuffix(" by construction")
    if not panels:
        return []
    drawn = sorted({name for panel in panels.values() for name in panel})
    ax = plot_curves(
        panels, ylabel="Test accuracy, %", xlabel="Mean units selected", limits=limits,
        limit_name=reference, lines=drawn, notes=notes, bottom=_LOWEST_SHOWN,
    )  # fmt: skip
    return [save_figure(ax, folder, "curves")]
