"""What the teacher was chosen by: SUWR on development tables, with and without one.

    python benchmarks/training/teacher.py FOLDER [JOBS]

FOLDER holds the development tables as for ``encoding.py``. The training rows are 80 % of a table,
at most 1,000; draws of Syn4 have 1,000 training and 10,000 test rows. λ is 0.005 of the loss of the
best constant prediction. Results of the labels and of the default replace those in
``teacher.json.xz``, and ``teacher.md`` is written from all of them; without an argument, only the
page is written.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import encoding
import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json
from suwr import SUWRClassifier, SUWRRegressor
from suwr_experiments.synthetic import synthetic

OUT = Path(__file__).with_suffix(".json.xz")
MAX_TRAIN, SHARE = 1_000, 0.005
LABELS, DEFAULT = "labels", "default"
#: Variants; of those without a value of ``teacher``, only the record is left.
VARIANTS: dict[str, tuple[str, str | None]] = {
    LABELS: ("`teacher=None`", "none"),
    "lesson to the end": ("predictors are fine-tuned on the lesson", None),
    "labels at the end": ("predictors are fine-tuned on the labels, with the weight decay that "
                          "pretraining on them chose", None),
    "by whether they settled": ("'lesson to the end' if the loss on the labels had settled in "
                                "pretraining, 'labels at the end' otherwise", None),
    "without labels at first": ("no pretraining on the labels, the stack alone, 15 epochs, labels "
                                "at the end", None),
    DEFAULT: ("`teacher='auto'`, which is 'by whether they settled'", "auto"),
}  # fmt: skip
GROUPS = {
    "all": lambda r: True,
    "classes": lambda r: not r["regression"],
    "regression": lambda r: r["regression"],
}


def measure(folder: Path, case: dict[str, Any], variant: str) -> dict[str, Any]:
    """Loss on the test rows, relative to that of the best constant, cost and CPU seconds."""
    warnings.simplefilter("ignore")
    extra, seed = {}, case["split"]
    if case["table"] == "Syn4":
        train, test = synthetic(4, MAX_TRAIN, 9_000 + seed), synthetic(4, 10_000, 15_000 + seed)
        X, y, X_test, y_test = train.X, train.y, test.X, test.y
    else:
        encoding.MAX_TRAIN = MAX_TRAIN
        task = encoding.load(folder, case)
        X, y, X_test, y_test = task.X, task.y, task.X_test, task.y_test
    share = np.bincount(y) / len(y) if not case["regression"] else np.array([])
    share = share[share > 0]
    unit = float(np.var(y)) if case["regression"] else float(-(share * np.log(share)).sum())
    kind = SUWRRegressor if case["regression"] else SUWRClassifier
    teacher = None if variant == LABELS else "auto"
    start = time.process_time()
    model = kind(sparsity_weight=SHARE * unit, teacher=teacher, random_state=seed, verbose=0)
    model.fit(X, y)
    seconds = time.process_time() - start
    if case["regression"]:
        loss = float(np.mean((model.predict(X_test) - y_test) ** 2))
    else:
        probability = model.predict_proba(X_test)[np.arange(len(y_test)), y_test]
        loss = float(-np.log(np.maximum(probability, 1e-12)).mean())
    if case["table"] == "Syn4":
        chosen, relevant = model.select(X_test), test.relevant
        extra["fdr"] = float(((chosen & ~relevant).sum(1) / chosen.sum(1).clip(1)).mean())
    found = {"loss": loss / unit, "cost": float(model.cost(X_test).mean()), "seconds": seconds}
    return case | {"variant": variant} | found | extra


def page(record: dict[str, Any]) -> str:
    """All results as Markdown."""
    found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {variant: {} for variant in VARIANTS}
    for r in record["results"]:
        found[r["variant"]][r["table"], r["split"]] = r | {
            "objective": r["loss"] + SHARE * r["cost"]
        }
    reference = found[LABELS]
    lines = [
        "# Teacher",
        "",
        "Written by `benchmarks/training/teacher.py` from `teacher.json.xz`. SUWR at one λ, 0.005 "
        "of the loss of the best constant, on development tables with up to "
        f"{MAX_TRAIN:,} training rows and on draws of Syn4, one fit each; no table is one of "
        "[tables.md](../../docs/results/tables.md). Objective, loss and CPU time relative to those "
        "of the labels, as geometric means over splits with standard errors.",
        "",
        record["note"],
        "",
        "| variant | what it is | splits | objective | lower on | loss | CPU time | rows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for variant, (meaning, _) in VARIANTS.items():
        for group, belongs in GROUPS.items():
            at = [k for k, r in found[variant].items() if k in reference and belongs(r)]
            if variant == LABELS or len(at) < 2:
                continue
            cells = []
            for name in ("objective", "loss", "seconds"):
                ratio = np.log([found[variant][k][name] / reference[k][name] for k in at])
                error = ratio.std(ddof=1) / len(ratio) ** 0.5
                cells.append(f"{np.exp(ratio.mean()):.3f} ± {error:.3f}")
                if name == "objective":
                    cells.append(f"{(ratio < 0).sum()}")
            lines.append(f"| {variant} | {meaning} | {len(at)} | {' | '.join(cells)} | {group} |")
    lines += ["", "False discoveries on Syn4, and objective:", ""]
    for variant, own in found.items():
        draws = [r for r in own.values() if "fdr" in r]
        if draws:
            rate, objective = (np.mean([r[name] for r in draws]) for name in ("fdr", "objective"))
            lines.append(f"- {variant}: {rate:.0%}, {objective:.3f} ({len(draws)} draws)")
    return "\n".join(lines) + "\n"


def main() -> None:
    record = read_json(OUT)
    if sys.argv[1:]:
        folder, n_jobs = Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 1
        cases = {(r["table"], r["split"]): r for r in record["results"]}
        names = ("table", "split", "n_train", "regression")
        jobs = [
            delayed(measure)(folder, {name: r[name] for name in names}, variant)
            for r in cases.values()
            for variant in (LABELS, DEFAULT)
        ]
        kept = [r for r in record["results"] if r["variant"] not in (LABELS, DEFAULT)]
        record |= {"results": kept + Parallel(n_jobs)(jobs), "provenance": machine()}
        write_json(OUT, record)
    Path(__file__).with_suffix(".md").write_text(page(record))


if __name__ == "__main__":
    main()
