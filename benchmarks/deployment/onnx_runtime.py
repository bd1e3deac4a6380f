"""ONNX Runtime compared with Python: four models, 10,000 rows each.

    python benchmarks/deployment/onnx_runtime.py

Runs the reference loop that docs/guides/onnx.md prints, row by row, and compares the order of the
revealed units and the final prediction with `explain`. Predictions of a regression are divided by
the standard deviation of the target. Needs onnx and onnxruntime.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, make_classification, make_friedman1

from common import machine, write_json
from helpers import page_models
from helpers.services import functions_of
from suwr import Costs, Patches, SUWRClassifier, SUWRRegressor

HERE = Path(__file__).parent
ROWS, TOLERANCE = 10_000, 1e-5


def numbers():
    """20 numbers."""
    X, y = make_classification(1_500 + ROWS, 20, n_informative=8, random_state=0)
    model = SUWRClassifier(
        sparsity_weight=0.005, max_epochs=6, training={"hidden_size": 32}, random_state=0
    )
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(20)])
    return model.fit(frame[:1_500], y[:1_500]), frame[1_500:]


def mixed():
    """Numbers with missing values, text, booleans, a group."""
    X, y = page_models.mixed_table(1_500 + ROWS, seed=1)
    groups = {"heart": ["pressure", "pulse"]}
    model = SUWRClassifier(
        sparsity_weight=0.01,
        max_epochs=6,
        training={"hidden_size": 32},
        groups=groups,
        random_state=0,
    )
    return model.fit(X[:1_500], y[:1_500]), X[1_500:]


def digits():
    """Images with noise: overlapping patches, stops by uncertainty."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    model = SUWRClassifier(
        groups=Patches((8, 8), size=3), sparsity_weight=0.02, max_steps=8, max_epochs=6,
        training={"hidden_size": 32}, trainer="lookahead", random_state=0,
    )  # fmt: skip
    model.fit(X[:1_200], y[:1_200])
    rows = X[1_200 + rng.randint(len(X) - 1_200, size=ROWS)]
    return model, pd.DataFrame((rows + rng.randn(*rows.shape)).clip(0, 16),
                               columns=model.encoder_.names)  # fmt: skip


def friedman():
    """A regression, two units per step."""
    X, y = make_friedman1(1_500 + ROWS, n_features=12, noise=1.0, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{i + 1}" for i in range(12)])
    model = SUWRRegressor(
        sparsity_weight=0.1,
        costs=Costs(of=2),
        max_epochs=6,
        training={"hidden_size": 32},
        random_state=0,
    )
    return model.fit(frame[:1_500], y[:1_500]), frame[1_500:]


def compare(make) -> dict:
    """Run one model on all of its rows."""
    model, X = make()
    guide = functions_of("guides/onnx.md")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path)
        size = path.stat().st_size
        session, metadata = guide["open_model"](path)
    table = X.set_axis(metadata_names(metadata), axis=1).astype(object)
    cells = table.where(table.notna(), None).to_dict("records")
    scale = getattr(model, "target_scale_", 1.0)
    explanation = model.explain(X.to_numpy() if isinstance(model.groups, Patches) else X)
    found = {"data": make.__doc__.rstrip("."), "rows": len(X), "steps": 0, "different": 0}
    worst, orders, start = 0.0, set(), time.perf_counter()
    for row, narrative in zip(cells, explanation, strict=True):
        order, prediction = guide["rollout"](session, metadata, row.get)
        expected = [unit for step in narrative.steps for unit in step.units]
        orders.add(tuple(order))
        found["steps"] += len(narrative.steps)
        if order != expected:
            found["different"] += 1
            continue
        worst = max(worst, np.abs(prediction - narrative.prediction).max() / scale)
    return found | {
        "distinct_orders": len(orders),
        "largest_difference": float(worst),
        "milliseconds_per_row": 1000 * (time.perf_counter() - start) / len(X),
        "kilobytes": size / 1000,
    }


def metadata_names(metadata: dict) -> list[str]:
    """Column names of a model."""
    return [column["name"] for column in metadata["columns"]]


def main() -> None:
    """Compare, and write results.json and the table."""
    results = [compare(make) for make in (numbers, mixed, digits, friedman)]
    for result in results:
        print(result)
    record = {
        **machine(),
        "onnxruntime": version("onnxruntime"),
        "onnx": version("onnx"),
        "tolerance": TOLERANCE,
        "models": results,
    }
    write_json(HERE / "onnx_runtime.json", record)
    headings = [
        "model", "rows", "steps", "distinct orders", "rows with different decisions",
        "largest difference of a prediction", "ms per row", "file, kB",
    ]  # fmt: skip
    lines = [
        "# ONNX Runtime and Python\n",
        f"The loop of the guide on {ROWS:,} rows of each of four models, compared with `explain`:",
        "the order of all revealed units, and the final prediction (of a regression, in standard",
        f"deviations of the target). ONNX Runtime {record['onnxruntime']}, {record['machine']}, "
        f"{record['date']}.\n",
        f"| {' | '.join(headings)} |",
        "| --- |" + " ---: |" * (len(headings) - 1),
    ]
    for r in results:
        lines.append(
            f"| {r['data']} | {r['rows']:,} | {r['steps']:,} | {r['distinct_orders']:,} | "
            f"{r['different']} | {r['largest_difference']:.1e} | "
            f"{r['milliseconds_per_row']:.2f} | {r['kilobytes']:.0f} |"
        )
    (HERE / "onnx_runtime.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
