"""The page of Experiment 3, docs/results/mnist.md."""

from __future__ import annotations

from collections import Counter

import numpy as np

from suwr_experiments.image_experiment import BUDGETS, PATCH, UNITS_PER_STEP
from suwr_experiments.image_results import (
    NAMES,
    Points,
    by_name,
    common_seeds,
    curves,
    method_name,
    range_models,
    setting_grid,
    verdicts,
    version,
    versions,
)
from suwr_experiments.published import GDFS_ON_MNIST
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, label, mean_sd

__all__ = ["accuracy_at", "page"]

# Mean numbers of pixels at which values of ``units_per_step`` are compared.
_PIXELS = (7.9, 9.8, 14.7, 19.6, 25.0)


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
        "MNIST by single pixels and by 3×3 patches, which may overlap, and Fashion-MNIST by such",
        "patches; the published 60,000 training and 10,000 test images. A tenth of the training",
        "images is held out to choose the epoch and, for a model with a range of λ, the λ of every",
        'point. Networks have two layers of 512 units unless a row is marked "convolutions" or',
        f'"paper\'s network" (three layers of 200 units). {_versions(records)}', "",
        f"![Accuracy against units]({link}/curves.svg)", "",
        "## Accuracy at a mean number of units", "",
        "In percent, by linear interpolation between the settings of a method; a method that does",
        "not use so many units has the accuracy of its last setting. Mean ± standard deviation",
        "over the seeds that all methods on the data set have." + _leaking_methods(records)
        + _evaluators(records) + _stopping_rules(records), "",
    ]  # fmt: skip
    for data in PATCH:
        grid = _budget_grid(records, data)
        if grid.rows:
            seeds = {r["cell"]["seed"] for r in common_seeds(records, data)}
            title = f"### {NAMES[data]}: {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
            lines += [title, "", grid.markdown(), ""]
    sections = {
        "SUWR minus each baseline": (
            "Difference in accuracy, in percentage points, over the points of the baseline that\n"
            "lie within the curve of SUWR: the smallest and the largest, each with its number of\n"
            "units. Seeds as above; convolutions are compared with convolutions.",
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
            "MNIST, accuracy in percent after a fixed number of pixels; seeds as above. The\n"
            "authors (Covert et al., 2023) train until the validation loss stalls at each of\n"
            "several temperatures; here the number of epochs is fixed.",
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


def _versions(records: list[Record]) -> str:
    """Sentence about the versions of the library that made the records."""
    counts = Counter(version(r) for r in records)
    return (
        "Fits by version or commit: " + ", ".join(f"{v} {counts[v]}" for v in sorted(counts)) + "."
    )


def _evaluators(records: list[Record]) -> str:
    """Sentence about the evaluation of REAL-X by EVAL-X, if there is one."""
    if not any("evaluated" in r["metrics"] for r in records):
        return ""
    return (
        " *EVAL-X* is the accuracy of a predictor that was trained on masks of fair coin flips, "
        "and *EVAL-X of all sizes* that of one whose masks have every number of units, on the "
        "masks of the same selector."
    )


def _leaking_methods(records: list[Record]) -> str:
    """Sentence about the methods for which the audit reports leakage."""
    leaking = {method_name(r) for r in records if "leaks" in verdicts([r])}
    if not leaking:
        return ""
    names = ", ".join(sorted(leaking))
    return f" The audit reports leakage for {names}: its masks reveal more than the selected units."


def _stopping_rules(records: list[Record]) -> str:
    """Sentence about the stopping rules of greedy methods, if there are any."""
    if not any("stopped" in r["metrics"] for r in records):
        return ""
    return (
        " GDFS without a rule reveals the same number of units in every image; *confidence* stops "
        "where a class has a given probability, *cost* where no unit has a given expected gain, "
        "at 13 thresholds each."
    )


def _budget_grid(records: list[Record], data: str) -> Grid:
    """Accuracy of every method on one data set at each number of units."""
    own = common_seeds(records, data)
    seeds = sorted({r["cell"]["seed"] for r in own})
    # Interpolate each seed before averaging: its settings have numbers of units of their own.
    found = [curves([r for r in own if r["cell"]["seed"] == seed], data) for seed in seeds]
    rows = []
    for name in found[0] if found else []:
        each = [_budget_cells(name, curve[name], data) for curve in found]
        columns = zip(*each, strict=True)
        rows.append([name, *("–" if None in c else mean_sd(c, 2) for c in columns)])
    return Grid(["method", *(f"{k} units" for k in BUDGETS[data]), "all"], rows)


def _budget_cells(name: str, points: Points, data: str) -> list[float | None]:
    """Accuracy of one seed of a method at each number of units, and from all of them."""
    units, last, _ = max(points)
    if name.startswith(label("AllFeatures")):
        return [*[None] * len(BUDGETS[data]), last]
    return [*(accuracy_at(points, k) if k <= units else last for k in BUDGETS[data]), None]


def _difference_grid(records: list[Record]) -> Grid:
    """SUWR minus each baseline, at equal numbers of units."""
    rows = []
    for data in PATCH:
        found = curves(common_seeds(records, data), data)
        for name in ("SUWR", "SUWR, convolutions"):
            same = [n for n in found if ("convolutions" in n) == ("convolutions" in name)]
            for baseline in (n for n in same if not n.startswith(("SUWR", label("AllFeatures")))):
                own_curve = found.get(name, [])
                pairs = [(u, a, accuracy_at(own_curve, u)) for u, a, _ in found[baseline]]
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
        own = by_name(records, data).get("SUWR", [])
        ranged = {r["cell"]["seed"]: r for r in range_models(own)}
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
    models, rows = by_name(records, "mnist").get("SUWR", []), []
    for width in (1, *UNITS_PER_STEP):
        own = range_models(models, width)
        if not own:
            continue
        each = [[accuracy_at(_one_seed(r), k) for k in _PIXELS] for r in own]
        means = [
            mean_sd([v for v in column if v is not None], 2) if any(column) else "–"
            for column in zip(*each, strict=True)
        ]
        steps = own[0]["cell"]["params"]["max_steps"]
        rows.append([str(width), str(steps), *means, str(len(own)), versions(own)])
    header = ["pixels per step", "steps", *(f"{k:g} pixels" for k in _PIXELS), "seeds", "version"]
    return Grid(header, rows if len(rows) > 1 else [], n_left=0)


def _one_seed(record: Record) -> Points:
    return [(p["n_units"], 100 * p["accuracy"], 0.0) for p in record["metrics"]["curve"]]


def _gdfs_grid(records: list[Record]) -> Grid:
    """GDFS on MNIST and its published accuracy."""
    own = curves(common_seeds(records, "mnist"), "mnist").get("GDFS", [])
    points = {units: mean for units, mean, _ in own}
    rows = [
        [
            str(k), f"{points[k]:.1f}", f"{published:g}",
            f"{points[k] - published:+.1f}",
        ]
        for k, published in GDFS_ON_MNIST.items()
        if k in points
    ]  # fmt: skip
    return Grid(["pixels", "here", "published", "difference"], rows)


def accuracy_at(points: Points, units: float) -> float | None:
    """Accuracy of a curve, interpolated at a number of units; None outside of its range.

    Examples
    --------
    >>> accuracy_at([(4.0, 80.0, 0.1), (6.0, 85.0, 0.1)], 5)
    82.5
    """
    if not points:
        return None
    x, y, _ = np.array(sorted(points)).T
    return float(np.interp(units, x, y)) if x[0] <= units <= x[-1] else None
