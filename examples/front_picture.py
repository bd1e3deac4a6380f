"""The figure of the README: the witness of a leaking selector, and a SUWR narrative.

python examples/front_picture.py      # trains, about a minute, and writes docs/images/front.png
python examples/front_picture.py --quick --output x.png

The left side shows the audit of a fitted INVASE model: a patient, and the same patient with other
hidden values, for whom INVASE selects other features. The right side is the SUWR narrative of the
same patient.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import suwr
from suwr import SUWRClassifier
from suwr.auditing import Witness
from suwr.baselines import INVASEClassifier
from suwr.plots import plot_narrative

RED, BLUE, INK, FAINT = "#D55E00", "#0072B2", "#222222", "#999999"
# Number of features in the table; those with different masks or values come first.
MAX_LINES = 9


def patients() -> tuple[Any, Any, Any, Any]:
    """Ten mean measurements of 569 tumours, benign or malignant."""
    data = load_breast_cancer(as_frame=True)
    X = data.data[[name for name in data.data.columns if name.startswith("mean ")]]
    y = data.target_names[data.target]
    return tuple(train_test_split(X, y, stratify=y, random_state=0))


def draw_witness(witness: Witness, ax: Any) -> None:
    """Draw the two rows of a witness side by side, with hidden values marked."""
    either = witness.mask | witness.mask_other
    differs = np.array([a != b for a, b in zip(witness.x, witness.x_other, strict=True)])
    order = np.argsort(-(2 * either + 1 * differs), kind="stable")[:MAX_LINES]
    ax.set_xlim(0, 10)
    ax.set_ylim(len(order) + 0.2, -1.6)
    ax.set_axis_off()
    real = witness.support == "empirical"
    other = "another patient" if real else "same patient, other\nhidden values"
    for x, head in ((5.4, "a patient"), (8.3, other)):
        ax.text(x, -0.7, head, ha="center", va="bottom", weight="bold", color=INK)
    for line, column in enumerate(order):
        name = witness.columns[column].removeprefix("mean ")
        ax.text(0.1, line, name, va="center", color=INK)
        for x, row, mask in (
            (5.4, witness.x, witness.mask),
            (8.3, witness.x_other, witness.mask_other),
        ):
            shown = bool(mask[column])
            changed = bool(witness.mask[column] != witness.mask_other[column])
            colour = RED if changed else INK
            ax.text(
                x, line, f"{row[column]:.4g}" if shown else "hidden", ha="center", va="center",
                color=colour if shown or changed else FAINT,
                weight="bold" if shown else "normal", style="normal" if shown else "italic",
                bbox={"boxstyle": "round,pad=0.25", "fc": "white" if shown else "#f0f0f0",
                      "ec": colour if shown or changed else "#f0f0f0"},
            )  # fmt: skip


def draw(witness: Witness, narrative: Any, output: Path) -> None:
    """Draw both sides."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 12})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(15, 5.6), width_ratios=[1, 1.15], layout="constrained"
    )
    draw_witness(witness, left)
    title = "INVASE reads all features to choose which to reveal"
    left.set_title(title, loc="left", weight="bold", color=RED, pad=38)
    note = (
        "Both have the same value of what is shown for the first, but other features\n"
        "are shown for the second: the selection depends on hidden values. It leaks."
    )
    left.text(0.1, MAX_LINES + 0.15, note, va="top", color=INK)
    left.set_ylim(MAX_LINES + 1.5, -1.6)
    plot_narrative(narrative, ax=right)
    title = "SUWR decides from revealed values only"
    right.set_title(title, loc="left", weight="bold", color=BLUE, pad=44)
    right.set_xlabel(
        "Predicted probability\n\n"
        f"The same patient: {narrative.label}, from {narrative.n_used} of {narrative.n_units} "
        "features",
        loc="left",
    )
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main() -> None:
    """Fit and audit both models, and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images/front.png"))
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    arguments = parser.parse_args()
    mpl.use("Agg")
    X_train, X_test, y_train, y_test = patients()
    brief = {"max_epochs": 3} if arguments.quick else {}
    invase = INVASEClassifier(sparsity_weight=0.02, random_state=0, **brief)
    invase.fit(X_train, y_train)
    report = suwr.audit(invase, X_test, gaps=False, random_state=0)
    print(f"INVASE: {report.verdict}, {report.mean_features:.1f} features per patient")
    model = SUWRClassifier(random_state=0, **brief).fit(X_train, y_train)
    suwr_report = suwr.audit(model, X_test, gaps=False, random_state=0)
    print(f"SUWR: {suwr_report.verdict}, {suwr_report.mean_features:.1f} features per patient")
    print(f"accuracy {invase.score(X_test, y_test):.3f} and {model.score(X_test, y_test):.3f}")
    if report.witness is None:
        print("No leakage was found, so there is no witness to draw.")
        return
    row = X_test.iloc[[report.witness.row]]
    narrative = model.explain(row)[0]
    print(f"{narrative.text()}\nThe true diagnosis is {y_test[report.witness.row]}.")
    draw(report.witness, narrative, arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
