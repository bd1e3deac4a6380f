"""The sets of revealed units that rows pass through, as a directed Hasse diagram."""

from __future__ import annotations

from collections import Counter
from typing import Any

from suwr.narrative.explanation import Explanation
from suwr.plots._style import BLUE, LIGHT_GREY, VERMILLION, new_axes, plain, short_percent

__all__ = ["plot_transitions"]

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
    n = len(explanation)
    if n == 0:
        raise ValueError("The 'explanation' parameter of plot_transitions must not be empty.")
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
                va="center", fontsize="x-small", zorder=2,
            )  # fmt: skip
    for node in shown:
        stopped = stops[node] / n
        later = (visits[node] - stops[node]) / n if node[0] == max_steps else 0.0
        ax.text(
            *place[node], _label(node[1], stopped, later), ha="center", va="center",
            fontsize="small", zorder=3,
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
