"""What a budget of steps buys: features used and accuracy, from the narratives of one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.plots._style import BLUE, GREY, new_axes, open_frame

if TYPE_CHECKING:
    from suwr.explanation import Explanation

# Numbers beside the points of one curve.
MOST_LABELS = 8


def budget_curve(
    explanation: Explanation, y: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Budgets T, the mean units used within them, and the accuracy of the predictions then.

    A row that stops earlier uses less than the budget. Decisions do not depend on the budget, so
    cutting the narratives is exactly what the same model would do with fewer steps allowed.

    Parameters
    ----------
    explanation : Explanation
        Of a classifier.
    y : array-like of shape (n,)
        The true classes.

    Examples
    --------
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import budget_curve
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> budgets, used, accuracy = budget_curve(Explanation([story]), ["ill"])
    >>> int(budgets[0]), float(used[0])
    (0, 0.0)
    """
    truth = np.asarray(y).tolist()
    if len(explanation) == 0 or len(truth) != len(explanation):
        raise ValueError(
            f"The 'y' parameter must hold one class for each of the {len(explanation)} rows, at "
            f"least one. Got {len(truth)} instead."
        )
    longest = max(len(story.steps) for story in explanation)
    budgets = np.arange(longest + 1)
    used, accuracy = np.zeros(len(budgets)), np.zeros(len(budgets))
    for budget in range(longest + 1):
        for story, label in zip(explanation, truth, strict=True):
            cut = min(budget, len(story.steps))
            used[budget] += sum(len(step.units) for step in story.steps[:cut])
            accuracy[budget] += story._label(story.predictions[cut]) == label
    return budgets, used / len(truth), accuracy / len(truth)


def plot_budget(explanation: Explanation, y: ArrayLike, ax: Any = None) -> Any:
    """Draw the mean number of features that are used within each budget of steps.

    The number beside a point is the accuracy at that budget.

    Parameters
    ----------
    explanation : Explanation
        Of a classifier.
    y : array-like of shape (n,)
        The true classes.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_budget
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_budget(Explanation([story]), ["ill"]).get_xlabel()
    'Most steps allowed, $T$ (accuracy beside the points)'
    """
    budgets, used, accuracy = budget_curve(explanation, y)
    ax = new_axes(ax, (6.0, 4.0))
    per_step = max((len(step.units) for story in explanation for step in story.steps), default=1)
    ax.plot(budgets, per_step * budgets, color=GREY, linestyle="--", label="the whole budget")
    ax.plot(budgets, used, color=BLUE, marker="o", linewidth=2, label="used on average")
    # The last one, and before it so few that they can be read.
    every = -(-len(budgets) // MOST_LABELS)
    labelled = list(zip(budgets, used, accuracy, strict=True))[::-every]
    for x, height, value in reversed(labelled):
        ax.annotate(
            f"{100 * value:.1f} %", (x, height), xytext=(4, -6), textcoords="offset points",
            va="top", fontsize="small",
        )  # fmt: skip
    ax.set_xlabel("Most steps allowed, $T$ (accuracy beside the points)")
    ax.set_ylabel("Features revealed")
    ax.set_xlim(-0.3, budgets[-1] + 0.9)
    ax.set_ylim(bottom=-0.12 * per_step * budgets[-1] or -1.0)
    open_frame(ax)
    ax.legend(frameon=False)
    return ax
