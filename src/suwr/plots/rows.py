"""Figures of an explanation of many rows: the order, the frequency and the number of features."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.text import counted
from suwr._utils.validation import require
from suwr.plots._style import (
    BLUE,
    COLOURS,
    GREY,
    LIGHT_GREY,
    VERMILLION,
    legend_above,
    new_axes,
    open_frame,
    plain,
)

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation

__all__ = ["plot_flow", "plot_lengths", "plot_usage"]


class _Box(Enum):
    """Boxes that stand for no unit; an enum, so that they never equal a unit's name."""

    OTHERS = "others"
    STOP = "stop"


STOP, OTHERS = _Box.STOP, _Box.OTHERS
Unit = str | _Box

# Widths are in steps, heights in fractions of all rows.
_NODE_WIDTH = 0.07
_GAP = 0.03
_SMALLEST_LABEL, _TWO_LINES = 0.025, 0.07


def plot_flow(
    explanation: Explanation,
    ax: Any = None,
    *,
    max_units: int = 6,
    max_steps: int = 6,
) -> Any:
    """Draw the units revealed at each step as a flow (Sankey) diagram.

    The height of a box is the fraction of rows that reveal the unit at that step. Streams connect
    it to the units that the same rows reveal next, or to 'stop'. With at most seven classes,
    streams are coloured by the final prediction.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    max_units : int, default=6
        Maximum number of boxes per step; rarer units are merged into 'others'.
    max_steps : int, default=6
        Maximum number of steps to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_flow
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_flow(Explanation([narrative])).get_xticklabels()[0].get_text()
    'step 1'
    """
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_flow must not be empty.")
    paths = _paths(explanation, max_units, max_steps)
    labels, colours = _stream_colours(explanation)
    n_columns = max(len(path) for path in paths)
    ax = new_axes(ax, (2.0 + 1.9 * n_columns, 4.8))
    nodes = [_column(paths, t) for t in range(n_columns)]
    for t in range(n_columns - 1):
        _draw_streams(ax, paths, labels, colours, nodes, t)
    for t, column in enumerate(nodes):
        for unit, (bottom, height) in column.items():
            _draw_node(ax, t, unit, bottom, height)
    ax.set_xlim(-0.2, n_columns - 0.3)
    ax.set_ylim(max(b + h for column in nodes for b, h in column.values()) + _GAP, -_GAP)
    ax.set_xticks(range(n_columns), [f"step {t + 1}" for t in range(n_columns)])
    ax.xaxis.tick_top()
    ax.tick_params(axis="x", length=0)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    if colours:
        patches = require("matplotlib.patches", "plots", "Plotting")
        handles = [patches.Patch(color=colour, alpha=0.55) for colour in colours.values()]
        ax.legend(
            handles, [plain(label, 20) for label in colours], frameon=False, ncols=len(handles),
            loc="upper left", bbox_to_anchor=(0, 0), title="Predicted", alignment="left",
        )  # fmt: skip
    return ax


