"""What the defaults of `SUWRExplainer` were chosen by: explainers of models of development tables.

    python benchmarks/explainer/defaults.py FOLDER [VARIANT ...]

FOLDER holds the development tables of docs/results/protocol.md as CSV files of at most 4,000 rows;
their last column, ``Outcome``, is the target. Results are added to ``defaults.json.xz``, and
``defaults.md`` is written from all of them; without arguments, only the page is written.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from suwr import SUWRExplainer

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json

OUT = Path(__file__).with_suffix(".json.xz")
# λ of all classifications, and queries in all, at most 20 per row.
WEIGHT, N_QUERIES = 0.0069, 20_000
STRONG = {"dropout": 0.2, "weight_decay": 0.1, "finetune_dropout": 0.1}
WEAK = {"dropout": 0.05, "weight_decay": 0.02, "finetune_dropout": 0.02}
#: Settings of ``training`` by variant; the first is the reference, and the last the default.
VARIANTS: dict[str, dict[str, Any]] = {
    "no bins": STRONG | {"n_bins": 0},
    "8 bins": STRONG | {"n_bins": 8},
    "16 bins": STRONG | {"n_bins": 16},
    "32 bins": STRONG | {"n_bins": 32},
    "up to 32 bins": STRONG,
    "up to 32 bins, least regularised": WEAK,
    "up to 32 bins, less regularised": {},
}
# Numbers behind # are those of quantile classes of a numeric target.
BOOSTING = (
    "optdigits", "texture", "spambase", "contraceptive", "marketing", "penbased", "segment",
    "vehicle", "hpc_data", "Boston#5", "concrete#4", "College#4", "diamonds#6", "Wage#3", "pima",
    "magic", "wa_churn", "OJ", "australian", "heart", "ring",
)  # fmt: skip
SMOOTH = ("vehicle", "segment", "pima", "hpc_data", "magic", "Boston#5", "texture")
REGRESSION = ("concrete", "Boston", "Wage", "College", "diamonds", "hotel_rates")
#: Tables by kind of model.
TABLES = {
    "gradient boosting": BOOSTING,
    "neural network": SMOOTH,
    "logistic regression": SMOOTH,
    "gradient boosting of a value": REGRESSION,
}


def read(name: str, folder: Path, regression: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numeric columns and target of a table; categories become codes, and gaps -1."""
    import pandas as pd

    name, _, n_bins = name.partition("#")
    table = pd.read_csv(folder / f"{name}.csv")
    target = table.pop("Outcome")
    for column in table.select_dtypes(exclude="number"):
        table[column] = table[column].factorize(sort=True)[0]
    X = table.fillna(-1).to_numpy(float)
    if regression:
        return X, target.to_numpy(float)
    if n_bins:
        return X, pd.qcut(target, int(n_bins), labels=False, duplicates="drop").to_numpy()
    return X, target.factorize(sort=True)[0]


def make_model(kind: str) -> Any:
    """An unfitted model."""
    if kind == "logistic regression":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    if kind == "neural network":
        network = MLPClassifier((64, 64), early_stopping=True, max_iter=300, random_state=0)
        return make_pipeline(StandardScaler(), network)
    if kind == "gradient boosting":
        return HistGradientBoostingClassifier(random_state=0)
    return HistGradientBoostingRegressor(random_state=0)


