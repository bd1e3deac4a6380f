"""Rivals on development draws of Syn1 to Syn6: equal networks, and what separates L2X, INVASE and
TabNet from their published figures.

    python benchmarks/training/rivals.py [N_DRAWS [SET ...]]

Methods differ in their predictors: SUWR is an ensemble of two, most others have one network. Here,
four equal networks are trained on the features that a method has selected in the training rows, and
evaluated on those that it selects in the test rows, one by one and as an ensemble. Methods have
their presets, SUWR its defaults; L2X, INVASE and TabNet also have settings that were chosen on the
first of these draws. Fits of earlier calls are kept. By default the sets are Syn4, Syn5 and Syn6.
"""

from __future__ import annotations

import json
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json
from suwr.baselines import AllFeaturesClassifier, L2XClassifier
from suwr_experiments.config import Cell
from suwr_experiments.experiment import Task, make_model
from suwr_experiments.presets import preset
from suwr_experiments.published import PUBLISHED
from suwr_experiments.synthetic import selection_metrics, synthetic
from suwr_experiments.tables import label

FIRST_TRAIN, FIRST_TEST, N_ROWS, N_COLUMNS = 7100, 8100, 10_000, 11
SETS = ("Syn4", "Syn5", "Syn6")
NETWORK = {"hidden_size": 100, "n_layers": 3, "max_epochs": 60}
N_NETWORKS = 4
OUT = Path(__file__).with_suffix(".json")


class L2XWithoutDropout(L2XClassifier):
    """L2X whose predictor has no dropout."""

    _dropout = 0.0


_L2X = {"learning_rate": 3e-4, "hidden_size": 100, "max_epochs": 150}
_TABNET = {"batch_size": 1024, "max_epochs": 200, "learning_rate": 0.01}
#: Parameters other than those of the preset, by method and setting.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("SUWR", "default"): {},
    **{(method, "preset"): {} for method in ("SEFA", "GDFS", "DIME", "CAE", "REALX")},
    ("L2X", "preset"): {},
    ("L2X", "slower, smaller"): _L2X,
    ("L2X", "slower, smaller, no dropout"): _L2X,
    ("INVASE", "preset"): {},
    ("INVASE", "λ = 0.05, smaller"): {"sparsity_weight": 0.05 / N_COLUMNS, "hidden_size": 100},
    ("TabNet", "preset"): {},
    ("TabNet", "slower, larger batches"): _TABNET,
    ("AllFeatures", "preset"): {},
}
_MEANS = ("auroc", "auroc_one", "auroc_ensemble", "n_selected", "tpr", "fdr")


def shown(X: NDArray[Any], masks: NDArray[np.bool_]) -> NDArray[Any]:
    """The selected values and the masks, side by side."""
    return np.hstack([X * masks, masks])


def fit(data: str, method: str, setting: str, draw: int) -> dict[str, Any]:
    """One fit of a method, and the networks that are trained on its selections."""
    number = int(data.removeprefix("Syn"))
    train = synthetic(number, N_ROWS, FIRST_TRAIN + draw, N_COLUMNS)
    test = synthetic(number, N_ROWS, FIRST_TEST + draw, N_COLUMNS)
    params = {} if method == "SUWR" else preset(data.lower(), method)
    cell = Cell("draws", data, method, draw, params=params | SETTINGS[method, setting])
    model = make_model(cell, Task(train.X, train.y, test.X, test.y))
    if setting.endswith("no dropout"):
        model = L2XWithoutDropout(**model.get_params())
    model.fit(train.X, train.y)
    masks = model.select(test.X)
    inputs, held_out = shown(train.X, model.select(train.X)), shown(test.X, masks)
    each = []
    for seed in range(N_NETWORKS):
        network = AllFeaturesClassifier(**NETWORK, random_state=seed, device="cpu")
        each.append(network.fit(inputs, train.y).predict_proba(held_out)[:, 1])
    return {
        "data": data,
        "method": method,
        "setting": setting,
        "draw": draw,
        "auroc": roc_auc_score(test.y, model.predict_proba(test.X)[:, 1]),
        "auroc_one": float(np.mean([roc_auc_score(test.y, p) for p in each])),
        "auroc_ensemble": roc_auc_score(test.y, np.mean(each, axis=0)),
        **selection_metrics(masks, test.relevant),
        "about": machine(),
    }


def page(runs: list[dict[str, Any]]) -> str:
    """The results page."""
    commits = sorted({(run["about"]["date"], run["about"]["commit"]) for run in runs})
    lines = [
        "# Rivals under equal networks, and their published figures",
        "",
        "Written by `benchmarks/training/rivals.py`, commits "
        f"{', '.join(f'{commit} ({date})' for date, commit in commits)}. Development draws with "
        f"{N_ROWS:,} training and {N_ROWS:,} test rows; means over the draws, published values in "
        "brackets. *Own*: AUROC of the method's own predictors. *One network* and *four networks*: "
        "AUROC of equal networks that are trained on the features that the method has selected in "
        "the training rows, the mean of four and their ensemble. The masks are inputs of these "
        "networks, so that a method whose selection encodes the label gains by it: L2X, INVASE, "
        "REAL-X and TabNet read all features before they select. Settings other than 'preset' and "
        "'default' were chosen on the first draw.",
        "",
        "| data | method | setting | own | one network | four networks | features | TPR | FDR "
        "| draws |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for data, (method, setting) in product([f"Syn{n}" for n in range(1, 7)], SETTINGS):
        key = data, method, setting
        own = [run for run in runs if (run["data"], run["method"], run["setting"]) == key]
        if own:
            known = PUBLISHED.get(method, {}).get(data, {})
            cells = []
            for name in _MEANS:
                values = [run[name] for run in own if name in run]
                digits = 4 if name.startswith("auroc") else 1
                published = f" ({known[name]:g})" if name in known else ""
                mean = f"{np.mean(values):.{digits}f}" if values else "–"
                cells.append(mean + published)
            lines.append(
                f"| {data} | {label(method)} | {setting} | {' | '.join(cells)} | {len(own)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, and write the results after every fit."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    runs = json.loads(OUT.read_text())["runs"] if OUT.exists() else []
    done = {(run["data"], run["method"], run["setting"], run["draw"]) for run in runs}
    n_draws = int(sys.argv[1]) if sys.argv[1:] else 0
    for draw, data, (method, setting) in product(range(n_draws), sys.argv[2:] or SETS, SETTINGS):
        if (data, method, setting, draw) not in done:
            runs.append(fit(data, method, setting, draw))
            write_json(OUT, {"runs": runs})
            print({name: runs[-1][name] for name in ("data", "method", *_MEANS)}, flush=True)
    OUT.with_suffix(".md").write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
