"""Compare the trainers 'actor' and 'lookahead' on small images and on wide tables.

    python benchmarks/training/trainers.py            # half an hour on two cores
    python benchmarks/training/trainers.py --table    # only write the table from the JSON

Digits are the 8×8 images of scikit-learn, with 20 epochs; Syn2 and Syn4 have 100 columns, of which
89 are noise, and the default of 100 epochs. Finished fits are not repeated. The objective is the
loss on test rows plus λ times the mean number of units. The thresholds of ``trainer="auto"`` are
based on these results.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from common import machine, write_json
from suwr import Patches, SUWRClassifier
from suwr_experiments.synthetic import synthetic
from suwr_experiments.tables import Grid

HERE = Path(__file__).parent
TRAINERS = ("actor", "lookahead")
# Name, number of units, and the side of a patch or the number of the data set.
DIGITS = (("digits, pixels", 64, 1), ("digits, 3×3 patches", 64, 3))
TABLES = (("Syn2, 100 columns", 100, 2), ("Syn4, 100 columns", 100, 4))


def fit(
    name: str, trainer: str, seed: int, split: Any, weight: float, params: dict[str, Any]
) -> dict[str, Any]:
    """Fit on one core, and score the test rows."""
    torch.set_num_threads(1)
    X, X_test, y, y_test = split
    model = SUWRClassifier(
        trainer=trainer, sparsity_weight=weight, random_state=seed, device="cpu", **params
    )
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    n_units = float(model.cost(X_test).mean())
    loss = log_loss(y_test, model.predict_proba(X_test), labels=model.classes_)
    return {
        "data": name,
        "trainer": trainer,
        "seed": seed,
        "accuracy": float(model.score(X_test, y_test)),
        "n_units": n_units,
        "objective": float(loss + weight * n_units),
        "cpu_seconds": round(seconds, 1),
    }


def jobs() -> list[tuple[Any, ...]]:
    """Arguments of `fit`, the slowest fits first."""
    found: list[tuple[Any, ...]] = []
    for trainer in TRAINERS[::-1]:
        for name, _, number in TABLES:
            train, test = (synthetic(number, seed=s, n_columns=100) for s in (201, 202))
            split = (train.X, test.X, train.y, test.y)
            found.append((name, trainer, 0, split, 0.007, {"max_steps": 11}))
    split = train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
    for name, _, size in DIGITS:
        params = {"groups": Patches((8, 8), size), "max_steps": 12, "max_epochs": 20}
        for trainer in TRAINERS:
            found += [(name, trainer, seed, split, 0.03, params) for seed in (0, 1)]
    return found


def table(stored: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about = stored["about"]
    rows = []
    for name, units, _ in DIGITS + TABLES:
        for trainer in TRAINERS:
            own = [c for c in stored["cells"] if (c["data"], c["trainer"]) == (name, trainer)]
            objective, accuracy, selected, seconds = (
                np.mean([c[key] for c in own])
                for key in ("objective", "accuracy", "n_units", "cpu_seconds")
            )
            shown = [
                f"{objective:.3f}",
                f"{100 * accuracy:.1f}",
                f"{selected:.1f}",
                f"{seconds:.0f}",
            ]
            rows.append([name, trainer, str(units), *shown, str(len(own))])
    header = ["data", "trainer", "units", "objective", "accuracy, %", "selected", "CPU s", "seeds"]
    return (
        "# Trainers: sampled rollouts and look-ahead\n\n"
        f"Test rows; mean over the seeds ({about['machine']}, {about['date']}). The objective is "
        "the loss plus λ times the number of selected units; lower is better. Digits: λ = 0.03, "
        "20 epochs; tables: λ = 0.007, 100 epochs.\n\n"
        + Grid(header, rows, n_left=2).markdown()
        + "\n"
    )


def main() -> None:
    path = HERE / "trainers.json"
    stored = json.loads(path.read_text()) if path.exists() else {"cells": []}
    if "--table" not in sys.argv:
        stored["about"] = machine()
        known = {(c["data"], c["trainer"], c["seed"]) for c in stored["cells"]}
        todo = [delayed(fit)(*job) for job in jobs() if job[:3] not in known]
        for cell in Parallel(n_jobs=2, return_as="generator_unordered")(todo):
            print(cell, flush=True)
            stored["cells"].append(cell)
            write_json(path, stored)
    page = table(stored)
    (HERE / "trainers.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
