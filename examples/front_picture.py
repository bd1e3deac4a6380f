"""The picture of the README: a leaking selector caught in the act, beside a SUWR narrative.

python examples/front_picture.py      # trains, about a minute, and writes docs/images/front.png
python examples/front_picture.py --quick --output x.png

The left side is INVASE, fitted and audited for real: two patients who agree on everything that
it reveals, and for whom it yet reveals different things. The right side is SUWR's story of one
of them.
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
from suwr.audit import Witness
from suwr.baselines import INVASEClassifier
from suwr.plots import plot_narrative

RED, BLUE, INK, FAINT = "#D55E00", "#0072B2", "#222222", "#999999"
# Columns of the table that are drawn: those that the story is about, and some of the others.
MOST_LINES = 9


def patients() -> tuple[Any, Any, Any, Any]:
    """Ten mean measurements of 569 tumours, benign or malignant."""
    data = load_breast_cancer(as_frame=True)
    X = data.data[[name for name in data.data.columns if name.startswith("mean ")]]
    y = data.target_names[data.target]
    return tuple(train_test_split(X, y, stratify=y, random_state=0))


def draw_witness(witness: Witness, ax: Any) -> None:
    """Two rows side by side: what is revealed of each, and what stays hidden."""
    either = witness.mask | witness.mask_other
    differs = np.array([a != b for a, b in zip(witness.x, witness.x_other, strict=True)])
    order = np.argsort(-(2 * either + 1 * differs), kind="stable")[:MOST_LINES]
    ax.set_xlim(0, 10)
    ax.set_ylim(len(order) + 0.2, -1.6)
    ax.set_axis_off()
    for x, head in ((5.4, "one patient"), (8.3, "another")):
        ax.text(x, -0.9, head, ha="center", weight="bold", color=INK)
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
    """Both sides in one figure."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 12})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(15, 5.6), width_ratios=[1, 1.15], layout="constrained"
    )
    draw_witness(witness, left)
    left.set_title(
        "INVASE reads everything, then chooses what to show", loc="left", weight="bold", color=RED,
        pad=38,
    )  # fmt: skip
    left.text(
        0.1, MOST_LINES + 0.15,
        "Two patients who agree on all that is shown of the first. Yet one value\n"
        "more is shown of the second: the choice tells of what is hidden. It leaks.",
        va="top", color=INK,
    )  # fmt: skip
    left.set_ylim(MOST_LINES + 1.5, -1.6)
    plot_narrative(narrative, ax=right)
    right.set_title(
        "SUWR decides only from what is already shown", loc="left", weight="bold", color=BLUE,
        pad=44,
    )  # fmt: skip
    right.set_xlabel(
        "Predicted probability\n\n"
        f"The first patient: {narrative.label}, from {narrative.n_used} of {narrative.n_units} "
        "features",
        loc="left",
    )
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main() -> None:
    """Fit both, audit the one, tell the story of the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images/front.png"))
    parser.add_argument("--quick", action="store_true", help="train briefly, to see it run")
    arguments = parser.parse_args()
    mpl.use("Agg")
    X_train, X_test, y_train, y_test = patients()
    brief = {"max_epochs": 3, "hidden_size": 16} if arguments.quick else {}
    rival = INVASEClassifier(sparsity_weight=0.02, random_state=0, **brief)
    rival.fit(X_train, y_train)
    report = suwr.audit(rival, X_test, gaps=False, random_state=0)
    print(f"INVASE: {report.verdict}, {report.mean_features:.1f} features a patient")
    ours = SUWRClassifier(random_state=0, **brief).fit(X_train, y_train)
    checked = suwr.audit(ours, X_test, gaps=False, random_state=0)
    print(f"SUWR: {checked.verdict}, {checked.mean_features:.1f} features a patient")
    print(f"accuracy {rival.score(X_test, y_test):.3f} and {ours.score(X_test, y_test):.3f}")
    if report.witness is None:
        print("No leak was found, so there is nothing to draw.")
        return
    row = X_test.iloc[[report.witness.row]]
    draw(report.witness, ours.explain(row)[0], arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
