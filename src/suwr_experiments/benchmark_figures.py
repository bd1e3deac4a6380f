"""Figures of Experiment 2: the two of the paper's appendix, and accuracy against features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from suwr_experiments.benchmark import BUDGET_DATA
from suwr_experiments.benchmark_summary import (
    Summary,
    budget_records,
    chosen_shares,
    path_records,
    summarize,
)
from suwr_experiments.published import LIMIT
from suwr_experiments.synthetic import RELEVANT
from suwr_experiments.tables import LABELS

__all__ = ["write_figures"]

Record = dict[str, Any]


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """``curves``, ``control-step`` and ``budget``, each as PNG and SVG, where there are records."""
    from suwr_experiments.plots import (
        plot_control_steps,
        plot_curves,
        plot_trained_budgets,
        save_figure,
    )

    summaries = summarize(records)
    written = []
    curves, chosen = _curves(records, summaries)
    if curves:
        ax = plot_curves(
            curves, ylabel="Test AUROC", chosen=chosen, limits=LIMIT, limit_name="true p(y | x)"
        )
        written += save_figure(ax, folder, "curves")
    steps = _control_steps(summaries)
    if steps:
        written += save_figure(plot_control_steps(steps), folder, "control-step")
    budgets = _budgets(records)
    if budgets:
        relevant = len(RELEVANT[int(BUDGET_DATA[3])])
        ax = plot_trained_budgets(budgets, n_relevant=relevant, title=f"SUWR on {BUDGET_DATA}")
        written += save_figure(ax, folder, "budget")
    return written


def _point(summary: Summary) -> tuple[float, float, float]:
    auroc = summary.values("auroc")
    spread = float(np.std(auroc, ddof=1)) if len(auroc) > 1 else 0.0
    return float(np.mean(summary.values("n_selected"))), float(np.mean(auroc)), spread


def _curves(
    records: list[Record], summaries: list[Summary]
) -> tuple[dict[str, dict[str, list[tuple[float, float, float]]]], dict[str, float]]:
    """Points of every method on every data set, and the features of SUWR's chosen one."""
    shares = chosen_shares(records)
    panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    chosen: dict[str, float] = {}
    for s in summaries:
        points = [_point(s)]
        if s.method == "SUWR":
            chosen[s.data] = points[0][0]
            path = path_records(records, s.data)
            points = [_point(Summary(s.data, "SUWR", w, tuple(rs))) for w, rs in path.items()]
        panels.setdefault(s.data, {})[LABELS.get(s.method, s.method)] = points
    return panels, {data: x for data, x in chosen.items() if data in shares}


def _control_steps(summaries: list[Summary]) -> dict[str, dict[str, np.ndarray]]:
    """Shares of the rows by the step that shows x11, of the sets where it chooses a branch."""
    panels: dict[str, dict[str, np.ndarray]] = {}
    for s in summaries:
        steps = s.over_seeds(lambda r: r["metrics"].get("control_step"))
        if int(s.data[3]) >= 4 and all(one is not None for one in steps):
            panels.setdefault(s.data, {})[LABELS.get(s.method, s.method)] = np.array(steps)
    return panels


def _budgets(records: list[Record]) -> dict[str, dict[int, list[float]]]:
    """Mean features of every seed by budget, with and without a price."""
    return {
        "no price (λ = 0)" if share == 0 else f"λ = {share:g} of the constant loss": {
            budget: [r["metrics"]["test"]["n_selected"] for r in some]
            for budget, some in sorted(budgets.items())
        }
        for share, budgets in budget_records(records, BUDGET_DATA).items()
    }
