"""L2X on development draws of Syn1 to Syn6: what separates it from its published figures?

    python benchmarks/training/l2x.py [N_DRAWS]

The learning rate and the network are smaller than those of the preset, whose results on other draws
are in docs/results/draws.md; with and without dropout. AUROC is that of L2X's own predictor, and of
a network that is trained anew on the selections of the training rows. The settings were chosen on
the first of these draws.
"""

from __future__ import annotations

import sys
import time
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
from suwr_experiments.presets import preset
from suwr_experiments.published import PUBLISHED
from suwr_experiments.synthetic import selection_metrics, synthetic

FIRST_TRAIN, FIRST_TEST, N_ROWS, N_COLUMNS = 7100, 8100, 10_000, 11
OUT = Path(__file__).with_suffix(".json")
_TEXT = ("data", "setting")


class L2XWithoutDropout(L2XClassifier):
    """L2X whose predictor has no dropout."""

    _dropout = 0.0


#: Parameters that differ from those of the preset.
PARAMETERS = {"learning_rate": 3e-4, "hidden_size": 100, "max_epochs": 150}
#: Estimators by the name of the setting.
SETTINGS: dict[str, type[L2XClassifier]] = {
    "slower, smaller": L2XClassifier,
    "slower, smaller, no dropout": L2XWithoutDropout,
}


def shown(X: NDArray[Any], masks: NDArray[np.bool_]) -> NDArray[Any]:
    """The selected values and the masks, side by side."""
    return np.hstack([X * masks, masks])


def fit(number: int, setting: str, draw: int) -> dict[str, Any]:
    """One fit on a draw of Syn1 to Syn6."""
    train = synthetic(number, N_ROWS, FIRST_TRAIN + draw, N_COLUMNS)
    test = synthetic(number, N_ROWS, FIRST_TEST + draw, N_COLUMNS)
    given = {**preset(f"syn{number}", "L2X"), **PARAMETERS}
    given["max_steps"] = given.pop("n_units")
    begun = time.process_time()
    model = SETTINGS[setting](**given, random_state=draw, device="cpu").fit(train.X, train.y)
    seconds = time.process_time() - begun
    masks = model.select(test.X)
    again = AllFeaturesClassifier(hidden_size=100, max_epochs=60, random_state=draw, device="cpu")
    again.fit(shown(train.X, model.select(train.X)), train.y)
    return {
        "data": f"Syn{number}",
        "setting": setting,
        "draw": draw,
        "auroc": roc_auc_score(test.y, model.predict_proba(test.X)[:, 1]),
        "auroc_again": roc_auc_score(test.y, again.predict_proba(shown(test.X, masks))[:, 1]),
        **selection_metrics(masks, test.relevant),
        "seconds": seconds,
    }


def page(stored: dict[str, Any]) -> str:
    """The results page."""
    about = stored["about"]
    lines = [
        "# L2X and its published figures",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}, commit {about['commit']}. "
        f"Development draws with {N_ROWS:,} training and {N_ROWS:,} test rows; means over the "
        "draws, published values in brackets. *Trained anew*: AUROC of a network that is trained "
        "on the features that L2X has selected in the training rows. Parameters other than those "
        f"of the preset, chosen on the first draw: {PARAMETERS}.",
        "",
        "| data | setting | AUROC | trained anew | TPR | FDR | CPU seconds | draws |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for number in range(1, 7):
        for setting in SETTINGS:
            runs = [
                run
                for run in stored["runs"]
                if (run["data"], run["setting"]) == (f"Syn{number}", setting)
            ]
            if not runs:
                continue
            mean = {k: float(np.mean([run[k] for run in runs])) for k in runs[0] if k not in _TEXT}
            cells = [f"Syn{number}", setting]
            for name in ("auroc", "tpr", "fdr"):
                known = PUBLISHED["L2X"][f"Syn{number}"][name]
                digits = 3 if name == "auroc" else 1
                cells.append(f"{mean[name]:.{digits}f} ({known:g})")
            cells.insert(3, f"{mean['auroc_again']:.3f}")
            cells += [f"{mean['seconds']:.0f}", str(len(runs))]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the benchmark and write its results."""
    torch.set_num_threads(1)
    n_draws = int(sys.argv[1]) if sys.argv[1:] else 1
    stored: dict[str, Any] = {"about": machine(), "runs": []}
    for draw, setting in product(range(n_draws), SETTINGS):
        for number in range(1, 7):
            stored["runs"].append(fit(number, setting, draw))
            write_json(OUT, stored)
            OUT.with_suffix(".md").write_text(page(stored), encoding="utf-8")
            print(stored["runs"][-1], flush=True)


if __name__ == "__main__":
    main()
