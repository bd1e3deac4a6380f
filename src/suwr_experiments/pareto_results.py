"""Tables, figure and page of Experiment 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suwr.exact import pareto_front
from suwr.exact.solve import ParetoFront
from suwr_experiments.pareto_experiment import LEAKING, METHODS, problem_of
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, findings_grid, label, mean_sd, write_text

__all__ = [
    "exact_fronts",
    "lp_agrees",
    "margin_below_front",
    "page",
    "write_figures",
    "write_tables",
]

# Relative to the loss of the constant prediction: smaller margins may be rounding.
TOLERANCE = 1e-6


def exact_fronts(data: str) -> dict[str, ParetoFront]:
    """Pareto fronts of the best SUWR policies ('dp') and of the best fixed subsets ('global')."""
    problem = problem_of(data)
    return {method: pareto_front(problem, method) for method in ("dp", "global")}


def lp_agrees(records: list[Record], front: ParetoFront) -> bool:
    """Whether the linear program was solved at every break point and is nowhere better.

    Both optima are concave in λ, and that of the dynamic program is linear between its break
    points: equality at the break points implies that the two fronts are equal.
    """
    solved = {
        r["cell"]["params"]["sparsity_weight"]: r["metrics"]["objective"]
        for r in _of_method(records, "LP")
    }
    tolerance = TOLERANCE * float(front.loss[0])
    breaks = [float(w) for w in front.sparsity_weight if w > 0]
    return all(w in solved and solved[w] >= front.objective(w) - tolerance for w in breaks)


def margin_below_front(record: Record, front: ParetoFront) -> float:
    """Loss of the front at the cost of a policy, minus the loss of the policy."""
    point = record["metrics"]
    return float(front.loss_at(point["n_selected"])) - point["loss"]


def _of_method(records: list[Record], method: str) -> list[Record]:
    return [r for r in records if r["cell"]["method"] == method]


def _fitted(records: list[Record]) -> list[Record]:
    return [r for r in records if r["cell"]["method"] != "LP"]


def _is_below(record: Record, front: ParetoFront) -> bool:
    return margin_below_front(record, front) > TOLERANCE * float(front.loss[0])


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table.md`` and ``table.tex``."""
    front = exact_fronts(records[0]["cell"]["data"])["dp"]
    fitted = _fitted(records)
    suwr, methods = suwr_grid(fitted), method_grid(fitted, front)
    text = [
        "# Experiment 1: exact Pareto fronts", "", _lp_sentence(records, front), "",
        "## SUWR", "", _SUWR_NOTE, "", suwr.markdown(), "",
        "## All methods", "", _METHOD_NOTE, "", methods.markdown(), "",
        "## Witnesses", "", *witness_lines(fitted, front),
    ]  # fmt: skip
    return write_text(
        folder,
        {
            "table.md": "\n".join(text) + "\n",
            "table.tex": f"{suwr.latex()}\n\n{methods.latex()}\n",
        },
    )


_SUWR_NOTE = """\
Exact objective, squared error + λ · features, relative to the optimum of the dynamic program at the
same λ. Greedy inference takes the most probable decision, as `predict` does; sampled inference
samples every decision and is evaluated with its exact probabilities, as in `mask_probability`."""

_METHOD_NOTE = """\
The margin is the loss of the front at the cost of a policy minus the loss of the policy; a positive
margin is impossible without leakage."""


def _lp_sentence(records: list[Record], front: ParetoFront) -> str:
    if lp_agrees(records, front):
        return (
            "The linear program, solved at every break point of the front of SUWR policies, is "
            "nowhere better: on this problem the two fronts are equal."
        )
    return "The linear program was not solved at every break point of the front of SUWR policies."


def suwr_grid(records: list[Record], default: bool = False) -> Grid:
    """SUWR at each λ: exact objective relative to the optimum, over seeds."""
    rows = []
    for weight, metrics in _by_weight(records, default).items():
        best = metrics[0]["dp_objective"]
        greedy, sampled = _ratios(metrics)
        rows.append(
            [
                f"{weight:g}", f"{best:.4f}",
                mean_sd([m["objective"] for m in metrics], 4),
                mean_sd(greedy, 4), f"{max(greedy):.4f}",
                mean_sd(sampled, 4), f"{max(sampled):.4f}",
                mean_sd([m["loss"] for m in metrics], 3),
                mean_sd([m["n_selected"] for m in metrics], 3),
                str(len(metrics)),
            ]
        )  # fmt: skip
    header = [
        "λ", "optimum", "objective", "ratio, greedy", "worst", "ratio, sampled", "worst",
        "squared error", "features", "seeds",
    ]  # fmt: skip
    return Grid(header, rows)


