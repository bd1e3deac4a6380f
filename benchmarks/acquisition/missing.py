"""Training cells that were not recorded, at random or not, but can be acquired for new rows.

    python benchmarks/acquisition/missing.py

Writes missing.json and missing.md. The test rows are complete: in production, every cell can be
acquired. 'not at random' removes positive values five times as often as negative ones.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import machine, write_json
from suwr import SUWRClassifier

HERE = Path(__file__).parent
N_ROWS, N_TEST, SEEDS = 800, 5000, 3
SETTINGS: dict[str, Any] = {"max_epochs": 25, "training": {"hidden_size": 32, "n_predictors": 2}}


def draw(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Five normal columns; the fourth matters only if the third is positive."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 5)
    score = 1.5 * X[:, 0] + X[:, 1] + 2 * (X[:, 2] > 0) * X[:, 3] + 0.5 * rng.randn(n)
    return X, (score > 0).astype(int)


def remove(X: NDArray[np.float64], kind: str, seed: int) -> NDArray[np.float64]:
    """Remove 30 % of the cells."""
    chance = np.where(X > 0, 0.5, 0.1) if kind == "not at random" else 0.3
    return np.where(np.random.RandomState(seed).rand(*X.shape) < chance, np.nan, X)


def measure(X: NDArray[np.float64], y: NDArray[np.intp], missing: str, seed: int) -> list[float]:
    """Log loss and mean cost on complete rows."""
    model = SUWRClassifier(missing=missing, random_state=seed, **SETTINGS).fit(X, y)
    T, truth = draw(N_TEST, 1000)
    probability = model.predict_proba(T)[np.arange(N_TEST), truth]
    return [float(-np.log(probability).mean()), float(model.cost(T).mean())]


def run() -> list[dict[str, Any]]:
    """All fits, one record each."""
    records = []
    for seed in range(SEEDS):
        X, y = draw(N_ROWS, seed)
        cases = [("none", "value", X)]
        for kind in ("at random", "not at random"):
            cases += [(kind, m, remove(X, kind, seed)) for m in ("value", "unrecorded")]
        for removed, missing, table in cases:
            loss, cost = measure(table, y, missing, seed)
            record = {"removed": removed, "missing": missing, "seed": seed}
            records.append(record | {"loss": loss, "cost": cost})
            print(records[-1], flush=True)
    return records


def page(records: list[dict[str, Any]]) -> str:
    """The table of means."""
    lines = [
        "# Training cells that were not recorded",
        "",
        f"Log loss and mean number of revealed features on {N_TEST:,} complete rows, after "
        f"training on {N_ROWS} rows of which 30 % of the cells were removed (mean and range of "
        f"{SEEDS} seeds). 'not at random' removes positive values five times as often as negative "
        "ones.",
        "",
        "| cells removed | `missing` | log loss | features |",
        "| --- | --- | --- | --- |",
    ]
    for removed, missing in dict.fromkeys((r["removed"], r["missing"]) for r in records):
        own = [r for r in records if (r["removed"], r["missing"]) == (removed, missing)]
        losses, costs = [r["loss"] for r in own], [r["cost"] for r in own]
        spread = f"{min(losses):.3f}–{max(losses):.3f}"
        lines.append(
            f"| {removed} | {missing} | {np.mean(losses):.3f} ({spread}) | {np.mean(costs):.2f} |"
        )
    return "\n".join([*lines, "", "Made by `python benchmarks/acquisition/missing.py`.", ""])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    results = run()
    write_json(HERE / "missing.json", {"run": machine(), "records": results})
    (HERE / "missing.md").write_text(page(results))
