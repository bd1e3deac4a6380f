"""Scaling of training and inference time with rows, columns, steps and classes.

    python benchmarks/scaling/run.py

One size at a time grows by a factor of four; the exponent is the slope of log CPU time over log
size. CPU time of one core, the best of several runs for inference. For inference the stopping
policy is disabled, so that every row takes ``max_steps`` steps.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import torch

from common import machine, write_json
from suwr import SUWRClassifier

HERE = Path(__file__).parent
START = {"rows": 4000, "columns": 32, "steps": 8, "classes": 2}
GROWTH = {
    "rows": (1000, 4000, 16000),
    "columns": (8, 32, 128),
    "steps": (2, 8, 32),
    "classes": (2, 8, 32),
}


def never_stop(model: SUWRClassifier) -> None:
    """Disable ζ_stop; the network is evaluated as before."""
    network = model.policy_.network
    decide = network.decide

    def go_on(*inputs: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        stop, logits = decide(*inputs)
        return torch.full_like(stop, -30.0), logits

    network.decide = go_on


def case(rows: int, columns: int, steps: int, classes: int) -> tuple[float, float]:
    """CPU seconds of `fit` and of `select`."""
    rng = np.random.RandomState(0)
    X = rng.randn(rows, columns)
    score = X @ rng.randn(columns, classes) + rng.gumbel(size=(rows, classes))
    model = SUWRClassifier(
        sparsity_weight=0.0, max_steps=steps, max_epochs=2, random_state=0, device="cpu"
    )
    start = time.process_time()
    model.fit(X, score.argmax(axis=1))
    fitting = time.process_time() - start
    never_stop(model)
    scoring = []
    for _ in range(3):
        start = time.process_time()
        masks = model.select(X)
        scoring.append(time.process_time() - start)
    assert (masks.sum(axis=1) == steps).all()
    return fitting, min(scoring)


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure() -> dict:
    torch.set_num_threads(1)
    case(**START | {"rows": 200})
    results, known = {}, {}
    for name, sizes in GROWTH.items():
        points = []
        for size in sizes:
            settings = START | {name: size}
            key = tuple(settings.values())
            if key not in known:
                known[key] = case(**settings)
                print(settings, known[key], flush=True)
            points.append(known[key])
        results[name] = {
            "sizes": sizes,
            "fit_seconds": [p[0] for p in points],
            "select_seconds": [p[1] for p in points],
            "fit_exponent": exponent(sizes, [p[0] for p in points]),
            "select_exponent": exponent(sizes, [p[1] for p in points]),
        }
    return results


def table(result: dict) -> str:
    about = result["about"]
    start = ", ".join(f"{v:,} {k}" for k, v in START.items())
    lines = [
        "# Scaling",
        "",
        f"Other sizes: {start}; default networks, two epochs, CPU time of one core "
        f"({about['machine']}, {about['date']}). Times are relative to the smallest size. In "
        "`select` every row takes ``max_steps`` steps.",
        "",
        "| size | values | `fit` | exponent | `select` | exponent |",
        "| --- | --- | --- | ---: | --- | ---: |",
    ]

    def ratios(seconds: list[float]) -> str:
        return " · ".join(f"{s / seconds[0]:.2g}" for s in seconds)

    for name, r in result["growth"].items():
        lines.append(
            f"| {name} | {' · '.join(f'{s:,}' for s in r['sizes'])} | {ratios(r['fit_seconds'])} | "
            f"{r['fit_exponent']:.2f} | {ratios(r['select_seconds'])} | "
            f"{r['select_exponent']:.2f} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "results.json").read_text())
    else:
        stored = {"about": machine(), "growth": measure()}
        write_json(HERE / "results.json", stored)
    (HERE / "results.md").write_text(table(stored))
    print(table(stored))
