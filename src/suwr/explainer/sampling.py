"""Rows drawn by the explainer: recombinations of similar background rows.

A model can be queried on rows for which there are no labels. Rows must resemble the data, because
the predictor learns the expected output given the revealed values under the distribution of the
rows that it is trained on. A drawn row is a background row in which about half of the units are
replaced by those of one of its nearest neighbours: every cell is a value of its column, the columns
of a group (such as the columns of a one-hot encoding) are replaced together, other dependences
between columns are kept approximately, and columns of every type are treated alike.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from suwr.data.encode import TableEncoder
from suwr.data.frame import gather_rows, is_frame, read_table

__all__ = ["concatenate_rows", "draw_rows", "nearest_rows"]

# Neighbours among which the second row is drawn.
N_NEIGHBOURS = 10
# Probability that a unit is taken from the neighbour.
EXCHANGE = 0.5
# Rows among which neighbours are searched, which bounds the time of the search.
MAX_CANDIDATES = 20_000


def nearest_rows(X: Any, n_neighbours: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Find the nearest neighbours of every row, by the Euclidean distance of encoded rows.

    Parameters
    ----------
    X : data frame or array of shape (n, d)
    n_neighbours : int
    rng : RandomState
        Chooses the rows that are searched, if there are many.

    Returns
    -------
    ndarray of int, shape (n, at most n_neighbours)
    """
    table = read_table(X)
    encoder = TableEncoder.fit(table, [f"x{i}" for i in range(len(table.columns))])
    values = encoder.encode(encoder.parse(table.columns))
    candidates = np.arange(len(values))
    if len(values) > MAX_CANDIDATES:
        candidates = rng.choice(len(values), MAX_CANDIDATES, replace=False)
    # One more, because the row itself is usually its own nearest neighbour.
    n = min(n_neighbours + 1, len(candidates))
    search = NearestNeighbors(n_neighbors=n).fit(values[candidates])
    found = candidates[search.kneighbors(values, return_distance=False)]
    return found[:, 1:] if n > 1 else found


def draw_rows(
    X: Any, n: int, rng: np.random.RandomState, unit_of: NDArray[np.intp] | None = None
) -> Any:
    """Draw rows that recombine the units of a background row and of one of its neighbours.

    Parameters
    ----------
    X : data frame or array of shape (n_rows, d)
    n : int
        Rows to draw; background rows are used equally often.
    rng : RandomState
    unit_of : ndarray of int, shape (d,), optional
        Number of the unit of each column; by default, every column is one.

    Returns
    -------
    data frame or array of shape (n, d)
        In the container of ``X``.

    Examples
    --------
    >>> rows = draw_rows(np.array([[0, 10], [1, 11]]), 4, np.random.RandomState(0))
    >>> rows.shape, set(rows[:, 0].tolist()) <= {0, 1}
    ((4, 2), True)
    """
    neighbours = nearest_rows(X, N_NEIGHBOURS, rng)
    n_rows, n_columns = len(neighbours), X.shape[1]
    repeats = [rng.permutation(n_rows) for _ in range(-(-n // n_rows))]
    base = np.concatenate(repeats)[:n] if n else np.zeros(0, dtype=np.intp)
    other = neighbours[base, rng.randint(neighbours.shape[1], size=n)]
    units = np.arange(n_columns) if unit_of is None else unit_of
    n_units = int(units.max(initial=-1)) + 1
    exchanged = (rng.random_sample((n, n_units)) < EXCHANGE)[:, units]
    return gather_rows(X, np.where(exchanged, other[:, None], base[:, None]))


def concatenate_rows(X: Any, drawn: Any) -> Any:
    """Append drawn rows to the rows that they were drawn from; the index of a frame is reset."""
    if not is_frame(X):
        return np.concatenate([X, drawn])
    parts = [nw.maybe_reset_index(nw.from_native(part, eager_only=True)) for part in (X, drawn)]
    return nw.maybe_reset_index(nw.concat(parts)).to_native()
