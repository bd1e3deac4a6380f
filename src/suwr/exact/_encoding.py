"""Raw columns of any kind as small integers, so that the rest is arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MISSING = "\0missing"  # NaN differs from itself, so it needs a name of its own


@dataclass(frozen=True)
class Alphabet:
    """The values that one column can take, in a fixed order.

    Attributes
    ----------
    values : tuple
        The distinct values; a value's place is its code.
    """

    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Codes of ``column``; -1 marks a value that is not in the alphabet."""
        codes = {_key(value): code for code, value in enumerate(self.values)}
        distinct, inverse = _distinct(column)
        table = np.array([codes.get(_key(value), -1) for value in distinct], dtype=np.int64)
        return table[inverse]

    @classmethod
    def of(cls, column: NDArray[Any]) -> "Alphabet":
        """Collect the values of ``column``."""
        distinct, _ = _distinct(column)
        return cls(tuple(_plain(value) for value in distinct))


def split_columns(X: Any) -> tuple[list[NDArray[Any]], list[str] | None]:
    """Columns of a table, and their names when it has any.

    Frames are read column by column: a frame of numbers and strings stays what it is.
    """
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        return [np.asarray(X[name]) for name in X.columns], names
    # A list that mixes numbers and strings would become all strings without dtype=object.
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(
            "The 'X' parameter must be two-dimensional, one row for each support point. "
            f"Got an array with {array.ndim} dimension(s) instead."
        )
    return [narrow(array[:, j]) for j in range(array.shape[1])], None


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Turn an object column of numbers into a numeric one."""
    if column.dtype != object or not all(
        isinstance(v, int | float | np.number | np.bool_) for v in column
    ):
        return column
    return np.array(column.tolist())


def stack(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join columns to a matrix, numeric where all of them are."""
    if all(column.dtype.kind in "biuf" for column in columns):
        return np.column_stack(columns)
    matrix = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        matrix[:, j] = column.tolist()
    return matrix


def first_of_each(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of the first row of each kind, in order, and for every row the place of its kind."""
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[inverse.reshape(-1)]


def _distinct(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    if column.dtype.kind in "biufUS":
        distinct, inverse = np.unique(column, return_inverse=True)
        return list(distinct), inverse.reshape(-1)
    seen: dict[Any, Any] = {}
    keys = [_key(value) for value in column]
    for key, value in zip(keys, column, strict=True):
        seen.setdefault(key, value)
    order = sorted(seen, key=lambda key: (isinstance(key, str), str(type(key)), _rank(key)))
    place = {key: i for i, key in enumerate(order)}
    return [seen[key] for key in order], np.array([place[key] for key in keys], dtype=np.int64)


def _rank(key: Any) -> Any:
    # Only values of one type are compared with each other; a kind without an order uses its text.
    return key if isinstance(key, int | float | str | bytes) else str(key)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(value: Any) -> Any:
    value = _plain(value)
    if value is None or (isinstance(value, float) and value != value):
        return _MISSING
    if str(value) in ("<NA>", "NaT"):
        return _MISSING
    return value
