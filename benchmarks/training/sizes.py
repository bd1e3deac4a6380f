"""Few rows and many columns: single fits of default settings to data with known relevant features.

    python benchmarks/training/sizes.py [DRAWS]
    python benchmarks/training/sizes.py --table    # only write the page from the JSON

Draw *s* has training rows of seed 60,000 + *s* and 10,000 test rows of seed 70,000 + *s*, and *s*
is the seed of the fit; no other experiment has used these rows. A fit takes one core. Finished
fits are not repeated, so that more draws can be added later; all of them are reported.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json
from suwr import SUWRClassifier
from suwr_experiments.synthetic import SyntheticData, selection_metrics, synthetic

OUT = Path(__file__).with_suffix(".json")
N_TEST, N_DRAWS = 10_000, 5


def generate(
    n_rows: int, seed: int, n_columns: int, log_odds: Callable[[Any], Any], n_relevant: int
) -> SyntheticData:
    """Normal columns, and a label whose log-odds are a function of the first ``n_relevant``."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n_rows, n_columns)
    probability = 1.0 / (1.0 + np.exp(-log_odds(X)))
    relevant = np.zeros(X.shape, dtype=bool)
    relevant[:, :n_relevant] = True
    return SyntheticData(X, rng.binomial(1, probability), probability, relevant)


def product(n_rows: int, seed: int) -> SyntheticData:
    """Two columns of 300 whose product alone is informative."""
    return generate(n_rows, seed, 300, lambda X: 3 * X[:, 0] * X[:, 1], 2)


def main_effects(n_rows: int, seed: int) -> SyntheticData:
    """Five columns of 1,000 with equal effects."""
    return generate(n_rows, seed, 1_000, lambda X: X[:, :5].sum(axis=1), 5)


def syn(number: int, n_noise: int, n_rows: int, seed: int) -> SyntheticData:
    """Syn1 to Syn6 with further columns of noise."""
    return synthetic(number, n_rows, seed, 11 + n_noise)


#: Number of training rows and generator by the name of a case, the quickest first.
CASES: dict[str, tuple[int, Callable[[int, int], SyntheticData]]] = {
    "Syn2, 1,000 rows": (1_000, partial(syn, 2, 0)),
    "Syn4, 1,000 rows": (1_000, partial(syn, 4, 0)),
    "Syn4, 2,500 rows": (2_500, partial(syn, 4, 0)),
    "Syn1, 100 columns of noise": (10_000, partial(syn, 1, 100)),
    "x1·x2 among 300 columns": (10_000, product),
    "five effects among 1,000 columns": (10_000, main_effects),
    "Syn4, 30 columns of noise": (10_000, partial(syn, 4, 30)),
    "Syn4, 100 columns of noise": (10_000, partial(syn, 4, 100)),
}


def fit(case: str, draw: int) -> dict[str, Any]:
    """One fit, its scores on test rows, and those of its predictors on the relevant features."""
    torch.set_num_threads(1)
    n_rows, make = CASES[case]
    train, test = make(n_rows, 60_000 + draw), make(N_TEST, 70_000 + draw)
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SUWRClassifier(random_state=draw, device="cpu").fit(train.X, train.y)
    seconds = time.process_time() - begun
    of_relevant = model.predict_masked(test.X, test.relevant)[:, 1]
    return {
        "case": case,
        "draw": draw,
        "auroc": float(roc_auc_score(test.y, model.predict_proba(test.X)[:, 1])),
        "auroc_relevant": float(roc_auc_score(test.y, of_relevant)),
        "auroc_limit": float(roc_auc_score(test.y, test.probability)),
        **selection_metrics(model.select(test.X), test.relevant),
        "warnings": sorted({w.category.__name__ for w in caught}),
        "cpu_seconds": round(seconds, 1),
        "about": machine(),
    }


def table(fits: list[dict[str, Any]]) -> str:
    """The record as a page."""
    lines = [
        "# Few rows and many columns",
        "",
        "Written by `benchmarks/training/sizes.py` from `sizes.json`. Single fits with default "
        f"settings, {N_TEST:,} test rows. 'Relevant' is the AUROC of the same fit on the features "
        "that are relevant to each row, and 'limit' that of the true p(y | x), both as means. "
        f"Ranges are over the draws. {len(fits)} of {N_DRAWS * len(CASES)} fits have been run.",
        "",
        "| data | draws | AUROC, mean | range | relevant | limit | TPR | FDR | range | features "
        "| CPU seconds | commit |",
        "| --- |" + " ---: |" * 10 + " --- |",
    ]
    for case in CASES:
        own = [f for f in fits if f["case"] == case]
        if not own:
            continue
        mean = {
            name: np.mean([f[name] for f in own])
            for name, value in own[0].items()
            if isinstance(value, float)
        }
        auroc, fdr = ([f[name] for f in own] for name in ("auroc", "fdr"))
        commits = sorted({f["about"]["commit"] for f in own})
        lines.append(
            f"| {case} | {len(own)} | {mean['auroc']:.3f} | {min(auroc):.3f} to {max(auroc):.3f} "
            f"| {mean['auroc_relevant']:.3f} | {mean['auroc_limit']:.3f} | {mean['tpr']:.0f} "
            f"| {mean['fdr']:.0f} | {min(fdr):.0f} to {max(fdr):.0f} | {mean['n_selected']:.1f} "
            f"| {mean['cpu_seconds']:.0f} | {', '.join(commits)} |"
        )
    machines = sorted({f"{f['about']['machine']}, {f['about']['date']}" for f in fits})
    return "\n".join([*lines, "", f"Machine: {'; '.join(machines)}.", ""])


def main() -> None:
    """Run the fits that are missing, and write the page."""
    fits = json.loads(OUT.read_text())["fits"] if OUT.exists() else []
    if "--table" not in sys.argv:
        n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else N_DRAWS
        done = {(f["case"], f["draw"]) for f in fits}
        todo = [(c, d) for c in CASES for d in range(n_draws) if (c, d) not in done]
        run = Parallel(n_jobs=-1, return_as="generator_unordered")
        for found in run(delayed(fit)(*job) for job in todo):
            fits.append(found)
            fits.sort(key=lambda f: (list(CASES).index(f["case"]), f["draw"]))
            write_json(OUT, {"fits": fits})
            print(found["case"], found["draw"], f"{found['auroc']:.3f}", flush=True)
    OUT.with_suffix(".md").write_text(table(fits))
    print(table(fits))


if __name__ == "__main__":
    main()
