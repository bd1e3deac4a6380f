"""How often each unit is used, and for which classes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr.plots._style import new_axes, plain

if TYPE_CHECKING:
    from suwr.explanation import Explanation


def plot_usage(
    explanation: Explanation, y: ArrayLike | None = None, ax: Any = None, *, max_units: int = 15
) -> Any:
    """Draw the share of rows that reveal each unit: of all rows, and of each class.

    Parameters
    ----------
    explanation : Explanation
    y : array-like of shape (n,), default=None
        The class of each row; the predicted one if None. Regressions have a column for all rows
        only, unless ``y`` names groups.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    max_units : int, default=15
        The units that are used most.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_usage
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_usage(Explanation([story]), ["ill"]).get_yticklabels()[0].get_text()
    'age'
    """
    columns = _columns(explanation, y)
    counts = [Counter(u for i in rows for s in explanation[i].steps for u in s.units)
              for _, rows in columns]  # fmt: skip
    units = [unit for unit, _ in counts[0].most_common(max_units)]
    share = np.array(
        [
            [
                100 * count[unit] / len(rows)
                for count, (_, rows) in zip(counts, columns, strict=True)
            ]
            for unit in units
        ]
    ).reshape(len(units), len(columns))
    ax = new_axes(ax, (3.0 + 0.85 * len(columns), 1.2 + 0.36 * max(len(units), 1)))
    ax.imshow(share, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(share):
        ax.text(
            column, row, f"{value:.0f} %", ha="center", va="center", fontsize="small",
            color="white" if value > 60 else "black",
        )  # fmt: skip
    ax.set_xticks(range(len(columns)), [heading for heading, _ in columns])
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(units)), [plain(unit) for unit in units])
    # White lines between the cells; one of them wider, between all rows and the classes.
    ax.hlines(np.arange(len(units) - 1) + 0.5, -0.5, len(columns) - 0.5, color="white", linewidth=2)
    ax.vlines(np.arange(len(columns) - 1) + 0.5, -0.5, len(units) - 0.5, color="white",
              linewidth=[6, *[2] * (len(columns) - 2)][: len(columns) - 1])  # fmt: skip
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    title = "Rows that reveal it, by " + ("predicted class" if y is None else "class")
    ax.set_title(title if len(columns) > 1 else "Rows that reveal it", loc="left", pad=12)
    return ax


def _columns(explanation: Explanation, y: ArrayLike | None) -> list[tuple[str, list[int]]]:
    """The heading of each column of the figure, and its rows."""
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_usage must not be empty.")
    classes = explanation[0].classes
    labels = None if y is None else np.asarray(y).tolist()
    if labels is None and classes is not None:
        labels = [story.label for story in explanation]
    columns = [(f"all\n{len(explanation)} rows", list(range(len(explanation))))]
    if labels is None:
        return columns
    if len(labels) != len(explanation):
        raise ValueError(
            f"The 'y' parameter of plot_usage must hold one class for each of the "
            f"{len(explanation)} rows. Got {len(labels)} instead."
        )
    present = set(labels)
    known = [c for c in classes or () if c in present]
    for label in known + sorted(present - set(known), key=str):
        rows = [i for i, value in enumerate(labels) if value == label]
        columns.append((f"{plain(label, 14)}\n{len(rows)} rows", rows))
    return columns
