"""Tables, figure and page of Experiment 3: accuracy against the number of units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from suwr_experiments.config import format_number
from suwr_experiments.image_experiment import BUDGETS, METHODS, PATCH, UNITS_PER_STEP
from suwr_experiments.published import GDFS_ON_MNIST
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, csv_text, label, mean_and_sd, mean_sd, write_text

__all__ = ["accuracy_at", "best_within", "curves", "page", "write_figures", "write_tables"]

# Number of units, mean accuracy in percent and its standard deviation over the seeds.
Points = list[tuple[float, float, float]]
NAMES = {"mnist": "MNIST, single pixels", "fashion-mnist": "Fashion-MNIST, 3×3 patches"}
# Lowest accuracy in the figure, in percent.
_LOWEST_SHOWN = 60.0
# Numbers of steps at which the curve of a step-by-step model is evaluated.
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50)
# Mean numbers of pixels at which values of ``units_per_step`` are compared.
_PIXELS = (7.9, 9.8, 14.7, 19.6, 25.0)


def _name(record: Record) -> str:
    """Name of a method with its network."""
    cell = record["cell"]
    conv = cell["params"].get("network") == "conv"
    return f"{label(cell['method'])}, convolutions" if conv else label(cell["method"])


def _by_name(records: list[Record], data: str) -> dict[str, list[Record]]:
    """Records of one data set by the name of their method, in the order of ``METHODS``."""
    own = [r for r in records if r["cell"]["data"] == data and r["cell"]["method"] in METHODS]
    own.sort(key=lambda r: (METHODS.index(r["cell"]["method"]), _name(r)))
    found: dict[str, list[Record]] = {}
    for record in own:
        found.setdefault(_name(record), []).append(record)
    return found


def _range_models(records: list[Record], units_per_step: int = 1) -> list[Record]:
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
        cell = {k: v for k, v in r["cell"].items() if k not in ("seed", "audit")}
        found.setdefault(json.dumps(cell, sort_keys=True), []).append(r)
    return sorted(
        found.values(), key=lambda own: np.mean([r["metrics"]["test"]["n_units"] for r in own])
    )


def curves(records: list[Record], data: str) -> dict[str, Points]:
    """Accuracy against the number of units of every method on one data set."""
    found = {name: _curve(own) for name, own in _by_name(records, data).items()}
    return {name: points for name, points in found.items() if points}


def _curve(records: list[Record]) -> Points:
    points: Points = []
    # A model for a range of λ is the curve by itself; other settings appear in the tables only.
    ranged = _range_models(records)
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


def _range_curve(found: list[list[dict[str, float]]]) -> Points:
    """Means over the seeds at the requested numbers of units that all seeds reach."""
    requested = set.intersection(*({point["asked"] for point in curve} for curve in found))
    points: Points = []
    for number in sorted(requested):
        same = [point for curve in found for point in curve if point["asked"] == number]
        units = float(np.mean([point["n_units"] for point in same]))
        points.append((units, *mean_and_sd([100 * point["accuracy"] for point in same])))
    return points


def _verdicts(records: list[Record]) -> set[str]:
    """Verdicts of the audits."""
    return {r["metrics"]["audit"]["verdict"] for r in records if "audit" in r["metrics"]}


def best_within(points: Points, max_units: float) -> float | None:
    """Highest accuracy of a curve with at most ``max_units`` units.

    Examples
    --------
    >>> best_within([(4.0, 80.0, 0.1), (5.94, 85.0, 0.1), (6.2, 86.0, 0.1)], 6)
    85.0
    """
    return max((accuracy for units, accuracy, _ in points if units <= max_units), default=None)


def accuracy_at(points: Points, units: float) -> float | None:
    """Accuracy of a curve, interpolated at a number of units; None outside of its range.

    Examples
    --------
    >>> accuracy_at([(4.0, 80.0, 0.1), (6.0, 85.0, 0.1)], 5)
    82.5
    """
    x, y, _ = np.array(sorted(points)).T
    return float(np.interp(units, x, y)) if x[0] <= units <= x[-1] else None


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table.md``, ``table.csv`` and ``table.tex``."""
    text, latex, rows = ["# Images"], [], []
    for data in PATCH:
        rows += [
            {"data": data, "method": name, "units": x, "accuracy": y, "accuracy_sd": sd}
            for name, points in curves(records, data).items()
            for x, y, sd in points
        ]
        grid = setting_grid(records, data)
        if grid.rows:
            text += ["", f"## {NAMES[data]}", "", grid.markdown()]
            latex.append(f"% {data}\n{grid.latex()}")
    return write_text(
        folder,
        {
            "table.md": "\n".join(text) + "\n",
            "table.csv": csv_text(rows),
            "table.tex": "\n\n".join(latex) + "\n",
        },
    )


