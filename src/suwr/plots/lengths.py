"""How many steps rows need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from suwr.plots._style import BLUE, LIGHT_GREY, VERMILLION, new_axes, open_frame

if TYPE_CHECKING:
    from suwr.explanation import Explanation


def plot_lengths(explanation: Explanation, ax: Any = None) -> Any:
    """Draw how many rows stop after how many steps, and why they stop.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_lengths
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_lengths(Explanation([story])).get_xlabel()
    'Steps'
    """
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_lengths must not be empty.")
    ax = new_axes(ax, (6.0, 3.6))
    lengths = np.array([len(story.steps) for story in explanation])
    decided = np.array([story.ended == "decision" for story in explanation])
    steps = np.arange(lengths.max() + 1)
    by_choice = 100 * np.array([np.mean((lengths == t) & decided) for t in steps])
    by_force = 100 * np.array([np.mean((lengths == t) & ~decided) for t in steps])
    ax.bar(steps, by_choice, 0.8, color=BLUE, label="the model stopped")
    forced = np.flatnonzero(by_force)
    if len(forced):
        ax.bar(
            forced, by_force[forced], 0.8, bottom=by_choice[forced], color=LIGHT_GREY, hatch="//",
            edgecolor="black", linewidth=0.5, label="it had to stop",
        )  # fmt: skip
    mean = lengths.mean()
    ax.axvline(mean, color=VERMILLION, linewidth=2, linestyle="--", label=f"mean {mean:.1f} steps")
    ax.set_xticks(steps if len(steps) <= 16 else steps[:: len(steps) // 8])
    ax.set_xlim(-0.6, steps[-1] + 0.6)
    ax.set_xlabel("Steps")
    ax.set_ylabel("Rows (%)")
    open_frame(ax)
    ax.legend(frameon=False)
    return ax
