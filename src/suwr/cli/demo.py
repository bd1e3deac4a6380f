"""``suwr demo``: train, evaluate, explain and check a model on the breast cancer data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table as RichTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from suwr._utils.files import write_atomic
from suwr._utils.text import printable
from suwr._utils.validation import require
from suwr.cli.options import Terminal
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.verify import poison_check


def run_demo(out: Path, seed: int = 0) -> None:
    """Train, compare with gradient boosting, explain, check for leakage and write files."""
    require("pandas", "tables", "The demo")
    out.mkdir(parents=True, exist_ok=True)
    names = ("breast-cancer.suwr", "narratives.json", "narratives.txt", "narratives.html")
    paths = [out / name for name in names]
    present = [path for path in paths if path.exists()]
    if present and paths[0] not in present:
        raise FileExistsError(
            f"--out must be a new folder, or that of an earlier demo. Got {str(out)!r}, which "
            f"contains another {present[0].name!r}."
        )
    terminal = Terminal()
    bunch = load_breast_cancer(as_frame=True)
    X, n_columns = bunch.data, bunch.data.shape[1]
    y = bunch.target_names[bunch.target]
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    terminal.print(
        f"Breast cancer: {len(X_train)} training and {len(X_test)} test patients, "
        f"{n_columns} measurements each."
    )
    # At most ten steps, so that every narrative is easy to read.
    model = SUWRClassifier(max_steps=10, random_state=seed, verbose=1)
    model.fit(X_train, y_train)
    boosting = HistGradientBoostingClassifier(random_state=seed).fit(X_train, y_train)

    used = model.select(X_test).sum(axis=1)
    table = RichTable("", "accuracy", "AUROC", "measurements used")
    rows = (
        ("suwr", model.predict_proba(X_test), f"{used.mean():.1f} of {n_columns}, leak-free"),
        ("gradient boosting", boosting.predict_proba(X_test), f"all {n_columns}"),
    )
    for name, probability, cost in rows:
        label = model.classes_[probability.argmax(axis=1)]
        auroc = roc_auc_score(y_test == model.classes_[1], probability[:, 1])
        table.add_row(name, f"{accuracy_score(y_test, label):.3f}", f"{auroc:.3f}", cost)
    terminal.console.print(table)

    explanation = model.explain(X_test)
    by_length = np.argsort(used, kind="stable")
    chosen = [int(by_length[i]) for i in (0, len(used) // 2, len(used) - 1)]
    terminal.print("\nThree narratives: the shortest, one of median length, and the longest.\n")
    for number in chosen:
        terminal.print(explanation[number].text())
        terminal.print(f"The true diagnosis is {y_test[number]}.\n", style="dim")

    report = poison_check(model, X_test, random_state=seed)
    result = (
        "selections and predictions are bit-identical"
        if report.passed
        else f"{report.n_changed} ROWS CHANGED"
    )
    terminal.print(
        f"Leakage check: {report.n_cells:,} hidden values of {report.n_rows} patients were "
        f"replaced by NaN, by huge numbers and by other patients' values: {result}."
    )

    model.save(paths[0])
    write_atomic(paths[1], explanation.to_json().encode())
    write_atomic(paths[2], (explanation.text() + "\n").encode())
    title = "Breast cancer: every diagnosis, step by step"
    # The data are public, so readers may see hidden values too.
    explanation.to_html(paths[3], y=y_test, title=title, hidden_values=True)
    terminal.print("\nWrote:")
    for path in paths:
        terminal.print(f"  {printable(path)}")
    if not report.passed:
        raise ValueError("The leakage check failed.")