def _is_default(record: Record) -> bool:
    """Whether a fit of SUWR has its default settings, except for λ."""
    return set(record["cell"]["params"]) == {"sparsity_weight"}


def _by_weight(records: list[Record], default: bool = False) -> dict[float, list[dict[str, Any]]]:
    """Metrics of SUWR's seeds by λ; with the settings of the experiment, or the default ones."""
    found: dict[float, list[dict[str, Any]]] = {}
    for r in _of_method(records, "SUWR"):
        if _is_default(r) != default:
            continue
        found.setdefault(r["cell"]["params"]["sparsity_weight"], []).append(r["metrics"])
    return dict(sorted(found.items()))


def _ratios(metrics: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Objective divided by the optimum of every seed: greedy and sampled inference."""
    return (
        [m["objective"] / m["dp_objective"] for m in metrics],
        [m["sampled"]["objective"] / m["dp_objective"] for m in metrics],
    )


def method_grid(records: list[Record], front: ParetoFront) -> Grid:
    """Number of policies of each method below the front, and their largest margin."""
    rows = []
    for method in METHODS:
        own = _of_method(records, method)
        if not own:
            continue
        verdicts = [r["metrics"]["audit"]["verdict"] for r in own if "audit" in r["metrics"]]
        counts = [f"{verdicts.count(v)} × {v}" for v in sorted(set(verdicts))]
        rows.append(
            [
                label(method), str(len(own)), str(sum(_is_below(r, front) for r in own)),
                f"{max(margin_below_front(r, front) for r in own):+.3f}", ", ".join(counts),
            ]
        )  # fmt: skip
    return Grid(["method", "policies", "below the front", "largest margin", "audit"], rows)


def witness_lines(records: list[Record], front: ParetoFront) -> list[str]:
    """For each leaking method, the witness of its policy with the largest margin."""
    lines = []
    for method in LEAKING:
        own = [
            r
            for r in _of_method(records, method)
            if r["metrics"].get("audit", {}).get("witness")
        ]  # fmt: skip
        if not own:
            lines.append(f"- {label(method)}: no policy with a witness.")
            continue
        best = max(own, key=lambda r: margin_below_front(r, front))
        point, witness = best["metrics"], best["metrics"]["audit"]["witness"]
        lines.append(
            f"- {label(method)}, {point['n_selected']:.2f} features at squared error "
            f"{point['loss']:.3f} (margin {margin_below_front(best, front):+.3f}): "
            f"`{witness['x']}` reveals `{_revealed(witness['mask'])}`, "
            f"`{witness['x_other']}` reveals `{_revealed(witness['mask_other'])}`."
        )
    return lines


def _revealed(mask: Any) -> list[str]:
    return [f"x{i + 1}" for i in np.flatnonzero(np.asarray(mask, dtype=bool))]


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Write ``front.svg``: the paper's Figure 1."""
    from suwr_experiments.figures import plot_policies, save_figure

    fronts = exact_fronts(records[0]["cell"]["data"])
    policies = {
        label(method): [
            (r["metrics"]["n_selected"], r["metrics"]["loss"]) for r in _of_method(records, method)
        ]
        for method in METHODS
        if method not in ("LP", "GlobalOptimum", "AllFeatures", "Oracle")
    }
    if lp_agrees(records, fronts["dp"]):
        fronts["dp"] = replace(fronts["dp"], method="lp")
    ax = plot_policies(list(fronts.values()), policies)
    return [save_figure(ax, folder, "front")]


def page(records: list[Record], link: str) -> str:
    """Write the page of Experiment 1 as Markdown.

    Parameters
    ----------
    records : list of dict
    link : str
        Path of the folder with the figures, relative to the page.
    """
    front = exact_fronts(records[0]["cell"]["data"])["dp"]
    fitted = _fitted(records)
    lines = [
        "# Experiment 1: policies and exact Pareto fronts", "",
        "Ten uniform bits, y = (x1 x2 + x3 x4 + … + x9 x10)², squared error. Every method trains",
        "on all 1,024 rows, and its policy is evaluated exactly over them. The grey region is",
        "impossible without leakage.", "",
        f"![Policies and exact Pareto fronts]({link}/front.svg)", "",
        _lp_sentence(records, front),
        "In general they differ: [the paper's conjecture is false](../theory/conjecture.md).", "",
        "## SUWR and the optimum", "", _SUWR_NOTE, "", suwr_grid(fitted).markdown(), "",
        *_caveats(fitted), "", *_defaults(fitted),
        "## All methods", "", _METHOD_NOTE, "", method_grid(fitted, front).markdown(), "",
        "## The paper's findings", "", findings_grid(_findings(records)).markdown(), "",
        "## Witnesses", "",
        "Two rows that agree on all features that the first one reveals, but get different masks.",
        "For each leaking method: the witness of its policy with the largest margin.", "",
        *witness_lines(fitted, front),
    ]  # fmt: skip
    return "\n".join(lines)


def _caveats(records: list[Record]) -> list[str]:
    """How many fits are not within 2 % of the optimum, and how SUWR's settings differ."""
    ratios = [_ratios(metrics) for metrics in _by_weight(records).values()]
    above = [sum(r > 1.02 for pair in ratios for r in pair[kind]) for kind in (0, 1)]
    own = [r for r in _of_method(records, "SUWR") if not _is_default(r)]
    if not own or "training" not in own[0]["cell"]["params"]:
        return []
    params = own[0]["cell"]["params"]
    widths = sorted(
        {
            r["cell"]["params"]["hidden_size"]
            for r in records
            if r not in own and "hidden_size" in r["cell"]["params"]
        }
    )
    return [
        f"More than 2 % above the optimum: {above[0]} of {len(own)} fits with greedy inference and",
        f"{above[1]} with sampled inference. SUWR has {len(params['training'])} training settings",
        f"of its own here, and hidden layers of {params['hidden_size']} units; those of the other",
        f"networks have {', '.join(map(str, widths))} units.",
    ]


def _defaults(records: list[Record]) -> list[str]:
    """What SUWR reaches with its default settings, if there are such fits."""
    grid = suwr_grid(records, default=True)
    if not grid.rows:
        return []
    return ["With the default settings of the library, for all λ:", "", grid.markdown(), ""]


def _findings(records: list[Record]) -> list[tuple[str, str]]:
    """Findings of the paper's Section 5, in its order, and what the records say."""
    fronts = exact_fronts(records[0]["cell"]["data"])
    front, subsets = fronts["dp"], fronts["global"]
    middle = float(front.cost[-1]) / 2
    below = {
        method: f"{sum(_is_below(r, front) for r in own)} of {len(own)}"
        for method in LEAKING
        if (own := _of_method(records, method))
    }
    tabnet = min(
        (r["metrics"] for r in _of_method(records, "TabNet")),
        key=lambda m: m["n_selected"],
        default=None,
    )
    ours = [margin_below_front(r, front) for r in _of_method(records, "SUWR")]
    breaks = sum(w > 0 for w in front.sparsity_weight)
    return [
        (
            "There is a large gap between the fronts of local and global selection.",
            f"squared error at {middle:.2f} features: {float(front.loss_at(middle)):.3f} (local), "
            f"{float(subsets.loss_at(middle)):.3f} (global)",
        ),
        (
            "The local front, by the linear program, is that of SUWR policies.",
            f"equal at all {breaks} break points" if lp_agrees(records, front) else "not solved",
        ),
        (
            "L2X, INVASE, TabNet and REAL-X have policies below the front.",
            ", ".join(f"{label(m)} {text}" for m, text in below.items()) or "not measured",
        ),
        (
            "TabNet predicts perfectly from two features.",
            "not measured"
            if tabnet is None
            else f"its policy with the fewest features: {tabnet['n_selected']:.2f} features at "
            f"squared error {tabnet['loss']:.3f}",
        ),
        (
            "SUWR has no policy below the front.",
            f"largest margin {max(ours):+.4f}" if ours else "not measured",
        ),
        ("SUWR is close to the front.", _closeness(records)),
    ]


def _closeness(records: list[Record]) -> str:
    """Largest ratio of objective to optimum, on average over the seeds and of a single seed."""
    pairs = [_ratios(metrics) for metrics in _by_weight(records).values()]
    if not pairs:
        return "not measured"
    kinds = zip(("greedy", "sampled"), zip(*pairs, strict=True), strict=True)
    return "objective / optimum at the worst λ: " + "; ".join(
        f"{kind} {max(map(np.mean, ratios)):.3f} (mean of seeds), {max(map(max, ratios)):.3f} "
        "(worst seed)"
        for kind, ratios in kinds
    )
