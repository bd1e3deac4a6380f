"""Pareto fronts of loss against revealed features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suwr.plots._style import BLUE, GREEN, LIGHT_GREY, VERMILLION, new_axes, open_frame

if TYPE_CHECKING:
    from suwr.exact.front import ParetoFront

_STYLES = {
    "lp": ("All leak-free policies", BLUE, "o"),
    "dp": ("SUWR policies", VERMILLION, "s"),
    "global": ("One subset for all rows", GREEN, "^"),
}


def plot_fronts(
    fronts: Sequence[ParetoFront],
    *,
    labels: Sequence[str] | None = None,
    ax: Any = None,
    xlabel: str | None = None,
    ylabel: str = "Expected loss",
) -> Any:
    """Draw fronts, with the region below all of them in grey.

    No policy of the kinds that are drawn reaches the grey region.

    Parameters
    ----------
    fronts : sequence of ParetoFront
        What to draw.
    labels : sequence of str, default=None
        Names in the legend; chosen by method if None.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    xlabel, ylabel : str
        Names of the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.exact import five_blocks, pareto_front
    >>> from suwr.plots import plot_fronts
    >>> problem, _ = five_blocks()
    >>> ax = plot_fronts([pareto_front(problem, method) for method in ("lp", "dp")])
    >>> ax.get_ylabel()
    'Expected loss'
    """
    if not fronts:
        raise ValueError("The 'fronts' parameter of plot_fronts must not be empty.")
    if labels is not None and len(labels) != len(fronts):
        raise ValueError(
            f"The 'labels' parameter of plot_fronts must have {len(fronts)} names. "
            f"Got {len(labels)} instead."
        )
    ax = new_axes(ax, (6.4, 4.2))
    right = max(float(front.cost[-1]) for front in fronts) * 1.06 or 1.0
    top = max(float(front.loss[0]) for front in fronts) * 1.06 or 1.0
    _shade(ax, fronts, right, top)
    for i, front in enumerate(fronts):
        name, colour, marker = _STYLES.get(front.method, (front.method, "#000000", "o"))
        ax.plot(
            np.append(front.cost, right),
            np.append(front.loss, front.loss[-1]),
            color=colour,
            linewidth=2,
            marker=marker,
            markersize=5 if len(front) < 40 else 3,
            markevery=slice(0, len(front)),
            label=labels[i] if labels is not None else name,
            clip_on=False,
            zorder=3 + i,
        )
    has_costs = any(not np.allclose(front.cost, front.n_selected) for front in fronts)
    ax.set_xlabel(xlabel or ("Expected cost" if has_costs else "Expected features revealed"))
    ax.set_ylabel(ylabel)
    ax.set_xlim(0, right)
    ax.set_ylim(0, top)
    open_frame(ax)
    ax.legend(frameon=False)
    return ax


def _shade(ax: Any, fronts: Sequence[ParetoFront], right: float, top: float) -> None:
    cost = np.unique(np.concatenate([[0.0, right], *(front.cost for front in fronts)]))
    reached = np.array([front.loss_at(cost) for front in fronts])
    floor = np.where(np.isnan(reached), top, reached).min(axis=0)
    methods = {front.method for front in fronts}
    name = "Impossible with one subset"
    if methods & {"lp", "dp"}:
        name = "Impossible without leakage" if "lp" in methods else "Impossible for SUWR"
    ax.fill_between(cost, 0, floor, color=LIGHT_GREY, linewidth=0, zorder=0, label=name)
