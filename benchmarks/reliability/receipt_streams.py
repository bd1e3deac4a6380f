"""Files of receipts: rows per second and peak memory of their writing and verification.

    python benchmarks/reliability/receipt_streams.py [folder] [--memory] [--table]

Tables of 10,000, 100,000 and 1,000,000 rows are generated, and predicted, explained with receipts
and verified by the commands, each in a process of its own with one thread. Two models are compared
in memory as well; ``--memory`` measures only that. All times are CPU seconds. The files are deleted
at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.estimators.verify import Verifier

HERE = Path(__file__).parent
ROWS = (10_000, 100_000, 1_000_000)
# `suwr predict` holds a whole table in memory.
MAX_WHOLE = 100_000
N_MEMORY, BATCH = 16_384, 8192
COMMANDS = {
    "predict": ["predict", "m.suwr", "data.csv", "--out", "predictions.csv"],
    "predict, to a folder": ["predict", "m.suwr", "data.csv", "--out", "scored", "--jobs", "1"],
    "explain --receipts": ["explain", "m.suwr", "data.csv", "--receipts", "receipts.jsonl"],
    "verify": ["verify", "receipts.jsonl", "--model", "m.suwr"],
}


# A process that has many pages when it starts another one passes on its peak memory, except to this
# field of Linux.
RUN = """
from suwr.cli import app
try:
    app()
