"""Summaries, tables and figures of Experiment 2, and the choice of λ.

λ is chosen for each data set from training rows alone. All models of a λ path hold out the same
validation rows for a given seed. With *l(λ, s)* the validation loss for seed *s*, and λ* the λ with
the lowest mean validation loss, the *excess* of the default λ is *l(default, s) − l(λ*, s)*. **The
default, 1 % of the loss of the best constant prediction, is kept unless its mean excess is more
than two standard errors** over the seeds; then λ* is chosen. For a single seed, a quarter of a
percent of the loss of the best constant prediction replaces the standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suwr_experiments.config import Cell
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.records import Record
from suwr_experiments.synthetic import RELEVANT
from suwr_experiments.synthetic_experiment import BUDGET_DATA, MAX_STEPS, METHODS, is_branched
from suwr_experiments.tables import Grid, label, mean_and_sd, mean_sd, write_text

__all__ = [
    "DEFAULT_SHARE",
    "SINGLE_SEED_ERROR",
    "Summary",
    "budget_records",
    "choose_share",
    "chosen_shares",
    "path_grid",
    "path_records",
    "result_grid",
    "summarize",
    "write_figures",
    "write_tables",
]

DEFAULT_SHARE = 0.01
SINGLE_SEED_ERROR = 0.0025

_DIGITS = {"auroc": 4, "accuracy": 4, "tpr": 1, "fdr": 1, "cfsr": 1, "n_selected": 2}
_NAMES = {"auroc": "AUROC", "tpr": "TPR", "fdr": "FDR", "cfsr": "CFSR", "n_selected": "features"}


def choose_share(losses: Mapping[float, Sequence[float]]) -> float:
    """Choose λ from a path by the rule in the docstring of this module.

    Parameters
    ----------
    losses : mapping from float to sequence of float
        For each λ, relative to the loss of the constant prediction: the validation loss of each
        seed, relative to the same; equal seeds in equal order. If the default is not among the
        keys, the nearest one takes its place.

    Examples
    --------
    0.02 is better than the default, first not in every seed, then in both:

    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.501, 0.515], 0.04: [0.60, 0.61]})
    0.01
    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.491, 0.510], 0.04: [0.60, 0.61]})
    0.02
    """
    table = {share: np.asarray(values, dtype=float) for share, values in losses.items()}
    if not table or len({len(v) for v in table.values()}) != 1:
        raise ValueError("'losses' must hold one loss per seed, the same number for every λ.")
    default = min(table, key=lambda share: abs(np.log(share / DEFAULT_SHARE)))
    best = min(table, key=lambda share: (table[share].mean(), -share))
    excess = table[default] - table[best]
    error = (
        SINGLE_SEED_ERROR if len(excess) == 1 else float(excess.std(ddof=1)) / np.sqrt(len(excess))
    )
    return best if excess.mean() > 2 * error else default


@dataclass(frozen=True)
class Summary:
    """The seeds of one method on one data set.

    Attributes
    ----------
    data, method : str
    share : float or None
        The chosen λ of SUWR.
    records : tuple of dict
    """

    data: str
    method: str
    share: float | None
    records: tuple[Record, ...]

    def values(self, name: str, part: str = "test") -> list[float]:
        """One metric of every seed."""
        return [float(record["metrics"][part][name]) for record in self.records]

    def over_seeds(self, read: Callable[[Record], Any]) -> list[Any]:
        """A function of every record."""
        return [read(record) for record in self.records]


def path_records(records: list[Record], data: str) -> dict[float, list[Record]]:
    """SUWR's λ path on one data set: the records of each λ, sorted by seed."""
    found: dict[float, list[Record]] = {}
    for record in records:
        cell = Cell.from_dict(record["cell"])
        # λ = 0 belongs to the comparison of budgets, not to the path.
        own = (cell.data, cell.method) == (data, "SUWR")
        if own and cell.sparsity_share and cell.params["max_steps"] == MAX_STEPS:
            found.setdefault(cell.sparsity_share, []).append(record)
    return {share: sorted(found[share], key=_seed) for share in sorted(found)}


