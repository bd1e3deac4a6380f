"""The choice of λ by a path, the stability of fits over seeds, and which columns are needed."""

from __future__ import annotations

import copy
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from suwr._utils.progress import progress_bars
from suwr._utils.text import align_columns, format_number, percent, printable
from suwr._utils.validation import (
    Interval,
    check_choice,
    check_integer,
    check_real,
    parameter_error,
    require,
    view,
    warn_caller,
)
from suwr.data.frame import Table
from suwr.estimators.base import SUWRModel
from suwr.estimators.fitted import FittedPolicy, Scores
from suwr.estimators.limits import charge_rows
from suwr.exceptions import UninformativeModelWarning
from suwr.nn.step import Starts

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
    estimators: list[SUWRModel]
    score_error: NDArray[np.float64] | None = None

    def best(self, rule: str = "1se") -> SUWRModel:
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
    estimator: SUWRModel,
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
    if not isinstance(estimator, SUWRModel):
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
    estimator: SUWRModel, X: Any, y: Any, test_size: float, seed: int
) -> tuple[Any, Any, Any, Any]:
    """Split rows into those that several fits share and those that they are compared on.

    Parameters
    ----------
    estimator : SUWRModel
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
    estimator: SUWRModel, weight: float, parts: tuple[Any, ...]
) -> tuple[SUWRModel, float, float, float, float]:
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


def _score_error(model: SUWRModel, X: Any, y: Any) -> float:
    """Return the standard error of the accuracy or of R²; NaN if it is not defined."""
    scores = model.evaluate(X, y).scores
    found = scores.get("accuracy", scores.get("r2"))
    return float("nan") if found is None or found.error is None else found.error


def _constant_loss(estimator: SUWRModel, y: Any) -> float:
    """Return the loss of the best constant prediction."""
    return clone(estimator)._fit_target(y, np.ones(len(y)))[0].constant_loss


# Units that the text lists.
MAX_UNITS = 15


@dataclass(frozen=True)
class UnitStability:
    """How often the fits use one unit.

    Attributes
    ----------
    unit : str
    share_of_rows : float
        Share of the rows that reveal the unit, averaged over the fits.
    lowest, highest : float
        The smallest and the largest share of rows of a single fit.
    share_of_first_steps : float
        Share of the rows whose first step reveals the unit, averaged over the fits.
    n_fits : int
        Number of fits that reveal the unit in some row.
    """

    unit: str
    share_of_rows: float
    lowest: float
    highest: float
    share_of_first_steps: float
    n_fits: int


@dataclass(frozen=True)
class Stability:
    """Agreement of fits that differ in their seeds only.

    Shares are over pairs of fits and held-out rows: two fits agree on a row.

    Attributes
    ----------
    n_seeds, n_rows : int
        Number of fits and of held-out rows.
    same_prediction : float or None
        Share with the same predicted class; None for regression.
    prediction_difference : float
        Mean difference of the predictions: total variation distance of class probabilities, or
        absolute difference in standard deviations of ``y``.
    same_first_step : float
        Share whose first step reveals the same units, or that both reveal nothing.
    same_features : float
        Share that reveal the same set of units.
    overlap : float
        Mean Jaccard index of the sets: the number of common units by that of all of them.
    scores, costs : tuple of float
        Score and mean cost on the held-out rows, one per fit.
    units : tuple of UnitStability
        Every unit that some fit reveals, the most used first.
    estimators : list
        The fitted estimators.
    """

    n_seeds: int
    n_rows: int
    same_prediction: float | None
    prediction_difference: float
    same_first_step: float
    same_features: float
    overlap: float
    scores: tuple[float, ...]
    costs: tuple[float, ...]
    units: tuple[UnitStability, ...]
    estimators: list[SUWRModel]

    def text(self) -> str:
        """Return the agreement, and how often each unit is used, as plain text."""
        lines = [f"{self.n_seeds} fits with different seeds, compared on {self.n_rows} rows."]
        if self.same_prediction is None:
            lines.append(
                f"Predictions differ by {self.prediction_difference:.2f} standard deviations "
                "of the target."
            )
        else:
            lines.append(f"Same prediction: {percent(self.same_prediction)} of pairs of fits.")
        lines += [
            f"Same first step: {percent(self.same_first_step)}.",
            f"Same set of features: {percent(self.same_features)}; "
            f"{percent(self.overlap)} of the features of two fits are common to both.",
            f"Score {_spread(self.scores, 3)}; mean cost {_spread(self.costs, 2)}.",
        ]
        head = ("feature", "share of rows", "over fits", "first step", "fits")
        table = [
            (
                printable(u.unit),
                percent(u.share_of_rows),
                f"{percent(u.lowest)} to {percent(u.highest)}",
                percent(u.share_of_first_steps),
                f"{u.n_fits} of {self.n_seeds}",
            )
            for u in self.units[:MAX_UNITS]
        ]
        lines += align_columns([head, *table]) if table else []
        if len(self.units) > MAX_UNITS:
            lines.append(f"… and {len(self.units) - MAX_UNITS} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per unit."""
        pandas = require("pandas", "tables", "Stability.to_frame")
        return pandas.DataFrame(
            [asdict(unit) for unit in self.units],
            columns=list(UnitStability.__dataclass_fields__),
        )