finally:
    with open("/proc/self/status") as status, open("peak", "w") as out:
        out.write(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def applications(n: int, rng: np.random.RandomState) -> pd.DataFrame:
    """Generated applications for credit, with columns of several types."""
    return pd.DataFrame(
        {
            "income": rng.gamma(9, 4, n).round(1),
            "debt": rng.gamma(3, 5, n).round(1),
            "late payments": rng.poisson(0.7, n),
            "employment": rng.choice(["salaried", "self-employed", "none"], n, p=[0.75, 0.15, 0.1]),
            "years": rng.randint(0, 40, n),
            "age of account": rng.gamma(2, 3, n).round(1),
        }
    )


def models() -> dict[str, tuple[SUWRClassifier, pd.DataFrame]]:
    """Two fitted models, each with rows to predict."""
    rng = np.random.RandomState(0)
    X = applications(4000, rng)
    risk = X["debt"] / X["income"] + 0.3 * X["late payments"] + (X["employment"] == "none")
    y = np.where(risk + 0.1 * rng.randn(len(X)) > 0.9, "denied", "approved")
    small = SUWRClassifier(max_epochs=20, hidden_size=32, random_state=0).fit(X, y)
    cells, target = load_breast_cancer(return_X_y=True, as_frame=True)
    large = SUWRClassifier(max_epochs=5, random_state=0).fit(cells, target)
    chosen = cells.iloc[rng.randint(len(cells), size=N_MEMORY)].reset_index(drop=True)
    noisy = (chosen * (1 + 0.01 * rng.randn(*chosen.shape))).round(4)
    return {
        "credit, 6 columns, 32 hidden units": (small, applications(N_MEMORY, rng)),
        "breast cancer, 30 columns, 128 hidden units": (large, noisy),
    }


def seconds(work: Callable[[], Any]) -> float:
    """The CPU time of the faster of two runs."""
    times = []
    for _ in range(2):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def measure_in_memory(model: SUWRClassifier, X: pd.DataFrame) -> dict[str, Any]:
    """Microseconds per row of prediction, explanation, rollouts and verification."""
    receipts = [narrative.receipt() for narrative in model.explain(X)]
    texts = [receipt.to_json() for receipt in receipts]
    others = [replace(receipt, environment="another").to_json() for receipt in receipts]
    del receipts
    verifier, policy = Verifier(model), model.policy_
    assert all(verifier.verify(texts))
    assert all(verifier.verify(others))

    def in_batches(work: Callable[[int], Any]) -> Callable[[], Any]:
        return lambda: [work(start) for start in range(0, len(X), BATCH)]

    def rollout(start: int) -> list[Any]:
        table = model._read(X.iloc[start : start + BATCH])
        return list(model._rollouts(table, policy, record=True))

    runs = {
        "predict": lambda: model.predict(X),
        "explain": in_batches(lambda i: model.explain(X.iloc[i : i + BATCH])),
        "recorded rollout": in_batches(rollout),
        "json.loads": lambda: [bool(json.loads(text)) for text in texts],
        "verify": in_batches(lambda i: verifier.verify(texts[i : i + BATCH])),
        "verify, another platform": in_batches(lambda i: verifier.verify(others[i : i + BATCH])),
    }
    return {
        "rows": len(X),
        "mean_steps": round(float(model.select(X).sum(axis=1).mean()), 2),
        "bytes_per_receipt": round(float(np.mean([len(text.encode()) for text in texts]))),
        "microseconds_per_row": {
            name: round(1e6 * seconds(work) / len(X), 1) for name, work in runs.items()
        },
    }


def run_command(words: list[str], folder: Path) -> dict[str, Any]:
    """Wall and CPU seconds and peak memory of a command."""
    begun = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", RUN, *words]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (folder / "log").read_text()
    return {
        "wall_seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(int((folder / "peak").read_text()) / 1024),
    }


def measure_files(model: SUWRClassifier, folder: Path) -> list[dict[str, Any]]:
    """Run the commands on tables of all sizes."""
    model.save(folder / "m.suwr")
    runs = []
    for n_rows in ROWS:
        rng = np.random.RandomState(1)
        for start in range(0, n_rows, 100_000):
            applications(min(100_000, n_rows - start), rng).to_csv(
                folder / "data.csv", index=False, mode="a" if start else "w", header=not start
            )
        for name, words in COMMANDS.items():
            if name == "predict" and n_rows > MAX_WHOLE:
                continue
            shutil.rmtree(folder / "scored", ignore_errors=True)
            runs.append({"command": name, "rows": n_rows, **run_command(words, folder)})
            print(runs[-1], flush=True)
        runs[-1]["megabytes"] = round((folder / "receipts.jsonl").stat().st_size / 1e6)
    return runs


def table(result: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about = result["about"]
    by_size = {(run["command"], run["rows"]): run for run in result["files"]}
    starts = []
    for name in COMMANDS:
        first, second = (by_size[name, rows]["cpu_seconds"] for rows in ROWS[:2])
        starts.append(first - (second - first) / 9)
    begin = min(starts)
    lines = [
        "# Files of receipts",
        "",
        f"One core, one thread; CPU time ({about['machine']}, {about['date']}). Models and rows "
        "are those of `benchmarks/reliability/receipt_streams.py`; networks are ensembles of four "
        "predictors and a policy.",
        "",
        "## Commands, from files to files",
        "",
        f"The start of Python and the imports take {begin:.1f} s in every command, estimated from "
        "the runs of 10,000 and 100,000 rows.",
        "",
        "| command | rows | CPU seconds | rows per CPU second | without the start | peak memory |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in result["files"]:
        rest = max(run["cpu_seconds"] - begin, 0.1)
        lines.append(
            f"| {run['command']} | {run['rows']:,} | {run['cpu_seconds']:,} | "
            f"{run['rows'] / run['cpu_seconds']:,.0f} | {run['rows'] / rest:,.0f} | "
            f"{run['peak_mb']:,} MB |"
        )
    size = by_size["verify", ROWS[-1]]["megabytes"]
    lines += [
        "",
        f"The {ROWS[-1]:,} receipts take {size:,} MB. `suwr predict` with a file as `--out` "
        "reads the whole table, and evaluates the policy three times; all other commands work in "
        "batches, and evaluate it once.",
        "",
        "## In memory",
        "",
        "Microseconds per row. A replay evaluates the predictors before the first step and after "
        "each step, as `explain` does, since a receipt states these predictions; `predict` "
        "evaluates them once per row. The recorded rollout is this evaluation alone. Texts are "
        "verified in batches of 8,192.",
        "",
        "| model | features per row | `predict` | recorded rollout | `explain` | `verify` | "
        "`verify`, receipts of another platform | `json.loads` |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, run in result["memory"].items():
        time_of = run["microseconds_per_row"]
        lines.append(
            f"| {name} | {run['mean_steps']} | {time_of['predict']} | "
            f"{time_of['recorded rollout']} | {time_of['explain']} | {time_of['verify']} | "
            f"{time_of['verify, another platform']} | {time_of['json.loads']} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


def main() -> None:
    path = HERE / "receipt_streams.json"
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    stored = json.loads(path.read_text()) if path.exists() else {}
    if "--table" not in sys.argv:
        warnings.simplefilter("ignore")  # the models are trained briefly
        torch.set_num_threads(1)
        known, stored["memory_commit"] = models(), machine()["commit"]
        stored["memory"] = {name: measure_in_memory(*pair) for name, pair in known.items()}
        print(stored["memory"], flush=True)
        if "--memory" not in sys.argv:
            about = machine() | {"command": "python benchmarks/reliability/receipt_streams.py"}
            with tempfile.TemporaryDirectory(dir=words[0] if words else None) as made:
                stored["files"] = measure_files(next(iter(known.values()))[0], Path(made))
            stored["about"] = about
        write_json(path, stored)
    (HERE / "receipt_streams.md").write_text(table(stored))
    print(table(stored))


if __name__ == "__main__":
    main()
