"""Entry points: audits of selectors (`audit`) and of given masks (`audit_masks`)."""

import time
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.progress import progress_bars
from suwr._utils.validation import Interval, Options, check_parameters
from suwr.audit.background import BackgroundData, Groups, IntArray, reveals_whole_units
from suwr.audit.gaps import as_classes, predictive_gaps
from suwr.audit.procedure import AuditProcedure
from suwr.audit.queries import SelectorQueries, affordable_rows
from suwr.audit.report import LEAKS, NO_LEAK_FOUND, AuditReport
from suwr.audit.reproducibility import check_reproducibility
from suwr.audit.sampling import RowSampler
from suwr.data.frame import as_rows
from suwr.data.units import Patches
from suwr.exact import FiniteProblem
from suwr.selector import WrappedSelector, as_masks, as_selector

_OPEN_UNIT_INTERVAL = Interval(Real, 0, 1, closed="neither")
_MASK_CONSTRAINTS: dict[str, list[Any]] = {
    "false_alarm_rate": [_OPEN_UNIT_INTERVAL],
    "confidence": [_OPEN_UNIT_INTERVAL],
    "max_rows": [Interval(Integral, 2)],
}
_CONSTRAINTS: dict[str, list[Any]] = {
    **_MASK_CONSTRAINTS,
    "support": [Options("auto", "product", "empirical")],
    "n_probes": [None, Interval(Integral, 1)],
    "n_draws": [Interval(Integral, 500)],
    "max_seconds": [None, Interval(Real, 0, closed="right")],
    "batch_size": [Interval(Integral, 1)],
}


def audit(
    selector: Any,
    X: Any,
    y: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    policy: str | None = None,
    support: str = "auto",
    groups: Groups | None = None,
    feature_names: Sequence[str] | None = None,
    false_alarm_rate: float = 0.01,
    n_probes: int | None = None,
    n_draws: int = 200_000,
    gaps: bool = True,
    confidence: float = 0.95,
    max_rows: int = 2000,
    max_seconds: float | None = None,
    batch_size: int = 4096,
    training_rows: Any = None,
    verbose: bool | None = None,
) -> AuditReport:
    """Audit a feature selector for label and feature leakage.

    Parameters
    ----------
    selector : object
        An object with ``select(X)`` that returns one boolean mask per row; a callable
        ``X -> masks``, which may be stochastic and may accept ``rng`` or ``random_state``; or, for
        few columns, an object with only ``mask_probability(X, masks)``. `suwr.audit.adapters`
        makes selectors of the attributions of other libraries.
    X : array or data frame of shape (n_rows, n_columns), or FiniteProblem
        Background rows, from the distribution that the selector is used on. Hidden values are
        resampled from them.
    y : array-like of shape (n_rows,), optional
        Labels. Required to measure label leakage; the search for leaks uses them too.
    random_state : int, Generator or None
    policy : str, optional
        Passed to the methods of the selector, for example ``"sampled"``.
    support : {"auto", "product", "empirical"}
        Which rows are possible. "product": all combinations of observed values of units; choose
        it if the columns vary independently. "empirical": only the rows of ``X``, so that only
        rows that agree on all revealed values can be compared. "auto": unknown. Observed rows are
        compared first, combinations afterwards, and a leak that only combinations show has the
        verdict "leaks if columns vary independently". Combinations keep the dependence between
        columns that holds in all rows of ``X``, such as copies, one-hot codes and sums.
    groups : dict, list of lists of columns, or Patches, optional
        Columns that are revealed together, such as a one-hot code. They are resampled together
        and reported as one unit. By default the groups of the selector, if it has any. A pixel
        of overlapping patches is resampled with the patch whose centre is nearest.
    feature_names : sequence of str, optional
        Names of the columns for the report; by default those of the data frame.
    false_alarm_rate : float
        Upper bound of the probability that a stochastic selector without leakage is reported to
        leak. A leak of a deterministic selector is shown by a witness.
    n_probes : int, optional
        Query budget: maximum number of counterfactual probes of a deterministic selector. By
        default 16 per row of ``X``, at least 4,096 and at most 32,000.
    n_draws : int
        Number of masks to draw from a stochastic selector.
    gaps : bool
        Whether to measure the predictive gaps, which takes most of the time.
    confidence : float
        Confidence level of the intervals of the predictive gaps.
    max_rows : int
        A random subset of this size is audited if ``X`` has more rows.
    max_seconds : float, optional
        Time limit for querying the selector. A slow selector is audited on fewer rows; the report
        states how many, and whether the limit was reached.
    batch_size : int
        Maximum number of rows per call of the selector.
    training_rows : array or data frame of shape (n_training_rows, n_columns), optional
        Rows that the selector was fitted on. They are queried in addition to ``X``, since a
        selector may treat rows that it recognises differently; at most ``max_rows`` of them.
    verbose : bool, optional
        Whether to show progress bars; by default only on a terminal.

    Returns
    -------
    AuditReport

    Examples
    --------
    A selector that reveals ``x0``, and ``x1`` if the hidden ``x2`` is positive:

    >>> import numpy as np
    >>> from suwr.audit import audit
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def leaky(X):
    ...     return np.stack([X[:, 0] < 9, X[:, 2] > 0, X[:, 0] > 9], axis=1)
    >>> report = audit(leaky, X, random_state=0, gaps=False)
    >>> report.verdict, report.assumed_independent
    ('leaks if columns vary independently', ['x2'])
    >>> audit(leaky, X, random_state=0, gaps=False, support="product").verdict
    'leaks'
    >>> audit(lambda X: X < np.inf, X, random_state=0, gaps=False).verdict
    'no leak found'
    """
    check_parameters("audit", _CONSTRAINTS, locals())
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    problem = X if isinstance(X, FiniteProblem) else None
    if problem is not None:
        X, support, max_rows = problem.frame(), "empirical", max(max_rows, problem.n_rows)
    rows, labels = _subsample(X, y, max_rows, rng)
    declared = groups is None
    groups = selector_groups(selector) if declared else groups
    full_support = support == "product"
    background = BackgroundData(X, feature_names, groups, rows, full_support)
    wrapped = as_selector(selector, policy, background.membership)
    _check_fitted(wrapped)
    budget = n_probes or int(np.clip(16 * background.n_rows, 4096, 32_000))
    gaps = gaps and problem is None
    bars = ["Querying the selector", "Measuring predictive gaps"]
    with progress_bars(bars, verbose=verbose) as (query_progress, gap_progress):
        queries = SelectorQueries(wrapped, background, rng, batch_size, max_seconds, query_progress)
        if max_seconds is not None and problem is None:
            n_affordable = affordable_rows(queries, max_seconds)
            if n_affordable < background.n_rows:
                rows, labels = _subsample(X, y, n_affordable, rng)
                background = BackgroundData(X, feature_names, groups, rows, full_support)
                queries.background = background
        classes = None if labels is None else as_classes(labels)
        query_progress.expect(3 * background.n_rows + budget)
        reproducibility = check_reproducibility(queries, rng)
        if not reveals_whole_units(reproducibility.masks, background.membership):
            if declared:
                groups = None
                background = BackgroundData(X, feature_names, None, rows, full_support)
                queries.background = background
            reproducibility.cautions.append(
                "Some masks reveal only a part of a group. "
                + ("The groups of the selector were not used." if declared else "")
            )
        if reproducibility.stochastic:
            query_progress.expect(3 * background.n_rows + n_draws)
        sampler = RowSampler(background, reproducibility.masks, classes)
        level = false_alarm_rate if training_rows is None else false_alarm_rate / 2
        procedure = AuditProcedure(queries, sampler, reproducibility, support, level, rng)
        if not procedure.run_exact(problem, budget, n_draws):
            procedure.run_probes(budget, n_draws)
        if training_rows is not None and procedure.verdict != LEAKS:
            chosen, _ = _subsample(training_rows, None, max_rows, rng)
            queries.background = BackgroundData(
                training_rows, feature_names, groups, chosen, full_support
            )
            procedure.run_training_rows(budget, n_draws)
            queries.background = background
        measured = None
        if gaps:
            measured = predictive_gaps(
                background,
                reproducibility.masks,
                labels,
                rng,
                confidence=confidence,
                false_alarm_rate=false_alarm_rate,
                progress=gap_progress,
            )
    seconds = time.monotonic() - started
    return procedure.report(measured, seconds, false_alarm_rate, subsampled=rows is not None)


