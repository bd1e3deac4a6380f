"""Tables, figure and page of the paper's algorithm and its variants.

λ of REINFORCE is chosen for each data set as that of the lowest mean validation loss over the
draws, the larger of equal ones. AUROC is compared by its gap; see `suwr_experiments.published_gap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suwr_experiments.config import Cell
from suwr_experiments.figures import plot_variants, save_figure
from suwr_experiments.paper import PAPER_WEIGHTS, VARIANTS, paper_weight, variant_of
from suwr_experiments.published_gap import HEADER, METRICS, compared_cells, published_gap
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, mean_and_sd

__all__ = [
    "choose_weights",
    "page",
    "write_figures",
]

_ADDED = {
    "REINFORCE": "the paper's algorithm",
    "actor": "value baseline, stopping by the regressed gain, cross-fitted rewards of two "
    "predictors, and a look-ahead early in training; separate networks",
    "pretraining": "predictors pretrained on random masks",
    "soft labels": "rewards that mix labels with predictions from all features",
    "fine-tuning": "predictors fine-tuned on the masks of the policy",
    "ensemble": "four predictors",
}
Groups = dict[tuple[str, str, float], list[Record]]


def _groups(records: Sequence[Record]) -> Groups:
    """The records of each data set, variant and λ, sorted by draw."""
    found: Groups = {}
    for record in sorted(records, key=lambda r: int(r["cell"]["seed"])):
        cell = Cell.from_dict(record["cell"])
        found.setdefault((cell.data, variant_of(cell), paper_weight(cell)), []).append(record)
    order = list(VARIANTS)
    return dict(sorted(found.items(), key=lambda item: (item[0][0], order.index(item[0][1]), item)))


def choose_weights(records: Sequence[Record]) -> dict[str, float]:
    """λ of REINFORCE for each data set, by the rule in the docstring of this module."""
    losses: dict[str, dict[float, float]] = {}
    for (data, variant, weight), own in _groups(records).items():
        if variant == "REINFORCE":
            mean, _ = mean_and_sd(record["metrics"]["validation"]["loss"] for record in own)
            losses.setdefault(data, {})[weight] = mean
    return {
        data: min(path, key=lambda weight: (path[weight], -weight)) for data, path in losses.items()
    }


def _gaps(records: Sequence[Record]) -> list[float]:
    return [r["metrics"]["limit"] - r["metrics"]["test"]["auroc"] for r in records]


def _values(records: Sequence[Record], name: str) -> list[float]:
    return [r["metrics"]["test"][name] for r in records if name in r["metrics"]["test"]]


def _cells(data: str, records: Sequence[Record]) -> list[str]:
    metrics = {name: _values(records, name) for name in METRICS}
    return compared_cells(metrics, _gaps(records), "SUWR", data)


def _reinforce_grid(groups: Groups, chosen: dict[str, float]) -> Grid:
    rows = []
    for (data, variant, weight), own in groups.items():
        if variant == "REINFORCE":
            notes = ["chosen"] if weight == chosen[data] else []
            notes += ["paper"] if weight == PAPER_WEIGHTS[data] else []
            rows.append([data, f"{weight:g}", ", ".join(notes) or "–", *_cells(data, own)])
    return Grid(["data", "λ", "λ is", *HEADER], rows)


def _variants(groups: Groups) -> dict[str, dict[str, list[Record]]]:
    """The variants with the paper's λ on the data sets that have several, on common draws."""
    found: dict[str, dict[str, list[Record]]] = {}
    for (data, variant, weight), own in groups.items():
        if weight == PAPER_WEIGHTS[data]:
            found.setdefault(data, {})[variant] = own
    return {data: _common_draws(own) for data, own in found.items() if len(own) > 1}


def _common_draws(variants: dict[str, list[Record]]) -> dict[str, list[Record]]:
    seeds = ({r["cell"]["seed"] for r in own} for own in variants.values())
    draws = set.intersection(*seeds)
    return {name: [r for r in own if r["cell"]["seed"] in draws] for name, own in variants.items()}


def page(records: list[Record], link: str) -> str:
    """Write the page as Markdown; ``link`` is the folder of the records, relative to the page."""
    groups = _groups(records)
    lines = [
        "# The paper's algorithm", "",
        "`trainer=\"reinforce\"` with the paper's network, number of steps and λ: mean ± standard",
        "deviation over draws of training rows, test rows and training seeds; published values in",
        "brackets. *Gap* is the AUROC of the true p(y | x) on the same rows less that of the",
        "method. Settings, draws, the choice of λ and what counts as reached or failed were",
        "written down [before the run](protocol.md#the-papers-algorithm). λ is in the units of",
        "the paper, whose loss is ten times the cross-entropy.", "",
        _reinforce_grid(groups, choose_weights(records)).markdown(),
    ]  # fmt: skip
    variants = _variants(groups)
    if variants:
        lines += [
            "", "## From the paper's algorithm to the default", "",
            "Every row adds to the one above it. All have the paper's number of steps and λ, and",
            "hidden layers of the same width.",
        ]  # fmt: skip
    for data, own in variants.items():
        rows = [[name, _ADDED[name], *_cells(data, rs)] for name, rs in own.items()]
        grid = Grid(["variant", "adds", *HEADER], rows, n_left=2)
        lines += ["", f"### {data}", "", grid.markdown()]
    if variants:
        lines += ["", f"![Gaps of the variants]({link}/variants.svg)"]
    return "\n".join(lines)


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Draw the gaps of the variants, if there are several."""
    variants = _variants(_groups(records))
    if not variants:
        return []
    panels = {
        data: {name: _gaps(own) for name, own in found.items()} for data, found in variants.items()
    }
    published = {data: published_gap("SUWR", data) for data in panels}
    return [save_figure(plot_variants(panels, published), folder, "variants")]
