"""Syn1 to Syn6: the synthetic benchmark for instance-wise feature selection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import check_integer, parameter_error

__all__ = ["SyntheticData", "relevant_columns", "selection_metrics", "synthetic"]

# Columns, from 0, of each base function; x11 (column 10) selects between two functions.
RELEVANT = {1: [0, 1], 2: [2, 3, 4, 5], 3: [6, 7, 8, 9]}
BRANCHES = {4: (1, 2), 5: (1, 3), 6: (2, 3)}
CONTROL = 10


@dataclass(frozen=True)
class SyntheticData:
    """Rows of one of the data sets.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of int, shape (n,)
    probability : ndarray of shape (n,)
        The true p(y = 1 | x).
    relevant : ndarray of bool, shape (n, d)
        Columns on which the label of each row depends.
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    probability: NDArray[np.float64]
    relevant: NDArray[np.bool_]


def _base(number: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of a base function g1, g2 or g3."""
    if number == 1:
        return x[:, 0] * x[:, 1]
    if number == 2:
        return np.sum(x[:, 2:6] ** 2, axis=1) - 4.0
    # As in the published benchmark code; the formula in the paper gives negative probabilities.
    return -10 * np.sin(0.2 * x[:, 6]) + np.abs(x[:, 7]) + x[:, 8] + np.exp(-x[:, 9]) - 2.4


def synthetic(
    number: int, n_rows: int = 10_000, seed: int = 0, n_columns: int = 11
) -> SyntheticData:
    """Generate Syn1, …, Syn6.

    Parameters
    ----------
    number : int
        1 to 6.
    n_rows : int, default=10_000
    seed : int, default=0
        The benchmark uses 0 for training and 100 for test rows.
    n_columns : int, default=11
        Columns after the eleventh are noise; the wide variant has 100.

    Examples
    --------
    >>> data = synthetic(4, n_rows=5)
    >>> data.X.shape, data.relevant.sum(axis=1).tolist()
    ((5, 11), [5, 5, 3, 5, 3])
    """
    if number not in (*RELEVANT, *BRANCHES):
        raise parameter_error("number", "synthetic", "an int from 1 to 6", number)
    check_integer(n_columns, "n_columns", "synthetic", 11)
    rng = np.random.RandomState(seed)
    X = rng.randn(n_rows, n_columns)
    if number in RELEVANT:
        log_g = _base(number, X)
    else:
        low, high = BRANCHES[number]
        log_g = np.where(X[:, CONTROL] < 0, _base(low, X), _base(high, X))
    probability = 1.0 / (1.0 + np.exp(log_g))
    y = rng.binomial(1, probability)
    return SyntheticData(X, y.astype(np.int64), probability, relevant_columns(number, X))


def relevant_columns(number: int, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Columns on which the label of each row of Syn1, …, Syn6 depends.

    Parameters
    ----------
    number : int
        1 to 6.
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of bool, shape (n, d)

    Examples
    --------
    >>> relevant_columns(1, np.zeros((1, 11))).nonzero()[1].tolist()
    [0, 1]
    """
    relevant = np.zeros(np.shape(X), dtype=bool)
    if number in RELEVANT:
        relevant[:, RELEVANT[number]] = True
        return relevant
    low, high = BRANCHES[number]
    below = np.asarray(X)[:, CONTROL] < 0
    relevant[:, CONTROL] = True
    relevant[:, RELEVANT[low]] |= below[:, None]
    relevant[:, RELEVANT[high]] |= ~below[:, None]
    return relevant


def selection_metrics(masks: NDArray[np.bool_], relevant: NDArray[np.bool_]) -> dict[str, float]:
    """TPR, FDR and CFSR in percent, and the mean number of selected columns.

    CFSR, the control-flow feature selection rate, is the fraction of rows with x11 selected.

    Parameters
    ----------
    masks, relevant : ndarray of bool, shape (n, d)

    Examples
    --------
    >>> masks = np.zeros((1, 11), dtype=bool)
    >>> masks[0, [0, 3]] = True
    >>> relevant = np.zeros((1, 11), dtype=bool)
    >>> relevant[0, [0, 1]] = True
    >>> selection_metrics(masks, relevant)
    {'tpr': 50.0, 'fdr': 50.0, 'cfsr': 0.0, 'n_selected': 2.0}
    """
    hits = (masks & relevant).sum(axis=1) / relevant.sum(axis=1)
    false = (masks & ~relevant).sum(axis=1) / np.maximum(masks.sum(axis=1), 1)
    return {
        "tpr": float(100 * hits.mean()),
        "fdr": float(100 * false.mean()),
        "cfsr": float(100 * masks[:, CONTROL].mean()),
        "n_selected": float(masks.sum(axis=1).mean()),
    }
