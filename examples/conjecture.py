"""A counterexample to the paper's conjecture, and how often the fronts of random problems differ.

The paper conjectures that with full support every leak-free policy is a SUWR policy. This script
prints a counterexample on three bits, verifies its certificate in exact arithmetic, and measures
the gap between the two Pareto fronts of random problems. docs/theory/conjecture.md explains the
output.

    python examples/conjecture.py                          # a quick search, no figure
    python examples/conjecture.py --problems 1000 --output docs/theory/conjecture.png
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from suwr.exact import (
    FiniteProblem,
    cube,
    five_blocks,
    leakage,
    one_hot_rows,
    pareto_front,
    represent,
    solve,
)
from suwr.exact.problem import FIVE_BLOCKS
from suwr.plots import plot_fronts

Family = Callable[[np.ndarray, np.random.Generator], FiniteProblem]

FAMILIES: dict[str, Family] = {
    "yes/no label, 0/1 loss": lambda X, rng: FiniteProblem(
        X, rng.integers(0, 2, len(X)), loss="zero_one"
    ),
    "4 classes, 0/1 loss": lambda X, rng: FiniteProblem(
        X, rng.integers(0, 4, len(X)), loss="zero_one"
    ),
    "4 classes, cross-entropy": lambda X, rng: FiniteProblem(
        X, rng.integers(0, 4, len(X)), loss="cross_entropy"
    ),
    "normal label, squared error": lambda X, rng: FiniteProblem(X, rng.normal(size=len(X))),
    "squared error, random p(x)": lambda X, rng: FiniteProblem(
        X, rng.normal(size=len(X)), rng.dirichlet(np.ones(len(X)))
    ),
}


def front_gap(problem: FiniteProblem) -> float:
    """Largest gap between the two fronts, relative to the loss without any feature."""
    lp, dp = pareto_front(problem, "lp"), pareto_front(problem, "dp")
    if dp.loss[0] <= 0:
        return 0.0
    # Both fronts are piecewise linear, so the largest difference is at a corner.
    cost = np.union1d(lp.cost, dp.cost)
    gap = float((dp.loss_at(cost) - lp.loss_at(cost)).max() / dp.loss[0])
    return gap if gap > 1e-6 else 0.0


def search(n_problems: int, n_features: int) -> dict[str, list[float]]:
    """Gaps of random problems of every family."""
    found = {}
    for number, (name, family) in enumerate(FAMILIES.items()):
        rng = np.random.default_rng([number, n_features])
        X = cube(n_features)
        found[name] = [front_gap(family(X, rng)) for _ in range(n_problems)]
    return found


def boolean_functions() -> list[float]:
    """Gaps of all 256 functions from three bits to a yes/no label, 0/1 loss."""
    X = cube(3)
    return [
        front_gap(FiniteProblem(X, (number >> np.arange(8)) & 1, loss="zero_one"))
        for number in range(256)
    ]


def show_counterexample() -> None:
    """Print the five blocks, their certificate and the expected numbers of features."""
    problem, masks = five_blocks()
    print("The counterexample: reveal the coordinates that the block of x fixes.\n")
    print("block  rows      reveals")
    for block in FIVE_BLOCKS:
        rows = [
            "".join(map(str, x))
            for x in problem.X
            if all(c in ("*", str(v)) for c, v in zip(block, x, strict=True))
        ]
        shown = ", ".join(f"x{j + 1}" for j, c in enumerate(block) if c != "*")
        print(f"{block:<7}{' '.join(rows):<10}{shown}")
    print("\n" + leakage(problem, masks).summary())
    for units in (1, None):
        answer = represent(problem, masks, units_per_step=units)
        size = "one feature" if units == 1 else "any number of features"
        print(f"\nSUWR policy with {size} a step: {answer.policy}")
    assert answer.certificate is not None
    print(f"certificate verified: {answer.certificate.verify()}")
    print(answer.certificate.text())
    for method in ("lp", "dp", "global"):
        print(f"{method:<7}reveals {solve(problem, 0.01, method).n_selected:.2f} features")


def show_missing_support() -> None:
    """Print the paper's example without full support."""
    problem, masks = one_hot_rows()
    answer = represent(problem, masks)
    assert answer.certificate is not None
    print("\nWithout full support (Appendix D): rows 100, 010, 001; each reveals its 1.")
    print(f"leaks: {leakage(problem, masks).leaks}; SUWR policy: {answer.policy}")
    print(f"certificate verified: {answer.certificate.verify()}")
    print(answer.certificate.text())
    for method in ("lp", "dp", "global"):
        print(f"{method:<7}reveals {solve(problem, 0.01, method).n_selected:.2f} features")


