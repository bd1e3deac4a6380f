"""Syn1 to Syn6 on fresh draws: every method with settings that were fixed before the run.

The seed of a cell is the number of a draw: of its training rows, its test rows and its training.
The protocol is docs/results/protocol.md.
"""

from __future__ import annotations

from typing import Any

from sklearn.metrics import roc_auc_score

from suwr._utils.validation import check_choice
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.experiment import Task
from suwr_experiments.presets import preset
from suwr_experiments.published_gap import HEADER, METRICS, compared_cells
from suwr_experiments.records import Record
from suwr_experiments.synthetic_experiment import METHODS, NARROW, SHARES, SyntheticExperiment
from suwr_experiments.tables import Grid, label, mean_sd

__all__ = ["DrawsExperiment", "page"]

N_DRAWS = 10
DEFAULT_SHARE = 0.01
# Seeds of the first draw; those of the development were below 10,000.
FIRST_TRAIN, FIRST_TEST = 20_000, 30_000
_MINI = {"max_epochs": 2}


class DrawsExperiment(SyntheticExperiment):
    """Grid and data of the fresh draws."""

    def cells(self, config: RunConfig) -> list[Cell]:
        """Every method on every draw; SUWR with its default λ first, then with the others."""
        check_choice(config.preset, "preset", "DrawsExperiment", ("mini", "full"))
        mini = config.preset == "mini"
        names = config.restrict("datasets", NARROW) if config.datasets or not mini else ("Syn4",)
        draws = config.seeds or (1 if mini else N_DRAWS)
        shares = sorted(SHARES, key=lambda share: share != DEFAULT_SHARE)
        found = []
        for draw in range(draws):
            for method in config.restrict("methods", METHODS):
                for data in names:
                    own = {} if method == "SUWR" else preset(data.lower(), method) or {}
                    for share in (shares[:1] if mini else shares) if method == "SUWR" else [None]:
                        cell = Cell(
                            "draws", data, method, draw, 300 if mini else None, None,
                            share, own | (_MINI if mini else {}), config.audit and draw == 0,
                        )  # fmt: skip
                        found.append(cell)
        return found

    def seeds(self, cell: Cell) -> tuple[int, int]:
        """See `SyntheticExperiment`."""
        return FIRST_TRAIN + cell.seed, FIRST_TEST + cell.seed

    def measure(self, cell: Cell, model: Any, task: Task) -> dict[str, Any]:
        """See `SyntheticExperiment`; also the AUROC of the true p(y | x)."""
        limit = float(roc_auc_score(task.y_test, task.facts["probability"]))
        return super().measure(cell, model, task) | {"limit": limit}


def _rows(records: list[Record]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the draws, for each data set, method and λ."""
    groups: dict[tuple[str, int, float], list[Record]] = {}
    for record in records:
        cell = record["cell"]
        # The default λ first.
        share = cell["sparsity_share"] or 0.0
        order = 0.0 if share == DEFAULT_SHARE else share
        groups.setdefault((cell["data"], METHODS.index(cell["method"]), order), []).append(record)
    rows = []
    for (data, number, _), own in sorted(groups.items()):
        row: dict[str, Any] = {
            "data": data,
            "method": METHODS[number],
            "share": own[0]["cell"]["sparsity_share"],
            "draws": len(own),
        }
        for name in METRICS:
            values = [r["metrics"]["test"][name] for r in own if name in r["metrics"]["test"]]
            row[name] = values
        row["limit"] = [r["metrics"]["limit"] for r in own]
        rows.append(row)
    return rows


def _grid(rows: list[dict[str, Any]]) -> Grid:
    """Methods in rows, metrics in columns, published values in brackets."""
    body = []
    for row in rows:
        gaps = [limit - auroc for limit, auroc in zip(row["limit"], row["auroc"], strict=True)]
        title = label(row["method"])
        title += "" if row["share"] is None else f", λ = {row['share']:g} H"
        cells = compared_cells(row, gaps, row["method"], row["data"])
        body.append([title, *cells, str(row["draws"])])
    return Grid(["method", *HEADER, "draws"], body)


def page(records: list[Record], link: str) -> str:
    """Write the page as Markdown; ``link`` is the folder of the records, relative to the page."""
    rows = _rows(records)
    lines = [
        "# Syn1 to Syn6 on fresh draws", "",
        "Mean ± standard deviation over draws of training rows, test rows and training seeds;",
        "published values in brackets. *Gap* is the AUROC of the true p(y | x) on the same rows",
        "less that of the method. Settings, draws and what counts as reached or failed were",
        "written down [before the run](protocol.md#fresh-draws). *H* is the loss of the best",
        f"constant prediction; λ = {DEFAULT_SHARE:g} *H* is the default of SUWR.",
    ]  # fmt: skip
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        limit = mean_sd([value for row in own[:1] for value in row["limit"]], 4)
        lines += ["", f"## {data}", "", f"AUROC of the true p(y | x): {limit}.", ""]
        lines.append(_grid(own).markdown())
    return "\n".join(lines)
