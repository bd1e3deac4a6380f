"""Audits of trained models: published selectors, sequential ones and SUWR.

    python benchmarks/audit/published.py            # about 15 minutes on two cores
    python benchmarks/audit/published.py --table    # only regenerate the table from the JSON file

Every model is trained on 10,000 rows of Syn4, Syn5 or Syn6 (or on the breast-cancer data) with the
paper's settings and few epochs, then audited on 1,000 new rows. Witnesses are verified by querying
the model directly. Existing results are reused.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
from sklearn.datasets import load_breast_cancer

import suwr
from common import machine, write_json
from suwr import SUWRClassifier, baselines
from suwr_experiments.synthetic import synthetic

HERE = Path(__file__).parent
PATH = HERE / "published.json"
EPOCHS = 15
METHODS = {
    "L2X": (lambda: baselines.L2XClassifier(n_units=5, max_epochs=EPOCHS, random_state=0), True),
    "INVASE": (lambda: baselines.INVASEClassifier(max_epochs=EPOCHS, random_state=0), True),
    "REAL-X": (lambda: baselines.REALXClassifier(max_epochs=EPOCHS, random_state=0), True),
    "TabNet": (lambda: baselines.TabNetClassifier(max_epochs=EPOCHS, random_state=0), True),
    "CAE": (
        lambda: baselines.CAEClassifier(n_units=5, max_epochs=EPOCHS, random_state=0),
        False,
    ),
    "GDFS": (lambda: baselines.GDFSClassifier(max_epochs=EPOCHS, random_state=0), False),
    "DIME": (lambda: baselines.DIMEClassifier(max_epochs=EPOCHS, random_state=0), False),
    "SUWR": (lambda: SUWRClassifier(max_epochs=EPOCHS, max_steps=10, random_state=0), False),
}


def tables() -> dict:
    """Map a name to training rows, training labels, test rows and test labels."""
    found = {}
    for number in (4, 5, 6):
        train, test = synthetic(number, seed=0), synthetic(number, 1000, seed=200)
        found[f"Syn{number}"] = (train.X, train.y, test.X, test.y)
    X, y = load_breast_cancer(return_X_y=True)
    found["breast cancer"] = (X, y, X, y)
    return found


def verified(model, witness) -> bool:
    """Whether the rows agree on all values that the first mask reveals but have different masks."""
    x, other = (np.asarray(v, dtype=float) for v in (witness.x, witness.x_other))
    masks = np.vstack([model.select(x[None]), model.select(other[None])])
    return bool((x[masks[0]] == other[masks[0]]).all() and (masks[0] != masks[1]).any())


def cell(data: str, method: str, X, y, X_test, y_test) -> dict:
    """Train and audit one model."""
    make, leaks = METHODS[method]
    start = time.process_time()
    model = make().fit(X, y)
    trained = time.process_time()
    report = suwr.audit(model, X_test, y_test, random_state=0, gaps=False)
    return {
        "data": data,
        "method": method,
        "expected": "leaks" if leaks else "leak-free",
        "verdict": report.verdict,
        "leaks": bool(report.leaks),
        "witness": None if report.witness is None else verified(model, report.witness),
        "selected": float(model.select(X_test).sum(axis=1).mean()),
        "accuracy": float(model.score(X_test, y_test)),
        "train_seconds": round(trained - start, 1),
        "audit_seconds": round(time.process_time() - trained, 2),
    }


def table(stored: dict) -> str:
    """The results page."""
    about = stored["about"]
    lines = [
        "# Audits of trained models",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}. {EPOCHS} epochs; every",
        "witness was verified by querying the model directly.",
        "",
        "| data | method | verdict | witness verified | features | accuracy | audit |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    for r in stored["cells"]:
        witness = {True: "yes", False: "NO", None: ""}[r["witness"]]
        lines.append(
            f"| {r['data']} | {r['method']} | {r['verdict']} | {witness} | {r['selected']:.1f} | "
            f"{r['accuracy']:.3f} | {r['audit_seconds']:.1f} s |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmark and write its results."""
    stored = json.loads(PATH.read_text()) if PATH.exists() else {"cells": []}
    known = {(r["data"], r["method"]) for r in stored["cells"]}
    if "--table" not in sys.argv:
        stored["about"] = machine()
        for data, rows in tables().items():
            for method in METHODS:
                if (data, method) not in known:
                    stored["cells"].append(cell(data, method, *rows))
                    write_json(PATH, stored)
                    print(stored["cells"][-1], flush=True)
    (HERE / "published.md").write_text(table(stored))


if __name__ == "__main__":
    main()
