"""A small problem solved exactly: optimal policies, Pareto fronts and the leakage of a selector.

python examples/exact_fronts.py --output fronts.png

A restaurant may ask a guest three yes/no questions (hungry? in a hurry? vegetarian?) to choose a
dish. The probabilities are known, so nothing is trained, and everything printed is optimal.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from suwr.exact import FiniteProblem, cube, leakage, pareto_front, solve
from suwr.plots import plot_fronts


def kitchen() -> FiniteProblem:
    """Return the eight kinds of guests, their probabilities and the right dish for each."""
    guests = cube(3)  # hungry, in a hurry, vegetarian
    hungry, hurried, vegetarian = guests.T
    weights = np.where(hungry, 0.7, 0.3) * np.where(hurried, 0.4, 0.6)
    weights = weights * np.where(vegetarian, 0.25, 0.75)
    dish = np.where(hurried, np.where(hungry, "sandwich", "coffee"), "")
    dish = np.where(hurried == 0, np.where(vegetarian, "risotto", "roast"), dish)
    return FiniteProblem(guests, dish, weights, loss="zero_one")


def main(output: Path) -> None:
    """Print the optimal policies and draw the fronts."""
    mpl.use("Agg")
    problem = kitchen()
    for weight in (0.05, 0.3):
        best = solve(problem, weight)
        print(f"λ = {weight}: error rate {best.loss:.3f}, {best.n_selected:.2f} questions")
        print(best.tree.text())
        print()

    # A selector that reveals 'vegetarian' for hungry guests only, without revealing 'hungry'.
    masks = np.zeros((problem.n_rows, 3), dtype=bool)
    masks[:, 1] = True
    masks[:, 2] = problem.X[:, 0] == 1
    print(f"a leaking selector reveals {leakage(problem, masks).feature.bits:.3f} hidden bits")

    fronts = [pareto_front(problem, method) for method in ("lp", "dp", "global")]
    ax = plot_fronts(fronts, ylabel="Error rate")
    ax.figure.savefig(output, dpi=120, bbox_inches="tight")
    print(f"wrote {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("fronts.png"))
    main(parser.parse_args().output)
