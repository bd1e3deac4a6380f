"""Accuracy against features: one model per λ, and one model for a range of λ.

python examples/path.py --output path.png            # a few minutes
python examples/path.py --output path.png --quick    # seconds
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from suwr import SUWRClassifier, sparsity_path
from suwr.plots import plot_path


def main(output: Path, quick: bool = False) -> None:
    """Fit both kinds of models and draw both curves."""
    mpl.use("Agg")
    X, y = load_wine(return_X_y=True, as_frame=True)
    settings: dict[str, Any] = (
        {"max_epochs": 1, "training": {"hidden_size": 16}} if quick else {"max_epochs": 60}
    )
    weights = [0.01, 0.3] if quick else [0.003, 0.01, 0.03, 0.1, 0.3]
    path = sparsity_path(SUWRClassifier(random_state=0, **settings), X, y, weights)
    print(path.to_frame().to_string(index=False, float_format="%.3f"))

    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    range_model = SUWRClassifier(sparsity_weight=(0.003, 0.3), random_state=0, **settings)
    range_model.fit(X_train, y_train)
    features, accuracy = [], []
    for weight in np.geomspace(0.003, 0.3, 5):
        features.append(range_model.select(X_test, sparsity_weight=weight).sum(axis=1).mean())
        accuracy.append(np.mean(range_model.predict(X_test, sparsity_weight=weight) == y_test))
    ax = plot_path(
        {"one model per λ": path, "one model for a range of λ": (features, accuracy)},
        ylabel="Accuracy",
    )
    ax.figure.savefig(output, dpi=120, bbox_inches="tight")
    print(f"wrote {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("path.png"))
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    arguments = parser.parse_args()
    main(arguments.output, arguments.quick)