def plot_usage(
    explanation: Explanation, y: ArrayLike | None = None, ax: Any = None, *, max_units: int = 15
) -> Any:
    """Draw a heat map of the fraction of rows that reveal each unit, overall and by class.

    Parameters
    ----------
    explanation : Explanation
    y : array-like of shape (n_rows,), default=None
        Class of each row, or any other grouping; if None, the predicted class. Without ``y``, an
        explanation of a regressor has the overall column only.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    max_units : int, default=15
        Number of units to show, the most frequently revealed ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_usage
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_usage(Explanation([narrative]), ["ill"]).get_yticklabels()[0].get_text()
    'age'
    """
    columns = _columns(explanation, y)
    used = [[unit for step in narrative.steps for unit in step.units] for narrative in explanation]
    names = {
        unit: narrative.description.unit_text(unit, list(values), short=True)
        for narrative in explanation
        for step in narrative.steps
        for unit, values in step.revealed.items()
    }
    counts = [Counter(unit for i in rows for unit in used[i]) for _, rows in columns]
    units = [unit for unit, _ in counts[0].most_common(max_units)]
    percentage = np.array(
        [
            [
                100 * count[unit] / len(rows)
                for count, (_, rows) in zip(counts, columns, strict=True)
            ]
            for unit in units
        ]
    ).reshape(len(units), len(columns))
    width = 0.085 * max(10, *(len(line) for head, _ in columns for line in head.split("\n")))
    ax = new_axes(ax, (3.0 + width * len(columns), 1.2 + 0.36 * max(len(units), 1)))
    if not units:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "No row reveals a feature.", ha="center", transform=ax.transAxes)
        return ax
    ax.imshow(percentage, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(percentage):
        ax.text(
            column, row, f"{value:.0f} %", ha="center", va="center", fontsize="small",
            color="white" if value > 60 else "black",
        )  # fmt: skip
    ax.set_xticks(range(len(columns)), [heading for heading, _ in columns])
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(units)), [plain(names[unit]) for unit in units])
    # White lines separate the cells; a wider one separates the overall column.
    ax.hlines(np.arange(len(units) - 1) + 0.5, -0.5, len(columns) - 0.5, color="white", linewidth=2)
    ax.vlines(np.arange(len(columns) - 1) + 0.5, -0.5, len(units) - 0.5, color="white",
              linewidth=[6, *[2] * (len(columns) - 2)][: len(columns) - 1])  # fmt: skip
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    title = "Rows that reveal the feature"
    if len(columns) > 1:
        title += ", by predicted class" if y is None else ", by class"
    ax.set_title(title, loc="left", pad=12)
    return ax