def chosen_shares(records: list[Record]) -> dict[str, float]:
    """Chosen λ of each data set, from the seeds that have every λ of the path."""
    chosen = {}
    for data in _data_sets(records):
        path = path_records(records, data)
        seeds = [{_seed(r) for r in own} for own in path.values()]
        complete = set.intersection(*seeds) if seeds else set()
        if complete:
            chosen[data] = choose_share(
                {share: _validation_losses(own, complete) for share, own in path.items()}
            )
    return chosen


def _validation_losses(records: list[Record], seeds: set[int]) -> list[float]:
    """Validation losses relative to the loss of the constant prediction."""
    metrics = [r["metrics"] for r in records if _seed(r) in seeds]
    return [m["validation"]["loss"] / m["constant_loss"] for m in metrics]


def summarize(records: list[Record]) -> list[Summary]:
    """All methods on all data sets, in the order of the paper's table; SUWR at its chosen λ."""
    chosen = chosen_shares(records)
    found = []
    for data in _data_sets(records):
        for method in METHODS:
            share = chosen.get(data) if method == "SUWR" else None
            if method == "SUWR":
                own = path_records(records, data).get(share, []) if share is not None else []
            else:
                own = [
                    r for r in records if (r["cell"]["data"], r["cell"]["method"]) == (data, method)
                ]
            if own:
                found.append(Summary(data, method, share, tuple(sorted(own, key=_seed))))
    return found


def budget_records(records: list[Record], data: str) -> dict[float, dict[int, list[Record]]]:
    """Records of SUWR by λ and by ``max_steps``, for each λ with several values of it."""
    found: dict[float, dict[int, list[Record]]] = {}
    for record in records:
        cell = Cell.from_dict(record["cell"])
        if (cell.data, cell.method) == (data, "SUWR") and cell.sparsity_share is not None:
            budgets = found.setdefault(cell.sparsity_share, {})
            budgets.setdefault(cell.params["max_steps"], []).append(record)
    return {share: budgets for share, budgets in sorted(found.items()) if len(budgets) > 1}


def _seed(record: Record) -> int:
    return int(record["cell"]["seed"])


