"""Colours, names and axes that all figures share."""

from __future__ import annotations

from typing import Any

from suwr._utils.optional import require
from suwr._utils.text import percent

# Okabe and Ito's colours, told apart with any colour vision; markers repeat every difference.
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

_LONGEST_NAME = 36


def new_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """The axes that the caller gave, or those of a new figure."""
    if ax is not None:
        return ax
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def new_grid(n_rows: int, n_columns: int, figsize: tuple[float, float], **options: Any) -> Any:
    """An array of axes, (n_rows, n_columns), in a new figure."""
    plt = require("matplotlib.pyplot", "plots", "Plotting")
    return plt.subplots(
        n_rows, n_columns, figsize=figsize, layout="constrained", squeeze=False, **options
    )[1]


def plain(value: Any, longest: int = _LONGEST_NAME) -> str:
    """A name from the data as text to draw: on one line, not too long, and never as mathematics.

    Matplotlib reads what stands between two dollar signs as a formula, and hides legend entries
    that begin with an underscore.

    Examples
    --------
    >>> plain("price in $ or $$")
    'price in \\\\$ or \\\\$\\\\$'
    >>> plain("a\\nb"), plain("x" * 50, 4), plain("_id")
    ('a b', 'xxx…', ' _id')
    """
    text = " ".join(str(value).split())
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def share(p: float) -> str:
    """A probability in few characters, without false certainty.

    Examples
    --------
    >>> share(0.5), share(0.001), share(0.9999), share(1.0)
    ('50 %', '<1 %', '>99 %', '100 %')
    """
    return percent(p).replace("under ", "<").replace("over ", ">")


def open_frame(ax: Any, *sides: str) -> None:
    """Leave out the sides of the frame that carry no scale."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)