def stability(
    estimator: SUWRModel,
    X: Any,
    y: Any,
    *,
    n_seeds: int = 10,
    test_size: float = 0.25,
    n_jobs: int | None = None,
    verbose: int | None = None,
) -> Stability:
    """Refit a model with several seeds and measure how far the results agree.

    The seed determines the initial weights, the validation rows and the sampling. Where features
    carry the same information, the choice between them is arbitrary, and another seed may choose
    differently; the predictions may agree nevertheless.

    Parameters
    ----------
    estimator : SUWRClassifier or SUWRRegressor
        Cloned for every seed; its ``random_state`` determines the seeds and the held-out rows.
    X, y : array-like
    n_seeds : int, default=10
        Number of fits, at least two.
    test_size : float, default=0.25
        Fraction of the rows that is held out to compare the fits.
    n_jobs : int or None, default=None
        Number of fits that run in parallel, as in `sparsity_path`.
    verbose : int or None, default=None
        0 is silent and 1 shows a progress bar over the fits; None shows it in a terminal.

    Returns
    -------
    Stability
        ``print(result)`` shows a summary; `Stability.to_frame` is a table of the units.

    Warns
    -----
    UninformativeModelWarning
        Once, with the number of fits that have warned and the first of their warnings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, stability
    >>> X, y = load_iris(return_X_y=True)
    >>> found = stability(SUWRClassifier(max_epochs=1, random_state=0), X, y, n_seeds=2)
    >>> found.n_seeds, found.n_rows
    (2, 38)
    """
    if not isinstance(estimator, SUWRModel):
        expected = "a SUWRClassifier or SUWRRegressor"
        raise parameter_error("estimator", "stability", expected, estimator)
    check_integer(n_seeds, "n_seeds", "stability", 2)
    check_real(test_size, "test_size", "stability", Interval(Real, 0, 1, closed="neither"))
    rng = check_random_state(estimator.random_state)
    parts = hold_out_rows(estimator, X, y, test_size, int(rng.randint(np.iinfo(np.int32).max)))
    seeds = rng.randint(np.iinfo(np.int32).max, size=n_seeds).tolist()
    jobs = (delayed(_fit_seed)(estimator, seed, parts) for seed in seeds)
    results = []
    with progress_bars(["fits"], verbose=verbose, total=n_seeds) as (bar,):
        for result in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            results.append(result)
            bar()
    models, found, scores, costs, problems = zip(*results, strict=True)
    warned = [problem for problem in problems if problem is not None]
    if warned:
        warn_caller(
            f"{len(warned)} of {n_seeds} fits have warned, the first as follows. {warned[0]}",
            UninformativeModelWarning,
        )
    spread = 1.0
    if found[0].probability is None:
        spread = float(np.std(np.asarray(parts[3], dtype=np.float64))) or 1.0
    return Stability(
        n_seeds,
        len(found[0].prediction),
        **_agreement(found, spread),
        scores=scores,
        costs=costs,
        units=_unit_stability(found, models[0].units_.names),
        estimators=list(models),
    )


def _fit_seed(
    estimator: SUWRModel, seed: int, parts: tuple[Any, ...]
) -> tuple[SUWRModel, Scores, float, float, str | None]:
    """Fit and score a model; its warning is returned, so that all fits have a single one."""
    X_train, X_test, y_train, y_test = parts
    model = clone(estimator).set_params(random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UninformativeModelWarning)
        model.fit(X_train, y_train)
    problem = None
    for w in caught:
        if issubclass(w.category, UninformativeModelWarning):
            problem = str(w.message)
        else:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    score = float(model.score(X_test, y_test))
    return (
        model,
        model.fitted_policy().scores(X_test),
        score,
        float(model.cost(X_test).mean()),
        problem,
    )


