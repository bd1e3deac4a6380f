"""Speed of inference: `select`, a Python loop over rows, and the forward passes alone.

    python benchmarks/inference/run.py

Syn5, 10,000 test rows, T = 5, one core. The Python loop is Algorithm 1 for one row with the same
network; it must select the same features. The forward passes alone are those of all steps of all
rows, without the selection. The three alternate in one process, and the best of several CPU times
is reported, for the default network and for one of half its width.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import torch

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.data.frame import read_table
from suwr.nn.rollout import BLOCK, Policy
from suwr_experiments.synthetic import synthetic

HERE = Path(__file__).parent
T = 5
REPEATS = 5
LOOP_ROWS = 1000
WIDTHS = (128, 64)


def plain_loop(policy: Policy, x: torch.Tensor) -> torch.Tensor:
    """Algorithm 1 for one row, greedy."""
    h = torch.zeros(x.shape[0], dtype=torch.bool)
    for _ in range(T):
        stop, outputs = policy.network.decide(policy.inputs.reveal(x[None], h[None]))
        if torch.sigmoid(stop[0]) >= 0.5:
            return h
        unit = outputs.logits[0].masked_fill(h, -torch.inf).argmax()
        h = h | policy.inputs.membership[unit]
    return h


def bare_passes(policy: Policy, n_row_steps: int) -> None:
    """Run the forward passes of a number of row-steps, in large batches."""
    rows = torch.randn(BLOCK, policy.inputs.n_columns * 2)
    for _ in range(n_row_steps // BLOCK):
        policy.network.decide(rows)
    if n_row_steps % BLOCK:
        policy.network.decide(rows[: n_row_steps % BLOCK])


def seconds(function, *args) -> float:
    start = time.process_time()
    function(*args)
    return time.process_time() - start


@torch.inference_mode()
def measure(width: int) -> dict:
    torch.set_num_threads(1)
    train, test = synthetic(5, seed=0), synthetic(5, seed=100)
    with torch.inference_mode(False):
        model = SUWRClassifier(
            max_steps=T,
            max_epochs=40,
            training={"hidden_size": width},
            random_state=0,
            device="cpu",
        )
        model.fit(train.X, train.y)
    policy = model.policy_
    values = model._encode(read_table(test.X))
    trace = policy.rollout(values)
    # A row with k < T steps needs k + 1 forward passes.
    n_row_steps = int(np.minimum(trace.n_steps + 1, T).sum())
    times = {"select": [], "loop": [], "bare": []}
    for _ in range(REPEATS):
        times["select"].append(seconds(model.select, test.X))
        times["bare"].append(seconds(bare_passes, policy, n_row_steps))

        def loop() -> None:
            for i in range(LOOP_ROWS):
                assert (plain_loop(policy, values[i]).numpy() == trace.mask[i]).all()

        times["loop"].append(seconds(loop))
    best = {name: min(values) for name, values in times.items()}
    n = len(test.X)
    return {
        "hidden_size": width,
        "rows": n,
        "row_steps": n_row_steps,
        "mean_features": float(trace.mask.sum(axis=1).mean()),
        "select_rows_per_second": n / best["select"],
        "loop_rows_per_second": LOOP_ROWS / best["loop"],
        "times_faster_than_loop": best["loop"] / LOOP_ROWS * n / best["select"],
        "times_the_bare_passes": best["select"] / best["bare"],
        "all_seconds": times,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def table(stored: dict) -> str:
    """Format the results as Markdown."""
    about, cells = stored["about"], stored["cells"]

    def row(name: str, values: list[str]) -> str:
        return f"| {name} | {' | '.join(values)} |"

    return "\n".join(
        [
            "# Inference",
            "",
            f"Syn5, {cells[0]['rows']:,} rows, T = {T}, one core ({about['machine']}, "
            f"{about['date']}).",
            "",
            row("hidden units per layer", [str(c["hidden_size"]) for c in cells]),
            row("---", ["---:"] * len(cells)),
            row("mean number of features", [f"{c['mean_features']:.2f}" for c in cells]),
            row(
                "`select`, rows per second", [f"{c['select_rows_per_second']:,.0f}" for c in cells]
            ),
            row(
                "Python loop, rows per second", [f"{c['loop_rows_per_second']:,.0f}" for c in cells]
            ),
            row(
                "speed-up of `select` over the loop",
                [f"{c['times_faster_than_loop']:.0f} ×" for c in cells],
            ),
            row(
                "time of `select` / time of the forward passes alone",
                [f"{c['times_the_bare_passes']:.2f}" for c in cells],
            ),
            row("peak memory of the process", [f"{c['peak_mb']:.0f} MB" for c in cells]),
            "",
        ]
    )


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "results.json").read_text())
    else:
        stored = {"about": machine(), "cells": [measure(width) for width in WIDTHS]}
        write_json(HERE / "results.json", stored)
    (HERE / "results.md").write_text(table(stored))
    print(table(stored))
