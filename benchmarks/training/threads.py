"""Work of several threads beside a process that uses one core, by how long threads wait actively.

    python benchmarks/training/threads.py
    python benchmarks/training/threads.py --table    # only write the page from the JSON

``GOMP_SPINCOUNT`` is the number of iterations for which a thread of GNU OpenMP waits actively
before it releases its core; 300,000 is its default, which suwr does not change. Every repetition is
a fresh process, one after the other, and 'busy' is beside a process that never pauses. Run it on an
otherwise idle machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

OUT = Path(__file__).with_suffix(".json")
SPINS = ("300000", "10000", "1000")
BUSY = "while True: pass"


def small_fit() -> Callable[[], Any]:
    """A default fit to 1,000 rows of 20 columns, of which three are relevant."""
    from suwr import SUWRClassifier

    rng = np.random.RandomState(0)
    X = rng.randn(1_000, 20)
    y = rng.binomial(1, 1.0 / (1.0 + np.exp(-(X[:, 0] + X[:, 1] * X[:, 2]))))
    return partial(SUWRClassifier(random_state=0, device="cpu").fit, X, y)


def regression_fit() -> Callable[[], Any]:
    """A default fit to the diabetes data of scikit-learn."""
    from sklearn.datasets import load_diabetes

    from suwr import SUWRRegressor

    return partial(SUWRRegressor(random_state=0, device="cpu").fit, *load_diabetes(return_X_y=True))


def large_fit() -> Callable[[], Any]:
    """A default fit to Syn4."""
    from suwr import SUWRClassifier
    from suwr_experiments.synthetic import synthetic

    train = synthetic(4, seed=0)
    return partial(SUWRClassifier(random_state=0, device="cpu").fit, train.X, train.y)


def scoring() -> Callable[[], Any]:
    """Predictions for 200,000 rows by a briefly trained model."""
    from suwr import SUWRClassifier

    rng = np.random.RandomState(0)
    X = rng.randn(200_000, 20)
    model = SUWRClassifier(max_epochs=5, random_state=0, device="cpu")
    return partial(model.fit(X[:2_000], X[:2_000, 0] > 0).predict_proba, X)


def boosting() -> Callable[[], Any]:
    """1,000 iterations of gradient boosting by scikit-learn on Syn4."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from suwr_experiments.synthetic import synthetic

    train = synthetic(4, seed=0)
    model = HistGradientBoostingClassifier(max_iter=1_000, early_stopping=False, random_state=0)
    return partial(model.fit, train.X, train.y)


#: Function that prepares the work, and number of repetitions.
WORK = {
    "fit, 1,000 × 20": (small_fit, 2),
    "fit, diabetes, 442 × 10": (regression_fit, 2),
    "fit, Syn4, 10,000 × 11": (large_fit, 1),
    "scoring, 200,000 × 20": (scoring, 2),
    "boosting of scikit-learn, 10,000 × 11": (boosting, 2),
}


def run(work: str) -> None:
    """Do one piece of work; prints its wall-clock and CPU seconds, without those of the imports."""
    import torch._dynamo  # imported by the first optimizer otherwise

    prepare, _ = WORK[work]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = prepare()
        wall, cpu = time.perf_counter(), time.process_time()
        call()
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps(found | {"threads": torch.get_num_threads()}))


def measure(work: str, spins: str, threads: int | None, busy: bool) -> dict[str, Any]:
    """One repetition in its own process."""
    env = os.environ | {"GOMP_SPINCOUNT": spins}
    env |= {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    other = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        command = [sys.executable, __file__, "--run", work]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    finally:
        if other is not None:
            other.kill()
            other.wait()
    return {"work": work, "spins": spins, "busy": busy, **json.loads(done.stdout)}


def table(stored: dict[str, Any]) -> str:
    """The record as a page."""
    about, found = stored["about"], stored["repetitions"]
    lines = [
        "# Threads on a busy machine",
        "",
        "Written by `benchmarks/training/threads.py` from `threads.json`. Seconds on an idle "
        "machine and beside a process that uses one core: the mean of the repetitions, and their "
        "range. A thread of GNU OpenMP waits actively for a number of iterations before it "
        "releases its core (`GOMP_SPINCOUNT`). 300,000 is its default, which suwr does not change. "
        "A single thread waits for no other.",
        "",
        "| work | threads | iterations | repetitions | idle | busy | CPU, idle | busy relative to "
        "idle |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for key in dict.fromkeys((r["work"], r["threads"], r["spins"]) for r in found):
        own = [r for r in found if (r["work"], r["threads"], r["spins"]) == key]
        idle, busy = ([r["wall"] for r in own if r["busy"] is state] for state in (False, True))
        if not idle or not busy:
            continue
        cpu = np.mean([r["cpu"] for r in own if not r["busy"]])
        iterations = f"{int(key[2]):,}" if key[1] > 1 else "–"
        lines.append(
            f"| {key[0]} | {key[1]} | {iterations} | {len(busy)} | {_mean(idle)} "
            f"| {_mean(busy)} | {cpu:.3g} | {np.mean(busy) / np.mean(idle):.1f} |"
        )
    where = f"Machine: {about['machine']}, {about['date']}, commit {about['commit']}."
    return "\n".join([*lines, "", where, ""])


def _mean(seconds: list[float]) -> str:
    mean = f"{np.mean(seconds):.3g}"
    return mean if len(seconds) == 1 else f"{mean} ({min(seconds):.3g} to {max(seconds):.3g})"


def main() -> None:
    """Do all work, and write the page."""
    if "--run" in sys.argv:
        run(sys.argv[-1])
        return
    if "--table" not in sys.argv:
        stored: dict[str, Any] = {"about": machine(), "repetitions": []}
        settings = [(SPINS[-1], 1), *((spins, None) for spins in SPINS)]
        for work, (_, n_repetitions) in WORK.items():
            for (spins, threads), busy in [*product(settings, (False, True))] * n_repetitions:
                stored["repetitions"].append(measure(work, spins, threads, busy))
                print(stored["repetitions"][-1], flush=True)
                write_json(OUT, stored)
    OUT.with_suffix(".md").write_text(table(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()
