"""The accuracy/sparsity curve over a grid of λ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from suwr._utils.optional import require
from suwr.estimators.base import BaseSUWR

__all__ = ["SparsityPath", "sparsity_path"]


@dataclass(frozen=True)
class SparsityPath:
    """Points of the curve, one per λ, in the order given.

    Attributes
    ----------
    sparsity_weight : ndarray
    score : ndarray
        Accuracy, or R², on rows that were not trained on.
    n_selected : ndarray
        Mean number of selected columns of those rows.
    cost : ndarray
        Mean feature cost of those rows: the number of revealed units, or the sum of their costs.
    estimators : list
        The fitted models.
    """

    sparsity_weight: NDArray[np.float64]
    score: NDArray[np.float64]
    n_selected: NDArray[np.float64]
    cost: NDArray[np.float64]
    estimators: list[BaseSUWR]

    def to_frame(self) -> Any:
        """The points as a pandas frame."""
        pandas = require("pandas", "tables", "SparsityPath.to_frame")
        names = ("sparsity_weight", "score", "n_selected", "cost")
        return pandas.DataFrame({name: getattr(self, name) for name in names})


def sparsity_path(
    estimator: BaseSUWR,
    X: Any,
    y: Any,
    sparsity_weights: ArrayLike,
    *,
    test_size: float = 0.25,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SparsityPath:
    """Fit one model per λ and score each on the same held-out rows.

    Parameters
    ----------
    estimator : SUWRClassifier or SUWRRegressor
        Cloned for every λ; not changed.
    X, y : array-like
    sparsity_weights : array-like of float
    test_size : float, default=0.25
        Share of rows that is held out for the scores.
    n_jobs : int or None, default=None
        Fits at once, through joblib; None is one, unless a ``joblib.parallel_config`` says
        otherwise.
    verbose : int, default=0
        As joblib's.

    Returns
    -------
    SparsityPath

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, sparsity_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = sparsity_path(SUWRClassifier(max_epochs=1, random_state=0), X, y, [0.01, 10.0])
    >>> float(path.n_selected[1])
    0.0
    """
    weights = np.atleast_1d(np.asarray(sparsity_weights, dtype=np.float64))
    if weights.ndim != 1 or len(weights) == 0 or not (weights >= 0).all():
        raise ValueError(
            "'sparsity_weights' must be a list of numbers of at least 0. "
            f"Got {sparsity_weights!r} instead."
        )
    check_consistent_length(X, y)
    labels = np.asarray(y)
    counts = np.unique(labels, return_counts=True)[1]
    stratify = labels if is_classifier(estimator) and counts.min() > 1 else None
    # One split for all, so that the points of the curve can be compared.
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    # In a tuple, since joblib's Dask backend keeps each bare array on one worker alone, and loses
    # every fit that needs it with that worker.
    parts = tuple(
        train_test_split(X, y, test_size=test_size, stratify=stratify, random_state=int(seed))
    )
    results: Sequence[Any] = Parallel(n_jobs=n_jobs, verbose=verbose)(
        delayed(_point)(estimator, float(weight), parts) for weight in weights
    )
    fitted, score, n_selected, cost = zip(*results, strict=True)
    return SparsityPath(
        weights, np.array(score), np.array(n_selected), np.array(cost), list(fitted)
    )


def _point(
    estimator: BaseSUWR, weight: float, parts: tuple[Any, ...]
) -> tuple[BaseSUWR, float, float, float]:
    X_train, X_test, y_train, y_test = parts
    model = clone(estimator).set_params(sparsity_weight=weight).fit(X_train, y_train)
    masks = model.select(X_test)
    return (
        model,
        float(model.score(X_test, y_test)),
        float(masks.sum(axis=1).mean()),
        float(model.cost(X_test).mean()),
    )
