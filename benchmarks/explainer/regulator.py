"""Three features of a credit decision: SUWRExplainer beside the top three of SHAP, audited.

A gradient-boosting model predicts whether an application of the HMDA table is denied. Run
``python benchmarks/explainer/regulator.py --table path/to/hmda.csv``; the record is written to
``regulator.json`` and ``regulator.md``. The table is not part of the project.
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
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from suwr import SUWRExplainer, audit
from suwr.auditing.adapters import TopK
from suwr.explainer.fidelity import make_attribution

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from common import machine, write_json  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, default=Path("shared/tables/hmda.csv"))
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X = pd.read_csv(options.table)
    y = X.pop("Outcome")
    order = list(range(len(X)))
    random.Random(42).shuffle(order)
    cut = int(0.8 * len(X))
    train, test = X.iloc[order[:cut]], X.iloc[order[cut:]]
    text = list(X.select_dtypes(exclude="number"))
    model = make_pipeline(
        make_column_transformer((OrdinalEncoder(), text), remainder="passthrough"),
        HistGradientBoostingClassifier(random_state=0),
    ).fit(train, y.iloc[order[:cut]])
    start = time.time()
    explainer = SUWRExplainer(
        model,
        max_steps=3,
        queries_per_row=8,
        training={"hidden_size": 64},
        max_epochs=options.epochs,
        random_state=0,
    ).fit(train)
    seconds = time.time() - start
    fidelity = explainer.fidelity(test)
    # TreeSHAP of the trees inside the pipeline, in the order of the columns of the table.
    transform, trees = model[0], model[-1]
    position = [[*text, *X.columns.drop(text)].index(name) for name in X.columns]
    tree_scores = make_attribution("TreeSHAP", trees, trees.predict_proba, None, 0)

    def scores(rows: Any) -> np.ndarray:
        return tree_scores(transform.transform(rows))[:, position]

    shap_report = audit(TopK(scores, k=3), test, random_state=0)
    own_report = audit(explainer, test, random_state=0)
    denied = np.flatnonzero(explainer.model_output(test)[:, 1] > 0.5)[:2]
    record = {
        "provenance": machine(),
        "rows": len(train),
        "test_rows": len(test),
        "accuracy_of_model": float(model.score(test, y.iloc[order[cut:]])),
        "queries": explainer.n_queries_,
        "fit_seconds": seconds,
        "fidelity": fidelity.to_dict(),
        "summary": fidelity.summary(),
        "narratives": [n.text() for n in explainer.explain(test.iloc[denied])],
        "audit_of_explainer": own_report.summary(),
        "audit_of_shap": shap_report.summary(),
        "shap_leaks": bool(shap_report.leaks),
        "explainer_leaks": bool(own_report.leaks),
    }
    write_json(HERE / "regulator.json", record)
    parts = [
        "# Three features of a credit decision", "",
        "Written by `benchmarks/explainer/regulator.py`.", "", record["summary"], "",
        *(f"```text\n{text}\n```\n" for text in record["narratives"]),
        "Audit of the explainer:", "", f"```text\n{record['audit_of_explainer']}\n```", "",
        "Audit of the top three features of TreeSHAP:", "",
        f"```text\n{record['audit_of_shap']}\n```", "",
    ]  # fmt: skip
    (HERE / "regulator.md").write_text("\n".join(parts))
    print(record["summary"], record["shap_leaks"], record["explainer_leaks"])


if __name__ == "__main__":
    main()
