"""Speed on images: training on a GPU, a preset for two cores, and inference.

    python benchmarks/images/run.py training     # needs CUDA
    python benchmarks/images/run.py preset
    python benchmarks/images/run.py --table

``training`` times one batch of look-ahead training on MNIST (1,024 images, 50 pixels, two layers of
512 units): with single kernel launches and as one CUDA graph, and with ``torch.compile``, with and
without a CUDA graph. ``preset``
trains on 8,000 images of Fashion-MNIST with at most ten 3×3 patches, and compares the time of
`select` on the 10,000 test images with that of the forward passes alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import torch

import suwr.training.lookahead as lookahead
from common import machine, write_json
from suwr import Patches, SUWRClassifier
from suwr.data.frame import read_table
from suwr.nn.rollout import BLOCK, Policy
from suwr_experiments.images import load_images

HERE = Path(__file__).parent
RANGE = (0.0005, 0.2)
BATCHES = 12
REPEATS = 5


class _Timed(Exception):
    """Raised to end a training after the timed batches."""


def time_batches(how: str) -> dict[str, Any]:
    """Milliseconds per batch of one way to train."""
    data = load_images("mnist")
    model = SUWRClassifier(
        groups=Patches((28, 28), 1),
        sparsity_weight=RANGE,
        max_steps=50,
        max_epochs=4,
        device="cuda",
        random_state=0,
        training={"hidden_size": 512, "n_layers": 2, "batch_size": 1024, "pretrain_fraction": 0.0},
    )
    taken: list[float] = []
    train_batches, recorded = lookahead.LookaheadPhase.train_batches, lookahead.CapturedFunction

    def timed(self: Any, index: torch.Tensor, progress: float) -> None:
        torch.cuda.synchronize()
        start = time.perf_counter()
        train_batches(self, index, progress)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
        if len(taken) == lookahead.WARM_UP_CALLS + 1 + BATCHES:
            raise _Timed

    def prepare(self: Any) -> Any:
        state = prepare_before(self)
        for ensemble in (self.network.predictor, self.network.policy.select):
            ensemble.evaluate = torch.compile(ensemble.evaluate)
        return state

    prepare_before = lookahead.LookaheadPhase.prepare
    lookahead.LookaheadPhase.train_batches = timed
    if "recorded" not in how:
        lookahead.CapturedFunction = lambda function, generator: function
    if "compiled" in how:
        lookahead.LookaheadPhase.prepare = prepare
    torch.cuda.reset_peak_memory_stats()
    try:
        model.fit(data.X_train, data.y_train)
    except _Timed:
        pass
    finally:
        lookahead.LookaheadPhase.train_batches = train_batches
        lookahead.CapturedFunction = recorded
        lookahead.LookaheadPhase.prepare = prepare_before
    return {
        "models": 1,
        "mixed": True,
        "how": how,
        "milliseconds": 1000 * statistics.median(taken[lookahead.WARM_UP_CALLS + 1 :]),
        "first_seconds": sum(taken[: lookahead.WARM_UP_CALLS + 1]),
        "peak_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def bare_passes(policy: Policy, n_row_steps: int) -> None:
    """Run the forward passes of a number of row-steps, in blocks."""
    rows = torch.rand(BLOCK, 2 * policy.inputs.n_columns)
    where = None if policy.condition is None else torch.full((BLOCK,), policy.condition)
    for start in range(0, n_row_steps, BLOCK):
        n = min(BLOCK, n_row_steps - start)
        policy.network.decide(rows[:n], None if where is None else where[:n])


def measure_preset() -> dict[str, Any]:
    """Train and measure inference on the CPU."""
    data = load_images("fashion-mnist")
    model = SUWRClassifier(
        groups=Patches((28, 28), 3),
        sparsity_weight=RANGE,
        max_steps=10,
        training={"hidden_size": 256, "n_layers": 2, "batch_size": 128},
        max_epochs=16,
        device="cpu",
        random_state=0,
        verbose=1,
    )
    start = time.perf_counter()
    model.fit(data.X_train[:8000], data.y_train[:8000])
    trained = time.perf_counter() - start
    asked = 6
    values = model._encode(read_table(data.X_test))
    policy = model.policy_.at(model.weight_range_.condition(None, asked))
    seconds: dict[str, list[float]] = {"select": [], "bare": []}
    with torch.inference_mode():
        trace = policy.rollout(values)
        # A row with k < T steps needs k + 1 forward passes; the first one is shared by all rows.
        n_row_steps = int(np.minimum(trace.n_steps + 1, model.max_steps_).sum()) - len(values)
        for _ in range(REPEATS):
            start = time.perf_counter()
            model.select(data.X_test, mean_features=asked)
            middle = time.perf_counter()
            bare_passes(policy, n_row_steps)
            seconds["select"].append(middle - start)
            seconds["bare"].append(time.perf_counter() - middle)
    predicted = model.predict(data.X_test, mean_features=asked)
    return {
        "threads": torch.get_num_threads(),
        "train_seconds": trained,
        "mean_units": float(model.cost(data.X_test, mean_features=asked).mean()),
        "accuracy": float((predicted == data.y_test).mean()),
        "row_steps": n_row_steps,
        "select_seconds": min(seconds["select"]),
        "bare_seconds": min(seconds["bare"]),
        "all_seconds": seconds,
    }


def table(stored: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    lines = ["# Images: time", ""]
    if "training" in stored:
        about, cells = stored["training"]["about"], stored["training"]["cells"]
        first = cells[0]["milliseconds"]
        lines += [
            f"One training batch: 1,024 images of MNIST, 50 pixels, two layers of 512 units "
            f"({about['gpu']}, {about['date']}).", "",
            "| models | precision | kernels | ms | speed-up per model | peak memory, MB |",
            "| ---: | --- | --- | ---: | ---: | ---: |",
            *(
                f"| {c['models']} | {'bfloat16' if c['mixed'] else 'float32'} | {c['how']} "
                f"| {c['milliseconds']:.1f} | {first * c['models'] / c['milliseconds']:.1f} "
                f"| {c['peak_mb']:,.0f} |"
                for c in cells
            ), "",
        ]  # fmt: skip
    if "preset" in stored:
        about, c = stored["preset"]["about"], stored["preset"]["cell"]
        lines += [
            f"8,000 images of Fashion-MNIST, at most ten 3×3 patches, two layers of 256 units, "
            f"a range of λ ({about['machine']}, {c['threads']} threads, {about['date']}).", "",
            "| | |", "| --- | ---: |",
            f"| training | {c['train_seconds'] / 60:.1f} minutes |",
            f"| test accuracy | {100 * c['accuracy']:.1f} % at {c['mean_units']:.1f} patches |",
            f"| `select`, 10,000 test images | {c['select_seconds']:.2f} s |",
            f"| forward passes of its {c['row_steps']:,} row-steps alone "
            f"| {c['bare_seconds']:.2f} s |",
            f"| ratio | {c['select_seconds'] / c['bare_seconds']:.2f} |", "",
        ]  # fmt: skip
    return "\n".join(lines)


WAYS = ("launched", "recorded", "compiled", "compiled, recorded")


def main(part: str) -> None:
    path = HERE / "results.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    if part == "training":
        stored[part] = {"about": machine(), "cells": []}
        for way in WAYS:
            stored[part]["cells"].append(time_batches(way))
            print(stored[part]["cells"][-1], flush=True)
            write_json(path, stored)
    elif part == "preset":
        stored[part] = {"about": machine(), "cell": measure_preset()}
        write_json(path, stored)
    (HERE / "results.md").write_text(table(stored))
    print(table(stored))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("training", "preset", "--table"):
        sys.exit(__doc__)
    main(sys.argv[1])
