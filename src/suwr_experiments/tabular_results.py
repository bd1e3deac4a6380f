"""Curves, tables and figures of the benchmark of tables from its records.

The score of a method on a split is its mean loss over 2 to 10 features (or all, if there are
fewer), by interpolation of its curve of loss against mean cost. Beyond the last point the curve is
constant. Below the first point it is linear from the constant prediction at cost 0: that is the
loss of a policy which uses the method for a fraction of the rows, drawn at random. A curve that
was constant there would credit a method with a cost that it does not reach. Methods are compared
split by split, and ranked by their means over the splits of each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from suwr_experiments.comparison import (
    Curve,
    PairedDifference,
    Ranking,
    paired_difference,
    rank_methods,
)
from suwr_experiments.records import Record
from suwr_experiments.tables import Grid, mean_and_sd, write_text
from suwr_experiments.tabular_data import TABLES

__all__ = ["LOW", "RANKED", "RIVALS", "SERIES", "TableResults", "write_figures", "write_tables"]

#: Range of costs that scores are averaged over.
LOW, HIGH = 2, 10
#: Names of the curves, by method and by the name of the curve in its records.
SERIES = {
    ("SUWR", "path"): "SUWR",
    ("SUWRRange", "path"): "SUWR, range",
    ("GDFS", "path"): "GDFS",
    ("GDFSEqual", "path"): "GDFS, equal networks",
    ("DIME", "budget"): "DIME, budget",
    ("DIME", "cost"): "DIME, cost",
    ("DIME", "confidence"): "DIME, confidence",
    ("SEFA", "budget"): "SEFA, budget",
    ("SEFA", "confidence"): "SEFA, confidence",
    ("CART", "path"): "CART",
    ("FixedSubset", "boosting"): "boosting on k",
    ("FixedSubset", "network"): "network on k",
    ("L1", "path"): "L1",
    ("L1", "chosen"): "L1, chosen",
    ("AllFeatures", "path"): "no selection",
    ("Boosting", "path"): "boosting on all",
}
#: Curves that are ranked. Stopping by confidence is not defined for regression.
RANKED = tuple(name for name in SERIES.values() if name not in {
    "GDFS, equal networks", "DIME, confidence", "SEFA, confidence", "L1, chosen", "no selection",
    "boosting on all",
})  # fmt: skip
#: Curves of methods that select features for each row without leakage.
RIVALS = (
    "GDFS", "GDFS, equal networks", "DIME, budget", "DIME, cost", "DIME, confidence",
    "SEFA, budget", "SEFA, confidence", "CART",
)  # fmt: skip
#: Curves of fixed subsets.
FIXED = ("boosting on k", "network on k")

Points = dict[str, list[float]]


class TableResults:
    """Curves of all methods by table, name and split.

    Parameters
    ----------
    records : list of dict
    """

    def __init__(self, records: list[Record]) -> None:
        self._points: dict[tuple[str, str], dict[int, Points]] = {}
        self._constant: dict[tuple[str, int], Mapping[str, float]] = {}
        self._n_units: dict[str, int] = {}
        for record in records:
            cell, metrics = record["cell"], record["metrics"]
            data, split = cell["data"], int(cell["seed"])
            self._constant[data, split] = metrics["constant"]
            self._n_units[data] = metrics["n_units"]
            for name, points in metrics["curves"].items():
                splits = self._points.setdefault((data, SERIES[cell["method"], name]), {})
                own = splits.setdefault(split, {})
                for key, values in points.items():
                    own[key] = own.get(key, []) + values
        self._drop_incomplete_paths()

    def _drop_incomplete_paths(self) -> None:
        """Remove the splits of a partial run that lack a λ of SUWR's path."""
        own = {key: splits for key, splits in self._points.items() if key[1] == "SUWR"}
        sizes = [len(p["cost"]) for splits in own.values() for p in splits.values()]
        for key, splits in own.items():
            complete = {s: p for s, p in splits.items() if len(p["cost"]) == max(sizes)}
            self._points[key] = complete
            if not complete:
                del self._points[key]

    @cached_property
    def tables(self) -> list[str]:
        """Tables with records, in the order of the benchmark; others by name."""
        known = {data for data, _ in self._points}
        return [name for name in TABLES if name in known] + sorted(known - TABLES.keys())

    @cached_property
    def names(self) -> list[str]:
        """Curves with records."""
        known = {name for _, name in self._points}
        return [name for name in SERIES.values() if name in known]

    def splits(self, data: str, *names: str) -> list[int]:
        """Splits of a table that have all of these curves."""
        found = [set(self._points.get((data, name), {})) for name in names]
        return sorted(set.intersection(*found)) if found else []

    def high(self, data: str) -> int:
        """Upper end of the costs that scores are averaged over."""
        return min(HIGH, self._n_units[data])

    def constant(self, data: str, split: int) -> float:
        """Test loss of the best constant prediction of the training rows."""
        return self._constant[data, split]["loss"]

    def points(self, data: str, name: str, split: int) -> Points:
        """Settings, mean costs and scores of a curve."""
        return self._points[data, name][split]

    def curve(self, data: str, name: str, split: int, score: str = "loss") -> Curve:
        """A score as a function of the cost, from the constant prediction on."""
        points = self.points(data, name, split)
        cost, scores = points["cost"], points[score]
        if min(cost) > 0:
            cost, scores = [0.0, *cost], [self._constant[data, split][score], *scores]
        return Curve.of(cost, scores)

    def has(self, data: str, name: str, score: str = "loss") -> bool:
        """Whether a curve has a score: AUROC and accuracy are those of classes."""
        splits = self._points.get((data, name), {})
        return bool(splits) and all(score in points for points in splits.values())

    def means(
        self, data: str, name: str, score: str = "loss", splits: Iterable[int] | None = None
    ) -> list[float]:
        """Mean score over the range of costs, for each split."""
        used = self.splits(data, name) if splits is None else splits
        high = self.high(data)
        return [self.curve(data, name, split, score).mean(LOW, high) for split in used]

    def is_regression(self, data: str) -> bool:
        """Whether the loss is the squared error."""
        return not any(self.has(data, name, "accuracy") for name in self.names)

    def scale(self, data: str) -> float:
        """Divisor of losses in tables: squared errors are relative to that of the constant."""
        if not self.is_regression(data):
            return 1.0
        own = [value["loss"] for (name, _), value in self._constant.items() if name == data]
        return float(np.mean(own))

    def difference(self, data: str, first: str, second: str) -> PairedDifference | None:
        """Difference of mean losses over the splits that have both curves."""
        splits = self.splits(data, first, second)
        if not splits:
            return None
        means = [np.array(self.means(data, name, "loss", splits)) for name in (first, second)]
        return paired_difference(*(values / self.scale(data) for values in means))

    def ranking(self, names: Sequence[str] = RANKED) -> Ranking | None:
        """Ranks of the curves on the tables that have all of them, over their common splits."""
        own = [name for name in names if name in self.names]
        common = {data: self.splits(data, *own) for data in self.tables}
        tables = [data for data in self.tables if common[data]]
        if len(own) < 2 or not tables:
            return None
        return rank_methods(
            {n: [float(np.mean(self.means(d, n, "loss", common[d]))) for d in tables] for n in own}
        )

    def fixed_subset_loss(self, data: str, split: int, cost: float) -> float | None:
        """Lowest loss of the methods on a fixed subset of the same cost."""
        found = [
            float(self.curve(data, name, split).at(cost))
            for name in FIXED
            if split in self._points.get((data, name), {})
        ]
        return min(found, default=None)


