"""What the number of folds was chosen by: SUWR on development tables.

    python benchmarks/training/folds.py FOLDER [DEVICE]

FOLDER holds the development tables as for ``encoding.py``. The training rows are 80 % of a table,
at most 1,000, or 150 of these. Results of the default replace those in ``folds.json.xz``, and
``folds.md`` is written from all of them; without an argument, only the page is written.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import encoding
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json
from suwr_experiments.comparison import Curve
from suwr_experiments.config import Cell
from suwr_experiments.experiment import fit_alone
from suwr_experiments.tabular_experiment import TablesExperiment

OUT = Path(__file__).with_suffix(".json.xz")
MAX_TRAIN = 1_000
SHARES = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.12)
SEEDS = (0, 1)
REFERENCE, DEFAULT = "two folds", "default"
#: Variants; of all but the last, only the record is left.
VARIANTS = {
    REFERENCE: "two predictors per fold, trained on half of the rows each: the former default",
    "two folds, one layer": "`n_layers=1`",
    "two folds, two layers": "`n_layers=2`",
    "two folds, eight predictors": "`n_predictors=8`",
    "GDFS, two folds": "GDFS with the same predictors, 1 to 10 features; regression only",
    "four folds, large batches": "one predictor per fold, trained on the rows of one of the three "
    "other folds in each update; policy batches of 200 rows instead of 100",
    "the same, labels only": "without soft targets (`label_weight=1`)",
    "the same, eight predictors": "two predictors per fold",
    "four folds, all others": "one predictor per fold, trained on the rows of all three other "
    "folds in each update; policy batches of 100 rows",
    "the same, two layers": "`n_layers=2`",
    "default, ended together": "as the default, but the λ of a split are trained until the last of "
    "them has settled",
    "default, ended together, two layers": "`n_layers=2`",
    "four fits": "'default, ended together', the λ of four seeds in one stack",
    "four fits, means of policies": "decisions by the mean of the four policies, predictions by "
    "the predictors of each fit",
    "four fits, means of policies and predictors": "predictions by all 16 predictors",
    "default, large batches": "`batch_size=1000`: policy batches of all rows",
    "default, two layers in the policy": "three layers in the predictors",
    DEFAULT: "four folds, trained on one of the other folds in each update, policy batches of 100",
}
#: Changes of the actor on regression tables, compared with the default; only the record is left.
CHANGES = {
    "longer look-ahead": "the weight of the look-ahead decreases to 0 at the end of the phase",
    "bounded advantages": "advantages of the policy gradient beyond two root mean squares are cut",
    "longer look-ahead, bounded advantages": "both",
    "batches of 200": "`batch_size=200` instead of 100 or less",
    "longer look-ahead, batches of 200": "both",
}
#: Variants whose losses are shown for every split.
SHOWN = (REFERENCE, "GDFS, two folds", DEFAULT)
GROUPS = {
    "all": lambda case: True,
    "classes": lambda case: not case["regression"],
    "regression": lambda case: case["regression"],
}


def measure(folder: Path, case: dict[str, Any], seed: int, device: str) -> dict[str, Any]:
    """Points of the default, and the mean loss over 2 to 10 features."""
    encoding.MAX_TRAIN = MAX_TRAIN
    task = encoding.load(folder, case)
    cells = [Cell("tables", case["table"], "SUWR", seed, sparsity_share=s) for s in SHARES]
    models = [fit_alone(cell, task, device)[0] for cell in cells]
    found = [
        TablesExperiment().measure(cell, model, task)
        for cell, model in zip(cells, models, strict=True)
    ]
    cost = [0.0, *(f["curves"]["path"]["cost"][0] for f in found)]
    loss = [found[0]["constant"]["loss"], *(f["curves"]["path"]["loss"][0] for f in found)]
    mean = float(Curve.of(cost, loss).mean(2, min(10, task.X.shape[1])))
    return {
        "case": case, "variant": DEFAULT, "seed": seed, "mean_loss": mean,
        "points": [*zip(cost, loss, strict=True)], "provenance": machine(),
    }  # fmt: skip


def where(case: dict[str, Any]) -> tuple[str, int]:
    """Table and number of training rows of a case."""
    return case["table"], case["n_train"] or MAX_TRAIN


def page(results: list[dict[str, Any]], note: str) -> str:
    """All results as Markdown."""
    found: dict[str, dict[tuple[str, int], list[float]]] = {variant: {} for variant in VARIANTS}
    for r in results:
        found[r["variant"]].setdefault(where(r["case"]), []).append(np.log(r["mean_loss"]))
    cases = {where(r["case"]): r["case"] for r in results}
    lines = [
        "# Number of folds",
        "",
        "Written by `benchmarks/training/folds.py` from `folds.json.xz`. "
        "SUWR with seven λ on splits "
        f"of development tables with 150 or up to {MAX_TRAIN:,} training rows, none of which is a "
        "table of [tables.md](../../docs/results/tables.md): the mean loss over 2 to 10 features "
        f"relative to that of '{REFERENCE}', as a geometric mean over splits with its standard "
        "error. Losses of several seeds are averaged first.",
        "",
        note,
        "",
        f"| variant | what differs | seeds | {' | '.join(GROUPS)} |",
        "| --- | --- | --- |" + " --- |" * len(GROUPS),
    ]
    reference = {at: np.mean(losses) for at, losses in found[REFERENCE].items()}
    for variant, meaning in VARIANTS.items():
        own, cells = found[variant], []
        for belongs in GROUPS.values():
            ratio = np.array([np.mean(own[at]) - reference[at] for at in own if belongs(cases[at])])
            if len(ratio) < 2 or variant == REFERENCE:
                cells.append("–")
                continue
            error = ratio.std(ddof=1) / len(ratio) ** 0.5
            cells.append(
                f"{np.exp(ratio.mean()):.3f} ± {error:.3f}, lower on {(ratio < 0).sum()} of "
                f"{len(ratio)}"
            )
        n_seeds = max((len(losses) for losses in own.values()), default=0)
        lines.append(f"| {variant} | {meaning} | {n_seeds or '–'} | {' | '.join(cells)} |")
    spread = [
        f"{variant} {np.mean([np.var(s, ddof=1) for s in several]) ** 0.5:.3f} ({len(several)} "
        "splits)"
        for variant, own in found.items()
        if (several := [losses for losses in own.values() if len(losses) > 1])
    ]
    lines += [
        "",
        "Standard deviation of the logarithm of the mean loss over seeds of one split: "
        + "; ".join(spread)
        + ".",
        "",
        "Mean loss:",
        "",
        f"| table | rows | {' | '.join(SHOWN)} |",
        "| --- " * (2 + len(SHOWN)) + "|",
    ]
    for table, n in sorted(cases):
        values = [
            f"{np.exp(np.mean(found[variant][table, n])):.4g}"
            if (table, n) in found[variant]
            else "–"
            for variant in SHOWN
        ]
        lines.append(f"| {table} | {n:,} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def changes_page(record: dict[str, Any]) -> str:
    """Changes of the actor that were not adopted, as Markdown."""
    found: dict[str, dict[tuple[str, int], float]] = {}
    for r in record["regression"]:
        found.setdefault(r["variant"], {})[r["table"], r["seed"]] = np.log(r["mean_loss"])
    about, reference = record["regression_provenance"], found.pop(DEFAULT)
    tables = sorted({table for table, _ in reference})
    lines = [
        "",
        "## Changes of the actor on regression tables",
        "",
        f"None was adopted. One split of {len(tables)} development tables with at most "
        f"{MAX_TRAIN:,} training rows, up to two seeds each: the mean loss relative to that of the "
        "default with the same seeds. Tables of many rows were cut to other rows than above. "
        f"{about['device']}, {about['date']}, commit {about['commit']} with the change.",
        "",
        "| change | what differs | mean loss | lower on |",
        "| --- | --- | --- | --- |",
    ]
    for change, meaning in CHANGES.items():
        own = found[change]
        ratio = np.array([
            np.mean([own[at] - reference[at] for at in own if at[0] == t and at in reference])
            for t in tables
        ])  # fmt: skip
        error = ratio.std(ddof=1) / len(ratio) ** 0.5
        lines.append(
            f"| {change} | {meaning} | {np.exp(ratio.mean()):.3f} ± {error:.3f} "
            f"| {(ratio < 0).sum()} of {len(ratio)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    record = read_json(OUT)
    warnings.simplefilter("ignore")
    if sys.argv[1:]:
        device = sys.argv[2] if sys.argv[2:] else "cpu"
        record["results"] = [r for r in record["results"] if r["variant"] != DEFAULT]
        cases = {where(r["case"]): r["case"] for r in record["results"]}
        for case in cases.values():
            for seed in SEEDS:
                record["results"].append(measure(Path(sys.argv[1]), case, seed, device))
                write_json(OUT, record)
    Path(__file__).with_suffix(".md").write_text(
        page(record["results"], record["note"]) + changes_page(record)
    )


if __name__ == "__main__":
    main()
