"""How well few features of Syn4 predict the output of the model, without a trained predictor.

    python benchmarks/explainer/limit.py

The features of Syn4 are independent, so that the expected output of a model given some features is
the mean over values of the others, drawn from the training rows. Here a policy reads ``x10``, whose
sign decides which features are relevant, and then one fixed set of features for either sign. Of all
sets of a size, that of the highest agreement on the test rows is reported, so that its agreement is
optimistic. The sets are chosen with few draws, and evaluated with more. The model is that of
``run.py``.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from run import read
from sklearn.ensemble import HistGradientBoostingClassifier

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

OUT = Path(__file__).with_suffix(".json")
# Draws of the hidden values, to choose a set and to evaluate it, and test rows.
FEW_DRAWS, N_DRAWS, N_ROWS = 100, 1000, 600
SWITCH, SIZES = 10, (2, 3, 4)
RELEVANT = {"x10 < 0": (0, 1), "x10 ≥ 0": (2, 3, 4, 5)}


def agreement(model: Any, X: np.ndarray, shown: list[int], draws: np.ndarray) -> dict[str, float]:
    """How often the expected output from some features has the class of the model; divergence."""
    rows = np.repeat(X, len(draws), axis=0)
    hidden = [column for column in range(X.shape[1]) if column not in shown]
    rows[:, hidden] = np.tile(draws, (len(X), 1))[:, hidden]
    expected = model.predict_proba(rows).reshape(len(X), len(draws), -1).mean(axis=1)
    output = model.predict_proba(X)
    divergence = (output * np.log(output / expected)).sum(axis=1).mean()
    same = (expected.argmax(axis=1) == output.argmax(axis=1)).mean()
    return {"agreement": float(same), "divergence": float(divergence)}


def measure() -> list[dict[str, Any]]:
    """The relevant features, and the best sets of each size, by the sign of x10."""
    X, y, _ = read("syn4", Path())
    order = list(range(len(X)))
    random.Random(42).shuffle(order)
    cut = int(0.8 * len(X))
    train, test = X[order[:cut]], X[order[cut:]][:N_ROWS]
    model = HistGradientBoostingClassifier(random_state=0).fit(train, y[order[:cut]])
    draws = train[np.random.RandomState(0).choice(len(train), N_DRAWS, replace=False)]
    found = []
    for name, own in RELEVANT.items():
        rows = test[test[:, SWITCH] < 0] if "<" in name else test[test[:, SWITCH] >= 0]
        few = draws[:FEW_DRAWS]

        def score(chosen: tuple[int, ...], rows: np.ndarray = rows, few: np.ndarray = few) -> float:
            return agreement(model, rows, [SWITCH, *chosen], few)["agreement"]

        sets = [("relevant", own), ("all but x9", tuple(range(9)))]
        for size in SIZES:
            sets.append(("best", max(itertools.combinations(range(10), size), key=score)))
        for kind, chosen in sets:
            scores = agreement(model, rows, [SWITCH, *chosen], draws)
            found.append({"rows": name, "kind": kind, "features": chosen, **scores})
    return found


def page(record: dict[str, Any]) -> str:
    """All results as Markdown."""
    about, results = record["about"], record["results"]
    best = {
        size: np.mean([
            r["agreement"] for r in results if r["kind"] == "best" and len(r["features"]) == size
        ])
        for size in SIZES
    }  # fmt: skip
    lines = [
        "# How well few features of Syn4 predict the output of the model",
        "",
        f"Written by `benchmarks/explainer/limit.py` at commit {about['commit']}, {about['date']}. "
        "A policy reads x10, then one fixed set of features for either sign; its prediction is the "
        f"mean output of the model over {N_DRAWS} draws of the other features, which are "
        f"independent. {N_ROWS} test rows; the best set of each size was chosen on them. Mean "
        "agreement of the best sets over both signs: "
        + ", ".join(f"{100 * best[size]:.1f} % with {1 + size} features" for size in SIZES)
        + ". Sets that depend on further values could do better.",
        "",
        "| rows | features beside x10 | agreement | divergence |",
        "| --- | --- | ---: | ---: |",
    ]
    for r in results:
        names = ", ".join(f"x{column}" for column in r["features"])
        lines.append(
            f"| {r['rows']} | {r['kind']}: {names} | {100 * r['agreement']:.1f} % | "
            f"{r['divergence']:.4f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    write_json(OUT, {"about": machine(), "results": measure()})
    OUT.with_suffix(".md").write_text(page(json.loads(OUT.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
