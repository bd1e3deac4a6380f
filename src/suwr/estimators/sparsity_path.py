"""The trade-off between accuracy and sparsity over a grid of λ."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from suwr._utils.progress import progress_bars
from suwr._utils.text import align_columns, format_number
from suwr._utils.validation import check_choice, parameter_error, require
from suwr.estimators.base import BaseSUWR

__all__ = ["SparsityPath", "hold_out_rows", "sparsity_path"]

# Default λ, relative to the loss of the best constant prediction.
RELATIVE_WEIGHTS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3])


@dataclass(frozen=True)
class SparsityPath:
    """Scores and costs, one per λ, in the order of the given weights.

    Attributes
    ----------
    sparsity_weight : ndarray
    score : ndarray
        Accuracy, or R² for regression, on the held-out rows.
    n_selected : ndarray
        Mean number of selected columns per held-out row.
    cost : ndarray
        Mean cost per held-out row: the number of revealed units, or the sum of their costs.
    estimators : list
        The fitted estimators.
    score_error : ndarray or None
        Standard errors of the scores.
    """

    sparsity_weight: NDArray[np.float64]
    score: NDArray[np.float64]
    n_selected: NDArray[np.float64]
    cost: NDArray[np.float64]
    estimators: list[BaseSUWR]
    score_error: NDArray[np.float64] | None = None

    def best(self, rule: str = "1se") -> BaseSUWR:
        """Return one of the estimators.

        Parameters
        ----------
        rule : {'1se', 'score'}, default='1se'
            '1se' is the estimator of the lowest cost whose score is at most one standard error
            below the highest score; 'score' is the one of the highest score.

        Returns
        -------
        SUWRClassifier or SUWRRegressor
        """
        return self.estimators[self.best_index(rule)]

    def best_index(self, rule: str = "1se") -> int:
        """Return the position of the estimator that `best` returns."""
        check_choice(rule, "rule", "SparsityPath.best", ("1se", "score"))
        highest = int(np.argmax(self.score))
        if rule == "score" or self.score_error is None:
            return highest
        enough = self.score >= self.score[highest] - self.score_error[highest]
        return int(np.argmin(np.where(enough, self.cost, np.inf)))

    def __str__(self) -> str:
        table = [("sparsity weight", "score", "features", "cost", "")]
        chosen = self.best_index()
        for number, weight in enumerate(self.sparsity_weight):
            error = "" if self.score_error is None else f" ± {self.score_error[number]:.3f}"
            table.append(
                (
                    format_number(weight, 3),
                    f"{self.score[number]:.3f}{error}",
                    f"{self.n_selected[number]:.2f}",
                    f"{self.cost[number]:.2f}",
                    "← best()" if number == chosen else "",
                )
            )
        return "\n".join(align_columns(table))

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per λ."""
        pandas = require("pandas", "tables", "SparsityPath.to_frame")
        names = ("sparsity_weight", "score", "score_error", "n_selected", "cost")
        return pandas.DataFrame({name: getattr(self, name) for name in names})


