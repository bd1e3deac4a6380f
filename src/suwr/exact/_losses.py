"""The loss of stopping in a masked state with the best predictor f*."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exact._arrays import Floats, group_sum


def row_moments(labels: NDArray[Any], label_distribution: Any) -> tuple[Floats, Floats]:
    """Mean and variance of y given each row, for squared error."""
    values = labels.astype(float)
    mean = np.asarray(label_distribution @ values, dtype=float)
    deviations = label_distribution.tocoo()
    squares = deviations.data * (values[deviations.col] - mean[deviations.row]) ** 2
    return mean, group_sum(deviations.row, squares, len(mean))


def stopping_loss(label_mass: Floats, loss: str) -> Floats:
    """Loss of f*, times the probability of the state, from p(s, y) on the first axis.

    f* is p(y | s). Its cross-entropy is the conditional entropy, and its 0/1 loss is the
    probability that the most likely label is wrong.
    """
    total = label_mass.sum(axis=0)
    if loss == "zero_one":
        return total - label_mass.max(axis=0)
    result = np.zeros_like(total)
    for mass in label_mass:
        present = mass > 0
        result[present] -= mass[present] * np.log(mass[present] / total[present])
    return np.maximum(result, 0, out=result)


def row_loss(prediction: Floats, problem: Any, rows: NDArray[np.int64]) -> Floats:
    """Expected loss of given predictions for given support rows.

    Parameters
    ----------
    prediction : ndarray of shape (m,) or (m, n_labels)
        Values for squared error, else one probability for each of ``problem.labels``.
    problem : FiniteProblem
        The problem that holds p(y | x).
    rows : ndarray of shape (m,)
        The support row that each prediction is for.
    """
    table = problem.label_distribution[rows]
    if problem.loss == "squared_error":
        values = problem.labels.astype(float)
        entries = table.tocoo()
        terms = entries.data * (prediction[entries.row] - values[entries.col]) ** 2
        return group_sum(entries.row, terms, len(rows))
    if problem.loss == "zero_one":
        best = np.argmax(prediction, axis=1)
        return 1 - np.asarray(table[np.arange(len(rows)), best]).reshape(-1)
    entries = table.tocoo()
    # As scikit-learn's log_loss: a certain but wrong prediction costs much, never infinity.
    safe = np.clip(prediction[entries.row, entries.col], np.finfo(float).eps, 1.0)
    return group_sum(entries.row, -entries.data * np.log(safe), len(rows))
