"""Figures of one narrative, and of many: order, frequency and number of features, states."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.text import counted, format_number
from suwr._utils.validation import parameter_error, require
from suwr.narrative.explanation import Explanation
from suwr.plots._style import (
    BLUE,
    COLOURS,
    GREY,
    LIGHT_GREY,
    MARKERS,
    VERMILLION,
    check_rows,
    finish,
    new_axes,
    open_frame,
    plain,
    short_percent,
)

if TYPE_CHECKING:
    from suwr.narrative.explanation import Narrative, Step

# Classes drawn in colour; the others are grey.
_MAX_CLASSES = 5
_DASHES = ("-", "--", ":")
# Units with more columns, such as image patches, are labelled by name, without their values.
_MAX_VALUES = 3
# Left edge and width of the column of stop probabilities, and right edge of the axes, relative to
# the width of the prediction scale.
_STOP_LEFT, _STOP_WIDTH, _RIGHT = 1.1, 0.14, 1.4
# Characters above the prediction scale, and those that the handle of a legend takes.
_LEGEND_WIDTH, _HANDLE = 54, 6


def plot_narrative(narrative: Narrative, ax: Any = None) -> Any:
    """Draw the prediction and the stop probability after every step.

    Steps run from top to bottom. The first line is the prediction before anything is revealed;
    the others are labelled with the revealed features and their values, and those that speak
    against the result are marked. The bars on the right are the stop probabilities.

    Parameters
    ----------
    narrative : Narrative
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> from suwr.plots import plot_narrative
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_narrative(narrative).get_yticklabels()[0].get_text()
    'nothing revealed'
    """
    if not hasattr(narrative, "predictions"):
        expected = "a Narrative, such as clf.explain(X)[0]"
        raise parameter_error("narrative", "plot_narrative", expected, narrative)
    n_states = len(narrative.predictions)
    ax = new_axes(ax, (7.6, 1.5 + 0.42 * n_states))
    place = np.arange(n_states)
    values = np.array(narrative.predictions)
    if narrative.classes is None:
        low, high = _draw_value(ax, values[:, 0], place)
    else:
        classes = narrative.description.class_texts(narrative.classes) or []
        low, high = _draw_classes(ax, values, classes, place)
    _draw_stops(ax, narrative.stop_probabilities, place, low, high)
    lines = [
        f"{t}. {_step_label(narrative, step)}{_against(narrative, t)}"
        for t, step in enumerate(narrative.steps, start=1)
    ]
    ax.set_yticks(place, ["nothing revealed", *lines])
    ax.set_ylim(n_states - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    open_frame(ax, "top", "right", "left")
    legend = ax.get_legend()
    labels = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    rows = -(-len(labels) // _legend_columns(labels)) if labels else 1
    ax.set_title(_title(narrative), loc="left", fontweight="bold", pad=16 + 16 * rows)
    return ax


def _against(narrative: Narrative, number: int) -> str:
    """The second line of the label of a step that speaks against the result."""
    against = narrative.directions[number - 1] < 0
    return f"\n▼ {plain(narrative.says(number))}" if against else ""


def _title(narrative: Narrative) -> str:
    used = f"{narrative.n_used} of {narrative.n_units} features"
    if narrative.classes is None:
        value = format_number(narrative.prediction[0], 4)
        return f"Row {plain(narrative.row)}: {value}, from {used}"
    probability = short_percent(max(narrative.prediction))
    return f"Row {plain(narrative.row)}: {plain(narrative.outcome)} ({probability}), from {used}"


def _step_label(narrative: Narrative, step: Step) -> str:
    """Return the revealed columns and values; names are truncated before values are."""
    words = narrative.description
    if len(step.values) > _MAX_VALUES:
        return plain(words.step_label(step))
    return ", ".join(
        f"{plain(words.column_text(c), 28)} = {plain(words.column(c).value_text(v), 14)}"
        for c, v in step.values.items()
    )


def _draw_value(ax: Any, values: Any, place: Any) -> tuple[float, float]:
    """Draw the predicted value; return the limits of its scale."""
    ax.plot(values, place, color=COLOURS[0], marker=MARKERS[0], markersize=6, linewidth=2)
    margin = 0.08 * (values.max() - values.min()) or 0.08 * abs(values[0]) or 1.0
    low, high = values.min() - margin, values.max() + margin
    ticker = require("matplotlib.ticker", "plots", "Plotting")
    ticks = ticker.MaxNLocator(4).tick_values(low, high)
    ax.set_xticks([t for t in ticks if low <= t <= high])
    ax.set_xlabel("Prediction", loc="left")
    return low, high


def _draw_classes(ax: Any, values: Any, classes: list[str], place: Any) -> tuple[float, float]:
    """Draw one line per class, the most probable ones in colour; return the limits of the scale."""
    rank = np.argsort(-values.max(axis=0), kind="stable")
    shown = sorted(rank[:_MAX_CLASSES].tolist())
    for number in sorted(set(range(len(classes))) - set(shown)):
        ax.plot(values[:, number], place, color=LIGHT_GREY, linewidth=1, zorder=1)
    # The style of a class does not depend on the row. Classes of one colour differ in marker and
    # line style.
    for number in shown:
        cycle, style = divmod(number, len(COLOURS))
        ax.plot(
            values[:, number], place, color=COLOURS[style], markersize=6, linewidth=2,
            marker=MARKERS[(style + cycle) % len(MARKERS)], linestyle=_DASHES[cycle % len(_DASHES)],
            label=plain(classes[number], 20), zorder=3,
        )  # fmt: skip
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel("Predicted probability", loc="left")
    handles, labels = ax.get_legend_handles_labels()
    if len(shown) < len(classes):
        handles.append(ax.plot([], [], color=LIGHT_GREY, linewidth=1)[0])
        labels.append("other classes")
    ax.legend(
        handles, labels, frameon=False, ncols=_legend_columns(labels), loc="lower left",
        bbox_to_anchor=(0, 1), borderaxespad=0, handletextpad=0.4, columnspacing=1.4,
    )  # fmt: skip
    return 0.0, 1.0


def _legend_columns(labels: list[str]) -> int:
    """Return how many labels fit side by side above the prediction scale."""
    if sum(len(label) + _HANDLE for label in labels) <= _LEGEND_WIDTH:
        return len(labels)
    return max(1, _LEGEND_WIDTH // (max(map(len, labels)) + _HANDLE))


def _draw_stops(ax: Any, stops: tuple[float, ...], place: Any, low: float, high: float) -> None:
    """Draw ζ_stop as bars, with a dotted line at the decision threshold of one half."""
    width = high - low
    left, wide = low + _STOP_LEFT * width, _STOP_WIDTH * width
    ax.barh(place, np.array(stops) * wide, 0.5, left=left, color=GREY, zorder=2)
    middle = left + wide / 2
    ax.plot([middle, middle], [-0.4, len(stops) - 0.6], color="black", linewidth=0.8,
            linestyle=":", zorder=3)  # fmt: skip
    for y, stop in zip(place, stops, strict=True):
        ax.text(left + 1.12 * wide, y, short_percent(stop), va="center", fontsize="small")
    ax.text(left, -0.56, "stop probability\n(dotted: 50 %)", va="bottom", fontsize="small")
    ax.set_xlim(low - 0.02 * width, low + _RIGHT * width)
    ax.spines["bottom"].set_bounds(low, high)
    ax.hlines(place, low, high, color=LIGHT_GREY, linewidth=0.6, zorder=0)


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
    check_rows(explanation, "plot_flow")
    paths = _paths(explanation, max_units, max_steps)
    labels, colours = _stream_colours(explanation)
    n_columns = max(len(path) for path in paths)
    ax = new_axes(ax, (1.6 + 1.6 * n_columns, 4.8))
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
    title = "Features in the order in which they are revealed"
    ax.set_title(title, loc="left", fontweight="bold", pad=14)
    if colours:
        patches = require("matplotlib.patches", "plots", "Plotting")
        handles = [patches.Patch(color=colour, alpha=0.55) for colour in colours.values()]
        ax.legend(
            handles, [plain(explanation.description.class_text(c), 20) for c in colours],
            frameon=False, ncols=len(handles),
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
            column, row, f"{value:.0f} %", ha="center", va="center",
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
    ax.set_title(title, loc="left", pad=12, fontweight="bold")
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
    check_rows(explanation, "plot_lengths")
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
    finish(ax, "Steps until the model stops", "Steps", "Rows (%)")
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
        gap, longest = ("\n", 18) if height >= _TWO_LINES else ("  ", 13)
        label = plain(unit.value if isinstance(unit, _Box) else unit, longest)
        ax.text(
            t + _NODE_WIDTH + 0.03, top + height / 2, f"{label}{gap}{100 * height:.0f} %",
            va="center", fontsize="medium", zorder=4, linespacing=1.05,
        )  # fmt: skip


def _columns(explanation: Explanation, y: ArrayLike | None) -> list[tuple[str, list[int]]]:
    """Return the heading and the row numbers of each column of the heat map."""
    check_rows(explanation, "plot_usage")
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
        name = plain(explanation.description.class_text(label), 14)
        columns.append((f"{name}\n{counted(len(rows), 'row')}", rows))
    return columns


# A number of steps and the units that they have revealed.
Node = tuple[int, frozenset[str]]

# Width of the line of a step that all rows take, in points.
_WIDEST = 7.0
# Largest number of characters and of units in the label of a set.
_MAX_NAME, _MAX_NAMES = 20, 6


def plot_transitions(
    explanation: Explanation, ax: Any = None, *, max_sets: int = 12, max_steps: int = 4
) -> Any:
    """Draw the sets of revealed units that rows pass through, and the steps between them.

    Every row starts at the empty set and moves down, since no unit is hidden again. The width of a
    line is the fraction of rows that take the step; the fraction that stops is below each set.
    Rows that reveal the same units in another order meet again, which `plot_flow` does not show.

    Parameters
    ----------
    explanation : Explanation
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    max_sets : int, default=12
        Number of sets to draw, those that most rows pass through.
    max_steps : int, default=4
        Number of steps to draw.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_transitions
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> ax = plot_transitions(Explanation([narrative]))
    >>> [text.get_text().replace(chr(10), ", ") for text in ax.texts]
    ['100 %', '∅', 'age, stops: 100 %']
    """
    check_rows(explanation, "plot_transitions")
    n = len(explanation)
    visits: Counter[Node] = Counter()
    stops: Counter[Node] = Counter()
    moves: Counter[tuple[Node, Node]] = Counter()
    for narrative in explanation:
        node: Node = (0, frozenset())
        visits[node] += 1
        for step in narrative.steps:
            before, node = node, (node[0] + 1, node[1] | set(step.units))
            moves[before, node] += 1
            visits[node] += 1
        stops[node] += 1
    drawn = Counter({node: count for node, count in visits.items() if node[0] <= max_steps})
    shown = [node for node, _ in drawn.most_common(max_sets)]
    levels = Counter(level for level, _ in shown)
    width, depth = max(levels.values()), max(levels)
    place = _layout(shown, moves, width)
    ax = new_axes(ax, (1.5 + 1.9 * width, 1.2 + 1.5 * depth))
    for (start, end), count in moves.items():
        if start in place and end in place:
            (x, y), (x_end, y_end) = place[start], place[end]
            ax.plot(
                (x, x_end), (y, y_end), color=LIGHT_GREY, linewidth=1.0 + _WIDEST * count / n,
                solid_capstyle="butt", zorder=1,
            )  # fmt: skip
            ax.text(
                (x + x_end) / 2, (y + y_end) / 2, short_percent(count / n), ha="center",
                va="center", fontsize="medium", zorder=2,
            )  # fmt: skip
    for node in shown:
        stopped = stops[node] / n
        later = (visits[node] - stops[node]) / n if node[0] == max_steps else 0.0
        ax.text(
            *place[node], _label(node[1], stopped, later), ha="center", va="center",
            fontsize="medium", zorder=3,
            bbox={
                "boxstyle": "round,pad=0.4", "facecolor": "white",
                "edgecolor": VERMILLION if stopped else BLUE,
            },
        )  # fmt: skip
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(-depth - 0.5, 0.5)
    ax.set_yticks([-t for t in range(depth + 1)], [f"step {t}" for t in range(depth + 1)])
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title("Sets of revealed features", loc="left", fontweight="bold")
    if len(shown) < len(drawn):
        ax.set_xlabel(f"{len(drawn) - len(shown)} rarer sets are not drawn", fontsize="small")
    return ax


def _layout(
    nodes: list[Node], moves: Counter[tuple[Node, Node]], width: int
) -> dict[Node, tuple[float, float]]:
    """Positions of the sets, in one line per step, each below the sets that lead to it."""
    place: dict[Node, tuple[float, float]] = {}

    def key(node: Node) -> tuple[float, list[str]]:
        known = {start: m for (start, end), m in moves.items() if end == node and start in place}
        total = sum(known.values())
        mean = sum(place[start][0] * m for start, m in known.items()) / total if total else 0.0
        return mean, sorted(node[1])

    for t in sorted({level for level, _ in nodes}):
        ordered = sorted((node for node in nodes if node[0] == t), key=key)
        gap = width / len(ordered)
        for number, node in enumerate(ordered):
            place[node] = (number + 0.5) * gap - 0.5, -float(t)
    return place


def _label(units: frozenset[str], stopped: float, later: float) -> str:
    """The names of a set, and the fractions of rows that stop at it and that go on unseen."""
    names = [plain(name, _MAX_NAME) for name in sorted(units)]
    if len(names) > _MAX_NAMES:
        names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} others"]
    shares = {"stops": stopped, "goes on": later}
    return "\n".join(
        [*(names or ["∅"]), *(f"{k}: {short_percent(v)}" for k, v in shares.items() if v)]
    )


def plot_minimisation(report: Any, ax: Any = None, *, max_columns: int = 20) -> Any:
    """Draw how often each column was read, and what dropping it for all rows would change.

    Parameters
    ----------
    report : MinimisationReport
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    max_columns : int, default=20
        Number of columns to show, the most used ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.estimators.selection import ColumnUse, MinimisationReport
    >>> from suwr.plots import plot_minimisation
    >>> uses = (ColumnUse("age", 0.7, 0.2, 0.5, None), ColumnUse("town", 0.0, 0.0, 0.0, None))
    >>> report = MinimisationReport(10, 2, 0.35, 0.7, 1, uses, True)
    >>> [label.get_text() for label in plot_minimisation(report).get_yticklabels()]
    ['age', 'town']
    """
    shown = sorted(report.columns, key=lambda use: -use.used)[:max_columns]
    ax = new_axes(ax, (6.4, 1.4 + 0.3 * len(shown)))
    places = range(len(shown))
    ax.barh(places, [100 * use.used for use in shown], 0.62, color=BLUE, label="rows that read it")
    if report.classes:
        ax.plot(
            [100 * use.changed for use in shown], places, "D", color=VERMILLION, clip_on=False,
            label="predictions that change without it",
        )  # fmt: skip
    ax.set_yticks(places, [plain(use.column) for use in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 104)
    hidden = len(report.columns) - len(shown)
    rest = f"; {hidden} more columns" if hidden else ""
    title = f"{100 * (1 - report.cells_read):.0f} % of the cells were never read{rest}"
    finish(ax, title, "Rows (%)")
    return ax