def setting_grid(records: list[Record], data: str) -> Grid:
    """Every setting of every method on one data set, with the verdict of the audit."""
    rows = []
    for name, own in _by_name(records, data).items():
        for seeds in _by_setting(own):
            test = [r["metrics"]["test"] for r in seeds]
            rows.append(
                [
                    name, _setting(seeds[0]),
                    mean_sd([t["n_units"] for t in test], 2),
                    mean_sd([t["n_selected"] for t in test], 1),
                    mean_sd([100 * t["accuracy"] for t in test], 2),
                    str(len(seeds)), mean_sd([r["fit_seconds"] for r in seeds], 0),
                    ", ".join(sorted(_verdicts(seeds))) or "–",
                ]
            )  # fmt: skip
    header = ["method", "setting", "units", "pixels", "accuracy", "seeds", "fit, s", "audit"]
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
    return ", ".join(f"{names[k]} = {format_number(v, ' … ')}" for k, v in known.items()) or "–"


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Write ``curves``: accuracy against the number of units, one panel per data set."""
    from suwr_experiments.figures import plot_curves, save_figure

    reference = label("AllFeatures")
    panels: dict[str, dict[str, Points]] = {}
    limits: dict[str, float] = {}
    notes: dict[str, str] = {}
    for data in PATCH:
        own = _by_name(records, data)
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
        limit_name=reference, lines=drawn, notes=notes, bottom=_LOWEST_SHOWN,
    )  # fmt: skip
    return save_figure(ax, folder, "curves")


def page(records: list[Record], link: str) -> str:
    """Write the page of Experiment 3 as Markdown.

    Parameters
    ----------
    records : list of dict
    link : str
        Path of the folder with the figures, relative to the page.
    """
    lines = [
        "# Experiment 3: images", "",
        "MNIST by single pixels and Fashion-MNIST by 3×3 patches, which may overlap; the published",
        "60,000 training and 10,000 test images. A tenth of the training images is held out to",
        "choose the epoch and, for a model with a range of λ, the λ of every point. Networks have",
        'two layers of 512 units unless a row is marked "convolutions".', "",
        f"![Accuracy against units]({link}/curves.png)", "",
        "## Accuracy within a budget", "",
        "Highest accuracy in percent among the settings of a method with at most so many units on",
        "average over the test images." + _leaking_methods(records), "",
        _budget_grid(records).markdown(), "",
    ]  # fmt: skip
    sections = {
        "SUWR minus each baseline": (
            "Difference in accuracy, in percentage points, over the points of the baseline that\n"
            "lie within the curve of SUWR: the smallest and the largest, each with its number of\n"
            "units.",
            _difference_grid(records),
        ),
        "One model for a range of λ": (
            "Models trained for a single λ (relative to the loss of the best constant\n"
            "prediction), and the model of the same seed for the range of λ at the same mean\n"
            "number of units.",
            _single_weight_grid(records),
        ),
        "Several pixels per step": (
            "MNIST, models for a range of λ.", _units_per_step_grid(records)
        ),
        "GDFS and its published accuracy": (
            "MNIST, accuracy in percent after a fixed number of pixels. The authors (Covert et\n"
            "al., 2023) train until the validation loss stalls at each of several temperatures;\n"
            "here the number of epochs is fixed.",
            _gdfs_grid(records),
        ),
    }  # fmt: skip
    for title, (note, grid) in sections.items():
        if grid.rows:
            lines += [f"## {title}", "", note, "", grid.markdown(), ""]
    lines += [
        "## All settings", "",
        "Models that train as one stack share its duration equally.", "",
    ]  # fmt: skip
    for data in PATCH:
        grid = setting_grid(records, data)
        if grid.rows:
            lines += [f"### {NAMES[data]}", "", grid.markdown(), ""]
    return "\n".join(lines)


def _leaking_methods(records: list[Record]) -> str:
    """Sentence about the methods for which the audit reports leakage."""
    leaking = {_name(r) for r in records if "leaks" in _verdicts([r])}
    if not leaking:
        return ""
    names = ", ".join(sorted(leaking))
    return f" The audit reports leakage for {names}: its masks reveal more than the selected units."


def _budget_grid(records: list[Record]) -> Grid:
    """Accuracy of every method within each budget."""
    found = {data: curves(records, data) for data in PATCH}
    reference = label("AllFeatures")
    methods = list(
        dict.fromkeys(m for own in found.values() for m in own if not m.startswith(reference))
    )
    rows = []
    for data, budgets in BUDGETS.items():
        for budget in budgets:
            best = [best_within(found[data].get(m, []), budget) for m in methods]
            if any(value is not None for value in best):
                values = ["–" if value is None else f"{value:.2f}" for value in best]
                rows.append([NAMES[data], f"≤ {budget}", *values])
    return Grid(["data", "units", *methods], rows)


def _difference_grid(records: list[Record]) -> Grid:
    """SUWR minus each baseline, at equal numbers of units."""
    rows = []
    for data in PATCH:
        found = curves(records, data)
        for name in [n for n in found if n.startswith("SUWR")]:
            for baseline in ("GDFS", "CAE", label("REALX")):
                pairs = [(u, a, accuracy_at(found[name], u)) for u, a, _ in found.get(baseline, [])]
                gaps = [(own - a, u) for u, a, own in pairs if own is not None]
                if gaps:
                    ends = [f"{gap:+.2f} at {u:.1f}" for gap, u in (min(gaps), max(gaps))]
                    rows.append([NAMES[data], name, baseline, *ends])
    header = ["data", "model", "baseline", "smallest difference", "largest difference"]
    return Grid(header, rows, n_left=3)


def _single_weight_grid(records: list[Record]) -> Grid:
    """Models for a single λ, and the model of the same seed for a range of λ."""
    rows = []
    for data in PATCH:
        own = _by_name(records, data).get("SUWR", [])
        ranged = {r["cell"]["seed"]: r for r in _range_models(own)}
        single: dict[float, list[Record]] = {}
        for r in own:
            if r["cell"]["sparsity_share"] is not None:
                single.setdefault(r["cell"]["sparsity_share"], []).append(r)
        for share, seeds in sorted(single.items()):
            pairs = []
            for r in seeds:
                test, other = r["metrics"]["test"], ranged.get(r["cell"]["seed"])
                value = None if other is None else accuracy_at(_one_seed(other), test["n_units"])
                if value is not None:
                    pairs.append((test["n_units"], 100 * test["accuracy"], value))
            if pairs:
                units, one, whole = np.array(pairs).T
                rows.append(
                    [
                        NAMES[data], f"{share:g}", f"{units.mean():.1f}", mean_sd(one, 2),
                        mean_sd(whole, 2), mean_sd(whole - one, 2), str(len(pairs)),
                    ]
                )  # fmt: skip
    header = ["data", "λ", "units", "single λ", "range of λ", "difference", "seeds"]
    return Grid(header, rows)


def _units_per_step_grid(records: list[Record]) -> Grid:
    """Accuracy on MNIST by the number of pixels that one step reveals."""
    rows = []
    for units_per_step in (1, *UNITS_PER_STEP):
        own = _range_models(_by_name(records, "mnist").get("SUWR", []), units_per_step)
        if own:
            # Interpolate each seed before averaging: seeds start at different numbers of pixels.
            each = [[accuracy_at(_one_seed(r), k) for k in _PIXELS] for r in own]
            means = [
                mean_sd([v for v in column if v is not None], 2) if any(column) else "–"
                for column in zip(*each, strict=True)
            ]
            steps = own[0]["cell"]["params"]["max_steps"]
            seconds = mean_sd([r["fit_seconds"] for r in own], 0)
            rows.append([str(units_per_step), str(steps), *means, seconds])
    header = ["pixels per step", "steps", *(f"{k:g} pixels" for k in _PIXELS), "fit, s"]
    return Grid(header, rows if len(rows) > 1 else [], n_left=0)


def _one_seed(record: Record) -> Points:
    return [(p["n_units"], 100 * p["accuracy"], 0.0) for p in record["metrics"]["curve"]]


def _gdfs_grid(records: list[Record]) -> Grid:
    """GDFS on MNIST and its published accuracy."""
    points = {units: (mean, sd) for units, mean, sd in curves(records, "mnist").get("GDFS", [])}
    rows = [
        [
            str(k), f"{points[k][0]:.1f} ± {points[k][1]:.1f}", f"{published:g}",
            f"{points[k][0] - published:+.1f}",
        ]
        for k, published in GDFS_ON_MNIST.items()
        if k in points
    ]  # fmt: skip
    return Grid(["pixels", "here", "published", "difference"], rows)
