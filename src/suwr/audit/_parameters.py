"""Checks of what the user gives to an audit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.audit._table import Groups, IntArray
from suwr.selector import WrappedSelector


def check_parameters(
    support: str,
    false_alarm_rate: float,
    confidence: float,
    n_probes: int | None,
    n_draws: int,
    max_rows: int,
    batch_size: int,
) -> None:
    """Raise a ValueError that names the parameter, what it may be, and what it was."""
    if support not in ("auto", "product", "empirical"):
        _refuse("support", "one of 'auto', 'product' and 'empirical'", support)
    for name, value in (("false_alarm_rate", false_alarm_rate), ("confidence", confidence)):
        if not 0.0 < value < 1.0:
            _refuse(name, "a float in the range (0.0, 1.0)", value)
    for name, number, least in (
        ("n_probes", n_probes, 1),
        ("n_draws", n_draws, 1),
        ("max_rows", max_rows, 2),
        ("batch_size", batch_size, 1),
    ):
        if number is not None and (not isinstance(number, int | np.integer) or number < least):
            _refuse(name, f"an int of at least {least}", number)


def _refuse(name: str, allowed: str, value: Any) -> None:
    raise ValueError(f"The '{name}' parameter of audit must be {allowed}. Got {value!r} instead.")


def check_selector(selector: WrappedSelector) -> None:
    """Refuse an estimator that was never fitted, with scikit-learn's own error."""
    source = selector.source
    if hasattr(source, "fit") and hasattr(source, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(source)


def own_groups(selector: Any) -> Groups | None:
    """The groups that an estimator was made with; image patches overlap, and are no groups here.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> own_groups(SimpleNamespace(groups={"ward": [1, 2]}))
    {'ward': [1, 2]}
    """
    groups = getattr(selector, "groups", None)
    return groups if isinstance(groups, Mapping | list | tuple) else None


def choose_rows(
    X: Any, y: Any | None, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray | None, NDArray[Any] | None]:
    """Positions of the rows to use (None for all), and their labels."""
    n_rows = len(X)
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
