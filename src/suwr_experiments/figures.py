"""Figures of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.validation import require
from suwr.plots import plot_fronts
from suwr.plots._style import write_figure

if TYPE_CHECKING:
    from suwr.exact.solve import ParetoFront
    from suwr_experiments.comparison import Ranking

__all__ = [
    "plot_control_steps",
    "plot_critical_difference",
    "plot_curves",
    "plot_policies",
    "plot_trained_budgets",
    "plot_variants",
    "save_figure",
]

# Colour (after Okabe and Ito) and marker of each method, the same in every figure.
_STYLES = {
    "SUWR": ("#D55E00", "o"),
    "SUWR, convolutions": ("#8C2D04", "o"),
    "L2X": ("#0072B2", "v"),
    "INVASE": ("#56B4E9", "^"),
    "REAL-X": ("#CC79A7", "D"),
    "REAL-X, EVAL-X of all sizes": ("#E8B9D2", "d"),
    "TabNet": ("#009E73", "s"),
    "GDFS": ("#7A5195", "P"),
    "GDFS, equal networks": ("#B497D6", "P"),
    "GDFS, confidence": ("#2F4B9C", "p"),
    "GDFS, convolutions": ("#B497D6", "P"),
    "GDFS, convolutions, confidence": ("#7F9BE0", "p"),
    "DIME": ("#B8860B", "X"),
    "SEFA": ("#4B6E2E", "h"),
    "CAE": ("#555555", "*"),
    "oracle": ("#000000", "+"),
    "no selection": ("#999999", "x"),
    "SUWR, range": ("#8C2D04", "o"),
    "DIME, budget": ("#B8860B", "X"),
    "DIME, cost": ("#E0B040", "X"),
    "DIME, confidence": ("#806010", "x"),
    "SEFA, budget": ("#4B6E2E", "h"),
    "SEFA, confidence": ("#8FAE6B", "H"),
    "CART": ("#009E73", "s"),
    "boosting on k": ("#0072B2", "v"),
    "network on k": ("#56B4E9", "^"),
    "L1": ("#555555", "*"),
}


def _style(name: str) -> tuple[str, str]:
    return _STYLES.get(name, ("#333333", "."))


def _axes(n: int, width: float = 4.0, height: float = 3.4, **kwargs: Any) -> list[Any]:
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    columns = min(n, 3)
    rows = -(-n // columns)
    _, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained",
        squeeze=False, **kwargs,
    )  # fmt: skip
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return list(axes.flat[:n])


def save_figure(ax: Any, folder: Path, name: str) -> Path:
    """Save the figure of ``ax`` as SVG, close it, and return its path."""
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    path = write_figure(ax.figure, folder / f"{name}.svg")
    plt.close(ax.figure)
    return path


def plot_policies(
    fronts: Sequence[ParetoFront],
    policies: Mapping[str, Sequence[tuple[float, float]]],
    *,
    ax: Any = None,
) -> Any:
    """Plot policies of several methods and exact Pareto fronts.

    Parameters
    ----------
    fronts : sequence of ParetoFront
    policies : mapping from a method's name to points (features, loss)
    ax : matplotlib Axes, default=None

    Returns
    -------
    matplotlib Axes
    """
    if ax is None:
        ax = _axes(1, 7.4, 4.8)[0]
    plot_fronts(fronts, ax=ax, ylabel="Expected squared error")
    # Fronts differ by line style, since colours denote methods.
    for line, dashes in zip(ax.get_lines(), ("-", "--", ":"), strict=False):
        line.set(color="#333333", linestyle=dashes, linewidth=1.6, markersize=3.5)
    for name, points in policies.items():
        if not len(points):
            continue
        colour, marker = _style(name)
        x, y = np.asarray(points, dtype=float).T
        ax.scatter(
            x, y, s=70 if name == "SUWR" else 46, color=colour, marker=marker, label=name,
            edgecolors="white", linewidths=0.6, zorder=12 if name == "SUWR" else 8, clip_on=False,
        )  # fmt: skip
    ax.legend(frameon=False, fontsize="small", ncols=2)
    return ax


def plot_control_steps(panels: Mapping[str, Mapping[str, ArrayLike]]) -> Any:
    """Plot the step that reveals the control-flow feature, for each data set and method.

    Parameters
    ----------
    panels : mapping from data set to mapping from method to array of shape (seeds, steps + 1)
        Fractions of rows by step; the first column is 'never'.

    Returns
    -------
    matplotlib Axes
        The first panel.
    """
    axes = _axes(len(panels), 4.2, 3.2, sharey=True)
    for ax, (data, methods) in zip(axes, panels.items(), strict=True):
        longest = max(
            int(np.flatnonzero(np.asarray(v).max(axis=0) > 0.005).max(initial=1))
            for v in methods.values()
        )
        places = np.arange(longest + 1)
        width = 0.84 / len(methods)
        for number, (name, values) in enumerate(methods.items()):
            shares = np.asarray(values, dtype=float)
            # Move 'never' to the end.
            shares = np.hstack([shares[:, 1 : longest + 1], shares[:, :1]])
            x = places + (number - (len(methods) - 1) / 2) * width
            colour, _ = _style(name)
            ax.bar(x, 100 * shares.mean(axis=0), width * 0.94, color=colour, label=name)
            for one in shares:
                visible = one > 0.005
                ax.scatter(
                    x[visible], 100 * one[visible], s=9, color="white", edgecolors="black",
                    linewidths=0.5, zorder=3, clip_on=False,
                )  # fmt: skip
        ax.set_xticks(places, [*(str(i + 1) for i in range(longest)), "never"])
        ax.set_xlabel("Step that reveals x11")
        ax.set_title(data, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("Test rows, %")
    axes[0].set_ylim(0, 100)
    _legend_below(axes)
    return axes[0]


def plot_trained_budgets(
    curves: Mapping[str, Mapping[int, Sequence[float]]], *, n_relevant: int, title: str = ""
) -> Any:
    """Plot the number of selected features against ``max_steps``, one model per value.

    `suwr.plots.plot_budget` truncates the narratives of a single model instead.

    Parameters
    ----------
    curves : mapping from a name to mapping from budget to the mean features of each seed
    n_relevant : int
        Number of relevant features.
    title : str, default=""

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(1, 5.2, 3.8)[0]
    budgets = sorted({b for curve in curves.values() for b in curve})
    ax.plot(budgets, budgets, color="#BBBBBB", linestyle=":", label="whole budget", zorder=1)
    ax.axhline(n_relevant, color="#BBBBBB", linestyle="--", label=f"{n_relevant} relevant features")
    for (name, curve), (colour, marker) in zip(
        curves.items(), [("#0072B2", "s"), ("#D55E00", "o"), ("#009E73", "^")], strict=False
    ):
        x = sorted(curve)
        mean = np.array([np.mean(curve[b]) for b in x])
        spread = np.array([np.std(curve[b], ddof=1) if len(curve[b]) > 1 else 0.0 for b in x])
        ax.errorbar(
            x, mean, spread, color=colour, marker=marker, capsize=2, linewidth=1.8, label=name
        )
    ax.set_xlabel("Budget: maximum number of steps, T")
    ax.set_ylabel("Mean features selected")
    ax.set_xticks(budgets)
    ax.set_ylim(0)
    ax.set_title(title, fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_variants(
    panels: Mapping[str, Mapping[str, Sequence[float]]], published: Mapping[str, float]
) -> Any:
    """Plot the gap in AUROC of each variant of a method: every draw, and the mean.

    Parameters
    ----------
    panels : mapping from a data set to mapping from a variant to the gap of each draw
    published : mapping from a data set to its published gap

    Returns
    -------
    matplotlib Axes
    """
    axes = _axes(len(panels), 4.4, 3.2, sharey=True)
    for ax, (data, variants) in zip(axes, panels.items(), strict=True):
        for place, values in enumerate(variants.values()):
            ax.plot(values, [place] * len(values), "o", color="#56B4E9", alpha=0.7)
            ax.plot(np.mean(values), place, "|", color="#D55E00", markersize=18, markeredgewidth=2)
        ax.axvline(published[data], color="#555555", linestyle=":", linewidth=1)
        ax.set_yticks(range(len(variants)), list(variants))
        ax.set_xlabel("AUROC of p(y | x) − AUROC\ndotted: published")
        ax.set_title(data, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    # Read from the top, in the order in which components are added; the axis is shared.
    axes[0].invert_yaxis()
    return axes[0]


def plot_curves(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]],
    *,
    ylabel: str,
    xlabel: str = "Mean features selected",
    chosen: Mapping[str, float] | None = None,
    limits: Mapping[str, float] | None = None,
    limit_name: str = "",
    lines: Sequence[str] = ("SUWR",),
    notes: Mapping[str, str] | None = None,
    bottom: float | None = None,
) -> Any:
    """Plot a score against the number of features for several methods.

    Parameters
    ----------
    panels : mapping from data set to mapping from method to points (features, mean, deviation)
    ylabel, xlabel : str
    chosen : mapping from data set to float, default=None
        Number of features of SUWR at its chosen λ.
    limits : mapping from data set to float, default=None
        Reference score, drawn as a horizontal line.
    limit_name : str
        Name of the reference in the legend.
    lines : sequence of str, default=("SUWR",)
        Methods whose points are connected.
    notes : mapping from method to str, default=None
        Text in brackets after the name of the method in the legend.
    bottom : float, default=None
        Lowest score shown, unless all scores are below it.

    Returns
    -------
    matplotlib Axes
        The first panel.
    """
    axes = _axes(len(panels))
    notes = notes or {}
    for ax, (data, methods) in zip(axes, panels.items(), strict=True):
        for name, points in methods.items():
            colour, marker = _style(name)
            x, y, spread = np.asarray(sorted(points), dtype=float).T
            ax.errorbar(
                x, y, spread, color=colour, marker=marker, markersize=6, capsize=2,
                linestyle="-" if name in lines else "none",
                label=f"{name} ({notes[name]})" if name in notes else name,
                zorder=4 if name == "SUWR" else 3,
            )  # fmt: skip
            if name == "SUWR" and chosen and data in chosen:
                at = int(np.argmin(np.abs(x - chosen[data])))
                ax.scatter(
                    x[at], y[at], s=150, facecolors="none", edgecolors=colour, linewidths=1.4,
                    zorder=5, label="SUWR, chosen λ",
                )  # fmt: skip
        if limits and data in limits:
            ax.axhline(limits[data], color="#888888", linestyle="--", label=limit_name, zorder=1)
        if bottom is not None and ax.get_ylim()[0] < bottom < ax.get_ylim()[1]:
            ax.set_ylim(bottom=bottom)
        ax.set_title(data, fontsize="medium")
        ax.set_xlabel(xlabel)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[:: min(len(axes), 3)]:
        ax.set_ylabel(ylabel)
    _legend_below(axes)
    return axes[0]


