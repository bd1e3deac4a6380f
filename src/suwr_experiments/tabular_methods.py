"""Methods of the benchmark of tables that do not train networks: trees, boosting, L1 penalties.

Each function fits a method to the training rows of a task and returns the points of its curve on
the test rows. Columns are encoded with constants of the training rows. A unit is charged if the
prediction of a row can depend on it: for a tree the units on the path of the row, otherwise the
units of the model, which are the same for every row.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, LogisticRegression, lasso_path
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import l1_min_c
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from suwr.data.encode import TableEncoder
from suwr.data.frame import read_table
from suwr.data.units import resolve_units
from suwr_experiments.experiment import Task
from suwr_experiments.points import Point

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "boosting_points",
    "cart_points",
    "fit_boosting",
    "l1_points",
    "prediction_loss",
    "rank_units",
    "unit_columns",
]

#: Numbers of leaves of CART.
LEAVES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
MIN_LEAF = 5
# Boosting: iterations are chosen on validation rows, up to a maximum.
BOOSTING = {"learning_rate": 0.06, "max_iter": 300}
# Smaller models for the comparison of subsets.
SUBSET_BOOSTING = {"learning_rate": 0.2, "max_iter": 25, "max_leaf_nodes": 8}
N_CANDIDATES, N_FOLDS = 15, 3
# Grid of the L1 penalties.
N_PENALTIES, PENALTY_DECADES = 20, 3.5
_FLOOR = 1e-7


def prediction_loss(task: Task, y: NDArray[Any], prediction: NDArray[np.float64]) -> float:
    """Log loss of class probabilities, or mean squared error of values.

    Examples
    --------
    >>> X, y = np.zeros((2, 1)), np.array([0, 1])
    >>> round(prediction_loss(Task(X, y, X, y), y, np.full((2, 2), 0.5)), 4)
    0.6931
    """
    if task.kind == "Regressor":
        return float(np.square(y - prediction).mean())
    return float(-np.log(np.maximum(prediction[np.arange(len(y)), y], _FLOOR)).mean())


def unit_columns(task: Task) -> list[NDArray[np.intp]]:
    """Column numbers of each unit."""
    units = resolve_units(task.groups, None, [str(c) for c in task.X.columns])
    return [np.asarray(units.columns_of(i), dtype=np.intp) for i in range(len(units))]


def _encoded(task: Task) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.intp]]:
    """Training and test rows as numbers, and the unit of every number."""
    table = read_table(task.X)
    encoder = TableEncoder.fit(table, [str(c) for c in task.X.columns])
    unit_of_column = np.empty(task.X.shape[1], dtype=np.intp)
    for unit, columns in enumerate(unit_columns(task)):
        unit_of_column[columns] = unit
    test = encoder.encode(read_table(task.X_test))
    return encoder.encode(table), test, unit_of_column[encoder.column_of]


def _n_classes(task: Task) -> int:
    return int(task.y.max()) + 1


# CART.


def cart_points(task: Task, seed: int = 0) -> list[Point]:
    """Trees by number of leaves; each row pays for the distinct units on its path.

    The probability of a class in a leaf is (count + K · share) / (rows + K), with K the number of
    classes and the share of the class among all training rows.
    """
    X, X_test, unit_of = _encoded(task)
    classes = task.kind == "Classifier"
    n_units = int(unit_of.max()) + 1
    points = []
    for n_leaves in LEAVES:
        make = DecisionTreeClassifier if classes else DecisionTreeRegressor
        tree = make(max_leaf_nodes=n_leaves, min_samples_leaf=MIN_LEAF, random_state=seed)
        tree.fit(X, task.y)
        if classes:
            n = _n_classes(task)
            prior = np.bincount(task.y, minlength=n) / len(task.y)
            leaf, leaf_test = tree.apply(X), tree.apply(X_test)
            counts = np.zeros((tree.tree_.node_count, n))
            np.add.at(counts, (leaf, task.y), 1.0)
            counts += n * prior
            prediction = (counts / counts.sum(axis=1, keepdims=True))[leaf_test]
        else:
            prediction = tree.predict(X_test)
        feature = tree.tree_.feature
        tests = np.zeros((len(feature), n_units))
        inner = np.flatnonzero(feature >= 0)
        tests[inner, unit_of[feature[inner]]] = 1.0
        used = tree.decision_path(X_test) @ tests > 0
        points.append(Point(n_leaves, used.sum(axis=1).astype(np.float64), prediction))
    return points


# Gradient boosting.


def _boosting_frames(task: Task) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows with categories of the training rows, as boosting reads them."""
    import pandas as pd

    train, test = task.X.copy(), task.X_test.copy()
    for name in train.columns[[not pd.api.types.is_numeric_dtype(t) for t in train.dtypes]]:
        kind = pd.CategoricalDtype(sorted(train[name].dropna().unique()))
        # Categories that the training rows do not have are missing.
        train[name] = train[name].astype(kind)
        known = test[name].isin(kind.categories)
        test[name] = test[name].where(known, None).astype(kind)
    return train, test


def _boosting(task: Task, seed: int, **params: Any) -> Any:
    kind = (
        HistGradientBoostingClassifier
        if task.kind == "Classifier"
        else HistGradientBoostingRegressor
    )
    return kind(
        categorical_features="from_dtype", early_stopping=False, random_state=seed, **params
    )


def _predict(task: Task, model: Any, X: pd.DataFrame) -> NDArray[np.float64]:
    return _all_classes(task, model, model.predict_proba(X)) if task.kind == "Classifier" else (
        model.predict(X)
    )  # fmt: skip