def sparsity_path(
    estimator: BaseSUWR,
    X: Any,
    y: Any,
    sparsity_weights: ArrayLike | None = None,
    *,
    test_size: float = 0.25,
    n_jobs: int | None = None,
    verbose: int | None = None,
) -> SparsityPath:
    """Fit one model per λ and score all of them on the same held-out rows.

    Parameters
    ----------
    estimator : SUWRClassifier or SUWRRegressor
        Cloned for every λ.
    X, y : array-like
    sparsity_weights : array-like of float, optional
        By default six values, from 0.1 % to 30 % of the loss of the best constant prediction.
    test_size : float, default=0.25
        Fraction of the rows that is held out for the scores.
    n_jobs : int or None, default=None
        Number of fits that run in parallel, through joblib. None means 1 unless in a
        ``joblib.parallel_config`` context.
    verbose : int or None, default=None
        0 is silent; 1 shows a progress bar over the fits; 2 prints one line per fit; None shows the
        bar in a terminal and in a notebook. The fits themselves follow the ``verbose`` parameter of
        ``estimator``, except that they are silent if it is None.

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
    if not isinstance(estimator, BaseSUWR):
        expected = "a SUWRClassifier or SUWRRegressor"
        raise parameter_error("estimator", "sparsity_path", expected, estimator)
    if sparsity_weights is None:
        sparsity_weights = RELATIVE_WEIGHTS * _constant_loss(estimator, y)
    weights = np.atleast_1d(np.asarray(sparsity_weights, dtype=np.float64))
    if weights.ndim != 1 or len(weights) == 0 or not ((weights >= 0) & np.isfinite(weights)).all():
        raise ValueError(
            "'sparsity_weights' must be a one-dimensional array of finite floats of at least 0. "
            f"Got {sparsity_weights!r} instead."
        )
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    parts = hold_out_rows(estimator, X, y, test_size, int(seed))
    jobs = (delayed(_fit_point)(estimator, float(weight), parts) for weight in weights)
    results = []
    lines = verbose is not None and verbose > 1
    with progress_bars(["fits"], verbose=False if lines else verbose, total=len(weights)) as (bar,):
        for result in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            results.append(result)
            bar()
            if lines:
                weight, found = weights[len(results) - 1], f"score {result[1]:.4f}"
                line = f"[{len(results)}/{len(weights)}] sparsity_weight {weight:g}: {found}"
                print(line, file=sys.stderr, flush=True)
    fitted, score, error, n_selected, cost = zip(*results, strict=True)
    return SparsityPath(
        weights, np.array(score), np.array(n_selected), np.array(cost), list(fitted),
        np.array(error),
    )  # fmt: skip


def hold_out_rows(
    estimator: BaseSUWR, X: Any, y: Any, test_size: float, seed: int
) -> tuple[Any, Any, Any, Any]:
    """Split rows into those that several fits share and those that they are compared on.

    Parameters
    ----------
    estimator : BaseSUWR
        The rows are stratified for a classifier.
    X, y : array-like
    test_size : float
    seed : int

    Returns
    -------
    X_train, X_test, y_train, y_test
        A tuple, because joblib's Dask backend scatters a bare array to a single worker, and if that
        worker dies every fit that needs the array fails.
    """
    check_consistent_length(X, y)
    labels = np.asarray(y)
    counts = np.unique(labels, return_counts=True)[1]
    stratify = labels if is_classifier(estimator) and counts.min() > 1 else None
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=test_size, stratify=stratify, random_state=seed
    )
    return X_train, X_test, y_train, y_test


def _fit_point(
    estimator: BaseSUWR, weight: float, parts: tuple[Any, ...]
) -> tuple[BaseSUWR, float, float, float, float]:
    X_train, X_test, y_train, y_test = parts
    verbose = 0 if estimator.verbose is None else estimator.verbose
    model = clone(estimator).set_params(sparsity_weight=weight, verbose=verbose)
    model.fit(X_train, y_train)
    masks = model.select(X_test)
    return (
        model,
        float(model.score(X_test, y_test)),
        _score_error(model, X_test, y_test),
        float(masks.sum(axis=1).mean()),
        float(model.cost(X_test).mean()),
    )


def _score_error(model: BaseSUWR, X: Any, y: Any) -> float:
    """Return the standard error of the accuracy or of R²; NaN if it is not defined."""
    scores = model.evaluate(X, y).scores
    found = scores.get("accuracy", scores.get("r2"))
    return float("nan") if found is None or found.error is None else found.error


def _constant_loss(estimator: BaseSUWR, y: Any) -> float:
    """Return the loss of the best constant prediction."""
    model = clone(estimator)
    model._prepare_target(y, np.ones(len(y)))
    return float(model.constant_loss_)
