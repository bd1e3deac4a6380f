"""Scores as an Arrow table: predictions, selected columns and steps by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.optional import require
from suwr.estimators.results import Scores

__all__ = ["to_arrow"]


def to_arrow(
    scores: Scores,
    rows: Any,
    source: str | None,
    columns: list[str],
    units: tuple[str, ...],
    classes: tuple[Any, ...] | None,
) -> Any:
    """One line per row: what was predicted, from which columns, revealed in which order.

    Parameters
    ----------
    scores : Scores
    rows : array-like
        Names of the rows: their numbers in the file, or the index of a frame.
    source : str or None
        The file that the rows are from.
    columns, units : names of the model's columns and units
    classes : tuple or None
        Class labels; None for regression.
    """
    arrow = require("pyarrow", "tables", "Writing predictions")
    n = len(scores.mask)
    table: dict[str, Any] = {}
    if source is not None:
        table["file"] = arrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), [source])
    table["row"] = arrow.array(rows)
    kind = arrow.float64() if classes is None else arrow.array(classes).type
    table["prediction"] = arrow.array(scores.prediction.tolist(), kind)
    if scores.probability is not None:
        for number, label in enumerate(classes or ()):
            table[f"probability of {label}"] = arrow.array(scores.probability[:, number])
    table["n_selected"] = arrow.array(scores.mask.sum(axis=1))
    row, column = np.nonzero(scores.mask)
    table["selected"] = _lists(arrow, column, row, n, columns)
    row, step, slot = np.nonzero(scores.order >= 0)
    if scores.order.shape[2] == 1:
        table["steps"] = _lists(arrow, scores.order[row, step, slot], row, n, list(units))
    else:
        # A step that reveals several units is one entry, as in a narrative.
        table["steps"] = arrow.array(
            [
                [" + ".join(units[u] for u in part if u >= 0) for part in steps if part[0] >= 0]
                for steps in scores.order
            ],
            type=arrow.list_(arrow.dictionary(arrow.int32(), arrow.string())),
        )
    return arrow.table(table)


def _lists(
    arrow: Any, code: NDArray[np.intp], row: NDArray[np.intp], n: int, names: list[str]
) -> Any:
    """Lists of names from pairs of row and code, sorted by row."""
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
    values = arrow.DictionaryArray.from_arrays(code.astype(np.int32), arrow.array(names))
    return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), values)
