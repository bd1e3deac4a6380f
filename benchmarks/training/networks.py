"""Width and number of layers of the networks for few rows: SUWR on development tables and on Syn4.

    python benchmarks/training/networks.py FOLDER [JOBS]
    python benchmarks/training/networks.py    # only write the page from the JSON

FOLDER holds the development tables as for ``encoding.py``. The splits of the tables and the draws
of Syn4 are those of ``folds.py`` and ``sizes.py``. Every fit takes one core. Finished fits are not
repeated.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import encoding
import numpy as np
import sizes
import torch
from folds import GROUPS, MAX_TRAIN
from folds import OUT as FOLDS
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json
from suwr import SUWRClassifier
from suwr_experiments.config import Cell
from suwr_experiments.experiment import fit_alone
from suwr_experiments.synthetic import selection_metrics
from suwr_experiments.tabular_experiment import TablesExperiment

OUT = Path(__file__).with_suffix(".json.xz")
SHARE = 0.005
SYN = "Syn4, 1,000 rows"
#: The first is the reference, which was fitted to most splits; the second is the default.
VARIANTS: dict[str, dict[str, Any]] = {
    "2 layers of 128": {"training": {"hidden_size": 128, "n_layers": 2}},
    "3 layers of 128": {"training": {"hidden_size": 128, "n_layers": 3}},
    "2 layers of 64": {"training": {"hidden_size": 64, "n_layers": 2}},
    "2 layers of 64, at most 100 epochs": {
        "training": {"hidden_size": 64, "n_layers": 2}, "max_epochs": 100,
    },
    "3 layers of 256": {"training": {"hidden_size": 256, "n_layers": 3}},
}  # fmt: skip
#: Variants that were not fitted to tables.
SYN_ONLY = ("3 layers of 256",)


def fit_table(folder: Path, case: dict[str, Any], variant: str) -> dict[str, Any]:
    """Test loss and mean number of features on a split of a table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    encoding.MAX_TRAIN = MAX_TRAIN
    task, params = encoding.load(folder, case), VARIANTS[variant]
    cell = Cell("tables", case["table"], "SUWR", 0, sparsity_share=SHARE, params=params)
    model, _ = fit_alone(cell, task)
    curve = TablesExperiment().measure(cell, model, task)["curves"]["path"]
    return {
        "case": case, "variant": variant, "loss": curve["loss"][0], "cost": curve["cost"][0],
        "about": machine(),
    }  # fmt: skip


