"""Hard budgets: SUWR cut off after k units beside GDFS, which is trained for every k.

    python benchmarks/acquisition/budgets.py

Writes budgets.json and budgets.md: log loss on held-out rows of the breast cancer table.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.baselines import GDFSClassifier

HERE = Path(__file__).parent
BUDGETS, SPLITS, EPOCHS = range(1, 11), 3, 30


def log_loss(y: Any, probability: Any) -> float:
    """Mean negative log-likelihood."""
    return float(-np.log(np.maximum(probability[np.arange(len(y)), y], 1e-12)).mean())


def run() -> list[dict[str, Any]]:
    """Losses of both methods at every budget, for every split."""
    records = []
    X, y = load_breast_cancer(return_X_y=True)
    for split in range(SPLITS):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, random_state=split, stratify=y
        )
        settings = {"max_epochs": EPOCHS, "hidden_size": 64, "random_state": split}
        # A small λ, so that training visits states of ten units.
        suwr = SUWRClassifier(sparsity_weight=0.001, max_steps=10, **settings)
        suwr.fit(train, y_train)
        gdfs = GDFSClassifier(max_steps=10, **settings).fit(train, y_train)
        steps = gdfs.predict_steps(test)
        for k in BUDGETS:
            losses = {
                "SUWR, max_cost": log_loss(y_test, suwr.predict_proba(test, max_cost=k)),
                "SUWR, exactly": log_loss(y_test, suwr.predict_proba(test, exactly=k)),
                "GDFS": log_loss(y_test, steps[:, k]),
            }
            records.append({"split": split, "budget": k, **losses})
            print(records[-1], flush=True)
    return records


def page(records: list[dict[str, Any]]) -> str:
    """The table of means over the splits."""
    methods = [name for name in records[0] if name not in ("split", "budget")]
    lines = [
        "# Hard budgets",
        "",
        f"Log loss on held-out rows of the breast cancer table, mean of {SPLITS} splits with 70 % "
        f"training rows, {EPOCHS} epochs. SUWR is one model with λ = 0.001, cut off at each "
        "budget; it is not trained for budgets. GDFS is trained for all of them.",
        "",
        f"| units | {' | '.join(methods)} |",
        f"| --- |{' --- |' * len(methods)}",
    ]
    for k in BUDGETS:
        own = [r for r in records if r["budget"] == k]
        means = " | ".join(f"{np.mean([r[m] for r in own]):.3f}" for m in methods)
        lines.append(f"| {k} | {means} |")
    return "\n".join([*lines, "", "Made by `python benchmarks/acquisition/budgets.py`.", ""])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    results = run()
    write_json(HERE / "budgets.json", {"run": machine(), "records": results})
    (HERE / "budgets.md").write_text(page(results))
