"""Small models of one label from masked rows, for the predictive gaps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from suwr.audit._table import IntArray, encode
from suwr.selector import BoolArray

FloatArray = NDArray[np.float64]
_SMALLEST = 1e-3
#: Most distinct values that a tree tells apart in one column.
MAX_LEVELS = 32


def masked_inputs(values: FloatArray, masks: BoolArray) -> FloatArray:
    """x ⊙ h beside h: hidden values are missing, and the mask says that they are hidden.

    Examples
    --------
    >>> masked_inputs(np.array([[3.0, 4.0]]), np.array([[True, False]])).tolist()
    [[3.0, nan, 1.0, 0.0]]
    """
    return np.concatenate([np.where(masks, values, np.nan), masks.astype(float)], axis=1)


def fit_predict(
    train: FloatArray,
    target: IntArray,
    test: FloatArray,
    n_classes: int,
    categorical: NDArray[np.bool_] | None,
    seed: int,
    copies: int = 1,
) -> FloatArray:
    """Class probabilities for ``test``, of shape (n_test, n_classes), never quite zero.

    ``copies`` says how often each label occurs in ``train``: a leaf then needs as many more
    entries, so that repeated labels are not fitted more closely than single ones.
    """
    prior = (np.bincount(target, minlength=n_classes) + 1.0) / (len(target) + n_classes)
    probabilities = np.repeat(prior[None], len(test), axis=0)
    useful = _varies(train)
    if len(np.unique(target)) > 1 and useful.any():
        model = HistGradientBoostingClassifier(
            # Growing a tree costs about the same however few the rows are: few trees, large steps.
            max_iter=10,
            learning_rate=0.3,
            max_leaf_nodes=5,
            min_samples_leaf=20 * copies,
            l2_regularization=2.0 * copies,
            max_bins=MAX_LEVELS,
            early_stopping=False,
            categorical_features=None if categorical is None else categorical[useful],
            random_state=seed,
        )
        model.fit(train[:, useful], target)
        probabilities[:] = 0.0
        probabilities[:, model.classes_] = model.predict_proba(test[:, useful])
    # A little of the prior keeps one confident mistake from deciding a mean over few rows.
    return (1 - 2 * _SMALLEST) * probabilities + 2 * _SMALLEST * prior


def _varies(inputs: FloatArray) -> NDArray[np.bool_]:
    """Columns with at least two different entries; one of them may be 'missing'."""
    missing = np.isnan(inputs)
    low = np.where(missing, np.inf, inputs).min(axis=0)
    high = np.where(missing, -np.inf, inputs).max(axis=0)
    return high > low


def bits(probabilities: FloatArray, target: IntArray) -> FloatArray:
    """Log loss of each row, in bits.

    Examples
    --------
    >>> bits(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0])).tolist()
    [1.0, 2.0]
    """
    return -np.log2(probabilities[np.arange(len(target)), target])


def as_classes(values: Any, n_bins: int = 3, max_classes: int = 8) -> IntArray:
    """Values as a few classes: levels if there are few, else bins of equal size.

    The rarest levels beyond ``max_classes`` share one class.

    Examples
    --------
    >>> as_classes(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2]
    """
    codes = encode(np.asarray(values))
    n_levels = int(codes.max()) + 1
    if n_levels <= max_classes:
        return codes.astype(np.intp)
    counts = np.bincount(codes)
    if counts.max() <= len(codes) // 2:
        middle = np.cumsum(counts) - counts / 2
        return np.minimum((middle[codes] * n_bins / len(codes)).astype(np.intp), n_bins - 1)
    often = np.argsort(-counts)[: max_classes - 1]
    lookup = np.full(n_levels, max_classes - 1)
    lookup[often] = np.arange(len(often))
    return np.unique(lookup[codes], return_inverse=True)[1].astype(np.intp)
