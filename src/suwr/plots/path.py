"""Accuracy against sparsity, with other points beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.plots._style import BLACK, COLOURS, MARKERS, new_axes, open_frame, plain

if TYPE_CHECKING:
    from suwr.estimators.sparsity_path import SparsityPath

Curve = tuple[ArrayLike, ArrayLike]


def plot_path(
    paths: SparsityPath | Mapping[str, SparsityPath | Curve],
    references: Mapping[str, Curve | float] | None = None,
    ax: Any = None,
    *,
    xlabel: str = "Mean features revealed",
    ylabel: str = "Score",
) -> Any:
    """Draw accuracy/sparsity curves.

    Parameters
    ----------
    paths : SparsityPath, or mapping
        What `sparsity_path` returned, drawn as its mean cost and score; or several by name, each of
        which may also be a pair of arrays (features, score).
    references : mapping, default=None
        Exact or published values beside them, by name: a pair (features, score) of numbers or
        arrays, drawn in black; or a single score, drawn as a line across, for a model that uses
        everything.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    xlabel, ylabel : str
        Names of the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.plots import plot_path
    >>> ax = plot_path({"SUWR": ([1.0, 2.0], [0.8, 0.9])}, {"all features": 0.95})
    >>> ax.get_xlabel()
    'Mean features revealed'
    """
    named = paths if isinstance(paths, Mapping) else {"SUWR": paths}
    if not named:
        raise ValueError("The 'paths' parameter of plot_path must not be empty.")
    ax = new_axes(ax, (6.4, 4.2))
    for number, (label, path) in enumerate(named.items()):
        x, y = _points(path, label)
        order = np.argsort(x, kind="stable")
        style = number % len(COLOURS)
        ax.plot(
            x[order], y[order], color=COLOURS[style], marker=MARKERS[style], linewidth=2,
            label=plain(label), clip_on=False, zorder=3,
        )  # fmt: skip
    lines = ("--", ":", "-.")
    for number, (label, value) in enumerate((references or {}).items()):
        if isinstance(value, tuple):
            x, y = _points(value, label)
            # A curve of many exact points is a thin line; a single one is only its marker.
            ax.plot(
                x, y, color=BLACK, marker=("*", "h", "p")[number % 3], markersize=9,
                markerfacecolor="white", linewidth=1, linestyle=lines[number % 3],
                label=plain(label), clip_on=False, zorder=2,
            )  # fmt: skip
        else:
            ax.axhline(
                float(value), color=BLACK, linewidth=1, linestyle=lines[number % 3],
                label=plain(label),
            )  # fmt: skip
    ax.set_xlim(left=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    open_frame(ax)
    ax.legend(frameon=False)
    return ax


def _points(path: Any, label: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pair = path if isinstance(path, tuple) else (path.cost, path.score)
    if len(pair) != 2:
        raise ValueError(f"{label!r} must be a pair (features, score). Got {path!r} instead.")
    x, y = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in pair)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"{label!r} must have as many scores as numbers of features. "
            f"Got the shapes {x.shape} and {y.shape} instead."
        )
    return x, y
