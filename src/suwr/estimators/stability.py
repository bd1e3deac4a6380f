"""How much the features, steps and predictions of a model depend on the seed of its fit."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import check_random_state

from suwr._utils.progress import progress_bars
from suwr._utils.text import align_columns, percent, printable
from suwr._utils.validation import (
    Interval,
    check_integer,
    check_real,
    parameter_error,
    require,
    warn_caller,
)
from suwr.estimators.base import BaseSUWR
from suwr.estimators.results import Scores, score_rows
from suwr.estimators.sparsity_path import hold_out_rows
from suwr.exceptions import UninformativeModelWarning

__all__ = ["Stability", "UnitStability", "stability"]

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
    estimators: list[BaseSUWR]

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
    estimator: BaseSUWR,
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
    if not isinstance(estimator, BaseSUWR):
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
    estimator: BaseSUWR, seed: int, parts: tuple[Any, ...]
) -> tuple[BaseSUWR, Scores, float, float, str | None]:
    """Fit and score a model; its warning is returned, so that all fits have a single one."""
    X_train, X_test, y_train, y_test = parts
    # Fits that run in parallel cannot share a checkpoint.
    model = clone(estimator).set_params(random_state=seed, checkpoint=None)
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
    return model, score_rows(model, X_test), score, float(model.cost(X_test).mean()), problem


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
