"""Which unit is asked at which step, over many rows."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from suwr._utils.optional import require
from suwr.plots._style import BLUE, COLOURS, GREY, LIGHT_GREY, new_axes, plain

if TYPE_CHECKING:
    from suwr.explanation import Explanation


class _Box(Enum):
    """Boxes that are no units, whatever units are called."""

    OTHERS = "others"
    STOP = "stop"


STOP, OTHERS = _Box.STOP, _Box.OTHERS
Unit = str | _Box

# Widths in steps, heights in shares of all rows.
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
    """Draw rows as streams through the units that they reveal, step by step.

    The height of a box is the share of the rows that reveal this unit at this step; streams lead to
    what the same rows reveal next, or to the end. With at most seven classes the colour of a stream
    is the class that was predicted in the end.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    max_units : int, default=6
        Boxes at one step; rarer units are joined as 'others'.
    max_steps : int, default=6
        Steps that are drawn.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_flow
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_flow(Explanation([story])).get_xticklabels()[0].get_text()
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


def _paths(explanation: Explanation, max_units: int, max_steps: int) -> list[list[Unit]]:
    """What each row reveals at each step, then 'stop'; rare units of a step are 'others'."""
    paths: list[list[Unit]] = []
    for story in explanation:
        units: list[Unit] = [step.unit for step in story.steps]
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
    """Top edge and height of each box of a step: the most frequent first, the end last."""
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
    """The class of each row, and a colour for each class; one stream for all without either."""
    classes = explanation[0].classes
    if classes is None or len(classes) > len(COLOURS):
        return [None] * len(explanation), {}
    return [story.label for story in explanation], dict(zip(classes, COLOURS, strict=False))


def _draw_streams(
    ax: Any,
    paths: list[list[Unit]],
    labels: list[Any],
    colours: dict[Any, str],
    nodes: list[dict[Unit, tuple[float, float]]],
    t: int,
) -> None:
    """Streams from the boxes of one step to those of the next."""
    counts = Counter(
        (path[t], path[t + 1], label)
        for path, label in zip(paths, labels, strict=True)
        if t + 1 < len(path)
    )
    place = {label: i for i, label in enumerate(colours)}
    left = {unit: top for unit, (top, _) in nodes[t].items()}
    right = {unit: top for unit, (top, _) in nodes[t + 1].items()}
    sources, targets = list(nodes[t]), list(nodes[t + 1])
    # In the order of the boxes at both ends, so that streams cross as little as possible.
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
