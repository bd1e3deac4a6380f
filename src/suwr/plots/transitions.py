"""The sets of revealed units that rows pass through, as a directed Hasse diagram."""

from __future__ import annotations

from collections import Counter
from typing import Any

from suwr.explanation import Explanation
from suwr.plots._style import BLUE, LIGHT_GREY, VERMILLION, new_axes, plain, short_percent

__all__ = ["plot_transitions"]

Units = frozenset[str]

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
    >>> from suwr.explanation import Explanation, Narrative, Step
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
    visits: Counter[tuple[int, Units]] = Counter()
    stops: Counter[tuple[int, Units]] = Counter()
    moves: Counter[tuple[tuple[int, Units], Units]] = Counter()
    for narrative in explanation:
        revealed: Units = frozenset()
        visits[0, revealed] += 1
        for number, step in enumerate(narrative.steps):
            before, revealed = revealed, revealed | set(step.units)
            moves[(number, before), revealed] += 1
            visits[number + 1, revealed] += 1
        stops[len(narrative.steps), revealed] += 1
    drawn = Counter({node: count for node, count in visits.items() if node[0] <= max_steps})
    shown = [node for node, _ in drawn.most_common(max_sets)]
    place = _layout(shown, moves)
    width = max(sum(level == t for level, _ in shown) for t in {level for level, _ in shown})
    depth = max(level for level, _ in shown)
    ax = new_axes(ax, (1.5 + 1.9 * width, 1.2 + 1.5 * depth))
    for (start, units), count in moves.items():
        end = start[0] + 1, units
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
    nodes: list[tuple[int, Units]], moves: Counter[tuple[tuple[int, Units], Units]]
) -> dict[tuple[int, Units], tuple[float, float]]:
    """Positions: levels from top to bottom, each in the order of the sets that lead to its own."""
    place: dict[tuple[int, Units], tuple[float, float]] = {}
    levels = sorted({level for level, _ in nodes})
    widest = max(sum(level == t for level, _ in nodes) for t in levels)
    for t in levels:
        keys = {}
        for node in (node for node in nodes if node[0] == t):
            before = [(start, m) for (start, units), m in moves.items() if (t, units) == node]
            known = [
                (place[start][0], m) for start, m in before if start[0] == t - 1 and start in place
            ]
            total = sum(m for _, m in known)
            keys[node] = (sum(x * m for x, m in known) / total if total else 0.0, sorted(node[1]))
        ordered = sorted(keys, key=lambda node: keys[node])
        gap = widest / len(ordered)
        for number, node in enumerate(ordered):
            place[node] = (number + 0.5) * gap - 0.5, -float(t)
    return place


def _label(units: Units, stopped: float, later: float) -> str:
    """The names of a set, and the fractions of rows that stop at it and that go on unseen."""
    names = [plain(name, _MAX_NAME) for name in sorted(units)]
    if len(names) > _MAX_NAMES:
        names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} others"]
    shares = {"stops": stopped, "goes on": later}
    return "\n".join(
        [*(names or ["∅"]), *(f"{k}: {short_percent(v)}" for k, v in shares.items() if v)]
    )
