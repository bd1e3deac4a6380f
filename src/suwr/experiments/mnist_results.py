"""Tables and the figure of Experiment 3: accuracy against the number of units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from suwr.experiments.mnist import METHODS, PATCH
from suwr.experiments.tables import LABELS, Grid, csv_text, mean_sd, write_text

__all__ = ["NAMES", "curve_points", "setting_grid", "write_figures", "write_tables"]

Record = dict[str, Any]
NAMES = {"mnist": "Digits, single pixels", "fashion-mnist": "Fashion, 3×3 patches"}
# Budgets at which a curve of steps is read off.
_READ_AT = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50)


def _point_of(record: Record) -> str:
    """What cells of one point have in common: all but the seed."""
    cell = {k: v for k, v in record["cell"].items() if k not in ("seed", "audit")}
    return json.dumps(cell, sort_keys=True)


def _by_point(records: list[Record], data: str, method: str) -> list[list[Record]]:
    """Seeds of every point of a method's curve, by their mean number of units."""
    found: dict[str, list[Record]] = {}
    for r in records:
        if (r["cell"]["data"], r["cell"]["method"]) == (data, method):
            found.setdefault(_point_of(r), []).append(r)
    return sorted(
        found.values(), key=lambda some: np.mean([r["metrics"]["test"]["n_units"] for r in some])
    )


def curve_points(records: list[Record], data: str, method: str) -> list[tuple[float, float, float]]:
    """Units, mean accuracy in percent and its deviation over the seeds."""
    points = []
    found = _by_point(records, data, method)
    # A model of a range of λ is the curve; those of a single λ stand beside it in the table.
    whole = [some for some in found if all("curve" in r["metrics"] for r in some)]
    for some in whole or found:
        if whole:
            points += _read_off([r["metrics"]["curve"] for r in some])
        elif all("accuracy_after" in r["metrics"] for r in some):
            curves = 100 * np.array([r["metrics"]["accuracy_after"] for r in some])
            # The first entry is the prediction before any step.
            steps = [k for k in _READ_AT if k < curves.shape[1]]
            points += [(float(k), *_mean_and_spread(curves[:, k])) for k in steps]
        else:
            units = float(np.mean([r["metrics"]["test"]["n_units"] for r in some]))
            accuracy = np.array([100 * r["metrics"]["test"]["accuracy"] for r in some])
            points.append((units, *_mean_and_spread(accuracy)))
    return sorted(points)


def _read_off(curves: list[list[dict[str, float]]]) -> list[tuple[float, float, float]]:
    """Points that every seed has, by the number of units that was asked for."""
    asked = set.intersection(*({point["asked"] for point in curve} for curve in curves))
    points = []
    for number in sorted(asked):
        same = [point for curve in curves for point in curve if point["asked"] == number]
        units = float(np.mean([point["n_units"] for point in same]))
        points.append((units, *_mean_and_spread([100 * point["accuracy"] for point in same])))
    return points


def _mean_and_spread(values: Any) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def setting_grid(records: list[Record], data: str) -> Grid:
    """Every point of every method on one set, with the auditor's verdict."""
    rows = []
    for method in METHODS:
        for some in _by_point(records, data, method):
            test = [r["metrics"]["test"] for r in some]
            audits = [r["metrics"]["audit"] for r in some if "audit" in r["metrics"]]
            verdict = ", ".join(sorted({a["verdict"] for a in audits}))
            rows.append(
                [
                    LABELS.get(method, method), _setting(some[0]),
                    mean_sd([t["n_units"] for t in test], 2),
                    mean_sd([t["n_selected"] for t in test], 1),
                    mean_sd([100 * t["accuracy"] for t in test], 2),
                    str(len(some)), mean_sd([r["fit_seconds"] for r in some], 0),
                    verdict or "–",
                ]
            )  # fmt: skip
    header = ["method", "setting", "units", "pixels", "accuracy", "seeds", "fit, s", "audit"]
    return Grid(header, rows, n_left=2)


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """``table.md``, ``table.csv``, ``table.tex``."""
    page, latex, numbers = ["# Images"], [], []
    for data in PATCH:
        for method in METHODS:
            numbers += [
                {"data": data, "method": method, "units": x, "accuracy": y, "accuracy_sd": sd}
                for x, y, sd in curve_points(records, data, method)
            ]
        grid = setting_grid(records, data)
        if grid.rows:
            page += ["", f"## {NAMES[data]}", "", grid.markdown()]
            latex.append(f"% {data}\n{grid.latex()}")
    return write_text(
        folder,
        {
            "table.md": "\n".join(page) + "\n",
            "table.csv": csv_text(numbers),
            "table.tex": "\n\n".join(latex) + "\n",
        },
    )


def _setting(record: Record) -> str:
    """The parameter that moves a method along its curve."""
    cell = record["cell"]
    if cell["sparsity_share"] is not None:
        return f"λ = {cell['sparsity_share']:g} of the constant loss"
    names = {"n_units": "k", "sparsity_weight": "λ", "max_steps": "T"}
    found = [f"{names[k]} = {_number(v)}" for k, v in cell["params"].items() if k in names]
    return ", ".join(found) or "–"


def _number(value: Any) -> str:
    """A number, or a range of them."""
    return f"{value:.4g}" if not isinstance(value, list) else " … ".join(map(_number, value))


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """``curves``: every method's accuracy against its number of units, one panel for each set."""
    from suwr.plots.experiments import plot_curves, save_figure

    panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    limits: dict[str, float] = {}
    for data in PATCH:
        for method in METHODS:
            points = curve_points(records, data, method)
            if points and method == "AllFeatures":
                limits[NAMES[data]] = points[0][1]
            elif points:
                panels.setdefault(NAMES[data], {})[LABELS.get(method, method)] = points
    if not panels:
        return []
    drawn = [LABELS.get(method, method) for method in METHODS]
    ax = plot_curves(
        panels, ylabel="Test accuracy, %", xlabel="Mean units selected", limits=limits,
        limit_name="no selection", lines=drawn,
    )  # fmt: skip
    return save_figure(ax, folder, "curves")
