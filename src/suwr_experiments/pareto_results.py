"""Tables and the figure of Experiment 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suwr.exact import pareto_front
from suwr.exact.front import ParetoFront
from suwr_experiments.pareto import LEAKING, METHODS, problem_of
from suwr_experiments.tables import LABELS, Grid, csv_text, mean_sd, write_text

__all__ = [
    "fronts_of", "lp_agrees", "method_grid", "suwr_grid", "under_front", "witness_lines",
    "write_figures", "write_tables",
]  # fmt: skip

Record = dict[str, Any]
# Of the constant loss: less than this under the front may be rounding.
TOLERANCE = 1e-6


def fronts_of(data: str) -> dict[str, ParetoFront]:
    """The exact fronts that are quick to find: best SUWR policies, and best single subsets."""
    problem = problem_of(data)
    return {method: pareto_front(problem, method) for method in ("dp", "global")}


def lp_agrees(records: list[Record], front: ParetoFront) -> bool:
    """Whether the linear program was solved at every break point, and never does better.

    Both optima are concave in λ and the dynamic program's is straight between its break points:
    where they agree at those, they agree everywhere, and the two fronts are one.
    """
    solved = {
        r["cell"]["params"]["sparsity_weight"]: r["metrics"]["objective"]
        for r in records
        if r["cell"]["method"] == "LP"
    }
    scale = TOLERANCE * float(front.loss[0])
    breaks = [float(w) for w in front.sparsity_weight if w > 0]
    return all(w in solved and solved[w] >= front.objective(w) - scale for w in breaks)


def under_front(record: Record, front: ParetoFront) -> float:
    """How much less a policy loses than the front allows at its number of features."""
    point = record["metrics"]
    return float(front.loss_at(point["n_selected"])) - point["loss"]


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """``table.md``, ``table.csv``, ``table.tex``."""
    data = records[0]["cell"]["data"]
    front = fronts_of(data)["dp"]
    fitted = [r for r in records if r["cell"]["method"] != "LP"]
    suwr, rest = suwr_grid(fitted), method_grid(fitted, front)
    proof = (
        "The linear program was solved at every break point of the front of SUWR policies and "
        "finds nothing better: on this problem the two fronts are one."
        if lp_agrees(records, front)
        else "The linear program has not been solved at every break point of the front."
    )
    page = [
        "# Experiment 1: exact fronts", "",
        "Expected squared error and features over all rows, nothing sampled. 'Greedy' inference",
        "takes the most probable decision; 'drawn' inference draws each, and enters with its",
        f"exact probabilities. {proof}", "",
        "## SUWR", "", "The ratio is to the dynamic program's optimum at the same λ.", "",
        suwr.markdown(), "", "## Every method", "",
        "The largest margin is the most by which a policy lies under the front: more than 0 is",
        "impossible without leakage.", "", rest.markdown(), "", "## Witnesses", "",
        *witness_lines(fitted, front),
    ]  # fmt: skip
    return write_text(
        folder,
        {
            "table.md": "\n".join(page) + "\n",
            "table.csv": csv_text([_numbers(r, front) for r in fitted]),
            "table.tex": f"{suwr.latex()}\n\n{rest.latex()}\n",
        },
    )


def suwr_grid(records: list[Record]) -> Grid:
    """SUWR at each λ: exact objective beside the optimum, over seeds."""
    found: dict[float, list[Record]] = {}
    for r in records:
        if r["cell"]["method"] == "SUWR":
            found.setdefault(r["cell"]["params"]["sparsity_weight"], []).append(r)
    rows = []
    for weight, some in sorted(found.items()):
        metrics = [r["metrics"] for r in some]
        best = metrics[0]["dp_objective"]
        greedy = [m["objective"] / best for m in metrics]
        drawn = [m["sampled"]["objective"] / best for m in metrics]
        rows.append(
            [
                f"{weight:g}", f"{best:.4f}",
                mean_sd([m["objective"] for m in metrics], 4),
                mean_sd(greedy, 4), f"{max(greedy):.4f}",
                mean_sd(drawn, 4), f"{max(drawn):.4f}",
                mean_sd([m["loss"] for m in metrics], 3),
                mean_sd([m["n_selected"] for m in metrics], 3),
                str(len(some)),
            ]
        )  # fmt: skip
    header = [
        "λ", "optimum", "objective", "ratio, greedy", "worst", "ratio, drawn", "worst",
        "squared error", "features", "seeds",
    ]  # fmt: skip
    return Grid(header, rows)


def method_grid(records: list[Record], front: ParetoFront) -> Grid:
    """Every method: how many of its policies lie under the front, and by how much."""
    rows = []
    for method in METHODS:
        some = [r for r in records if r["cell"]["method"] == method]
        if not some:
            continue
        margins = [under_front(r, front) for r in some]
        limit = TOLERANCE * float(front.loss[0])
        verdicts = [r["metrics"]["audit"]["verdict"] for r in some if "audit" in r["metrics"]]
        counts = [f"{verdicts.count(v)} × {v}" for v in sorted(set(verdicts))]
        rows.append(
            [
                LABELS.get(method, method), str(len(some)),
                str(sum(m > limit for m in margins)), f"{max(margins):+.3f}", ", ".join(counts),
            ]
        )  # fmt: skip
    return Grid(["method", "policies", "under the front", "largest margin", "audit"], rows)


def witness_lines(records: list[Record], front: ParetoFront) -> list[str]:
    """For each leaking method, the proof of its policy furthest under the front."""
    lines = []
    for method in LEAKING:
        some = [
            r
            for r in records
            if r["cell"]["method"] == method and r["metrics"].get("audit", {}).get("witness")
        ]
        if not some:
            lines.append(f"- {LABELS.get(method, method)}: no policy with a witness.")
            continue
        best = max(some, key=lambda r: under_front(r, front))
        point, witness = best["metrics"], best["metrics"]["audit"]["witness"]
        lines.append(
            f"- {LABELS.get(method, method)}, {point['n_selected']:.2f} features at squared error "
            f"{point['loss']:.3f} (margin {under_front(best, front):+.3f}): "
            f"`{witness['x']}` shows `{_shown(witness['mask'])}`, "
            f"`{witness['x_other']}` shows `{_shown(witness['mask_other'])}`."
        )
    return lines


def _shown(mask: Any) -> list[str]:
    return [f"x{i + 1}" for i in np.flatnonzero(np.asarray(mask, dtype=bool))]


def _numbers(record: Record, front: ParetoFront) -> dict[str, Any]:
    point, cell = record["metrics"], record["cell"]
    return {
        "data": cell["data"],
        "method": cell["method"],
        "seed": cell["seed"],
        "params": " ".join(f"{k}={v}" for k, v in sorted(cell["params"].items())),
        "n_selected": point["n_selected"],
        "loss": point["loss"],
        "objective": point.get("objective"),
        "dp_objective": point.get("dp_objective"),
        "under_front": under_front(record, front),
        "audit": point.get("audit", {}).get("verdict"),
    }


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """``front.png`` and ``front.svg``: the paper's Figure 1."""
    from suwr_experiments.plots import plot_policies, save_figure

    fronts = fronts_of(records[0]["cell"]["data"])
    policies = {
        LABELS.get(method, method): [
            (r["metrics"]["n_selected"], r["metrics"]["loss"])
            for r in records
            if r["cell"]["method"] == method
        ]
        for method in METHODS
        if method not in ("LP", "GlobalOptimum", "AllFeatures", "Oracle")
    }
    if lp_agrees(records, fronts["dp"]):
        fronts["dp"] = replace(fronts["dp"], method="lp")
    ax = plot_policies(list(fronts.values()), policies)
    return save_figure(ax, folder, "front")
