"""Tables and the figure of Experiment 3: accuracy against the number of units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from suwr_experiments.mnist import METHODS, PATCH
from suwr_experiments.tables import LABELS, Grid, csv_text, mean_sd, write_text

__all__ = [
    "NAMES", "curve_points", "curves", "of_range", "setting_grid", "write_figures", "write_tables",
]  # fmt: skip

Record = dict[str, Any]
Points = list[tuple[float, float, float]]
NAMES = {"mnist": "Digits, single pixels", "fashion-mnist": "Fashion, 3×3 patches"}
# Lowest accuracy in the figure, in percent: what matters lies above.
_LEAST_SHOWN = 60.0
# Budgets at which a curve of steps is read off.
_READ_AT = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50)


def _name(record: Record) -> str:
    """What a method with its network is called."""
    cell = record["cell"]
    name = LABELS.get(cell["method"], cell["method"])
    return f"{name}, convolutions" if cell["params"].get("network") == "conv" else name


def _of_set(records: list[Record], data: str) -> dict[str, list[Record]]:
    """Records of one set by the name of their method, in a fixed order."""
    own = [r for r in records if r["cell"]["data"] == data and r["cell"]["method"] in METHODS]
    own.sort(key=lambda r: (METHODS.index(r["cell"]["method"]), _name(r)))
    found: dict[str, list[Record]] = {}
    for record in own:
        found.setdefault(_name(record), []).append(record)
    return found


def of_range(records: list[Record], data: str, width: int = 1) -> list[Record]:
    """SUWR's models for the whole range of λ, one for each seed, by the units of a step."""
    return [
        r
        for r in _of_set(records, data).get("SUWR", [])
        if "curve" in r["metrics"] and r["cell"]["params"].get("units_per_step", 1) == width
    ]


def _by_point(records: list[Record]) -> list[list[Record]]:
    """Seeds of every point of a method's curve, by their mean number of units."""
    found: dict[str, list[Record]] = {}
    for r in records:
        # What cells of one point have in common: all but the seed.
        cell = {k: v for k, v in r["cell"].items() if k not in ("seed", "audit")}
        found.setdefault(json.dumps(cell, sort_keys=True), []).append(r)
    return sorted(
        found.values(), key=lambda some: np.mean([r["metrics"]["test"]["n_units"] for r in some])
    )


def curves(records: list[Record], data: str) -> dict[str, Points]:
    """Every method's curve on one set."""
    found = {name: curve_points(own) for name, own in _of_set(records, data).items()}
    return {name: points for name, points in found.items() if points}


def curve_points(records: list[Record]) -> Points:
    """Units, mean accuracy in percent and its deviation over the seeds, of one method."""
    points: Points = []
    # A model of a range of λ is the curve; those of a single λ, and those that take several units a
    # step, stand beside it in tables.
    whole = [
        r
        for r in records
        if "curve" in r["metrics"] and r["cell"]["params"].get("units_per_step", 1) == 1
    ]
    for some in _by_point(whole or records):
        if whole:
            points += _read_off([r["metrics"]["curve"] for r in some])
        elif all("accuracy_after" in r["metrics"] for r in some):
            after = 100 * np.array([r["metrics"]["accuracy_after"] for r in some])
            # The first entry is the prediction before any step.
            steps = [k for k in _READ_AT if k < after.shape[1]]
            points += [(float(k), *_mean_and_spread(after[:, k])) for k in steps]
        else:
            units = float(np.mean([r["metrics"]["test"]["n_units"] for r in some]))
            accuracy = [100 * r["metrics"]["test"]["accuracy"] for r in some]
            points.append((units, *_mean_and_spread(accuracy)))
    return sorted(points)


def _read_off(found: list[list[dict[str, float]]]) -> Points:
    """Points that every seed has, by the number of units that was asked for."""
    asked = set.intersection(*({point["asked"] for point in curve} for curve in found))
    points: Points = []
    for number in sorted(asked):
        same = [point for curve in found for point in curve if point["asked"] == number]
        units = float(np.mean([point["n_units"] for point in same]))
        points.append((units, *_mean_and_spread([100 * point["accuracy"] for point in same])))
    return points


def _mean_and_spread(values: Any) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _verdicts(records: list[Record]) -> set[str]:
    """What the auditor says of the models that it was shown."""
    return {r["metrics"]["audit"]["verdict"] for r in records if "audit" in r["metrics"]}


def setting_grid(records: list[Record], data: str) -> Grid:
    """Every point of every method on one set, with the auditor's verdict."""
    rows = []
    for name, own in _of_set(records, data).items():
        for some in _by_point(own):
            test = [r["metrics"]["test"] for r in some]
            rows.append(
                [
                    name, _setting(some[0]),
                    mean_sd([t["n_units"] for t in test], 2),
                    mean_sd([t["n_selected"] for t in test], 1),
                    mean_sd([100 * t["accuracy"] for t in test], 2),
                    str(len(some)), mean_sd([r["fit_seconds"] for r in some], 0),
                    ", ".join(sorted(_verdicts(some))) or "–",
                ]
            )  # fmt: skip
    header = ["method", "setting", "units", "pixels", "accuracy", "seeds", "fit, s", "audit"]
    return Grid(header, rows, n_left=2)


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """``table.md``, ``table.csv``, ``table.tex``."""
    page, latex, numbers = ["# Images"], [], []
    for data in PATCH:
        numbers += [
            {"data": data, "method": name, "units": x, "accuracy": y, "accuracy_sd": sd}
            for name, points in curves(records, data).items()
            for x, y, sd in points
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
    names = {"n_units": "k", "sparsity_weight": "λ", "max_steps": "T", "units_per_step": "a step"}
    found = [f"{names[k]} = {_number(v)}" for k, v in cell["params"].items() if k in names]
    return ", ".join(found) or "–"


def _number(value: Any) -> str:
    """A number, or a range of them."""
    return f"{value:.4g}" if not isinstance(value, list) else " … ".join(map(_number, value))


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """``curves``: every method's accuracy against its number of units, one panel for each set."""
    from suwr_experiments.plots import plot_curves, save_figure

    reference = LABELS["AllFeatures"]
    panels: dict[str, dict[str, Points]] = {}
    limits: dict[str, float] = {}
    notes: dict[str, str] = {}
    for data in PATCH:
        own = _of_set(records, data)
        for name, points in curves(records, data).items():
            if name == reference:
                limits[NAMES[data]] = points[0][1]
            elif not name.startswith(reference):
                panels.setdefault(NAMES[data], {})[name] = points
                for verdict in sorted(_verdicts(own[name])):
                    notes[name] = verdict.removesuffix(" by construction")
    if not panels:
        return []
    drawn = sorted({name for panel in panels.values() for name in panel})
    ax = plot_curves(
        panels, ylabel="Test accuracy, %", xlabel="Mean units selected", limits=limits,
        limit_name=reference, lines=drawn, notes=notes, bottom=_LEAST_SHOWN,
    )  # fmt: skip
    return save_figure(ax, folder, "curves")
