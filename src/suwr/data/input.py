"""Validation of the ``X``, ``y`` and ``sample_weight`` that estimators receive."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    validate_data,
)

from suwr.data.stored import StoredTable
from suwr.data.tables import Table, column_names, is_frame, read_table, select_columns
from suwr.exceptions import TableError

__all__ = ["name_columns", "read_fit_table", "read_predict_table"]


def name_columns(estimator: Any) -> list[str]:
    """Return ``feature_names_in_`` as strings, or x0, x1, … for data without names."""
    if hasattr(estimator, "feature_names_in_"):
        return [str(n) for n in estimator.feature_names_in_]
    return [f"x{i}" for i in range(estimator.n_features_in_)]


def read_fit_table(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
) -> tuple[Table | StoredTable, Any, NDArray[np.float64]]:
    """Read the arguments of ``fit``; sets ``n_features_in_`` and ``feature_names_in_``.

    Returns
    -------
    table : Table or StoredTable
    y : object
        The target, not validated except for its length.
    weight : ndarray of shape (n_rows,)
        Sample weights; ones by default.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    table: Table | StoredTable
    if isinstance(X, StoredTable):
        validate_data(estimator, X.header(), reset=True, skip_check_array=True)
        _check_size(len(X), len(X.names), min_rows=2)
        table = X
    else:
        table = _read(estimator, X, reset=True, min_rows=2)
    check_consistent_length(X, y)
    weight = _check_sample_weight(
        sample_weight, np.empty((table.n_rows, 1)), dtype=np.float64, ensure_non_negative=True
    )
    if not (weight > 0).any():
        raise ValueError("'sample_weight' must be positive for at least one row. Got only zeros.")
    return table, y, weight


def read_predict_table(estimator: Any, X: Any) -> Table:
    """Read the ``X`` of a fitted estimator; columns of data frames may be in any order."""
    if is_frame(X) and hasattr(estimator, "feature_names_in_"):
        expected, given = list(estimator.feature_names_in_), column_names(X)
        if given != expected and set(given or []) == set(expected):
            X = select_columns(X, expected)
    return _read(estimator, X, reset=False, min_rows=1)


def _read(estimator: Any, X: Any, *, reset: bool, min_rows: int) -> Table:
    if is_frame(X):
        names = column_names(X) or []
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        _check_size(len(X), len(names), min_rows)
        table = read_table(X)
    else:
        kind = getattr(X, "dtype", None) if hasattr(X, "dtype") else np.asarray(X, object).dtype
        text = getattr(kind, "kind", "O") in "OUS" and _holds_text(X)
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=None if text else "numeric",
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
        table = read_table(checked)
    _check_finite(table, name_columns(estimator))
    return table


def _holds_text(X: Any) -> bool:
    """Whether an array contains strings and must therefore be read column by column."""
    array = check_array(
        X, dtype=None, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0
    )
    return array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(v, str) for v in array.flat)
    )


def _check_size(n_rows: int, n_columns: int, min_rows: int) -> None:
    if n_columns < 1:
        raise TableError(
            f"Found table with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required."
        )
    if n_rows < min_rows:
        raise TableError(
            f"Found table with {n_rows} sample(s) (shape=({n_rows}, {n_columns})) while a minimum "
            f"of {min_rows} is required."
        )


def _check_finite(table: Table, names: list[str]) -> None:
    for name, column in zip(names, table.columns, strict=True):
        if column.dtype.kind == "f" and np.isinf(column).any():
            raise TableError(
                f"Input X contains infinity in column {name!r}. Use NaN for missing values."
            )
