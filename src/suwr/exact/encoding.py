"""Encoding of raw columns and labels: integer codes, and a sparse table p(y | x)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from suwr._utils.validation import check_choice, parameter_error

LOSSES = ("auto", "squared_error", "cross_entropy", "zero_one")

_MISSING = "\0missing"  # dictionary key of NaN, which is not equal to itself


@dataclass(frozen=True)
class Alphabet:
    """The distinct values of one column, in a fixed order.

    Attributes
    ----------
    values : tuple
        The distinct values; the code of a value is its position.
    """

    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Codes of ``column``; -1 for a value that is not in the alphabet."""
        codes = {_key(value): code for code, value in enumerate(self.values)}
        distinct, inverse = _distinct(column)
        table = np.array([codes.get(_key(value), -1) for value in distinct], dtype=np.int64)
        return table[inverse]

    @classmethod
    def of(cls, column: NDArray[Any]) -> "Alphabet":
        """Collect the distinct values of ``column``."""
        distinct, _ = _distinct(column)
        return cls(tuple(_to_python(value) for value in distinct))


def split_columns(X: Any) -> tuple[list[NDArray[Any]], list[str] | None]:
    """Columns of a table, and their names if it is a data frame.

    Every column keeps its own type.
    """
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        return [np.asarray(X[name]) for name in X.columns], names
    # Without dtype=object, a list that mixes numbers and strings would become all strings.
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(
            "The 'X' parameter must be two-dimensional, one row for each support point. "
            f"Got an array with {array.ndim} dimension(s) instead."
        )
    return [narrow(array[:, j]) for j in range(array.shape[1])], None


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Convert an object column of numbers into a numeric one."""
    if column.dtype != object or not all(
        isinstance(v, int | float | np.number | np.bool_) for v in column
    ):
        return column
    return np.array(column.tolist())


def stack(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join columns into a matrix, which is numeric if all columns are."""
    if all(column.dtype.kind in "biuf" for column in columns):
        return np.column_stack(columns)
    matrix = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        matrix[:, j] = column.tolist()
    return matrix


def distinct_rows(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of the first occurrence of each distinct row, and the group of every row.

    Groups are numbered in order of first occurrence.
    """
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[inverse.reshape(-1)]


def read_labels(y: Any, n_rows: int, labels: Any, owner: str) -> tuple[NDArray[Any], Any]:
    """Distinct labels, and the table p(y | x) with one row for each row of X.

    Parameters
    ----------
    y : array-like
        One label per row, one mapping from labels to probabilities per row, or a matrix whose
        columns follow ``labels``.
    n_rows : int
        Number of rows of X.
    labels : array-like or None
        Names of the columns of a matrix ``y``.
    owner : str
        Name of the caller, for error messages.
    """
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not isinstance(y, np.ndarray):
        y = list(y)
        if y and all(isinstance(row, Mapping) for row in y):
            return _from_mappings(y, n_rows, owner)
        shape = np.shape(np.array(y, dtype=object))
        y = np.array(y, dtype=object if len(shape) == 1 else None)
    if y.ndim == 2 and y.shape[1] == 1 and labels is None:
        y = y[:, 0]
    if y.ndim == 2:
        return _from_matrix(y, n_rows, labels, owner)
    if y.ndim != 1:
        raise ValueError(
            f"The 'y' parameter of {owner} must be one- or two-dimensional. "
            f"Got {y.ndim} dimensions instead."
        )
    _check_length(len(y), n_rows, owner)
    y = narrow(y)
    _check_present(sum(_is_missing(value) for value in y), owner)
    alphabet = Alphabet.of(y)
    table = sparse.csr_array(
        (np.ones(n_rows), (np.arange(n_rows), alphabet.encode(y))), shape=(n_rows, len(alphabet))
    )
    return narrow(as_objects(alphabet.values)), table


def choose_loss(loss: Any, labels: NDArray[Any], owner: str) -> str:
    """Resolve ``"auto"``: squared error for numbers, cross-entropy for all other labels."""
    check_choice(loss, "loss", owner, LOSSES)
    numeric = labels.dtype.kind in "iuf"
    if loss == "auto":
        return "squared_error" if numeric else "cross_entropy"
    if loss == "squared_error" and labels.dtype.kind not in "biuf":
        raise parameter_error(
            "loss", owner, "'cross_entropy' or 'zero_one' if the labels are not numbers", loss
        )
    return str(loss)


def as_objects(values: Any) -> NDArray[Any]:
    """One-dimensional array of objects, even if the values are sequences."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _from_mappings(
    rows: list[Mapping[Any, float]], n_rows: int, owner: str
) -> tuple[NDArray[Any], Any]:
    _check_length(len(rows), n_rows, owner)
    _check_present(sum(not row for row in rows), owner)
    names = narrow(as_objects([label for row in rows for label in row]))
    alphabet = Alphabet.of(names)
    row_index = np.repeat(np.arange(n_rows), [len(row) for row in rows])
    weights = np.array([weight for row in rows for weight in row.values()], dtype=float)
    table = sparse.csr_array(
        (weights, (row_index, alphabet.encode(names))), shape=(n_rows, len(alphabet))
    )
    return narrow(as_objects(alphabet.values)), _check_distributions(table, owner)