def measure(kind: str, name: str, variant: str, folder: Path) -> dict[str, Any]:
    """Fit a model and its explainer on 80 % of the rows; evaluate on at most 1,000 others."""
    regression = kind == "gradient boosting of a value"
    X, y = read(name, folder, regression)
    order = list(range(len(X)))
    random.Random(42).shuffle(order)
    cut = int(0.8 * len(X))
    train, test = order[:cut], order[cut:][:1000]
    model = make_model(kind).fit(X[train], y[train])
    start = time.time()
    explainer = SUWRExplainer(
        model,
        sparsity_weight="auto" if regression else WEIGHT,
        queries_per_row=max(1, min(20, N_QUERIES // len(train))),
        training=VARIANTS[variant],
        random_state=0,
    ).fit(X[train])
    seconds = time.time() - start
    found = explainer.fidelity(X[test])
    return {
        "model": kind,
        "table": name,
        "variant": variant,
        "rows": len(train),
        "columns": X.shape[1],
        "mean_cost": found.mean_cost,
        "agreement": found.agreement,
        "divergence": found.divergence,
        "seconds": seconds,
    }


def objective(result: dict[str, Any]) -> float:
    """Divergence with the cost of the features; for values, λ is 1 % of their variance."""
    weight = 0.01 if result["model"] == "gradient boosting of a value" else WEIGHT
    return float(result["divergence"] + weight * result["mean_cost"])


def summary(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Results of a variant relative to the reference on the same tables, as cells."""
    ratio = np.log([objective(new) / objective(old) for old, new in pairs])
    error = ratio.std() / len(pairs) ** 0.5
    share = [100 * (new["mean_cost"] - old["mean_cost"]) / old["columns"] for old, new in pairs]
    agreement = [100 * (new["agreement"] - old["agreement"]) for old, new in pairs]
    return [
        str(len(pairs)),
        f"{np.exp(ratio.mean()):.3f} ± {error:.3f}",
        str(int((ratio < 0).sum())),
        f"{np.mean(agreement):+.1f}",
        f"{np.mean(share):+.1f}",
    ]


def page(results: list[dict[str, Any]], note: str) -> str:
    """All results as Markdown."""
    found = {(r["model"], r["table"], r["variant"]): r for r in results}
    reference = next(iter(VARIANTS))
    lines = [
        "# Defaults of the explainer",
        "",
        "Written by `benchmarks/explainer/defaults.py` from `defaults.json.xz`. "
        "Explainers of models "
        "of development tables, one split and one fit each; none of them is a table of "
        f"[results.md](results.md). λ is {WEIGHT} for classes and 'auto' for values. The objective "
        "is the KL divergence (1 − R² of values) plus λ times the mean cost; its ratio to that "
        f"of '{reference}' is a geometric mean over tables with its standard error. Differences of "
        "agreement (R² of values) and of the mean cost relative to all columns are in percentage "
        "points. 'up to 32 bins' are at most 512 for all columns. These fits chose the defaults, so"
        " they are optimistic about them.",
        "",
        note,
        "",
        "| model | variant | tables | objective | better on | agreement | cost |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, tables in TABLES.items():
        for variant in list(VARIANTS)[1:]:
            keys = [((kind, t, reference), (kind, t, variant)) for t in tables]
            pairs = [(found[a], found[b]) for a, b in keys if a in found and b in found]
            if pairs:
                lines.append(f"| {' | '.join([kind, variant, *summary(pairs)])} |")
    lines += [
        "",
        "Agreement (R² of values), mean cost relative to all columns, and divergence:",
        "",
        f"| model | table | {' | '.join(VARIANTS)} |",
        "| --- " * (2 + len(VARIANTS)) + "|",
    ]
    for kind, tables in TABLES.items():
        for table in tables:
            cells = []
            for variant in VARIANTS:
                r = found.get((kind, table, variant))
                cells.append(
                    "–"
                    if r is None
                    else f"{100 * r['agreement']:.1f} %, {100 * r['mean_cost'] / r['columns']:.0f} "
                    f"%, {r['divergence']:.3f}"
                )
            lines.append(f"| {' | '.join([kind, table, *cells])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    record = read_json(OUT) if OUT.exists() else {"results": []}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for variant in (sys.argv[2:] or list(VARIANTS)) if sys.argv[1:] else []:
        for kind, tables in TABLES.items():
            for table in tables:
                result = measure(kind, table, variant, Path(sys.argv[1]))
                # The folder is not part of the record.
                made = machine() | {"command": "python benchmarks/explainer/defaults.py FOLDER"}
                record["results"].append(result | {"provenance": made})
                write_json(OUT, record)
                print(result)
    Path(__file__).with_suffix(".md").write_text(page(record["results"], record.get("note", "")))


if __name__ == "__main__":
    main()