def _agreement(found: tuple[Scores, ...], spread: float) -> dict[str, Any]:
    """Compare all pairs of fits; see the attributes of `Stability`."""
    sets = [[frozenset(row[row >= 0].tolist()) for row in scores.order] for scores in found]
    firsts = [_first_steps(scores) for scores in found]
    same, difference, first, equal, overlap = [], [], [], [], []
    for a, b in combinations(range(len(found)), 2):
        one, other = found[a], found[b]
        if one.probability is not None and other.probability is not None:
            same.append(np.mean(one.prediction == other.prediction))
            distance = np.abs(one.probability - other.probability).sum(axis=1) / 2
        else:
            distance = np.abs(one.prediction - other.prediction) / spread
        difference.append(np.mean(distance))
        pairs = list(zip(sets[a], sets[b], strict=True))
        first.append(np.mean([u == v for u, v in zip(firsts[a], firsts[b], strict=True)]))
        equal.append(np.mean([u == v for u, v in pairs]))
        overlap.append(np.mean([len(u & v) / len(u | v) if u | v else 1.0 for u, v in pairs]))
    return {
        "same_prediction": float(np.mean(same)) if same else None,
        "prediction_difference": float(np.mean(difference)),
        "same_first_step": float(np.mean(first)),
        "same_features": float(np.mean(equal)),
        "overlap": float(np.mean(overlap)),
    }


def _first_steps(scores: Scores) -> list[frozenset[int]]:
    """Return the units of the first step of every row; none if it reveals nothing."""
    if scores.order.shape[1] == 0:
        return [frozenset()] * len(scores.order)
    return [frozenset(units[units >= 0].tolist()) for units in scores.order[:, 0]]


def _unit_stability(found: tuple[Scores, ...], names: tuple[str, ...]) -> tuple[UnitStability, ...]:
    numbers = np.arange(len(names))
    # Per fit, the share of the rows that reveal each unit, at any step and at the first one.
    used, first = (
        np.array([[np.mean((part(s) == u).any(axis=1)) for u in numbers] for s in found])
        for part in (
            lambda s: s.order.reshape(len(s.order), -1),
            lambda s: s.order[:, :1].reshape(len(s.order), -1),
        )
    )
    units = [
        UnitStability(
            names[u],
            float(used[:, u].mean()),
            float(used[:, u].min()),
            float(used[:, u].max()),
            float(first[:, u].mean()),
            int((used[:, u] > 0).sum()),
        )
        for u in numbers
        if used[:, u].any()
    ]
    return tuple(sorted(units, key=lambda u: (-u.share_of_rows, u.unit)))


def _spread(values: tuple[float, ...], digits: int) -> str:
    low, mean, high = min(values), sum(values) / len(values), max(values)
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


# Columns that a sentence lists by name.
_MAX_LISTED = 8


@dataclass(frozen=True)
class ColumnUse:
    """The use of one column.

    Attributes
    ----------
    column : str
    used : float
        Fraction of the rows for which it was read.
    changed : float
        If it were dropped for all rows: fraction of the rows with another class, or the mean
        absolute change of the predicted value.
    cost : float
        If it were dropped: change of the mean cost of a row. Positive if other features must
        replace it.
    score : float or None
        If it were dropped: change of the accuracy or of R²; None without ``y``.
    """

    column: str
    used: float
    changed: float
    cost: float
    score: float | None


