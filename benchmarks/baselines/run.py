"""Every method on Syn1 to Syn6 with the paper's hyper-parameters, beside the paper's Table 2.

    python benchmarks/baselines/run.py                          # hours on two cores
    python benchmarks/baselines/run.py --data 4 --methods L2X   # some of it
    python benchmarks/baselines/run.py --table                  # only remake the table

Every fit runs in a process of its own on one core; seconds are CPU seconds of that process.
Training rows have seed 0, test rows seed 100; the seed of a cell is that of the training. A
finished cell is never repeated. ``--epochs`` and ``--rows`` make a small trial, which is written
to the folder that ``--out`` names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

HERE = Path(__file__).parent
METHODS = ("AllFeatures", "Oracle", "L2X", "INVASE", "REALX", "TabNet", "CAE", "GDFS", "DIME")
# The paper's Table 2: CFSR (from Syn4 on), TPR, FDR, AUROC.
PAPER: dict[str, dict[int, tuple[float | None, float, float, float]]] = {
    "L2X": {
        1: (None, 33.2, 33.6, 0.675), 2: (None, 44.6, 55.4, 0.872), 3: (None, 66.0, 34.0, 0.889),
        4: (56.5, 79.2, 34.7, 0.781), 5: (51.0, 71.9, 43.6, 0.788), 6: (34.0, 80.1, 19.9, 0.876),
    },
    "INVASE": {
        1: (None, 100.0, 0.0, 0.692), 2: (None, 100.0, 0.0, 0.873), 3: (None, 95.0, 0.0, 0.883),
        4: (56.0, 91.0, 10.2, 0.792), 5: (40.7, 76.0, 2.2, 0.780), 6: (60.7, 89.4, 7.0, 0.877),
    },
    "TabNet": {
        1: (None, 86.4, 57.9, 0.667), 2: (None, 98.7, 5.6, 0.885), 3: (None, 96.6, 9.7, 0.903),
        4: (99.7, 91.5, 29.5, 0.789), 5: (98.9, 92.5, 36.2, 0.791), 6: (100.0, 97.5, 23.6, 0.870),
    },
    "REALX": {
        1: (None, 100.0, 24.2, 0.661), 2: (None, 100.0, 20.0, 0.794),
        3: (None, 100.0, 7.94, 0.873), 4: (100.0, 99.9, 41.9, 0.748),
        5: (100.0, 99.8, 52.4, 0.774), 6: (100.0, 97.2, 8.27, 0.842),
    },
}  # fmt: skip


def cell(number: int, seed: int, method: str, epochs: int | None, n_rows: int) -> dict[str, Any]:
    """One fit and its figures on the test rows."""
    import torch
    from sklearn.metrics import accuracy_score, roc_auc_score

    from suwr import baselines
    from suwr.experiments.synthetic import relevant_columns, selection_metrics, synthetic

    torch.set_num_threads(1)
    train, test = (synthetic(number, n_rows=n_rows, seed=s) for s in (0, 100))
    params = baselines.presets.preset(f"syn{number}", method)
    if epochs is not None:
        params["max_epochs"] = epochs
    told = {"relevant": partial(relevant_columns, number)} if method == "Oracle" else {}
    kind = getattr(baselines, f"{method}Classifier")
    start = time.process_time()
    model = kind(**params, **told, random_state=seed, device="cpu").fit(train.X, train.y)
    seconds = time.process_time() - start
    probability = model.predict_proba(test.X)[:, 1]
    masks = model.select(test.X)
    return {
        "data": f"Syn{number}",
        "seed": seed,
        "method": method,
        "params": params,
        "auroc": float(roc_auc_score(test.y, probability)),
        "accuracy": float(accuracy_score(test.y, probability > 0.5)),
        **selection_metrics(masks, test.relevant),
        "fit_seconds": round(seconds, 1),
    }


def table(cells: list[dict[str, Any]]) -> str:
    """The Markdown page."""
    import numpy as np

    lines = [
        "# Baselines on Syn1 to Syn6",
        "",
        "Mean ± standard deviation over seeds on the test rows; the paper's figure (Table 2) is",
        "in brackets where it has one. TPR, FDR and CFSR are in percent.",
        "",
        "| data | method | seeds | AUROC | TPR | FDR | CFSR | features | fit |",
        "| --- | --- | ---: | --- | --- | --- | --- | ---: | ---: |",
    ]
    for data in sorted({c["data"] for c in cells}):
        number = int(data[3:])
        for method in METHODS:
            some = [c for c in cells if c["data"] == data and c["method"] == method]
            if not some:
                continue
            paper = PAPER.get(method, {}).get(number)

            def shown(key: str, place: int, digits: int, some=some, paper=paper) -> str:
                values = [c[key] for c in some]
                text = f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"
                known = None if paper is None else paper[place]
                return text if known is None else f"{text} ({known:g})"

            control = shown("cfsr", 0, 1) if number >= 4 else "–"
            lines.append(
                f"| {data} | {method} | {len(some)} | {shown('auroc', 3, 4)} | "
                f"{shown('tpr', 1, 1)} | {shown('fdr', 2, 1)} | {control} | "
                f"{np.mean([c['n_selected'] for c in some]):.2f} | "
                f"{np.median([c['fit_seconds'] for c in some]):.0f} s |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", nargs=3, metavar=("DATA", "SEED", "METHOD"))
    parser.add_argument("--data", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.cell:
        number, seed, method = args.cell
        print(json.dumps(cell(int(number), int(seed), method, args.epochs, args.rows)))
        return
    if args.out == HERE and (args.epochs is not None or args.rows != 10_000):
        parser.error("--epochs and --rows make a trial: name another folder with --out")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "results.json"
    stored = json.loads(path.read_text()) if path.exists() else {"cells": []}

    def run(wanted: tuple[int, int, str]) -> None:
        command = [sys.executable, __file__, "--cell", *map(str, wanted), "--rows", str(args.rows)]
        if args.epochs is not None:
            command += ["--epochs", str(args.epochs)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            print(wanted, "failed:", done.stderr[-500:], file=sys.stderr)
            return
        stored["cells"].append(json.loads(done.stdout))
        stored["cells"].sort(key=lambda c: (c["data"], METHODS.index(c["method"]), c["seed"]))
        write_json(path, stored)
        print(wanted, "done", flush=True)

    if not args.table:
        known = {(c["data"], c["seed"], c["method"]) for c in stored["cells"]}
        # Seeds outermost: an interrupted run has every method once before any twice.
        todo = [
            (number, seed, method)
            for seed in range(args.seeds)
            for method in args.methods
            for number in args.data
            if (f"Syn{number}", seed, method) not in known
        ]
        stored["about"] = machine()
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(run, todo))
    (args.out / "results.md").write_text(table(stored["cells"]))


if __name__ == "__main__":
    main()
