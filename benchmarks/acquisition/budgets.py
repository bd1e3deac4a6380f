"""Hard budgets: SUWR trained for budgets, and cut off, beside GDFS, at each number of units.

    python benchmarks/acquisition/budgets.py --tables ../shared/tables

Log loss on held-out rows of the tables of the folder and of breast cancer. Results are added to
budgets.json table by table; budgets.md is written from all of them. Default settings, except for a
λ of 0.2 % of the entropy of the classes, with which rows use up their budgets where that helps.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.baselines import GDFSClassifier

HERE = Path(__file__).parent
RESULTS = HERE / "budgets.json"
# Rows beyond these numbers are left out, for the time of the run.
TRAIN_ROWS, TEST_ROWS = 1_000, 1_000
MAX_BUDGET, RELATIVE_WEIGHT = 10, 0.002
METHODS = {
    "budgets": "SUWR, max_cost=(1, 10)",
    "budgets, exactly": "the same, exactly",
    "cut off": "SUWR, cut off",
    "cut off, exactly": "the same, exactly",
    "GDFS": "GDFS",
}


def read(name: str, folder: Path) -> tuple[pd.DataFrame, Any]:
    """Columns and classes of a table."""
    if name == "cancer":
        return load_breast_cancer(return_X_y=True, as_frame=True)
    table = pd.read_csv(folder / f"{name}.csv")
    target = table.pop("Outcome")
    return table, target.to_numpy()


def log_loss(model: Any, y: Any, probability: Any) -> float:
    """Mean negative log-likelihood."""
    place = np.searchsorted(model.classes_, y)
    return float(-np.log(np.maximum(probability[np.arange(len(y)), place], 1e-7)).mean())


def measure(name: str, folder: Path, split: int) -> dict[str, Any]:
    """Losses of all methods at every budget."""
    X, y = read(name, folder)
    train, test, y_train, y_test = train_test_split(
        X, y, train_size=min(TRAIN_ROWS, int(0.7 * len(X))), random_state=split, stratify=y
    )
    test, y_test = test[:TEST_ROWS], y_test[:TEST_ROWS]
    share = np.unique(y_train, return_counts=True)[1] / len(y_train)
    weight = RELATIVE_WEIGHT * float(-(share * np.log(share)).sum())
    largest = min(MAX_BUDGET, X.shape[1])
    budgets = range(1, largest + 1)
    losses, seconds = {}, {}
    for key, parameters in (("budgets", {"max_cost": (1, largest)}), ("cut off", {})):
        start = time.process_time()
        model = SUWRClassifier(
            sparsity_weight=weight, max_steps=largest, random_state=split, verbose=0, **parameters
        ).fit(train, y_train)
        seconds[key] = time.process_time() - start
        losses[key] = [
            log_loss(model, y_test, model.predict_proba(test, max_cost=k)) for k in budgets
        ]
        losses[f"{key}, exactly"] = [
            log_loss(model, y_test, model.predict_proba(test, exactly=k)) for k in budgets
        ]
    start = time.process_time()
    gdfs = GDFSClassifier(max_steps=largest, random_state=split).fit(train, y_train)
    seconds["GDFS"] = time.process_time() - start
    steps = gdfs.predict_steps(test)
    losses["GDFS"] = [log_loss(gdfs, y_test, steps[:, k]) for k in budgets]
    return {
        "table": name, "split": split, "rows": len(train), "columns": X.shape[1],
        "test_rows": len(test), "losses": losses, "cpu_seconds": seconds, "run": machine(),
    }  # fmt: skip


def page(records: list[dict[str, Any]]) -> str:
    """Mean losses over the budgets, and the share of budgets at which SUWR is ahead of GDFS."""
    splits = sorted({r["split"] for r in records})
    lines = [
        "# Hard budgets",
        "",
        f"Log loss on held-out rows, mean over the budgets of 1 to {MAX_BUDGET} units (and over "
        f"{len(splits)} split{'s' * (len(splits) > 1)}). At most {TRAIN_ROWS:,} training and "
        f"{TEST_ROWS:,} test rows. 'SUWR, cut off' is not trained for budgets; GDFS is trained for "
        "every number of units. Default settings, λ = 0.2 % of the entropy of the classes. The "
        "last column counts the budgets at which the model for budgets has a lower loss than GDFS.",
        "",
        f"| table | rows | columns | {' | '.join(METHODS.values())} | ahead of GDFS |",
        f"| --- | --- | --- |{' --- |' * len(METHODS)} --- |",
    ]
    for name in dict.fromkeys(r["table"] for r in records):
        own = [r for r in records if r["table"] == name]
        curves = {key: np.mean([r["losses"][key] for r in own], axis=0) for key in METHODS}
        means = [float(curve.mean()) for curve in curves.values()]
        best = min(means)
        shown = " | ".join(f"**{m:.4f}**" if m == best else f"{m:.4f}" for m in means)
        ahead = int((curves["budgets"] < curves["GDFS"]).sum())
        lines.append(
            f"| {name} | {own[0]['rows']:,} | {own[0]['columns']} | {shown} "
            f"| {ahead} of {len(curves['GDFS'])} |"
        )
    by_budget = ["", "At each budget, the mean over the tables of the loss relative to GDFS:", ""]
    by_budget += [
        f"| units | {' | '.join(METHODS.values())} |",
        "| --- |" + " --- |" * len(METHODS),
    ]
    for k in range(MAX_BUDGET):
        long = [r for r in records if len(r["losses"]["GDFS"]) > k]
        ratios = [
            np.mean([r["losses"][key][k] / r["losses"]["GDFS"][k] for r in long]) for key in METHODS
        ]
        by_budget.append(f"| {k + 1} | {' | '.join(f'{ratio:.3f}' for ratio in ratios)} |")
    runs = sorted({(r["run"]["commit"], r["run"]["date"], r["run"]["machine"]) for r in records})
    made = [f"commit {commit}, {date}, {machine}" for commit, date, machine in runs]
    command = "python benchmarks/acquisition/budgets.py --tables ../shared/tables"
    return "\n".join([*lines, *by_budget, "", f"Made by `{command}`: {'; '.join(made)}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tables; all of the folder, and 'cancer'")
    parser.add_argument("--tables", type=Path, default=Path("shared/tables"))
    parser.add_argument("--table", action="store_true", help="only write the page again")
    parser.add_argument("--splits", type=int, nargs="*", default=[0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = options.names or ["cancer", *sorted(p.stem for p in options.tables.glob("*.csv"))]
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"records": []}
    if options.table:
        (HERE / "budgets.md").write_text(page(record["records"]))
        return
    for split in options.splits:
        for name in names:
            found = measure(name, options.tables, split)
            record["records"] = [
                r for r in record["records"] if (r["table"], r["split"]) != (name, split)
            ] + [found]
            write_json(RESULTS, record)
            (HERE / "budgets.md").write_text(page(record["records"]))
            print(name, {k: round(float(np.mean(v)), 4) for k, v in found["losses"].items()})


if __name__ == "__main__":
    main()
