"""The paper's Table 2 with our numbers beside the published ones, and SUWR's whole λ path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suwr_experiments import choice
from suwr_experiments.benchmark_summary import Summary, chosen_shares, path_records, summarize
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.tables import LABELS, Grid, csv_text, mean_sd, write_text

__all__ = ["path_grid", "result_grid", "write_tables"]

Record = dict[str, Any]
_DIGITS = {"auroc": 4, "accuracy": 4, "tpr": 1, "fdr": 1, "cfsr": 1, "n_selected": 2}
_NAMES = {"auroc": "AUROC", "tpr": "TPR", "fdr": "FDR", "cfsr": "CFSR", "n_selected": "features"}


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """``table.md``, ``table.csv``, ``table.tex``, ``path.csv``."""
    summaries = summarize(records)
    data = list(dict.fromkeys(s.data for s in summaries))
    grids = {name: result_grid([s for s in summaries if s.data == name]) for name in data}
    paths = {name: path_grid(records, name) for name in data if path_records(records, name)}
    page = ["# Syn1 to Syn6", "", _INTRODUCTION]
    for name in data:
        page += ["", f"## {name}", ""]
        if name in LIMIT:
            page += [f"The true p(y | x) reaches AUROC {LIMIT[name]}.", ""]
        page.append(grids[name].markdown())
    page += ["", "## SUWR's λ path", "", _PATH_NOTE]
    for name, grid in paths.items():
        page += ["", f"### {name}", "", grid.markdown()]
    latex = [f"% {name}\n{grid.latex()}" for name, grid in grids.items()]
    return write_text(
        folder,
        {
            "table.md": "\n".join(page) + "\n",
            "table.csv": csv_text([_numbers(s) for s in summaries]),
            "table.tex": "\n\n".join(latex) + "\n",
            "path.csv": csv_text(_path_numbers(records, data)),
        },
    )


_INTRODUCTION = """\
Mean ± standard deviation over the seeds, on test rows by which no λ was chosen; published figures
of the paper's Table 2 in brackets. TPR, FDR and CFSR (how often x11 is selected) in percent. SUWR
may take all eleven steps and is not told how many features matter; L2X, CAE and GDFS are."""

_PATH_NOTE = (
    "λ as a share of the loss of the best constant prediction. The arrow marks the chosen one: "
    "the default, 0.01, unless another λ of the path has a mean validation loss that is lower by "
    "more than two standard errors of the difference"
    f" (with one seed: by {200 * choice.SINGLE_SEED_ERROR:g} % of the constant loss). "
    "Test figures played no part in it."
)


def result_grid(summaries: list[Summary]) -> Grid:
    """Methods in rows, measures in columns, published figures in brackets."""
    has_control = any(_is_branched(s.data) for s in summaries)
    measures = ["auroc", "tpr", "fdr", *(["cfsr"] if has_control else []), "n_selected"]
    rows = []
    for s in summaries:
        known = PUBLISHED.get(s.method, {}).get(s.data, {})
        row = [LABELS.get(s.method, s.method)]
        for name in measures:
            published = f" ({known[name]:g})" if name in known else ""
            row.append(mean_sd(s.values(name), _DIGITS[name]) + published)
        seconds = mean_sd(s.over_seeds(lambda r: r["fit_seconds"]), 0)
        rows.append([*row, str(len(s.records)), seconds, _verdict(s)])
    header = ["method", *(_NAMES[m] for m in measures), "seeds", "fit, s", "audit"]
    return Grid(header, rows)


def path_grid(records: list[Record], data: str) -> Grid:
    """SUWR at every λ: validation and test."""
    chosen = chosen_shares(records).get(data)
    rows = []
    for share, found in path_records(records, data).items():
        s = Summary(data, "SUWR", share, tuple(found))
        rows.append(
            [
                f"{'→ ' if share == chosen else ''}{share:g}",
                mean_sd(s.values("loss", "validation"), 4),
                mean_sd(s.values("n_selected", "validation"), 2),
                *(mean_sd(s.values(m), _DIGITS[m]) for m in ("auroc", "tpr", "fdr", "n_selected")),
                str(len(found)),
            ]
        )
    header = ["λ", "validation loss", "validation features", "AUROC", "TPR", "FDR", "features"]
    return Grid([*header, "seeds"], rows)


def _is_branched(data: str) -> bool:
    return int(data[3]) >= 4


def _verdict(summary: Summary) -> str:
    verdicts = [v["verdict"] for v in summary.over_seeds(lambda r: r["metrics"].get("audit")) if v]
    return ", ".join(sorted(set(verdicts))) or "–"


def _numbers(summary: Summary) -> dict[str, Any]:
    """Means and deviations as numbers."""
    row: dict[str, Any] = {
        "data": summary.data,
        "method": summary.method,
        "seeds": len(summary.records),
        "sparsity_share": summary.share,
    }
    known = PUBLISHED.get(summary.method, {}).get(summary.data, {})
    for name in _DIGITS:
        row |= _mean_and_deviation(name, summary.values(name))
        if name in known:
            row[f"{name}_published"] = known[name]
    return row


def _path_numbers(records: list[Record], data: list[str]) -> list[dict[str, Any]]:
    chosen = chosen_shares(records)
    rows = []
    for name in data:
        for share, found in path_records(records, name).items():
            s = Summary(name, "SUWR", share, tuple(found))
            row: dict[str, Any] = {
                "data": name, "sparsity_share": share, "chosen": share == chosen.get(name),
                "seeds": len(found),
            }  # fmt: skip
            for part in ("loss", "n_selected"):
                row |= _mean_and_deviation(f"validation_{part}", s.values(part, "validation"))
            for measure in _DIGITS:
                row |= _mean_and_deviation(measure, s.values(measure))
            rows.append(row)
    return rows


def _mean_and_deviation(name: str, values: list[float]) -> dict[str, Any]:
    import numpy as np

    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {name: round(float(np.mean(values)), 6), f"{name}_sd": deviation}
