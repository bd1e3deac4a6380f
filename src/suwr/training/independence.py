"""Tests of independence between the columns of a table and the target.

The tests compare counts in quantile bins and train no network. They cover the effect of a column
alone and the interaction of two columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from suwr.nn.inputs import MaskedInputs
from suwr.training.data import Rows

__all__ = ["FALSE_COLUMNS", "FALSE_PAIRS", "unit_scores", "unit_scores_of_rows"]

FloatArray = NDArray[np.float64]

# Expected number of uninformative columns and pairs of columns with a score below 1.
FALSE_COLUMNS, FALSE_PAIRS = 2.0, 1.0
# Quantile bins of a column and of a numeric target.
N_BINS = 3
# Encoded values up to which pairs are tested.
MAX_PAIRED = 2_000


def unit_scores_of_rows(inputs: MaskedInputs, rows: Rows) -> FloatArray:
    """`unit_scores` of the units of encoded rows; positions in bins follow from other values."""
    tested = slice(None) if inputs.pieces is None else np.flatnonzero(~inputs.pieces.cpu().numpy())
    targets = rows.targets.cpu().numpy()
    target = _classes(targets) if targets.shape[1] > 1 else _bins(targets[:, 0])
    of_value = inputs.membership[:, inputs.column_of].cpu().numpy()[:, tested]
    # Values that were not recorded are a level of their own.
    values = np.nan_to_num(rows.values.cpu().numpy()[:, tested].astype(np.float64), nan=-1e30)
    return unit_scores(values, np.asarray(target, dtype=np.intp), of_value)


def unit_scores(
    values: FloatArray, target: NDArray[np.intp], membership: NDArray[np.bool_]
) -> FloatArray:
    """Evidence against each unit being independent of the target, alone or with one other unit.

    Parameters
    ----------
    values : ndarray of shape (n, n_values)
        Encoded rows.
    target : ndarray of int, shape (n,)
        Classes, or bins of a numeric target.
    membership : ndarray of bool, shape (n_units, n_values)
        Encoded values of each unit.

    Returns
    -------
    ndarray of shape (n_units,)
        The smaller, the stronger the evidence. If no column is informative, at most
        ``FALSE_COLUMNS * s`` columns and ``FALSE_PAIRS * s`` pairs are expected to score below *s*.
    """
    bins = [_bins(column) for column in values.T]
    starts = np.cumsum([0, *(int(b.max()) + 1 for b in bins)])
    one_hot = np.zeros((len(values), starts[-1]), dtype=np.float32)
    for start, column in zip(starts, bins, strict=False):
        one_hot[np.arange(len(values)), start + column] = 1.0
    width = np.diff(starts)
    n_values, n_classes = len(bins), int(target.max()) + 1
    marginal = _marginal_p_values(one_hot, target, starts, width, n_classes)
    score = marginal * n_values / FALSE_COLUMNS
    if 1 < n_values <= MAX_PAIRED:
        pairs = _pair_p_values(one_hot, target, starts, width, n_classes)
        # Two encodings of one unit, such as two categories, always interact.
        related = membership.T.astype(np.float32) @ membership.astype(np.float32) > 0
        pairs[related] = 1.0
        n_pairs = n_values * (n_values - 1) / 2
        score = np.minimum(score, pairs.min(axis=1) * n_pairs / FALSE_PAIRS)
    return np.where(membership, score, np.inf).min(axis=1)


def _bins(column: FloatArray) -> NDArray[np.intp]:
    """Quantile bins of a column, numbered from 0; its values if there are few.

    Equal values share their mean rank, so that a value that most rows have, such as the zero of a
    count, does not end up in one bin with all larger values.
    """
    levels, codes = np.unique(column, return_inverse=True)
    if len(levels) > N_BINS:
        counts = np.bincount(codes)
        mean_rank = (np.cumsum(counts) - counts / 2) / len(column)
        codes = np.unique((N_BINS * mean_rank).astype(np.intp), return_inverse=True)[1][codes]
    return codes.reshape(-1)


def _classes(targets: NDArray[np.float32]) -> NDArray[np.intp]:
    """Classes of one-hot or soft targets, for the tests of independence.

    The most probable class alone says little where one class is the most probable almost
    everywhere. The rows of each class are therefore divided at the median of its probability, if
    that varies.
    """
    most, probable = targets.argmax(axis=1), targets.max(axis=1)
    median = np.zeros(targets.shape[1], dtype=targets.dtype)
    for c in np.unique(most):
        median[c] = np.median(probable[most == c])
    return np.unique(2 * most + (probable > median[most]), return_inverse=True)[1].reshape(-1)


def _entropy_sum(counts: FloatArray) -> FloatArray:
    """``n log n`` with 0 for empty cells."""
    return counts * np.log(np.maximum(counts, 1.0))


def _marginal_p_values(
    one_hot: NDArray[np.float32],
    target: NDArray[np.intp],
    starts: NDArray[np.intp],
    width: NDArray[np.intp],
    n_classes: int,
) -> FloatArray:
    """p-values of likelihood-ratio tests of independence between each column and the target."""
    counts = np.stack([one_hot[target == c].sum(axis=0) for c in range(n_classes)]).astype(float)
    by_cell = _entropy_sum(counts).sum(axis=0) - _entropy_sum(counts.sum(axis=0))
    by_column = np.add.reduceat(by_cell, starts[:-1])
    classes = np.bincount(target, minlength=n_classes).astype(float)
    constant = _entropy_sum(classes).sum() - _entropy_sum(classes.sum())
    return _chi2_sf(2 * (by_column - constant), (width - 1) * (n_classes - 1))


def _pair_p_values(
    one_hot: NDArray[np.float32],
    target: NDArray[np.intp],
    starts: NDArray[np.intp],
    width: NDArray[np.intp],
    n_classes: int,
) -> FloatArray:
    """p-values of the interaction of two columns in their effect on the target, for all pairs.

    The statistic is the mutual information of the target with both columns, less that with each
    of them, corrected for the dependence of the columns on one another.
    """
    by_class = [one_hot[target == c] for c in range(n_classes)]
    total = np.zeros((starts[-1], starts[-1]))
    cells = np.zeros_like(total)
    for part in by_class:
        joint = (part.T @ part).astype(np.float64)
        total += joint
        cells += _entropy_sum(joint)
    cells -= _entropy_sum(total)
    pair = np.add.reduceat(np.add.reduceat(cells, starts[:-1], axis=0), starts[:-1], axis=1)
    # The cells of the diagonal blocks are those of single columns.
    alone = np.diag(pair)
    classes = np.array([len(part) for part in by_class], dtype=float)
    constant = _entropy_sum(classes).sum() - _entropy_sum(classes.sum())
    statistic = 2 * (pair - alone[:, None] - alone[None, :] + constant)
    freedom = np.outer(width - 1, width - 1) * (n_classes - 1)
    result = _chi2_sf(statistic, freedom)
    np.fill_diagonal(result, 1.0)
    return result


def _chi2_sf(statistic: FloatArray, freedom: NDArray[np.intp]) -> FloatArray:
    """Survival function of the chi-squared distribution; 1 without degrees of freedom."""
    p = gammaincc(np.maximum(freedom, 1) / 2.0, np.maximum(statistic, 0.0) / 2.0)
    return np.where(freedom > 0, p, 1.0)