def plot_lengths(explanation: Explanation, ax: Any = None) -> Any:
    """Draw the distribution of the number of steps, split by why the rollout stopped.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_lengths
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_lengths(Explanation([narrative])).get_xlabel()
    'Steps'
    """
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_lengths must not be empty.")
    ax = new_axes(ax, (6.0, 3.6))
    lengths = np.array([len(narrative.steps) for narrative in explanation])
    decided = np.array([narrative.ended == "decision" for narrative in explanation])
    steps = np.arange(lengths.max() + 1)
    stopped = 100 * np.array([np.mean((lengths == t) & decided) for t in steps])
    truncated = 100 * np.array([np.mean((lengths == t) & ~decided) for t in steps])
    ax.bar(steps, stopped, 0.8, color=BLUE, label="stopped by the policy")
    present = np.flatnonzero(truncated)
    if len(present):
        ax.bar(
            present, truncated[present], 0.8, bottom=stopped[present], color=LIGHT_GREY,
            hatch="//", edgecolor="black", linewidth=0.5, label="no step or feature left",
        )  # fmt: skip
    mean = lengths.mean()
    ax.axvline(mean, color=VERMILLION, linewidth=2, linestyle="--", label=f"mean {mean:.1f} steps")
    ax.set_xticks(steps if len(steps) <= 16 else steps[:: len(steps) // 8])
    ax.set_xlim(-0.6, steps[-1] + 0.6)
    ax.set_xlabel("Steps")
    ax.set_ylabel("Rows (%)")
    open_frame(ax)
    legend_above(ax)
    return ax


def _paths(explanation: Explanation, max_units: int, max_steps: int) -> list[list[Unit]]:
    """Return the boxes that each row passes through, with rare units of a step as 'others'."""
    paths: list[list[Unit]] = []
    for narrative in explanation:
        units: list[Unit] = [narrative.description.step_label(step) for step in narrative.steps]
        ended: list[Unit] = [STOP] if len(units) < max_steps else []
        paths.append(units[:max_steps] + ended)
    for t in range(max(len(path) for path in paths)):
        counts = Counter(path[t] for path in paths if t < len(path) and path[t] != STOP)
        if len(counts) > max_units:
            kept = {unit for unit, _ in counts.most_common(max_units - 1)}
            for path in paths:
                if t < len(path) and path[t] != STOP and path[t] not in kept:
                    path[t] = OTHERS
    return paths


def _column(paths: list[list[Unit]], t: int) -> dict[Unit, tuple[float, float]]:
    """Return the top edge and height of each box of a step, the most frequent unit first."""
    counts = Counter(path[t] for path in paths if t < len(path))
    last: dict[Unit, int] = {OTHERS: 1, STOP: 2}
    order = sorted(counts, key=lambda unit: (last.get(unit, 0), -counts[unit], str(unit)))
    boxes, top = {}, 0.0
    for unit in order:
        height = counts[unit] / len(paths)
        boxes[unit] = (top, height)
        top += height + _GAP
    return boxes


def _stream_colours(explanation: Explanation) -> tuple[list[Any], dict[Any, str]]:
    """Return the predicted class of each row and the colour of each class.

    For regression, or with more classes than colours, all rows share one colour.
    """
    classes = explanation[0].classes
    if classes is None or len(classes) > len(COLOURS):
        return [None] * len(explanation), {}
    labels = [narrative.label for narrative in explanation]
    return labels, dict(zip(classes, COLOURS, strict=False))


def _draw_streams(
    ax: Any,
    paths: list[list[Unit]],
    labels: list[Any],
    colours: dict[Any, str],
    nodes: list[dict[Unit, tuple[float, float]]],
    t: int,
) -> None:
    """Draw the streams from the boxes of one step to those of the next."""
    counts = Counter(
        (path[t], path[t + 1], label)
        for path, label in zip(paths, labels, strict=True)
        if t + 1 < len(path)
    )
    place = {label: i for i, label in enumerate(colours)}
    left = {unit: top for unit, (top, _) in nodes[t].items()}
    right = {unit: top for unit, (top, _) in nodes[t + 1].items()}
    sources, targets = list(nodes[t]), list(nodes[t + 1])
    # Ordered by the boxes at both ends, which keeps crossings low.
    for key in sorted(
        counts, key=lambda k: (sources.index(k[0]), targets.index(k[1]), place.get(k[2], 0))
    ):
        source, target, label = key
        height = counts[key] / len(paths)
        curve = np.linspace(0, 1, 40)
        bend = 3 * curve**2 - 2 * curve**3
        x = t + _NODE_WIDTH + curve * (1 - _NODE_WIDTH)
        y = left[source] + bend * (right[target] - left[source])
        ax.fill_between(
            x, y, y + height, color=colours.get(label, BLUE), alpha=0.4, linewidth=0, zorder=1
        )
        left[source] += height
        right[target] += height


def _draw_node(ax: Any, t: int, unit: Unit, top: float, height: float) -> None:
    patches = require("matplotlib.patches", "plots", "Plotting")
    ax.add_patch(
        patches.Rectangle(
            (t, top),
            _NODE_WIDTH,
            height,
            linewidth=0,
            zorder=3,
            facecolor=GREY if unit == STOP else LIGHT_GREY if unit == OTHERS else "#333333",
        )
    )
    if height >= _SMALLEST_LABEL:
        label = plain(unit.value if isinstance(unit, _Box) else unit, 22)
        gap = "\n" if height >= _TWO_LINES else "  "
        ax.text(
            t + _NODE_WIDTH + 0.03, top + height / 2, f"{label}{gap}{100 * height:.0f} %",
            va="center", fontsize="small", zorder=4, linespacing=1.05,
        )  # fmt: skip


def _columns(explanation: Explanation, y: ArrayLike | None) -> list[tuple[str, list[int]]]:
    """Return the heading and the row numbers of each column of the heat map."""
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_usage must not be empty.")
    classes = explanation[0].classes
    labels = None if y is None else np.asarray(y).tolist()
    if labels is None and classes is not None:
        labels = [narrative.label for narrative in explanation]
    columns = [(f"all\n{counted(len(explanation), 'row')}", list(range(len(explanation))))]
    if labels is None:
        return columns
    if len(labels) != len(explanation):
        raise ValueError(
            f"The 'y' parameter of plot_usage must have {len(explanation)} entries, one per row. "
            f"Got {len(labels)} instead."
        )
    present = set(labels)
    known = [c for c in classes or () if c in present]
    for label in known + sorted(present - set(known), key=str):
        rows = [i for i, value in enumerate(labels) if value == label]
        columns.append((f"{plain(label, 14)}\n{counted(len(rows), 'row')}", rows))
    return columns
