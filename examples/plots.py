"""The figures of docs/guides/plots.md: a table, images, and a path with its exact optimum.

    python examples/plots.py                       # trains for a few minutes and writes docs/images
    python examples/plots.py --models my-models    # saves and reuses models

The command `suwr figures` draws these figures for any model and table.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

import suwr
from suwr import Patches, SUWRClassifier, SUWRRegressor, sparsity_path
from suwr.exact import FiniteProblem, cube, pareto_front
from suwr.plots import draw_figures, plot_path

DPI = 100


def breast_cancer() -> tuple[Any, Any, Any, Any]:
    """Thirty measurements of tumours, benign or malignant."""
    data = load_breast_cancer(as_frame=True)
    return tuple(train_test_split(data.data, data.target_names[data.target], random_state=0))


def digits() -> tuple[Any, Any, Any, Any]:
    """Images of 8 × 8 pixels."""
    X, y = load_digits(return_X_y=True)
    return tuple(train_test_split(X, y, stratify=y, random_state=0))


def pairs(n_pairs: int, repeats: int) -> tuple[FiniteProblem, Any, Any]:
    """A small version of the paper's toy problem, y = (Σ x1 x2)², and training rows."""
    X = cube(2 * n_pairs)
    y = (X[:, 0::2] * X[:, 1::2]).sum(axis=1) ** 2.0
    return FiniteProblem(X, y), np.tile(X, (repeats, 1)), np.tile(y, repeats)


def trained(folder: Path | None, name: str, fit: Callable[[], Any]) -> Any:
    """Load a model from the folder, or train and save it."""
    path = None if folder is None else folder / f"{name}.suwr"
    if path is not None and path.exists():
        return suwr.load(path)
    print(f"training on {name}")
    model = fit()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model


def draw_path(output: Path) -> None:
    """Draw models with several λ and the exact optimum; R² is 1 − loss / variance."""
    problem, X, y = pairs(n_pairs=3, repeats=16)
    front = pareto_front(problem, "dp")
    fixed = pareto_front(problem, "global")
    model = SUWRRegressor(training={"hidden_size": 64}, random_state=0, max_epochs=60)
    path = sparsity_path(model, X, y, [0.02, 0.1, 0.2, 0.4, 0.8])
    ax = plot_path(
        path,
        {
            "optimal policy (exact)": (front.cost, 1 - front.loss / front.loss[0]),
            "optimal fixed subset (exact)": (fixed.cost, 1 - fixed.loss / fixed.loss[0]),
        },
        ylabel="R²",
    )
    ax.figure.savefig(output / "path.png", dpi=DPI, bbox_inches="tight")


def main() -> None:
    """Train the models and draw all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    parser.add_argument("--models", type=Path, help="folder for trained models")
    arguments = parser.parse_args()
    mpl.use("Agg")
    X_train, X_test, y_train, y_test = breast_cancer()
    model = trained(
        arguments.models, "breast-cancer",
        lambda: SUWRClassifier(max_steps=10, random_state=0).fit(X_train, y_train),
    )  # fmt: skip
    draw_figures(model, X_test, y_test, arguments.output / "breast-cancer", dpi=DPI)
    X_train, X_test, y_train, y_test = digits()
    model = trained(
        arguments.models, "digits",
        lambda: SUWRClassifier(
            groups=Patches((8, 8), size=3), max_steps=8, max_epochs=20, random_state=0
        ).fit(X_train, y_train),
    )  # fmt: skip
    draw_figures(model, X_test, y_test, arguments.output / "digits", flip=(3, 8), dpi=DPI)
    draw_path(arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
