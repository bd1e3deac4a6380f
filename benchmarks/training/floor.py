"""Quality of single fits on a CPU: Syn4 and Syn5, three seeds, four predictors.

    python benchmarks/training/floor.py            # twenty minutes on two cores
    python benchmarks/training/floor.py --table    # only write the table from the JSON

Training rows of seed 0, test rows of seed 100, at most 11 steps. λ is the one chosen on validation
rows in benchmarks/synthetic. Every fit runs in a process of its own on one core, two at a time;
finished fits are not repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

HERE = Path(__file__).parent
SYNTHETIC = HERE.parent / "synthetic"
DATA = ("Syn4", "Syn5")
SEEDS = (0, 1, 2)


def cell(data: str, seed: int) -> dict[str, Any]:
    """Fit one model and score the test rows."""
    import torch
    from sklearn.metrics import roc_auc_score

    from suwr import SUWRClassifier
    from suwr_experiments.experiment import Task, constant_loss
    from suwr_experiments.records import RecordStore
    from suwr_experiments.synthetic import selection_metrics, synthetic
    from suwr_experiments.synthetic_results import chosen_shares

    torch.set_num_threads(1)
    share = chosen_shares(RecordStore(SYNTHETIC).records())[data]
    train, test = (synthetic(int(data[-1]), seed=s) for s in (0, 100))
    weight = share * constant_loss(Task(train.X, train.y, test.X, test.y))
    model = SUWRClassifier(
        max_steps=11,
        sparsity_weight=weight,
        training={"n_predictors": 4},
        random_state=seed,
        device="cpu",
    )
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(train.X, train.y)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "data": data,
        "seed": seed,
        "share": share,
        "auroc": float(roc_auc_score(test.y, model.predict_proba(test.X)[:, 1])),
        **selection_metrics(model.select(test.X), test.relevant),
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
    }


def table(stored: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about = stored["about"]
    lines = [
        "# Quality of a fit",
        "",
        f"Four predictors, one core per fit, two fits at a time ({about['machine']}, "
        f"{about['date']}). λ, relative to the loss of the best constant prediction, is chosen on "
        "validation rows.",
        "",
        "| data | λ | seed | AUROC | CFSR | FDR | TPR | features | minutes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for c in stored["cells"]:
        lines.append(
            f"| {c['data']} | {c['share']:g} | {c['seed']} | {c['auroc']:.4f} "
            f"| {c['cfsr']:.1f} | {c['fdr']:.1f} | {c['tpr']:.1f} | {c['n_selected']:.2f} "
            f"| {c['seconds'] / 60:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    path = HERE / "floor.json"
    stored = json.loads(path.read_text()) if path.exists() else {"cells": []}
    if len(sys.argv) == 4:
        print(json.dumps(cell(sys.argv[2], int(sys.argv[3]))))
        return
    if "--table" not in sys.argv:
        stored["about"] = machine()
        known = {(c["data"], c["seed"]) for c in stored["cells"]}

        def run(data: str, seed: int) -> None:
            command = [sys.executable, __file__, "--cell", data, str(seed)]
            env = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
            stored["cells"].append(json.loads(done.stdout))
            stored["cells"].sort(key=lambda c: (c["data"], c["seed"]))
            write_json(path, stored)
            print(data, seed, "done", flush=True)

        todo = [(data, seed) for seed in SEEDS for data in DATA if (data, seed) not in known]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda wanted: run(*wanted), todo))
    (HERE / "floor.md").write_text(table(stored))
    print(table(stored))


if __name__ == "__main__":
    main()
