"""Distributed training by two processes: models and times, compared with one process.

    python benchmarks/reliability/processes.py

CPU time is that of one of the two processes, without waiting. Wall time depends on the load of the
machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import torch

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.nn.distributed import torchrun_process_group

HERE = Path(__file__).parent
CASES = {
    "table, default network": (20_000, 11, {"max_epochs": 3}),
    "table, 4 predictors of 3 × 512": (
        10_000, 11, {"max_epochs": 1, "hidden_size": 512, "n_predictors": 4, "batch_size": 2000},
    ),
    "196 units, look-ahead, 3 × 256": (
        6_000, 196, {"max_epochs": 1, "hidden_size": 256, "max_steps": 6},
    ),
}  # fmt: skip


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose first column determines which other column is informative."""
    X = np.random.RandomState(0).randn(n, d)
    return X, np.where(X[:, 0] > 0, X[:, 1] > 0, X[:, 2] + X[:, 3] > 0)


def work(folder: Path, name: str) -> None:
    """Fit every case in this process; the leading process saves the results."""
    with torchrun_process_group("cpu") as leads:
        # Warm-up: exclude the initialisation of torch from the times.
        SUWRClassifier(random_state=0, device="cpu", max_epochs=1).fit(*problem(50, 4))
        for number, (n, d, params) in enumerate(CASES.values()):
            X, y = problem(n, d)
            model = SUWRClassifier(random_state=0, device="cpu", **params)
            cpu, wall = time.process_time(), time.perf_counter()
            model.fit(X, y)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if leads:
                state = model.policy_.network.state_dict().values()
                np.savez(
                    folder / f"{name}-{number}.npz",
                    cpu=cpu, wall=wall, accuracy=model.score(X, y),
                    masks=model.select(X), probability=model.predict_proba(X),
                    weights=torch.cat([t.flatten() for t in state]).numpy(),
                )  # fmt: skip


def measure(folder: Path) -> list[dict]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for name, start in (("one", [sys.executable]), ("two", launch)):
        words = [*start, __file__, "--work", str(folder), name]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    results = []
    for number, (case, (n, d, params)) in enumerate(CASES.items()):
        one, two = (np.load(folder / f"{name}-{number}.npz") for name in ("one", "two"))
        results.append(
            {
                "case": case,
                "rows": n,
                "columns": d,
                "params": params,
                "cpu_seconds": [round(float(r["cpu"]), 1) for r in (one, two)],
                "wall_seconds": [round(float(r["wall"]), 1) for r in (one, two)],
                "accuracy": [round(float(r["accuracy"]), 4) for r in (one, two)],
                "rows_with_equal_masks": float((one["masks"] == two["masks"]).all(axis=1).mean()),
                "largest_difference_of_probabilities": float(
                    np.abs(one["probability"] - two["probability"]).max()
                ),
                "largest_difference_of_weights": float(
                    np.abs(one["weights"] - two["weights"]).max()
                ),
            }
        )
    return results


def table(result: dict) -> str:
    about = result["about"]
    lines = [
        "# Training by two processes",
        "",
        "The same fit by one process and by two (`torchrun --nproc-per-node 2`, gloo), one thread "
        f"each ({about['machine']}, {about['date']}). CPU time is that of one of the processes, "
        "without waiting. Other processes used the machine, so wall times are upper bounds. Every "
        "process computes all random numbers and decisions, so that the speed-up is below two and "
        "grows with the size of the networks. Gradients are summed in another order; if a random "
        "number is within rounding error of its threshold, a decision differs, and the two models "
        "are no longer equal.",
        "",
        "| fit | CPU seconds, 1 → 2 | ratio | wall seconds, 1 → 2 | accuracy, 1 → 2 | "
        "rows with equal masks | largest difference of probabilities |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in result["cases"]:
        (one, two), (first, second) = r["cpu_seconds"], r["wall_seconds"]
        lines.append(
            f"| {r['case']} | {one} → {two} | {one / two:.2f} | {first} → {second} | "
            f"{r['accuracy'][0]:.3f} → {r['accuracy'][1]:.3f} | "
            f"{100 * r['rows_with_equal_masks']:.2f} % | "
            f"{r['largest_difference_of_probabilities']:.1e} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


if __name__ == "__main__":
    if "--work" in sys.argv:
        work(Path(sys.argv[2]), sys.argv[3])
        sys.exit()
    if "--table" in sys.argv:
        stored = json.loads((HERE / "processes.json").read_text())
    else:
        with tempfile.TemporaryDirectory() as made:
            stored = {"about": machine(), "cases": measure(Path(made))}
        write_json(HERE / "processes.json", stored)
    (HERE / "processes.md").write_text(table(stored))
    print(table(stored))