def show_search(results: dict[int, dict[str, list[float]]]) -> None:
    """Print how often and by how much the fronts differ."""
    print(f"\n{'family':<30}{'d':>2}{'problems':>10}{'differ':>9}{'median':>9}{'largest':>9}")
    for d, families in results.items():
        for name, gaps in families.items():
            found = np.array(gaps)
            differ = found[found > 0]
            median = np.median(differ) if len(differ) else 0.0
            print(
                f"{name:<30}{d:>2}{len(found):>10}{len(differ) / len(found):>9.1%}"
                f"{median:>9.2%}{found.max():>9.2%}"
            )


def draw(results: dict[int, dict[str, list[float]]], output: Path) -> None:
    """Draw the fronts of the counterexample, and how often and by how much fronts differ."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 12, "axes.titlesize": 13, "axes.titleweight": "bold"})
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(17, 5), layout="constrained", width_ratios=[1, 1.2, 1.1]
    )
    problem, _ = five_blocks()
    fronts = [pareto_front(problem, method) for method in ("lp", "dp", "global")]
    kinds = ("Leak-free", "SUWR", "Fixed subset")
    labels = [f"{k}: {f.n_selected[-1]:.2f} features" for k, f in zip(kinds, fronts, strict=True)]
    plot_fronts(fronts, labels=labels, ax=left, ylabel="Expected 0/1 loss")
    left.set_title("Five blocks: the fronts differ", loc="left")
    colours = {3: "#0072B2", 4: "#D55E00"}
    names = list(FAMILIES)
    for k, (d, families) in enumerate(results.items()):
        share = [100 * np.mean(np.array(families[name]) > 0) for name in names]
        place = np.arange(len(names)) + (k - 0.5) * 0.38
        bars = middle.barh(
            place, share, 0.36, color=colours[d], label=f"{d} features", hatch="" if k else "//",
            edgecolor="white",
        )  # fmt: skip
        middle.bar_label(bars, [f"{s:.0f} %" for s in share], padding=4)
        gaps = np.concatenate([families[name] for name in names])
        gaps = np.sort(gaps[gaps > 0])[::-1]
        right.step(
            100 * gaps, 100 * np.arange(1, len(gaps) + 1) / len(gaps), where="post",
            color=colours[d], linewidth=2.5, linestyle="-" if k else "--", label=f"{d} features",
        )  # fmt: skip
    middle.set_yticks(range(len(names)), names)
    middle.invert_yaxis()
    middle.set_xlim(0, 100)
    middle.set_xlabel("Problems whose fronts differ (%)")
    middle.set_title("How often", loc="left")
    middle.legend(frameon=False, loc="upper right")
    right.set_xlabel("Gap of at least (% of the loss with no feature)")
    right.set_ylabel("Share of the problems that differ (%)")
    right.set_xlim(0)
    right.set_ylim(0, 102)
    right.set_title("How much", loc="left")
    right.legend(frameon=False)
    for ax in (middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=150)
    plt.close(figure)


def main() -> None:
    """Print the counterexample and the search, and draw the figure if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--problems", type=int, default=50, help="random problems per family")
    parser.add_argument("--output", type=Path, help="PNG file to write")
    arguments = parser.parse_args()
    show_counterexample()
    show_missing_support()
    functions = np.array(boolean_functions())
    print(
        f"\nOf all 256 yes/no functions of three bits, {np.count_nonzero(functions)} have fronts "
        f"that differ, by {functions[functions > 0].min():.0%} to {functions.max():.0%}."
    )
    results = {d: search(arguments.problems, d) for d in (3, 4)}
    show_search(results)
    if arguments.output:
        draw(results, arguments.output)
        print(f"\nwrote {arguments.output}")


if __name__ == "__main__":
    main()