def _data_sets(records: list[Record]) -> list[str]:
    return sorted({r["cell"]["data"] for r in records})


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table.md`` and ``table.tex``."""
    summaries = summarize(records)
    data = list(dict.fromkeys(s.data for s in summaries))
    grids = {name: result_grid([s for s in summaries if s.data == name]) for name in data}
    paths = {name: path_grid(records, name) for name in data if path_records(records, name)}
    text = ["# Syn1 to Syn6", "", _TABLE_NOTE]
    for name in data:
        text += ["", f"## {name}", ""]
        if name in LIMIT:
            text += [f"AUROC of the true p(y | x): {LIMIT[name]}.", ""]
        text.append(grids[name].markdown())
    text += ["", "## SUWR's λ path", "", _PATH_NOTE]
    for name, grid in paths.items():
        text += ["", f"### {name}", "", grid.markdown()]
    latex = [f"% {name}\n{grid.latex()}" for name, grid in grids.items()]
    return write_text(
        folder,
        {
            "table.md": "\n".join(text) + "\n",
            "table.tex": "\n\n".join(latex) + "\n",
        },
    )


_TABLE_NOTE = """\
Mean ± standard deviation over the seeds on test rows, which play no part in the choice of λ;
published values of the paper's Table 2 in brackets. TPR, FDR and CFSR (fraction of rows in which
x11 is selected) in percent. SUWR may take eleven steps; L2X, CAE, GDFS and SEFA receive a number
of features."""

_PATH_NOTE = (
    "λ relative to the loss of the best constant prediction. The arrow marks the chosen λ: the "
    "default, 0.01, unless another λ of the path has a mean validation loss that is lower by more "
    "than two standard errors of the difference (with a single seed: by "
    f"{200 * SINGLE_SEED_ERROR:g} % of the loss of the constant prediction)."
)


def result_grid(summaries: list[Summary]) -> Grid:
    """Methods in rows, metrics in columns, published values in brackets."""
    branched = any(is_branched(s.data) for s in summaries)
    metrics = ["auroc", "tpr", "fdr", *(["cfsr"] if branched else []), "n_selected"]
    rows = []
    for s in summaries:
        known = PUBLISHED.get(s.method, {}).get(s.data, {})
        row = [label(s.method)]
        for name in metrics:
            published = f" ({known[name]:g})" if name in known else ""
            row.append(mean_sd(s.values(name), _DIGITS[name]) + published)
        seconds = mean_sd(s.over_seeds(lambda r: r["fit_seconds"]), 0)
        rows.append([*row, str(len(s.records)), seconds, _verdicts(s)])
    header = ["method", *(_NAMES[m] for m in metrics), "seeds", "fit, s", "audit"]
    return Grid(header, rows)


def path_grid(records: list[Record], data: str) -> Grid:
    """SUWR at every λ: validation and test scores."""
    chosen = chosen_shares(records).get(data)
    rows = []
    for share, own in path_records(records, data).items():
        s = Summary(data, "SUWR", share, tuple(own))
        rows.append(
            [
                f"{'→ ' if share == chosen else ''}{share:g}",
                mean_sd(s.values("loss", "validation"), 4),
                mean_sd(s.values("n_selected", "validation"), 2),
                *(mean_sd(s.values(m), _DIGITS[m]) for m in ("auroc", "tpr", "fdr", "n_selected")),
                str(len(own)),
            ]
        )
    header = ["λ", "validation loss", "validation features", "AUROC", "TPR", "FDR", "features"]
    return Grid([*header, "seeds"], rows)


def _verdicts(summary: Summary) -> str:
    verdicts = [v["verdict"] for v in summary.over_seeds(lambda r: r["metrics"].get("audit")) if v]
    return ", ".join(sorted(set(verdicts))) or "–"


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Write ``curves``, ``control-step`` and ``budget`` as SVG, if there are records."""
    from suwr_experiments.figures import (
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
        written.append(save_figure(ax, folder, "curves"))
    steps = _control_steps(summaries)
    if steps:
        written.append(save_figure(plot_control_steps(steps), folder, "control-step"))
    budgets = _budgets(records)
    if budgets:
        n_relevant = len(RELEVANT[int(BUDGET_DATA[3])])
        ax = plot_trained_budgets(budgets, n_relevant=n_relevant, title=f"SUWR on {BUDGET_DATA}")
        written.append(save_figure(ax, folder, "budget"))
    return written


def _point(summary: Summary) -> tuple[float, float, float]:
    return float(np.mean(summary.values("n_selected"))), *mean_and_sd(summary.values("auroc"))


def _curves(
    records: list[Record], summaries: list[Summary]
) -> tuple[dict[str, dict[str, list[tuple[float, float, float]]]], dict[str, float]]:
    """Points of every method on every data set, and the cost of SUWR at its chosen λ."""
    panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    chosen: dict[str, float] = {}
    for s in summaries:
        points = [_point(s)]
        if s.method == "SUWR":
            chosen[s.data] = points[0][0]
            path = path_records(records, s.data)
            points = [_point(Summary(s.data, "SUWR", w, tuple(rs))) for w, rs in path.items()]
        panels.setdefault(s.data, {})[label(s.method)] = points
    return panels, chosen


def _control_steps(summaries: list[Summary]) -> dict[str, dict[str, np.ndarray]]:
    """Fraction of rows by the step that reveals x11, for the data sets that branch on it."""
    panels: dict[str, dict[str, np.ndarray]] = {}
    for s in summaries:
        steps = s.over_seeds(lambda r: r["metrics"].get("control_step"))
        if is_branched(s.data) and all(one is not None for one in steps):
            panels.setdefault(s.data, {})[label(s.method)] = np.array(steps)
    return panels


def _budgets(records: list[Record]) -> dict[str, dict[int, list[float]]]:
    """Mean number of features of every seed by ``max_steps``, for each λ."""
    return {
        "λ = 0" if share == 0 else f"λ = {share:g} of the constant loss": {
            budget: [r["metrics"]["test"]["n_selected"] for r in own]
            for budget, own in sorted(budgets.items())
        }
        for share, budgets in budget_records(records, BUDGET_DATA).items()
    }
