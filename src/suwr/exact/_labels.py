"""Labels, one a row or a distribution a row, as one sparse table p(y | x)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from suwr.exact._checks import check_choice, parameter_error
from suwr.exact._encoding import Alphabet, narrow

LOSSES = ("auto", "squared_error", "cross_entropy", "zero_one")
_OWNER = "FiniteProblem"


def read_labels(y: Any, n_rows: int, labels: Any) -> tuple[NDArray[Any], Any]:
    """Distinct labels, and the table of p(y | x) with one row for each row of X.

    Parameters
    ----------
    y : array-like
        One label a row, one mapping from labels to probabilities a row, or a matrix whose columns
        follow ``labels``.
    n_rows : int
        Number of rows of X.
    labels : array-like or None
        Names of the columns of a matrix ``y``.
    """
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not isinstance(y, np.ndarray):
        y = list(y)
        if y and all(isinstance(row, Mapping) for row in y):
            return _from_mappings(y, n_rows)
        shape = np.shape(np.array(y, dtype=object))
        y = np.array(y, dtype=object if len(shape) == 1 else None)
    if y.ndim == 2 and y.shape[1] == 1 and labels is None:
        y = y[:, 0]
    if y.ndim == 2:
        return _from_matrix(y, n_rows, labels)
    if y.ndim != 1:
        raise parameter_error("y", _OWNER, "one- or two-dimensional", f"{y.ndim} dimensions")
    _check_length(len(y), n_rows)
    y = narrow(y)
    _check_present(sum(_is_missing(value) for value in y))
    alphabet = Alphabet.of(y)
    table = sparse.csr_array(
        (np.ones(n_rows), (np.arange(n_rows), alphabet.encode(y))), shape=(n_rows, len(alphabet))
    )
    return narrow(as_objects(alphabet.values)), table


def choose_loss(loss: Any, labels: NDArray[Any]) -> str:
    """Resolve ``"auto"``: squared error for numbers, cross-entropy for everything else."""
    check_choice(loss, "loss", _OWNER, LOSSES)
    numeric = labels.dtype.kind in "iuf"
    if loss == "auto":
        return "squared_error" if numeric else "cross_entropy"
    if loss == "squared_error" and labels.dtype.kind not in "biuf":
        raise parameter_error(
            "loss", _OWNER, "'cross_entropy' or 'zero_one' when labels are not numbers", repr(loss)
        )
    return str(loss)


def as_objects(values: Any) -> NDArray[Any]:
    """Array of objects that never becomes two-dimensional."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _from_mappings(rows: list[Mapping[Any, float]], n_rows: int) -> tuple[NDArray[Any], Any]:
    _check_length(len(rows), n_rows)
    _check_present(sum(not row for row in rows))
    names = narrow(as_objects([label for row in rows for label in row]))
    alphabet = Alphabet.of(names)
    owner = np.repeat(np.arange(n_rows), [len(row) for row in rows])
    weights = np.array([weight for row in rows for weight in row.values()], dtype=float)
    table = sparse.csr_array(
        (weights, (owner, alphabet.encode(names))), shape=(n_rows, len(alphabet))
    )
    return _checked(narrow(as_objects(alphabet.values)), table)


def _from_matrix(y: NDArray[Any], n_rows: int, labels: Any) -> tuple[NDArray[Any], Any]:
    _check_length(len(y), n_rows)
    names = np.arange(y.shape[1]) if labels is None else narrow(as_objects(labels))
    if len(names) != y.shape[1] or len(Alphabet.of(names)) != y.shape[1]:
        raise parameter_error(
            "labels", _OWNER, f"{y.shape[1]} distinct names, one a column of 'y'", f"{len(names)}"
        )
    return _checked(names, sparse.csr_array(np.asarray(y, dtype=float)))


def _checked(labels: NDArray[Any], table: Any) -> tuple[NDArray[Any], Any]:
    if not np.isfinite(table.data).all() or (table.data < 0).any():
        bad = int((~np.isfinite(table.data) | (table.data < 0)).sum())
        raise parameter_error(
            "y", _OWNER, "made of probabilities of at least 0", f"{bad} negative or non-finite"
        )
    totals = np.asarray(table.sum(axis=1)).reshape(-1)
    off = ~np.isclose(totals, 1.0, rtol=0, atol=1e-8)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise parameter_error(
            "y",
            _OWNER,
            "made of label distributions that sum to 1",
            f"{int(off.sum())} row(s) that do not, first row {row} with {totals[row]:.6g},",
        )
    table = sparse.csr_array(table.multiply((1 / totals)[:, None]))
    table.eliminate_zeros()
    return labels, table


def _check_length(n_labels: int, n_rows: int) -> None:
    if n_labels != n_rows:
        raise parameter_error(
            "y", _OWNER, f"a label for every one of the {n_rows} rows of X", f"{n_labels} label(s)"
        )


def _check_present(n_missing: int) -> None:
    if n_missing:
        raise parameter_error(
            "y", _OWNER, "a label for every row of X", f"{n_missing} row(s) without a label"
        )


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value) or str(value) in ("<NA>", "NaT")
