"""Fidelity of SUWRExplainer beside SHAP, LIME and L2X, for gradient boosting on five tables.

Run ``python benchmarks/explainer/run.py hmda`` for one table, or name several. Results are added to
``results.json.xz``, and ``results.md`` is written from all of them. With ``--range``, explainers
are fitted for a range of λ and compared at several mean costs, in ``ranges.json.xz`` and
``ranges.md``.
Tables other than breast cancer and Syn4 are read from ``--tables`` and are not part of the project.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import entropy
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from suwr import SUWRExplainer, audit
from suwr.baselines import L2XClassifier
from suwr.explainer.fidelity import FidelityCurve, fidelity_curve, train_evaluator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from common import machine, read_json, write_json  # noqa: E402

NAMES = ("cancer", "churn", "hmda", "satimage", "syn4")
# Rows on which KernelSHAP and LIME are evaluated, which query the model hundreds of times a row.
SLOW_ROWS = 150
# Range of λ with ``--range``, relative to the entropy of the model's mean output, and the mean
# costs at which methods are then compared.
RANGE, COSTS = (0.002, 0.3), (1, 2, 3, 4, 5, 6)
# The curves that are compared with each other, each group on the same rows.
SLOW = f"{SLOW_ROWS} rows"
COMPARED = (
    ("SUWR", "SUWR (EVAL-X)", "TreeSHAP", "L2X"),
    (f"SUWR, {SLOW}", f"SUWR (EVAL-X), {SLOW}", f"KernelSHAP, {SLOW}", f"LIME, {SLOW}"),
)


def read(name: str, tables: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Numeric columns and classes of a table; categories become codes, as TreeSHAP needs."""
    if name == "cancer":
        data = load_breast_cancer()
        return data.data, data.target, list(data.feature_names)
    if name == "syn4":
        rng = np.random.RandomState(0)
        X = rng.randn(6000, 11)
        first, second = np.exp(X[:, 0] * X[:, 1]), np.exp((X[:, 2:6] ** 2).sum(axis=1) - 4.0)
        odds = np.where(X[:, 10] < 0, first, second)
        return (
            X,
            (rng.random_sample(6000) < 1 / (1 + odds)).astype(int),
            [f"x{i}" for i in range(11)],
        )
    import pandas as pd

    table = pd.read_csv(tables / f"{name}.csv")
    y = table.pop("Outcome").factorize(sort=True)[0]
    for column in table.select_dtypes(exclude="number"):
        table[column] = table[column].factorize(sort=True)[0]
    return table.to_numpy(float), y, list(table.columns)


