"""What the default encoding of numbers was chosen by: SUWR on development tables, with bins.

    python benchmarks/training/encoding.py FOLDER [VARIANT ...]

FOLDER holds the development tables of docs/results/protocol.md as CSV files of at most 4,000 rows;
their last column, ``Outcome``, is the target. The training rows are 80 % of a table, at most 2,000,
or ``n_train`` of these; the test rows are at most 2,000 others. Results replace those of the same
split and variant in ``encoding.json.xz``, and ``encoding.md`` is written from all of them; without
arguments, only the page is written. Tables of many rows are not fitted again: by default, their
models have no bins.
"""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json
from suwr_experiments.comparison import Curve
from suwr_experiments.config import Cell
from suwr_experiments.experiment import Task, fit_alone
from suwr_experiments.tabular_experiment import TablesExperiment

OUT = Path(__file__).with_suffix(".json.xz")
MAX_TRAIN, MAX_TEST = 2_000, 2_000
# λ relative to the loss of the best constant prediction, and fits for each.
SHARES, N_SEEDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.12), 2
#: Settings of ``training`` by variant, None where only the record is left; the first is the
#: reference, and the last the default.
VARIANTS: dict[str, dict[str, Any] | None] = {
    "no bins": {"n_bins": 0},
    "16 bins, all networks": {"n_bins": 16},
    "16 bins, every second predictor": None,
    "8 bins, every second predictor": {},
}
GROUPS = {
    "up to 2,000 training rows": lambda r: r["n_train"] is None and not r["many"],
    "150 training rows": lambda r: r["n_train"] is not None,
    "both": lambda r: not r["many"],
    "6,000 to 10,000 training rows": lambda r: r["many"],
}


def load(folder: Path, case: dict[str, Any]) -> Task:
    """Training and test rows of a split of a table."""
    import pandas as pd

    table = pd.read_csv(folder / f"{case['table']}.csv")
    target = table.pop("Outcome").to_numpy()
    kind = "Regressor" if case["regression"] else "Classifier"
    if not case["regression"]:
        target = np.unique(target, return_inverse=True)[1]
    order = list(range(len(target)))
    random.Random(100 + case["split"]).shuffle(order)
    cut = min(MAX_TRAIN, int(0.8 * len(target)))
    train, test = order[:cut], order[cut : cut + MAX_TEST]
    train = train[: case["n_train"]]
    X, X_test = (table.iloc[rows].reset_index(drop=True) for rows in (train, test))
    return Task(X, target[train], X_test, target[test], kind)


def measure(folder: Path, case: dict[str, Any], variant: str) -> dict[str, Any]:
    """Points of each seed, and the mean loss over 2 to 10 features."""
    task, areas, points = load(folder, case), [], []
    for seed in range(N_SEEDS):
        cost, loss = [0.0], []
        for share in SHARES:
            params = {"training": VARIANTS[variant]}
            cell = Cell("tables", case["table"], "SUWR", seed, sparsity_share=share, params=params)
            found = TablesExperiment().measure(cell, fit_alone(cell, task)[0], task)
            loss = loss or [found["constant"]["loss"]]
            cost += found["curves"]["path"]["cost"]
            loss += found["curves"]["path"]["loss"]
        areas.append(float(Curve.of(cost, loss).mean(2, min(10, task.X.shape[1]))))
        points.append([*zip(cost, loss, strict=True)])
    return case | {"variant": variant, "mean_loss": areas, "points": points}


def key(result: dict[str, Any]) -> tuple[str, bool, int, int]:
    """What results of several variants have in common."""
    return result["table"], result["many"], result["split"], result["n_train"] or 0


def page(results: list[dict[str, Any]], note: str) -> str:
    """All results as Markdown."""
    found: dict[str, dict[Any, dict[str, Any]]] = {variant: {} for variant in VARIANTS}
    for result in results:
        found[result["variant"]][key(result)] = result
    reference, *variants = VARIANTS
    lines = [
        "# Encoding of numbers in bins",
        "",
        "Written by `benchmarks/training/encoding.py` from `encoding.json.xz`. "
        "SUWR on splits of "
        "development tables, none of which is a table of "
        "[tables.md](../../docs/results/tables.md): the mean loss over 2 to 10 features "
        f"relative to that of '{reference}', as a geometric mean over splits with its standard "
        "error. With bins in every second predictor, the policy reads none.",
        "",
        note,
        "",
        "| splits | variant | number | mean loss | lower on |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, belongs in GROUPS.items():
        for variant in variants:
            own, other = found[variant], found[reference]
            pairs = [(own[k], other[k]) for k in own if k in other and belongs(own[k])]
            if pairs:
                losses = [[np.mean(r["mean_loss"]) for r in pair] for pair in pairs]
                ratio = np.log([new / old for new, old in losses])
                error = ratio.std() / len(ratio) ** 0.5
                lines.append(
                    f"| {name} | {variant} | {len(ratio)} | {np.exp(ratio.mean()):.3f} ± "
                    f"{error:.3f} | {(ratio < 0).sum()} |"
                )
    lines += ["", "Mean loss:", "", f"| table | split | rows | {' | '.join(VARIANTS)} |"]
    lines.append("| --- " * (3 + len(VARIANTS)) + "|")
    for where in sorted(found[reference]):
        cells = [
            f"{np.mean(found[v][where]['mean_loss']):.4g}" if where in found[v] else "–"
            for v in VARIANTS
        ]
        table, many, split, n_train = where
        rows = "80 %" if many else n_train or f"up to {MAX_TRAIN:,}"
        lines.append(f"| {table} | {split} | {rows} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    record = read_json(OUT)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    reference, *_ = VARIANTS
    results = {(key(r), r["variant"]): r for r in record["results"]}
    cases = [
        {name: r[name] for name in ("table", "split", "n_train", "regression", "many")}
        for r in record["results"]
        if r["variant"] == reference and not r["many"]
    ]
    known = [name for name, settings in VARIANTS.items() if settings is not None]
    for variant in (sys.argv[2:] or known) if sys.argv[1:] else []:
        for case in cases:
            result = measure(Path(sys.argv[1]), case, variant)
            results[key(case), variant] = result | {"provenance": machine()}
            write_json(OUT, record | {"results": list(results.values())})
            print(result)
    Path(__file__).with_suffix(".md").write_text(page(list(results.values()), record["note"]))


if __name__ == "__main__":
    main()
