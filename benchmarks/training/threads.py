"""Fits with several threads while another process uses one core, by how long threads wait actively.

    python benchmarks/training/threads.py [REPEATS]
    python benchmarks/training/threads.py --table    # only write the page from the JSON

Every fit runs in a fresh process, one after the other: a default fit to 1,000 rows of 20 columns,
of which three are relevant. ``GOMP_SPINCOUNT`` is the number of iterations for which a thread of
GNU OpenMP waits actively before it releases its core; 300,000 is the default of GNU OpenMP, and
``import suwr`` sets 1,000. 'busy' is beside a process that never pauses. Run it on an otherwise
idle machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

OUT = Path(__file__).with_suffix(".json")
N_REPEATS, SPINS = 2, ("300000", "10000", "1000")
BUSY = "while True: pass"


def fit() -> None:
    """One fit; prints its wall-clock and CPU seconds, without those of the imports."""
    import torch._dynamo  # imported by the first optimizer otherwise

    from suwr import SUWRClassifier

    rng = np.random.RandomState(0)
    X = rng.randn(1_000, 20)
    y = rng.binomial(1, 1.0 / (1.0 + np.exp(-(X[:, 0] + X[:, 1] * X[:, 2]))))
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SUWRClassifier(random_state=0, device="cpu").fit(X, y)
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps(found | {"threads": torch.get_num_threads()}))


def measure(spins: str, threads: int | None, busy: bool) -> dict[str, Any]:
    """One fit in its own process."""
    env = os.environ | {"GOMP_SPINCOUNT": spins}
    env |= {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    other = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        command = [sys.executable, __file__, "--fit"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    finally:
        if other is not None:
            other.kill()
            other.wait()
    return {"spins": spins, "busy": busy, **json.loads(done.stdout)}


def table(stored: dict[str, Any]) -> str:
    """The record as a page."""
    about = stored["about"]
    lines = [
        "# Threads on a busy machine",
        "",
        "Written by `benchmarks/training/threads.py` from `threads.json`. Seconds of a default fit "
        "to 1,000 rows and 20 columns on a CPU, as the mean of the repetitions and their range: on "
        "an idle machine, and beside a process that uses one core. A thread of GNU OpenMP waits "
        "actively for a number of iterations before it releases its core. 300,000 is the default "
        "of GNU OpenMP, and 1,000 that of suwr.",
        "",
        "| threads | iterations | repetitions | idle | busy | CPU, idle | busy relative to idle |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in dict.fromkeys((f["threads"], f["spins"]) for f in stored["fits"]):
        own = [f for f in stored["fits"] if (f["threads"], f["spins"]) == key]
        idle, busy = ([f["wall"] for f in own if f["busy"] is state] for state in (False, True))
        if not idle or not busy:
            continue
        cpu = np.mean([f["cpu"] for f in own if not f["busy"]])
        lines.append(
            f"| {key[0]} | {int(key[1]):,} | {len(busy)} | {_mean(idle)} | {_mean(busy)} "
            f"| {cpu:.0f} | {np.mean(busy) / np.mean(idle):.1f} |"
        )
    where = f"Machine: {about['machine']}, {about['date']}, commit {about['commit']}."
    return "\n".join([*lines, "", where, ""])


def _mean(seconds: list[float]) -> str:
    return f"{np.mean(seconds):.0f} ({min(seconds):.0f} to {max(seconds):.0f})"


def main() -> None:
    """Run all fits, and write the page."""
    if "--fit" in sys.argv:
        fit()
        return
    if "--table" not in sys.argv:
        n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else N_REPEATS
        stored: dict[str, Any] = {"about": machine(), "fits": []}
        for _ in range(n_repeats):
            for spins, threads in [(SPINS[-1], 1), *((spins, None) for spins in SPINS)]:
                for busy in (False, True):
                    stored["fits"].append(measure(spins, threads, busy))
                    print(stored["fits"][-1], flush=True)
                    write_json(OUT, stored)
    OUT.with_suffix(".md").write_text(table(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()
