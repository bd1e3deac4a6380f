"""Colours, labels, axes and files shared by all figures."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr._utils.text import percent, printable
from suwr._utils.validation import require

# The Okabe-Ito palette, distinguishable with every kind of colour vision. Markers or line styles
# always repeat what the colours encode.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
BLACK = "#000000"
GREY = "#8A8A8A"
LIGHT_GREY = "#D9D9D9"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_MAX_LABEL_LENGTH = 36
# Characters of the labels of a legend of two columns.
_LEGEND_WIDTH = 44
# Least width of a figure in a file, in pixels.
MIN_WIDTH = 1_600


def new_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure if it is None."""
    if ax is not None:
        return ax
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def new_grid(n_rows: int, n_columns: int, figsize: tuple[float, float], **options: Any) -> Any:
    """Return the axes of a new figure as an array of shape (n_rows, n_columns)."""
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    return plt.subplots(
        n_rows, n_columns, figsize=figsize, layout="constrained", squeeze=False, **options
    )[1]


def plain(value: Any, max_length: int = _MAX_LABEL_LENGTH) -> str:
    """Return a name from the data as a label: one line, truncated, without markup.

    Matplotlib renders text between dollar signs as mathematics and hides legend entries that
    begin with an underscore.

    Examples
    --------
    >>> plain("price in $ or $$")
    'price in \\\\$ or \\\\$\\\\$'
    >>> plain("a\\nb"), plain("x" * 50, 4), plain("_id")
    ('a b', 'xxx…', ' _id')
    """
    text = printable(" ".join(str(value).split()))
    text = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def check_rows(explanation: Any, owner: str) -> None:
    """Raise an error for an explanation without rows."""
    if len(explanation) == 0:
        raise ValueError(f"The 'explanation' parameter of {owner} must not be empty.")


def short_percent(p: float) -> str:
    """Format a probability compactly; '0 %' and '100 %' are exact.

    Examples
    --------
    >>> short_percent(0.5), short_percent(0.001), short_percent(0.9999), short_percent(1.0)
    ('50 %', '<1 %', '>99 %', '100 %')
    """
    return percent(p).replace("under ", "<").replace("over ", ">")


def open_frame(ax: Any, *sides: str) -> None:
    """Hide sides of the frame, by default the top and right ones."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def finish(ax: Any, title: str, xlabel: str, ylabel: str = "", *, whole: bool = False) -> None:
    """Set the title and the labels of axes, open their frame and place their legend.

    The legend is above the axes, where it hides nothing: searching for the 'best' position takes
    seconds on a busy machine.

    Parameters
    ----------
    ax : matplotlib Axes
    title, xlabel, ylabel : str
    whole : bool, default=False
        Whether the ticks of the horizontal axis are whole numbers, of features for instance.
    """
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    open_frame(ax)
    if whole:
        ax.locator_params(axis="x", nbins=10, integer=True)
    labels = ax.get_legend_handles_labels()[1]
    n_columns = 2 if sum(sorted(map(len, labels))[-2:]) <= _LEGEND_WIDTH else 1
    if labels:
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
        ax.legend(frameon=False, ncols=n_columns, **place)
    # Room for the lines of the legend.
    n_lines = -(-len(labels) // n_columns)
    ax.set_title(title, loc="left", fontweight="bold", pad=8 + 16 * n_lines)


def write_figure(figure: Any, path: Path, dpi: int | None = None) -> Path:
    """Write a figure atomically and reproducibly, without empty margins.

    Dates and random identifiers are omitted, so that equal figures give equal files.

    Parameters
    ----------
    figure : matplotlib Figure
    path : Path
        Output file; its suffix determines the format.
    dpi : int, optional
        Resolution; by default that of 1,600 pixels in width, and at least 150.
    """
    if dpi is None:
        figure.draw_without_rendering()  # computes the layout
        dpi = max(150, math.ceil(MIN_WIDTH / figure.get_tightbbox().width))
    options: dict[str, Any] = {"dpi": dpi, "bbox_inches": "tight"}
    mpl = require("matplotlib", "plots", "Plotting")
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind in ("svg", "pdf"):
        undated = "Date" if kind == "svg" else "CreationDate"
        options["metadata"] = {undated: None}
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "suwr"}):
        figure.savefig(buffer, format=kind, **options)
    write_atomic(path, buffer.getvalue())
    return path