def audit_masks(
    X: Any,
    masks: ArrayLike,
    y: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    groups: Groups | None = None,
    feature_names: Sequence[str] | None = None,
    false_alarm_rate: float = 0.01,
    confidence: float = 0.95,
    max_rows: int = 2000,
    verbose: bool | None = None,
) -> AuditReport:
    """Audit masks without access to the selector that chose them.

    Without queries, only the predictive gaps can be measured: the verdict "leaks" is statistical
    evidence rather than a proof, and small leaks remain undetected.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
    masks : array-like of shape (n_rows, n_columns)
        True, or 1, where a value is revealed.
    y, random_state, groups, feature_names, false_alarm_rate, confidence, max_rows, verbose
        As in `audit`.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.audit import audit_masks
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> masks = np.stack([X[:, 1] > 0, np.zeros(600, dtype=bool)], axis=1)
    >>> report = audit_masks(X, masks, random_state=0)
    >>> report.verdict, report.evidence, report.gaps.features[0].target
    ('leaks', 'gaps', 'x1')
    """
    check_parameters("audit_masks", _MASK_CONSTRAINTS, locals())
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    rows, labels = _subsample(X, y, max_rows, rng)
    background = BackgroundData(X, feature_names, groups, rows)
    selected = as_masks(masks, len(X), background.n_columns)
    selected = selected if rows is None else selected[rows]
    with progress_bars(["Measuring predictive gaps"], verbose=verbose) as (gap_progress,):
        gaps = predictive_gaps(
            background,
            selected,
            labels,
            rng,
            confidence=confidence,
            false_alarm_rate=false_alarm_rate,
            progress=gap_progress,
        )
    leaks = bool(gaps.significant)
    return AuditReport(
        verdict=LEAKS if leaks else NO_LEAK_FOUND,
        witness=None,
        evidence="gaps" if leaks else "none",
        exact=False,
        support="masks only",
        selector="the given masks",
        stochastic=False,
        n_rows=background.n_rows,
        n_columns=background.n_columns,
        mean_features=float(selected.sum(axis=1).mean()),
        gaps=gaps,
        cautions=gaps.cautions,
        seconds=time.monotonic() - started,
        false_alarm_rate=false_alarm_rate,
    )


def selector_groups(selector: Any) -> Groups | None:
    """The ``groups`` parameter of an estimator, if it has one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> selector_groups(SimpleNamespace(groups={"ward": [1, 2]}))
    {'ward': [1, 2]}
    """
    groups = getattr(selector, "groups", None)
    return groups if isinstance(groups, Mapping | list | tuple | Patches) else None


def _check_fitted(selector: WrappedSelector) -> None:
    source = selector.source
    if hasattr(source, "fit") and hasattr(source, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(source)


def _subsample(
    X: Any, y: Any | None, max_rows: int, rng: np.random.Generator
) -> tuple[IntArray | None, NDArray[Any] | None]:
    """Positions of a random subset of at most ``max_rows`` rows (None for all) and its labels."""
    n_rows = len(as_rows(X))
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
