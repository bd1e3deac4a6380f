"""The auditor on trained models: the published baselines, and those that decide step by step.

    python benchmarks/audit/published.py            # about 15 minutes on two cores
    python benchmarks/audit/published.py --table    # only remake the table from the JSON

Every model is trained on 10,000 rows of Syn4, Syn5 or Syn6 (or on the breast-cancer table) with the
paper's settings and a few epochs, then audited on 1,000 fresh rows. A witness is checked again by
asking the model itself. A finished cell is never repeated.
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
    "L2X": (lambda: baselines.L2XClassifier(max_steps=5, max_epochs=EPOCHS, random_state=0), True),
    "INVASE": (lambda: baselines.INVASEClassifier(max_epochs=EPOCHS, random_state=0), True),
    "REAL-X": (lambda: baselines.REALXClassifier(max_epochs=EPOCHS, random_state=0), True),
    "TabNet": (lambda: baselines.TabNetClassifier(max_epochs=EPOCHS, random_state=0), True),
    "CAE": (
        lambda: baselines.CAEClassifier(max_steps=5, max_epochs=EPOCHS, random_state=0),
        False,
    ),
    "GDFS": (lambda: baselines.GDFSClassifier(max_epochs=EPOCHS, random_state=0), False),
    "DIME": (lambda: baselines.DIMEClassifier(max_epochs=EPOCHS, random_state=0), False),
    "SUWR": (lambda: SUWRClassifier(max_epochs=EPOCHS, max_steps=10, random_state=0), False),
}


def tables() -> dict:
    """Name → training rows, labels, fresh rows and their labels."""
    found = {}
    for number in (4, 5, 6):
        train, fresh = synthetic(number, seed=0), synthetic(number, 1000, seed=200)
        found[f"Syn{number}"] = (train.X, train.y, fresh.X, fresh.y)
    X, y = load_breast_cancer(return_X_y=True)
    found["breast cancer"] = (X, y, X, y)
    return found


def verified(model, witness) -> bool:
    """Whether two rows agree on all that the first mask reveals and are yet treated differently."""
    x, other = (np.asarray(v, dtype=float) for v in (witness.x, witness.x_other))
    masks = np.vstack([model.select(x[None]), model.select(other[None])])
    return bool((x[masks[0]] == other[masks[0]]).all() and (masks[0] != masks[1]).any())


def cell(data: str, method: str, X, y, fresh, labels) -> dict:
    make, leaks = METHODS[method]
    start = time.process_time()
    model = make().fit(X, y)
    trained = time.process_time()
    report = suwr.audit(model, fresh, labels, random_state=0, gaps=False)
    return {
        "data": data,
        "method": method,
        "expected": "leaks" if leaks else "clean",
        "verdict": report.verdict,
        "leaks": bool(report.leaks),
        "witness": None if report.witness is None else verified(model, report.witness),
        "selected": float(model.select(fresh).sum(axis=1).mean()),
        "accuracy": float(model.score(fresh, labels)),
        "train_seconds": round(trained - start, 1),
        "audit_seconds": round(time.process_time() - trained, 2),
    }


def table(stored: dict) -> str:
    """The Markdown page."""
    about = stored["about"]
    lines = [
        "# The auditor on trained models",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}. {EPOCHS} epochs; the",
        "witness of a leak was checked again by asking the model.",
        "",
        "| data | method | verdict | witness checked | features | accuracy | audit |",
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