def loss_grid(results: TableResults, score: str = "loss") -> Grid:
    """Mean of a score over 2 to 10 features: tables in rows, methods in columns."""
    names = [name for name in results.names if name in RANKED or name in RIVALS]
    rows = []
    for data in results.tables:
        cells: dict[str, float] = {}
        for name in names:
            if results.has(data, name, score):
                values = results.means(data, name, score)
                cells[name] = float(np.mean(values)) / (
                    results.scale(data) if score == "loss" else 1.0
                )
        if not cells:
            continue
        best = (min if score == "loss" else max)(cells.values())
        row = [
            "–"
            if name not in cells
            else f"{'**' * (cells[name] == best)}{cells[name]:.3f}{'**' * (cells[name] == best)}"
            for name in names
        ]
        n_splits = max(len(results.splits(data, name)) for name in names)
        rows.append([data, *row, str(n_splits)])
    return Grid(["table", *names, "splits"], rows)


def difference_grid(results: TableResults, first: str) -> Grid:
    """Paired difference of one method from each of the others."""
    others = [n for n in results.names if n != first and (n in RANKED or n in RIVALS)]
    rows = []
    for data in results.tables:
        found = [results.difference(data, first, other) for other in others]
        if any(found):
            rows.append([data, *("–" if d is None else d.format(3) for d in found)])
    return Grid(["table", *others], rows)


def rank_grid(ranking: Ranking) -> Grid:
    """Mean ranks."""
    return Grid(
        ["method", "mean rank"], [[name, f"{r:.2f}"] for name, r in ranking.mean_rank.items()]
    )


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table.md``."""
    results = TableResults(records)
    text = ["# Tables", "", "Mean loss over 2 to 10 features.", "", loss_grid(results).markdown()]
    ranking = results.ranking()
    if ranking is not None:
        text += ["", f"## Mean rank over {ranking.n_tables} tables", ""]
        text.append(rank_grid(ranking).markdown())
    return write_text(folder, {"table.md": "\n".join(text) + "\n"})


def write_figures(records: list[Record], folder: Path) -> list[Path]:
    """Write ``curves`` and ``critical-difference`` as SVG."""
    from suwr_experiments.figures import plot_critical_difference, plot_curves, save_figure

    results = TableResults(records)
    panels = {data: _panel(results, data) for data in results.tables}
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    ax = plot_curves(panels, ylabel="Test loss", lines=names)
    written = [save_figure(ax, folder, "curves")]
    ranking = results.ranking()
    if ranking is not None:
        written.append(
            save_figure(plot_critical_difference(ranking), folder, "critical-difference")
        )
    return written


def _panel(results: TableResults, data: str) -> dict[str, list[tuple[float, float, float]]]:
    """Mean loss and its standard error over the splits, at costs that every split reaches."""
    panel: dict[str, list[tuple[float, float, float]]] = {}
    for name in results.names:
        if name not in RANKED and name not in RIVALS:
            continue
        splits = results.splits(data, name)
        curves = [results.curve(data, name, split) for split in splits]
        low = max((min(results.points(data, name, s)["cost"]) for s in splits), default=0.0)
        points = []
        for cost in range(1, results.high(data) + 1):
            if curves and low <= cost <= min(c.cost[-1] for c in curves):
                mean, sd = mean_and_sd(float(c.at(cost)) / results.scale(data) for c in curves)
                points.append((float(cost), mean, sd / np.sqrt(len(curves))))
        if points:
            panel[name] = points
    return panel
