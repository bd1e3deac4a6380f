"""Fits to pure noise: how often are features selected, and what does it cost?

    python benchmarks/training/noise.py [FITS]

Each fit has 200 rows of ten standard normal columns and a target that is independent of them: a
fair coin, or a standard normal number. The default settings are used. The loss is measured on 5,000
further rows, beside that of the mean of the training targets. The standard error is that of the
constant's loss (of the difference for classification) on as many rows as were used for training.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json
from suwr import SUWRClassifier, SUWRRegressor
from suwr.exceptions import UninformativeModelWarning

N_ROWS, N_COLUMNS, N_TEST = 200, 10, 5_000
OUT = Path(__file__).with_suffix(".json")


def fit(kind: str, seed: int) -> dict[str, Any]:
    """One fit and its loss on further rows."""
    torch.set_num_threads(1)
    rng = np.random.RandomState(seed)
    X, X_test = rng.randn(N_ROWS, N_COLUMNS), rng.randn(N_TEST, N_COLUMNS)
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "classification":
            y, y_test = rng.randint(2, size=N_ROWS), rng.randint(2, size=N_TEST)
            model: Any = SUWRClassifier(random_state=seed).fit(X, y)
            loss = -np.log(model.predict_proba(X_test)[np.arange(N_TEST), y_test])
            constant = -np.log(np.where(y_test == 1, y.mean(), 1 - y.mean()))
        else:
            y, y_test = rng.randn(N_ROWS), rng.randn(N_TEST)
            model = SUWRRegressor(random_state=seed).fit(X, y)
            loss, constant = (model.predict(X_test) - y_test) ** 2, (y.mean() - y_test) ** 2
    spread = loss - constant if kind == "classification" else constant
    return {
        "kind": kind,
        "seed": seed,
        "mean_cost": float(model.cost(X_test).mean()),
        "loss": float(loss.mean()),
        "constant": float(constant.mean()),
        "standard_error": float(spread.std() / np.sqrt(N_ROWS)),
        "warned": any(w.category is UninformativeModelWarning for w in caught),
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def table(result: dict[str, Any]) -> str:
    """The record as a page."""
    about = result["about"]
    lines = [
        "# Fits to pure noise",
        "",
        f"{N_ROWS} rows of {N_COLUMNS} columns that are independent of the target; default "
        f"settings; losses on {N_TEST:,} further rows ({about['machine']}, {about['date']}, commit "
        f"{about['commit']}).",
        "",
        "| | fits | select features | lose a standard error or more | warned | largest excess loss "
        "| CPU seconds per fit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in ("classification", "regression"):
        fits = [f for f in result["fits"] if f["kind"] == kind]
        excess = [f["loss"] - f["constant"] for f in fits]
        selecting = sum(f["mean_cost"] > 0 for f in fits)
        worse = sum(
            f["mean_cost"] > 0 and e >= f["standard_error"]
            for f, e in zip(fits, excess, strict=True)
        )
        seconds = np.mean([f["cpu_seconds"] for f in fits])
        lines.append(
            f"| {kind} | {len(fits)} | {selecting} | {worse} | {sum(f['warned'] for f in fits)} | "
            f"{max(excess):.4f} | {seconds:.1f} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


def main() -> None:
    """Run all fits and write the record."""
    n_fits = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    jobs = [
        (kind, seed) for kind in ("classification", "regression") for seed in range(n_fits // 2)
    ]
    fits = Parallel(n_jobs=-1, verbose=5)(delayed(fit)(*job) for job in jobs)
    result = {"about": machine(), "fits": fits}
    write_json(OUT, result)
    OUT.with_suffix(".md").write_text(table(result))
    print(table(result))


if __name__ == "__main__":
    main()