def _from_matrix(y: NDArray[Any], n_rows: int, labels: Any, owner: str) -> tuple[NDArray[Any], Any]:
    _check_length(len(y), n_rows, owner)
    names = np.arange(y.shape[1]) if labels is None else narrow(as_objects(labels))
    n_distinct = len(Alphabet.of(names))
    if len(names) != y.shape[1] or n_distinct != y.shape[1]:
        raise ValueError(
            f"The 'labels' parameter of {owner} must be {y.shape[1]} distinct names, one for each "
            f"column of 'y'. Got {len(names)} names, {n_distinct} of them distinct, instead."
        )
    return names, _check_distributions(sparse.csr_array(np.asarray(y, dtype=float)), owner)


def _check_distributions(table: Any, owner: str) -> Any:
    invalid = int((~np.isfinite(table.data) | (table.data < 0)).sum())
    if invalid:
        raise ValueError(
            f"The 'y' parameter of {owner} must contain non-negative probabilities. "
            f"Got {invalid} negative or non-finite value(s) instead."
        )
    totals = np.asarray(table.sum(axis=1)).reshape(-1)
    off = ~np.isclose(totals, 1.0, rtol=0, atol=1e-8)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"The 'y' parameter of {owner} must contain label distributions that sum to 1. "
            f"Got {int(off.sum())} row(s) that do not; row {row} sums to {totals[row]:.6g}."
        )
    table = sparse.csr_array(table.multiply((1 / totals)[:, None]))
    table.eliminate_zeros()
    return table


def _check_length(n_labels: int, n_rows: int, owner: str) -> None:
    if n_labels != n_rows:
        raise ValueError(
            f"The 'y' parameter of {owner} must be a label for every one of the {n_rows} rows of "
            f"X. Got {n_labels} label(s) instead."
        )


def _check_present(n_missing: int, owner: str) -> None:
    if n_missing:
        raise ValueError(
            f"The 'y' parameter of {owner} must be a label for every row of X. "
            f"Got {n_missing} row(s) without a label instead."
        )


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value) or str(value) in ("<NA>", "NaT")


def _distinct(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    if column.dtype.kind in "biufUS":
        distinct, inverse = np.unique(column, return_inverse=True)
        return list(distinct), inverse.reshape(-1)
    seen: dict[Any, Any] = {}
    keys = [_key(value) for value in column]
    for key, value in zip(keys, column, strict=True):
        seen.setdefault(key, value)
    order = sorted(seen, key=lambda key: (isinstance(key, str), str(type(key)), _sort_key(key)))
    place = {key: i for i, key in enumerate(order)}
    return [seen[key] for key in order], np.array([place[key] for key in keys], dtype=np.int64)


def _sort_key(key: Any) -> Any:
    # Values are compared within one type only; types without an order are sorted by their text.
    return key if isinstance(key, int | float | str | bytes) else str(key)


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(value: Any) -> Any:
    value = _to_python(value)
    if value is None or (isinstance(value, float) and value != value):
        return _MISSING
    if str(value) in ("<NA>", "NaT"):
        return _MISSING
    return value
