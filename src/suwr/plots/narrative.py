"""The figure of a single narrative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from suwr._utils.text import format_number
from suwr._utils.validation import parameter_error, require
from suwr.plots._style import (
    COLOURS,
    GREY,
    LIGHT_GREY,
    MARKERS,
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
    the others are labelled with the revealed features and their values. The bars on the right are
    the stop probabilities.

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
        low, high = _draw_classes(ax, values, narrative.classes, place)
    _draw_stops(ax, narrative.stop_probabilities, place, low, high)
    lines = [
        f"{t}. {_step_label(narrative, step)}" for t, step in enumerate(narrative.steps, start=1)
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


def _title(narrative: Narrative) -> str:
    used = f"{narrative.n_used} of {narrative.n_units} features"
    if narrative.classes is None:
        value = format_number(narrative.prediction[0], 4)
        return f"Row {plain(narrative.row)}: {value}, from {used}"
    probability = short_percent(max(narrative.prediction))
    return f"Row {plain(narrative.row)}: {plain(narrative.label)} ({probability}), from {used}"


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


def _draw_classes(
    ax: Any, values: Any, classes: tuple[Any, ...], place: Any
) -> tuple[float, float]:
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
    ax.text(left, -0.56, "stop\nprobability", va="bottom", fontsize="small")
    ax.set_xlim(low - 0.02 * width, low + _RIGHT * width)
    ax.spines["bottom"].set_bounds(low, high)
    ax.hlines(place, low, high, color=LIGHT_GREY, linewidth=0.6, zorder=0)
