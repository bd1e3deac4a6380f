"""What an explanation remembers about its model, for pages that embed the model.

An explanation made by a model has a source: its page can list every feature and run the model. An
explanation read from JSON or a data frame has none, and its page shows the narratives only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layout", "PageModel", "Source"]


@dataclass(frozen=True)
class Layout:
    """Columns and units of a model.

    Attributes
    ----------
    columns : list of str
    units : list of (str, list of int)
        Name and column numbers of every unit.
    image : tuple of int or None
        ``(height, width)`` or ``(height, width, channels)`` if the columns are pixels.
    """

    columns: list[str]
    units: list[tuple[str, list[int]]]
    image: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PageModel:
    """A model in a form that the script of a page can run.

    Attributes
    ----------
    description : dict
        JSON-compatible values: the encoding of the columns, the layers of the networks and the
        meaning of their outputs.
    weights : ndarray of float32, one-dimensional
        All weights, in the order of the layers in the description.
    receipts : dict or None
        What a receipt must state to be one of this model; None if the model has no receipts.
    """

    description: dict[str, Any]
    weights: NDArray[np.float32]
    receipts: dict[str, Any] | None = None


class Source(Protocol):
    """The model and the rows behind an explanation; rows are numbered as in the explanation.

    Attributes
    ----------
    sampled : bool
        Whether decisions were drawn from the policy, instead of the most probable ones.
    """

    sampled: bool

    def layout(self) -> Layout:
        """Return the columns and units."""
        ...

    def values(self, row: int) -> dict[int, Any]:
        """Return the values of a row by column number, revealed or not, except for invalid ones."""
        ...

    def model(self) -> PageModel:
        """Return the model; raise `UnsupportedModelError` if a page cannot run it."""
        ...

    def take(self, rows: slice) -> Source:
        """Return the source of a subset of the rows."""
        ...
