"""The page of Experiment 3."""

from __future__ import annotations

from typing import Any

from suwr.experiments.mnist import PATCH
from suwr.experiments.mnist_results import NAMES, curve_points, setting_grid
from suwr.experiments.tables import LABELS, Grid

__all__ = ["TARGETS", "mnist_page", "reached"]

Record = dict[str, Any]

#: Least accuracy in percent at no more than so many units, mean of the seeds.
TARGETS: dict[str, dict[int, float]] = {
    "mnist": {10: 91.0, 20: 95.5, 30: 97.0, 50: 97.7},
    "fashion-mnist": {6: 87.0, 10: 88.3},
}
#: What Covert et al. (2023) report for GDFS on digits, by its budget of pixels.
PUBLISHED_GDFS = {10: 87.1, 20: 94.4, 30: 96.4, 50: 97.4}


def mnist_page(records: list[Record], link: str) -> str:
    """Accuracy against units, what was to be reached, and every point."""
    lines = [
        "# Experiment 3: images", "",
        "Digits by single pixels, Fashion by 3×3 patches that may overlap; the published 60,000",
        "training and 10,000 test images. A tenth of the training images chooses the epoch and, in",
        "a model for a range of λ, the λ of every point. All methods have networks of two layers",
        "of 512 units.", "",
        f"![Accuracy against units]({link}/curves.png)", "",
    ]  # fmt: skip
    if any(r["cell"]["method"] == "SUWR" for r in records):
        lines += ["## What was to be reached", "", _target_grid(records).markdown(), ""]
    else:
        lines += ["SUWR has not been run at this scale yet; these are its rivals.", ""]
    lines += [
        "## GDFS beside its publication", "",
        "Digits; accuracy in percent after a fixed number of pixels. Its authors train until",
        "validation stalls at each of several temperatures; here each of five has ten epochs.", "",
        _gdfs_grid(records).markdown(), "",
    ]  # fmt: skip
    for data in PATCH:
        grid = setting_grid(records, data)
        if grid.rows:
            lines += [f"## {NAMES[data]}", "", grid.markdown(), ""]
    return "\n".join(lines)


def reached(points: list[tuple[float, float, float]], most: float) -> float | None:
    """The best accuracy of a curve at no more than ``most`` units, to a twentieth of a unit.

    Examples
    --------
    >>> reached([(4.0, 80.0, 0.1), (6.04, 85.0, 0.1), (6.2, 86.0, 0.1)], 6)
    85.0
    """
    return max((accuracy for units, accuracy, _ in points if units <= most + 0.05), default=None)


def _target_grid(records: list[Record]) -> Grid:
    """SUWR and its rivals at the budgets that were set as targets."""
    methods = [m for m in ("SUWR", "GDFS", "CAE", "REALX") if _has(records, m)]
    rows = []
    for data, targets in TARGETS.items():
        curves = {m: curve_points(records, data, m) for m in methods}
        for most, least in targets.items():
            found = {m: reached(curves[m], most) for m in methods}
            ours = found["SUWR"]
            missed = "reached" if ours is not None and ours >= least else "missed"
            shown = ["–" if v is None else f"{v:.2f}" for v in found.values()]
            rows.append([NAMES[data], f"≤ {most}", f"≥ {least:g}", *shown, missed])
    names = [LABELS.get(m, m) for m in methods]
    return Grid(["data", "units", "asked", *names, "SUWR"], rows)


def _has(records: list[Record], method: str) -> bool:
    return any(r["cell"]["method"] == method for r in records)


def _gdfs_grid(records: list[Record]) -> Grid:
    points = {units: (mean, sd) for units, mean, sd in curve_points(records, "mnist", "GDFS")}
    rows = [
        [
            str(k), f"{points[k][0]:.1f} ± {points[k][1]:.1f}", f"{published:g}",
            f"{points[k][0] - published:+.1f}",
        ]
        for k, published in PUBLISHED_GDFS.items()
        if k in points
    ]  # fmt: skip
    return Grid(["pixels", "here", "published", "difference"], rows)
