"""Checks of what the user gives to an audit."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.audit._table import Groups, IntArray, as_rows
from suwr.data.units import Patches
from suwr.selector import WrappedSelector


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of ``choices``."""
    if value not in choices:
        _refuse(name, "one of " + ", ".join(map(repr, choices)), value)


def check_fractions(**values: Any) -> None:
    """Refuse numbers that are not between 0 and 1."""
    for name, value in values.items():
        if not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
            _refuse(name, "a float in the range (0.0, 1.0)", value)


def check_counts(**values: tuple[Any, int]) -> None:
    """Refuse what is neither None nor a whole number of at least the second entry."""
    for name, (number, least) in values.items():
        if number is not None and (not isinstance(number, Integral) or number < least):
            _refuse(name, f"an int of at least {least}", number)


def check_seconds(value: Any) -> None:
    """Refuse a time limit that is no time."""
    if value is not None and (not isinstance(value, Real) or not float(value) > 0):
        _refuse("max_seconds", "None or a positive number", value)


def _refuse(name: str, allowed: str, value: Any) -> None:
    raise ValueError(f"The '{name}' parameter of audit must be {allowed}. Got {value!r} instead.")


def check_selector(selector: WrappedSelector) -> None:
    """Refuse an estimator that was never fitted, with scikit-learn's own error."""
    source = selector.source
    if hasattr(source, "fit") and hasattr(source, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(source)


def own_groups(selector: Any) -> Groups | None:
    """The groups that an estimator was made with.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> own_groups(SimpleNamespace(groups={"ward": [1, 2]}))
    {'ward': [1, 2]}
    """
    groups = getattr(selector, "groups", None)
    return groups if isinstance(groups, Mapping | list | tuple | Patches) else None


def choose_rows(
    X: Any, y: Any | None, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray | None, NDArray[Any] | None]:
    """Positions of the rows to use (None for all), and their labels."""
    n_rows = len(as_rows(X))
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n_rows,):
        raise ValueError(
            f"The 'y' parameter of audit must have one label per row ({n_rows}). "
            f"Got an array of shape {labels.shape} instead."
        )
    if n_rows <= max_rows:
        return None, labels
    rows = np.sort(rng.choice(n_rows, max_rows, replace=False))
    return rows, None if labels is None else labels[rows]
