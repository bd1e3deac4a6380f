"""What a page can be told beyond its narratives, by whoever made them.

An explanation read from JSON has no source and its page shows the narratives alone. One that a
model made has: the page can then lay out every feature, and carry the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout", "PageModel", "Source"]


@dataclass(frozen=True)
class Layout:
    """What there is to reveal.

    Attributes
    ----------
    columns : list of str
    units : list of (str, list of int)
        Name and column numbers of every unit.
    image : tuple of int or None
        ``(height, width)`` or ``(height, width, channels)`` where the columns are pixels.
    """

    columns: list[str]
    units: list[tuple[str, list[int]]]
    image: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PageModel:
    """A model as data that a page can run.

    Attributes
    ----------
    description : dict
        Plain values: encoding of the columns, networks layer by layer, where their outputs go.
    weights : ndarray of float32, one-dimensional
        All weights, in the order in which the description's layers need them.
    """

    description: dict[str, Any]
    weights: NDArray[np.float32]


class Source(Protocol):
    """Where an explanation came from. Rows are counted as in the explanation."""

    def layout(self) -> Layout:
        """Columns and units."""
        ...

    def values(self, row: int) -> list[Any]:
        """Every cell of a row, revealed or not, in the order of the columns."""
        ...

    def model(self) -> PageModel:
        """The model; raises `UnsupportedModelError` where a page cannot run it."""
        ...

    def take(self, rows: slice) -> Source:
        """The source of some of the rows."""
        ...