def _all_classes(task: Task, model: Any, probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of all classes, also of those that a subset of the rows does not have."""
    full = np.zeros((len(probability), _n_classes(task)))
    full[:, model.classes_] = probability
    return full


def fit_boosting(
    task: Task, X: pd.DataFrame, X_test: pd.DataFrame, seed: int = 0
) -> NDArray[np.float64]:
    """Predict the test rows by boosting; the number of iterations is chosen on validation rows."""
    n_fit = task.facts["n_fit"]
    model = _boosting(task, seed, **BOOSTING).fit(X[:n_fit], task.y[:n_fit])
    stages = (
        (_all_classes(task, model, p) for p in model.staged_predict_proba(X[n_fit:]))
        if task.kind == "Classifier"
        else model.staged_predict(X[n_fit:])
    )
    losses = [prediction_loss(task, task.y[n_fit:], p) for p in stages]
    best = {**BOOSTING, "max_iter": int(np.argmin(losses)) + 1}
    return _predict(task, _boosting(task, seed, **best).fit(X, task.y), X_test)


def boosting_points(task: Task, seed: int, order: Sequence[int] | None) -> list[Point]:
    """Boosting on the first 1, 2, … units of an order; None is all units."""
    X, X_test = _boosting_frames(task)
    units = unit_columns(task)
    if order is None:
        subsets = [list(range(len(units)))]
    else:
        subsets = [list(order[:k]) for k in range(1, len(order) + 1)]
    points = []
    for subset in subsets:
        columns = np.concatenate([units[unit] for unit in subset])
        prediction = fit_boosting(task, X.iloc[:, columns], X_test.iloc[:, columns], seed)
        points.append(Point(len(subset), np.full(len(X_test), float(len(subset))), prediction))
    return points


def rank_units(task: Task, n: int, seed: int = 0) -> list[int]:
    """Order of the ``n`` best units, by forward selection on the training rows.

    Candidates are the units with the largest importance in a random forest. In every step, the unit
    is added that leads to the lowest cross-validated loss of a small boosting model.

    Parameters
    ----------
    task : Task
    n : int
        At most the number of units.
    seed : int, default=0

    Returns
    -------
    list of int
    """
    encoded, _, unit_of = _encoded(task)
    make = RandomForestClassifier if task.kind == "Classifier" else RandomForestRegressor
    forest = make(200, min_samples_leaf=MIN_LEAF, random_state=seed).fit(encoded, task.y)
    importance = np.bincount(unit_of, forest.feature_importances_)
    n_candidates = min(N_CANDIDATES, 2 * n)
    candidates = [int(unit) for unit in np.argsort(-importance, kind="stable")[:n_candidates]]
    X, _ = _boosting_frames(task)
    units = unit_columns(task)
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=seed).split(X))

    def loss(subset: list[int]) -> float:
        rows = X.iloc[:, np.concatenate([units[unit] for unit in subset])]
        total = 0.0
        for fit, held_out in folds:
            model = _boosting(task, seed, **SUBSET_BOOSTING).fit(rows.iloc[fit], task.y[fit])
            prediction = _predict(task, model, rows.iloc[held_out])
            total += prediction_loss(task, task.y[held_out], prediction) * len(held_out)
        return total

    order: list[int] = []
    while len(order) < min(n, len(candidates)):
        order.append(
            min((u for u in candidates if u not in order), key=lambda u: loss([*order, u]))
        )
    return order


# L1 penalties.


def l1_points(task: Task, seed: int = 0) -> dict[str, list[Point]]:
    """L1-penalised logistic regression, or the lasso; every row pays for the non-zero units.

    Returns
    -------
    dict from str to list of Point
        ``"path"``: of all penalties with the same number of units the weakest. ``"chosen"``: the
        penalty with the lowest loss on the validation rows, or that of LassoCV.
    """
    X, X_test, unit_of = _encoded(task)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    if task.kind == "Classifier":
        grid = l1_min_c(X, task.y, loss="log") * np.logspace(0.0, PENALTY_DECADES, N_PENALTIES)
        n_fit = task.facts["n_fit"]
        held_out = _logistic_path(X[:n_fit], task.y[:n_fit], X[n_fit:], grid, seed)
        losses = [prediction_loss(task, task.y[n_fit:], p) for _, p in held_out]
        chosen = int(np.argmin(losses))
        path = _logistic_path(X, task.y, X_test, grid, seed)
    else:
        best = LassoCV(cv=5, random_state=seed).fit(X, task.y)
        grid, coefficients, _ = lasso_path(X, task.y - task.y.mean(), alphas=best.alphas_)
        chosen = int(np.argmin(np.abs(grid - best.alpha_)))
        path = [(c[None], task.y.mean() + X_test @ c) for c in coefficients.T]
    points = []
    for setting, (coefficient, prediction) in zip(grid, path, strict=True):
        n_units = len(np.unique(unit_of[np.any(coefficient != 0, axis=0)]))
        points.append(Point(float(setting), np.full(len(X_test), float(n_units)), prediction))
    weakest = {float(point.cost[0]): point for point in points}
    return {"path": [weakest[cost] for cost in sorted(weakest)], "chosen": [points[chosen]]}


def _logistic_path(
    X: Any, y: Any, X_test: Any, grid: NDArray[np.float64], seed: int
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Coefficients and probabilities of the test rows for every C of a grid."""
    # The parameter of the penalty changed in scikit-learn 1.8.
    default = inspect.signature(LogisticRegression).parameters["penalty"].default
    penalty: dict[str, Any] = {"penalty": "l1"} if default == "l2" else {"l1_ratio": 1.0}
    model = LogisticRegression(
        solver="saga", warm_start=True, tol=1e-3, max_iter=300, random_state=seed, **penalty
    )
    path = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for C in grid:
            model.set_params(C=C).fit(X, y)
            path.append((model.coef_.copy(), model.predict_proba(X_test)))
    return path