def plot_critical_difference(ranking: Ranking) -> Any:
    """Plot mean ranks; bars connect methods that do not differ significantly (Demšar, 2006).

    Parameters
    ----------
    ranking : Ranking

    Returns
    -------
    matplotlib Axes
    """
    names, ranks = list(ranking.mean_rank), list(ranking.mean_rank.values())
    groups = ranking.groups()
    half = -(-len(names) // 2)
    top = 1.0 + 0.35 * len(groups)
    ax = _axes(1, 7.6, 1.6 + 0.3 * half + 0.1 * len(groups))[0]
    for place, (name, rank) in enumerate(ranking.mean_rank.items()):
        left = place < half
        level = top + 0.6 * (place + 1 if left else len(names) - place)
        edge = 0.6 if left else len(names) + 0.4
        ax.plot([rank, rank, edge], [0, level, level], color=_style(name)[0], linewidth=1.1)
        ax.annotate(
            f"{name} ({rank:.2f})", (edge, level), xytext=(-4 if left else 4, 0),
            textcoords="offset points", ha="right" if left else "left", va="center",
            fontsize="small", annotation_clip=False,
        )  # fmt: skip
    for number, group in enumerate(groups):
        own = [rank for name, rank in zip(names, ranks, strict=True) if name in group]
        level = 0.5 + 0.35 * number
        ax.plot([min(own) - 0.05, max(own) + 0.05], [level] * 2, color="black", linewidth=3)
    difference = ranking.critical_difference
    ax.plot([1, 1 + difference], [-1.6, -1.6], color="black", marker="|", linewidth=1.2)
    ax.annotate(
        f"mean rank over {ranking.n_tables} tables; critical difference {difference:.2f}",
        (1, -1.6), xytext=(0, 6), textcoords="offset points", fontsize="small",
    )  # fmt: skip
    ax.set_xlim(0.6, len(names) + 0.4)
    # Ranks increase downwards: the methods hang from the axis at the top.
    ax.invert_yaxis()
    ax.xaxis.set_ticks_position("top")
    ax.set_xticks(range(1, len(names) + 1))
    ax.set_yticks([])
    ax.spines[["left", "right", "bottom"]].set_visible(False)
    ax.spines["top"].set_position(("data", 0))
    return ax


def _legend_below(axes: Sequence[Any]) -> None:
    """Add one legend for all panels, with as few rows as the width of the figure allows."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure = axes[0].figure
    for rows in range(1, len(handles) + 1):
        legend = figure.legend(
            handles.values(), handles.keys(), loc="outside lower center",
            ncols=-(-len(handles) // rows), frameon=False, fontsize="small",
        )  # fmt: skip
        if rows == len(handles) or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