def fit_syn(draw: int, variant: str) -> dict[str, Any]:
    """AUROC and selection metrics on a draw of Syn4."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    n_rows, make = sizes.CASES[SYN]
    train, test = make(n_rows, 60_000 + draw), make(sizes.N_TEST, 70_000 + draw)
    begun = time.process_time()
    model = SUWRClassifier(random_state=draw, device="cpu", **VARIANTS[variant])
    model.fit(train.X, train.y)
    seconds = time.process_time() - begun
    return {
        "draw": draw,
        "variant": variant,
        "auroc": float(roc_auc_score(test.y, model.predict_proba(test.X)[:, 1])),
        **selection_metrics(model.select(test.X), test.relevant),
        "cpu_seconds": round(seconds, 1),
        "about": machine(),
    }


def where(fit: dict[str, Any]) -> tuple[str, int | None]:
    """Table and number of training rows of a fit."""
    return fit["case"]["table"], fit["case"]["n_train"]


def page(record: dict[str, Any]) -> str:
    """All fits as Markdown."""
    reference, *others = VARIANTS
    found: dict[str, dict[Any, dict[str, Any]]] = {variant: {} for variant in VARIANTS}
    for fit in record["tables"]:
        found[fit["variant"]][where(fit)] = fit
    lines = [
        "# Width and number of layers",
        "",
        "Written by `benchmarks/training/networks.py` from `networks.json.xz`. "
        "SUWR with λ = "
        f"{SHARE} of the constant's loss on splits of development tables with 150 or up to "
        f"{MAX_TRAIN:,} training rows: the test loss relative to that of '{reference}', as a "
        "geometric mean over splits with its standard error, and the mean difference in features. "
        "One fit each. The default has three layers of 128.",
        "",
        record["note"],
        "",
        f"| networks | {' | '.join(GROUPS)} | features |",
        "| --- |" + " --- |" * (len(GROUPS) + 1),
    ]
    for variant in (v for v in others if v not in SYN_ONLY):
        pairs = [
            (found[variant][at], found[reference][at])
            for at in found[variant]
            if at in found[reference]
        ]
        cells = []
        for belongs in GROUPS.values():
            ratio = np.array([
                np.log(a["loss"] / b["loss"]) for a, b in pairs if belongs(a["case"])
            ])  # fmt: skip
            error = ratio.std(ddof=1) / len(ratio) ** 0.5
            cells.append(
                f"{np.exp(ratio.mean()):.3f} ± {error:.3f}, lower on {(ratio < 0).sum()} of "
                f"{len(ratio)}"
            )
        features = np.mean([a["cost"] - b["cost"] for a, b in pairs])
        lines.append(f"| {variant} | {' | '.join(cells)} | {features:+.2f} |")
    lines += [
        "",
        f"{SYN}, λ = 0.01 of the constant's loss, 10,000 test rows, the same draws for all:",
        "",
        "| networks | draws | AUROC, mean | of each draw | TPR | FDR | features | CPU seconds |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for variant in VARIANTS:
        own = sorted((f for f in record["syn"] if f["variant"] == variant), key=lambda f: f["draw"])
        if own:
            mean = {
                name: np.mean([f[name] for f in own])
                for name in ("auroc", "tpr", "fdr", "n_selected", "cpu_seconds")
            }
            lines.append(
                f"| {variant} | {len(own)} | {mean['auroc']:.3f} "
                f"| {', '.join(format(f['auroc'], '.3f') for f in own)} | {mean['tpr']:.0f} "
                f"| {mean['fdr']:.0f} | {mean['n_selected']:.1f} | {mean['cpu_seconds']:.0f} |"
            )
    shown = [variant for variant in VARIANTS if variant not in SYN_ONLY]
    lines += [
        "",
        "Test loss of each split:",
        "",
        f"| table | rows | {' | '.join(shown)} |",
        "| --- | ---: |" + " ---: |" * len(shown),
    ]
    for table, n in sorted(found[reference], key=lambda at: (at[0], at[1] or MAX_TRAIN)):
        losses = [
            f"{found[v][table, n]['loss']:.4g}" if (table, n) in found[v] else "–" for v in shown
        ]
        lines.append(f"| {table} | {n or f'up to {MAX_TRAIN:,}'} | {' | '.join(losses)} |")
    fits = record["tables"] + record["syn"]
    machines = sorted({f"{f['about']['machine']}, {f['about']['date']}" for f in fits})
    commits = sorted({f["about"]["commit"] for f in fits})
    return "\n".join([
        *lines, "", f"Machine: {'; '.join(machines)}. Commits: {', '.join(commits)}.", "",
    ])  # fmt: skip


def main() -> None:
    """Run the fits that are missing, and write the page."""
    record = read_json(OUT)
    if sys.argv[1:]:
        jobs = int(sys.argv[2]) if sys.argv[2:] else -1
        known = {where(r): r["case"] for r in read_json(FOLDS)["results"]}
        done = {(where(f), f["variant"]) for f in record["tables"]}
        drawn = {(f["draw"], f["variant"]) for f in record["syn"]}
        tasks = [
            ("tables", delayed(fit_table)(Path(sys.argv[1]), case, variant))
            for at, case in known.items() for variant in VARIANTS
            if (at, variant) not in done and variant not in SYN_ONLY
        ] + [
            ("syn", delayed(fit_syn)(draw, variant))
            for draw in range(sizes.N_DRAWS) for variant in VARIANTS
            if (draw, variant) not in drawn
        ]  # fmt: skip
        run = Parallel(jobs, return_as="generator")(task for _, task in tasks)
        for (part, _), fit in zip(tasks, run, strict=True):
            record[part].append(fit)
            write_json(OUT, record)
            print(fit)
    Path(__file__).with_suffix(".md").write_text(page(record))


if __name__ == "__main__":
    main()