def l2x_curve(
    explainer: Any, evaluator: Any, X: np.ndarray, sizes: list[int], epochs: int
) -> FidelityCurve:
    """L2X trained on the outputs of the model, with the evaluator's predictions."""
    found = []
    for k in sizes:
        method = L2XClassifier(max_steps=k, hidden_size=64, max_epochs=epochs, random_state=0)
        method.fit(explainer.queries_, explainer.outputs_)
        found.append(evaluator.predict_masked(X, method.select(X)))
    return fidelity_curve(explainer.model_output(X), sizes, found)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Fit a model and its explainer on 80 % of the rows; evaluate on the others."""
    X, y, columns = read(name, options.tables)
    order = list(range(len(X)))
    random.Random(42).shuffle(order)
    cut = int(0.8 * len(X))
    train, test = order[:cut], order[cut:][:1000]
    model = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
    queries = max(1, min(20, options.rows // len(train)))
    weight: Any = "auto"
    if options.range:
        mean = model.predict_proba(X[train]).mean(axis=0)
        weight = tuple(float(share * entropy(mean)) for share in RANGE)
    start, cpu = time.time(), time.process_time()
    explainer = SUWRExplainer(
        model,
        sparsity_weight=weight,
        queries_per_row=queries,
        max_epochs=options.epochs,
        random_state=0,
    ).fit(X[train])
    seconds, cpu = time.time() - start, time.process_time() - cpu
    evaluator = train_evaluator(explainer, options.epochs)
    fast = explainer.fidelity(X[test], compare=("TreeSHAP",), evaluator=evaluator)
    curves = dict(fast.curves)
    if not options.fast:
        slow = explainer.fidelity(
            X[test][:SLOW_ROWS], compare=("KernelSHAP", "LIME"), evaluator=evaluator
        )
        curves |= {f"{k}, {SLOW_ROWS} rows": v for k, v in slow.curves.items()}
        last = max(1, round(fast.mean_cost))
        sizes = list(COSTS) if options.range else sorted({1, max(1, round(last / 2)), last})
        curves["L2X"] = l2x_curve(explainer, evaluator, X[test], sizes, options.epochs)
    report = audit(explainer, X[test][:200], random_state=0) if options.audit else None
    narrative = explainer.explain(X[test][:1])[0]
    return {
        "table": name,
        "rows": len(train),
        "columns": len(columns),
        "test_rows": len(test),
        "accuracy_of_model": float(model.score(X[test], y[test])),
        "queries": explainer.n_queries_,
        "queries_per_row": explainer.n_queries_ / len(train),
        "fit_seconds": seconds,
        "fit_cpu_seconds": cpu,
        "epochs": options.epochs,
        "mean_cost": fast.mean_cost,
        "agreement": fast.agreement,
        "divergence": fast.divergence,
        "audit": None if report is None else report.verdict,
        "example": narrative.text(),
        "curves": {k: vars(v) for k, v in curves.items()},
    }


def read_curves(result: dict[str, Any]) -> dict[str, FidelityCurve]:
    """The curves of a record."""
    return {
        name: FidelityCurve(**{field: tuple(values) for field, values in curve.items()})
        for name, curve in result["curves"].items()
    }


def row_of_divergences(curves: dict[str, FidelityCurve], cost: float) -> list[str]:
    """The divergences at a mean cost as cells; the lowest on the same rows is bold."""
    shown = []
    for names in COMPARED:
        known = [curves.get(name) for name in names]
        found = [np.nan if c is None else c.at(min(cost, c.cost[-1])) for c in known]
        cells = ["–" if np.isnan(value) else f"{value:.4f}" for value in found]
        if not np.isnan(found).all():
            best = int(np.nanargmin(found))
            cells[best] = f"**{cells[best]}**"
        shown += cells
    return shown


def header(*columns: str) -> list[str]:
    """The head of a table with the divergences of all methods."""
    compared = [name for names in COMPARED for name in names]
    labels = [{"SUWR": "own f", f"SUWR, {SLOW}": f"own f, {SLOW}"}.get(c, c) for c in compared]
    return [f"| {' | '.join([*columns, *labels])} |", "| --- " * (len(columns) + len(labels)) + "|"]


EXPLANATION = (
    "One split; 80 % of the rows are background rows, the others test rows. Mean KL divergences in "
    "nats, interpolated between the points of a curve and constant beyond the last one. 'own f' is "
    "the explainer's predictor; all others, SUWR (EVAL-X) included, are evaluated from values "
    "alone by one predictor trained on random masks of all sizes. KernelSHAP and LIME are measured "
    f"on the first {SLOW}, and so is the explainer beside them. The lowest divergence on the same "
    "rows is bold."
)


def range_page(results: dict[str, Any]) -> str:
    """The divergences at several mean costs as Markdown."""
    lines = [
        "# Explaining gradient boosting at several costs",
        "",
        "Written by `benchmarks/explainer/run.py --range` from `ranges.json.xz`. One "
        f"explainer for a range of λ from {RANGE[0]} to {RANGE[1]} times the entropy of the "
        f"model's mean output, "
        f"evaluated at nine λ. {EXPLANATION}",
        "",
        *header("table", "mean cost", "agreement"),
    ]
    for r in results.values():
        curves = read_curves(r)
        own = curves["SUWR"]
        for cost in COSTS:
            if not np.isnan(own.at(cost)):
                agreement = 100 * np.interp(cost, own.cost, own.agreement)
                cells = [r["table"], str(cost), f"{agreement:.1f} %"]
                lines.append(f"| {' | '.join(cells + row_of_divergences(curves, cost))} |")
    return "\n".join(lines) + "\n"


def page(results: dict[str, Any]) -> str:
    """The table of results as Markdown."""
    lines = [
        "# Explaining gradient boosting",
        "",
        "Written by `benchmarks/explainer/run.py` from `results.json.xz`. Divergences are those at "
        f"the explainer's own mean cost. {EXPLANATION}",
        "",
        *header("table", "columns", "queries per row", "fit", "mean cost", "of all columns",
                "agreement", "audit"),
    ]  # fmt: skip
    for r in results.values():
        cells = [
            r["table"], str(r["columns"]), f"{r['queries_per_row']:.1f}",
            f"{r['fit_seconds']:.0f} s", f"{r['mean_cost']:.2f}",
            f"{100 * r['mean_cost'] / r['columns']:.0f} %", f"{100 * r['agreement']:.1f} %",
            r["audit"] or "–",
        ]  # fmt: skip
        divergences = row_of_divergences(read_curves(r), r["mean_cost"])
        lines.append(f"| {' | '.join(cells + divergences)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=[], help="all of them")
    parser.add_argument("--tables", type=Path, default=Path("shared/tables"))
    parser.add_argument(
        "--rows", type=int, default=20_000, help="queries in total, at most 20 per row"
    )
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--fast", action="store_true", help="without KernelSHAP, LIME and L2X")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--range", action="store_true", help="one explainer for a range of λ")
    parser.add_argument("--out", help="name of the files that are written")
    parser.add_argument("--table", action="store_true", help="only write the page again")
    options = parser.parse_args()
    write_page = range_page if options.range else page
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stem = options.out or ("ranges" if options.range else "results")
    target, page_path = HERE / f"{stem}.json.xz", HERE / f"{stem}.md"
    record = read_json(target) if target.exists() else {"results": {}}
    if options.table:
        page_path.write_text(write_page(record["results"]))
        return
    for name in options.names or NAMES:
        record["results"][name] = measure(name, options) | {"provenance": machine()}
        write_json(target, record)
        page_path.write_text(write_page(record["results"]))
        last = record["results"][name]
        print(
            {k: last[k] for k in ("table", "mean_cost", "agreement", "divergence", "fit_seconds")}
        )


if __name__ == "__main__":
    main()
