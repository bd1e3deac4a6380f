"""Figure of the use of columns, for data minimisation."""

from __future__ import annotations

from typing import Any

from suwr.plots._style import BLUE, VERMILLION, new_axes, open_frame, plain

__all__ = ["plot_minimisation"]


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
            [100 * use.changed for use in shown], places, "D", color=VERMILLION,
            label="predictions that change without it",
        )  # fmt: skip
    ax.set_yticks(places, [plain(use.column) for use in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 104)
    ax.set_xlabel("per cent of the rows")
    hidden = len(report.columns) - len(shown)
    rest = f"; {hidden} more columns" if hidden else ""
    ax.set_title(f"{1 - report.cells_read:.0%} of the cells were never read{rest}", loc="left")
    ax.legend(frameon=False, loc="lower right")
    open_frame(ax)
    return ax
