"""The page of Experiment 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from suwr_experiments.claims import Claim, claim_grid
from suwr_experiments.mnist import PATCH, WIDTHS
from suwr_experiments.mnist_results import (
    NAMES,
    Points,
    curves,
    of_range,
    setting_grid,
)
from suwr_experiments.tables import LABELS, Grid, mean_sd

__all__ = ["TARGETS", "at_units", "mnist_page", "reached"]

Record = dict[str, Any]

#: Least accuracy in percent at no more than so many units, mean of the seeds.
TARGETS: dict[str, dict[int, float]] = {
    "mnist": {10: 91.0, 20: 95.5, 30: 97.0, 50: 97.7},
    "fashion-mnist": {6: 87.0, 10: 88.3},
}
#: What Covert et al. (2023) report for GDFS on digits, by its budget of pixels.
PUBLISHED_GDFS = {10: 87.1, 20: 94.4, 30: 96.4, 50: 97.4}
# Mean numbers of pixels at which models with several pixels a step are compared.
_WIDTHS_AT = (7.9, 9.8, 14.7, 19.6, 25.0)


def mnist_page(records: list[Record], link: str) -> str:
    """Accuracy against units, what was to be reached, and every point."""
    lines = [
        "# Experiment 3: images", "",
        "Digits by single pixels, Fashion by 3×3 patches that may overlap; the published 60,000",
        "training and 10,000 test images. A tenth of the training images chooses the epoch and, in",
        "a model for a range of λ, the λ of every point. Networks have two layers of 512 units",
        "unless the table says convolutions.", "",
        f"![Accuracy against units]({link}/curves.png)", "",
    ]  # fmt: skip
    if any(r["cell"]["method"] == "SUWR" for r in records):
        lines += [
            "## What was to be reached", "",
            "Accuracy in percent at no more than so many units on average over the test images.",
            "REAL-X chooses after it has seen the whole image, and the auditor finds that its",
            "choice tells more than the chosen units do: its figures are not those of its pixels",
            "alone. Convolutions, and four predictors without them, were chosen for Fashion on",
            "held-out training images, when test figures of a first model with two were known. The",
            "rivals have no convolutions: compare them with SUWR without.", "",
            _target_grid(records).markdown(), "",
        ]  # fmt: skip
        found = [claim for data in PATCH for claim in _claims(curves(records, data), data)]
        lines += ["## Claims", "", claim_grid(found, "claim").markdown(), ""] if found else []
        lines += _single_section(records) + _width_section(records)
    else:
        lines += ["SUWR has not been run at this scale yet; these are its rivals.", ""]
    lines += [
        "## GDFS beside its publication", "",
        "Digits; accuracy in percent after a fixed number of pixels. Its authors train until",
        "validation stalls at each of several temperatures; here each of five has ten epochs.", "",
        _gdfs_grid(records).markdown(), "",
    ]  # fmt: skip
    lines += [
        "## Every setting", "",
        "Fits shared a GPU: seconds are a model's part of the stack that it trained in, and those",
        "of networks with convolutions were taken while three of them trained side by side.", "",
    ]  # fmt: skip
    for data in PATCH:
        grid = setting_grid(records, data)
        if grid.rows:
            lines += [f"### {NAMES[data]}", "", grid.markdown(), ""]
    return "\n".join(lines)


def reached(points: Points, most: float) -> float | None:
    """The best accuracy of a curve at no more than ``most`` units.

    Examples
    --------
    >>> reached([(4.0, 80.0, 0.1), (5.94, 85.0, 0.1), (6.2, 86.0, 0.1)], 6)
    85.0
    """
    return max((accuracy for units, accuracy, _ in points if units <= most), default=None)


def at_units(points: Points, units: float) -> float | None:
    """Accuracy of a curve where it takes so many units; None outside of it.

    Examples
    --------
    >>> at_units([(4.0, 80.0, 0.1), (6.0, 85.0, 0.1)], 5)
    82.5
    """
    x, y, _ = np.array(sorted(points)).T
    return float(np.interp(units, x, y)) if x[0] <= units <= x[-1] else None


def _target_grid(records: list[Record]) -> Grid:
    """SUWR and its rivals at the budgets that were set as targets."""
    found = {data: curves(records, data) for data in TARGETS}
    reference = LABELS["AllFeatures"]
    methods = list(
        dict.fromkeys(
            m for own in found.values() for m in own if not m.startswith(reference)
        )
    )  # fmt: skip
    rows = []
    for data, targets in TARGETS.items():
        for most, least in targets.items():
            best = {m: reached(found[data].get(m, []), most) for m in methods}
            ours = [v for m, v in best.items() if m.startswith("SUWR") and v is not None]
            verdict = "reached" if ours and max(ours) >= least else "missed"
            shown = ["–" if v is None else f"{v:.2f}" for v in best.values()]
            rows.append([NAMES[data], f"≤ {most}", f"≥ {least:g}", *shown, verdict])
    return Grid(["data", "units", "asked", *methods, ""], rows)


def _claims(found: dict[str, Points], data: str) -> list[Claim]:
    """What was claimed of SUWR beside its rivals, with either kind of network."""
    claims: list[Claim] = []
    ours = {name: points for name, points in found.items() if name.startswith("SUWR")}
    for name, points in ours.items():
        where = f"{NAMES[data]}: {name}"
        if "CAE" in found and data == "fashion-mnist":
            six, ten = reached(points, 6), reached(found["CAE"], 10)
            if six is not None and ten is not None:
                text = f"{where} with 6 patches is at least as good as CAE with 10"
                claims.append(Claim(text, six >= ten, f"{six:.2f}, {ten:.2f}"))
        # GDFS is compared at equal cost, which it has for every number of units. The others have a
        # few budgets: who takes less than one of them stays within it.
        last = max(units for units, _, _ in points)
        for rival, most, which in (
            ("GDFS", np.inf, "at every number of units that both have"),
            ("CAE", last, "at each of its budgets"),
            ("REAL-X", last, "at each of its budgets"),
        ):
            pairs = [(u, a, at_units(points, min(u, most))) for u, a, _ in found.get(rival, [])]
            gaps = [(own - a, u) for u, a, own in pairs if own is not None]
            if gaps:
                least, units = min(gaps)
                text = f"{where} is ahead of {rival} {which}"
                claims.append(Claim(text, least > 0, f"at least {least:+.2f}, at {units:.1f}"))
        suffix = name.removeprefix("SUWR")
        whole = found.get(LABELS["AllFeatures"] + suffix)
        near = reached(points, 15)
        if whole and near is not None and data == "fashion-mnist":
            text = f"{where} at no more than 15 patches is within 1.5 points of no selection"
            claims.append(Claim(text, near >= whole[0][1] - 1.5, f"{near:.2f}, {whole[0][1]:.2f}"))
    return claims


def _single_section(records: list[Record]) -> list[str]:
    """One model for all λ beside models of one λ each."""
    rows = []
    for data in PATCH:
        ranged = {r["cell"]["seed"]: r for r in of_range(records, data)}
        single: dict[float, list[Record]] = {}
        for r in records:
            share = r["cell"]["sparsity_share"]
            if (r["cell"]["data"], r["cell"]["method"]) == (data, "SUWR") and share is not None:
                single.setdefault(share, []).append(r)
        for share, some in sorted(single.items()):
            pairs = []
            for r in some:
                test = r["metrics"]["test"]
                one = ranged.get(r["cell"]["seed"])
                whole = None if one is None else at_units(_own_curve(one), test["n_units"])
                if whole is not None:
                    pairs.append((test["n_units"], 100 * test["accuracy"], whole))
            if pairs:
                units, own, whole_range = np.array(pairs).T
                rows.append(
                    [
                        NAMES[data], f"{share:g}", f"{units.mean():.1f}", mean_sd(own, 2),
                        mean_sd(whole_range, 2), mean_sd(whole_range - own, 2), str(len(pairs)),
                    ]
                )  # fmt: skip
    if not rows:
        return []
    header = ["data", "λ", "units", "single λ", "range", "difference", "seeds"]
    return [
        "## One model for every λ", "",
        "Models trained for a single λ (a share of the loss of the best constant prediction),",
        "beside the model of the same seed for the whole range, read off where it takes as many",
        "units.", "", Grid(header, rows).markdown(), "",
    ]  # fmt: skip


def _width_section(records: list[Record]) -> list[str]:
    """What it costs to reveal several pixels in a step."""
    rows = []
    for width in (1, *WIDTHS):
        own = of_range(records, "mnist", width)
        if own:
            # Curves of each seed, then their mean: seeds begin at different numbers of pixels.
            each = [[at_units(_own_curve(r), k) for k in _WIDTHS_AT] for r in own]
            means = [
                mean_sd([v for v in column if v is not None], 2) if any(column) else "–"
                for column in zip(*each, strict=True)
            ]
            steps = own[0]["cell"]["params"]["max_steps"]
            seconds = mean_sd([r["fit_seconds"] for r in own], 0)
            rows.append([str(width), str(steps), *means, seconds])
    if len(rows) < 2:
        return []
    header = ["pixels a step", "steps", *(f"{k:g} pixels" for k in _WIDTHS_AT), "fit, s"]
    return [
        "## Several pixels a step", "",
        "Digits. Fewer, larger steps decide with less knowledge; seconds are those of one model of",
        "three that train in a stack, beside other work on the same GPU.", "",
        Grid(header, rows, n_left=0).markdown(), "",
    ]  # fmt: skip


def _own_curve(record: Record) -> Points:
    return [(p["n_units"], 100 * p["accuracy"], 0.0) for p in record["metrics"]["curve"]]


def _gdfs_grid(records: list[Record]) -> Grid:
    found = curves(records, "mnist").get("GDFS", [])
    points = {units: (mean, sd) for units, mean, sd in found}
    rows = [
        [
            str(k), f"{points[k][0]:.1f} ± {points[k][1]:.1f}", f"{published:g}",
            f"{points[k][0] - published:+.1f}",
        ]
        for k, published in PUBLISHED_GDFS.items()
        if k in points
    ]  # fmt: skip
    return Grid(["pixels", "here", "published", "difference"], rows)