@dataclass(frozen=True)
class MinimisationReport:
    """How much of a table the decisions needed; see `minimisation_report`.

    Attributes
    ----------
    n_rows, n_columns : int
    cells_read : float
        Fraction of the cells of the table that were read.
    mean_columns : float
    max_columns : int
        Mean and largest number of columns read for a row.
    columns : tuple of ColumnUse
        In the order of the table.
    classes : bool
        Whether predictions are classes.
    """

    n_rows: int
    n_columns: int
    cells_read: float
    mean_columns: float
    max_columns: int
    columns: tuple[ColumnUse, ...]
    classes: bool

    @property
    def never_read(self) -> tuple[str, ...]:
        """The columns that were read for no row."""
        return tuple(use.column for use in self.columns if use.used == 0)

    @property
    def dispensable(self) -> tuple[str, ...]:
        """The columns that were read, but without which no prediction changes."""
        return tuple(use.column for use in self.columns if use.used > 0 and use.changed == 0)

    def summary(self) -> str:
        """Return the findings in words, for a record of processing activities."""
        lines = [
            f"For {self.n_rows:,} decisions, {self.mean_columns:.1f} of {self.n_columns} columns "
            f"were read on average and at most {self.max_columns}; {1 - self.cells_read:.1%} of "
            "the cells of the table were never read.",
        ]
        if self.never_read:
            lines.append(
                "Not read for any decision, and therefore not necessary for these decisions in "
                f"the sense of Art. 5(1)(c) GDPR: {_listed(self.never_read)}."
            )
        else:
            lines.append("Every column was read for at least one decision.")
        if self.dispensable:
            lines.append(f"Read, but replaceable: {_listed(self.dispensable)}. Without any one of "
                         "these columns no prediction changes.")  # fmt: skip
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def to_frame(self) -> Any:
        """Return a pandas frame with one line per column, the most used first."""
        pandas = require("pandas", "tables", "MinimisationReport.to_frame")
        frame = pandas.DataFrame([vars(use) for use in self.columns])
        return frame.sort_values("used", ascending=False, kind="stable", ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """Plot the use of the columns; see :func:`suwr.plots.plot_minimisation`."""
        return view("plots:plot_minimisation", self, ax)


def minimisation_report(model: SUWRModel, X: Any, y: ArrayLike | None = None) -> MinimisationReport:
    """Report which columns the decisions about a table used, and what dropping each would cost.

    To drop a column for all rows, the units that contain it are made unavailable to the policy,
    which then reveals others. The model is not fitted again: a model that was fitted without the
    column may need it less. Counterfactual decisions read cells that the actual decisions did not.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame of shape (n, d)
    y : array-like of shape (n,), optional
        The true classes or values, for the change of the score.

    Returns
    -------
    MinimisationReport

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, minimisation_report
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> report = minimisation_report(clf, X)
    >>> report.n_rows, len(report.columns)
    (150, 4)
    """
    check_is_fitted(model, "policy_")
    table, fitted = model._read(X), model.fitted_policy()
    if table.n_rows == 0:
        raise ValueError("'X' must have at least one row.")
    target = None if y is None else model.target_.read(y, table.n_rows)
    mask, before, cost = _decide(fitted, table)
    score = None if target is None else _score(before, target, model)
    uses = []
    for number, column in enumerate(model.encoder_.names):
        used = float(mask[:, number].mean())
        # No decision changes if the units of the column were never chosen.
        changed, more, lost = 0.0, 0.0, None if score is None else 0.0
        if used > 0:
            _, after, after_cost = _decide(_without(fitted, number), table)
            changed = _change(before, after, model)
            more = float((after_cost - cost).mean())
            if score is not None and target is not None:
                lost = _score(after, target, model) - score
        uses.append(ColumnUse(column, used, changed, more, lost))
    per_row = mask.sum(axis=1)
    return MinimisationReport(
        table.n_rows, mask.shape[1], float(mask.mean()), float(per_row.mean()), int(per_row.max()),
        tuple(uses), model.target_.labels is not None,
    )  # fmt: skip


def _decide(
    fitted: FittedPolicy, table: Table
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return masks, predictions in the user's units and costs of all rows."""
    masks, predictions, orders = [], [], []
    for values, trace in fitted.rollouts(table):
        predictions.append(fitted.predict(values, trace.mask))
        masks.append(trace.mask)
        orders.append(trace.order)
    starts = Starts.usual(fitted.policy.inputs, table.n_rows)
    costs = charge_rows(fitted.units, orders, starts)
    return np.concatenate(masks), np.concatenate(predictions), costs


def _without(fitted: FittedPolicy, column: int) -> FittedPolicy:
    """Return the policy to which the units of a column are not available."""
    inputs = fitted.policy.inputs
    free = ~inputs.membership[:, column]
    if inputs.selectable is not None:
        free = free & inputs.selectable
    changed = copy.copy(fitted.policy)
    changed.inputs = replace(inputs, selectable=free)
    return replace(fitted, policy=changed)


def _change(before: NDArray[Any], after: NDArray[Any], model: SUWRModel) -> float:
    if model.target_.labels is None:
        return float(np.abs(after - before).mean())
    return float((before.argmax(axis=1) != after.argmax(axis=1)).mean())


def _score(prediction: NDArray[Any], target: NDArray[Any], model: SUWRModel) -> float:
    """Return accuracy or R²."""
    if model.target_.labels is not None:
        return float((prediction.argmax(axis=1) == target).mean())
    residual, spread = prediction[:, 0] - target, target - target.mean()
    return float(1 - (residual**2).sum() / (spread**2).sum()) if spread.any() else float("nan")


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return shown if more <= 0 else f"{shown} and {more} more"
