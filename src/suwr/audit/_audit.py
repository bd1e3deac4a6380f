"""The audit itself."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.progress import progress_bars
from suwr.audit._case import Case
from suwr.audit._company import affordable_rows, observe
from suwr.audit._gaps import predictive_gaps
from suwr.audit._models import as_classes
from suwr.audit._oracle import Oracle
from suwr.audit._parameters import (
    check_choice,
    check_counts,
    check_fractions,
    check_seconds,
    check_selector,
    choose_rows,
    own_groups,
)
from suwr.audit._redraw import Deck
from suwr.audit._report import AuditReport
from suwr.audit._table import Groups, Table
from suwr.exact import FiniteProblem
from suwr.selector import as_selector


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
    verbose: bool | None = None,
) -> AuditReport:
    """Ask whether a feature selector tells more than it shows.

    Parameters
    ----------
    selector : object
        With a method ``select(X)`` that returns a boolean mask per row; or a callable
        ``X -> masks``, which may draw its masks and may take ``rng`` or ``random_state``; or with
        ``mask_probability(X, masks)`` only, for few columns. See also ``suwr.audit.adapters``.
    X : array or data frame of shape (n_rows, n_columns), or FiniteProblem
        Rows like those that the selector was made for. Hidden values are redrawn from them.
    y : array-like of shape (n_rows,), optional
        Labels. Needed to measure label leakage; they also help to aim the probes.
    random_state : int, Generator or None
        Makes the audit repeatable.
    policy : str, optional
        Handed on to the selector's methods, such as ``"sampled"``.
    support : {"auto", "product", "empirical"}
        Which rows count as possible. "product": any combination of values (of units) that occur.
        "empirical": only rows of ``X``; then only rows that agree on all that is revealed can be
        compared. "auto" compares real rows first and combinations after that.
    groups : dict, list of lists of columns, or Patches, optional
        Columns that are revealed together, such as those of a one-hot code. They are redrawn
        together, and reported as one. By default those of the selector, if it has any. Of
        overlapping patches each pixel is redrawn with the patch whose centre is nearest.
    feature_names : sequence of str, optional
        Names for the report, if ``X`` has none.
    false_alarm_rate : float
        Of the statistical tests, for a selector that draws its masks. For a deterministic one a
        leak is proven, and there are no false alarms.
    n_probes : int, optional
        Most counterfactual rows to ask a deterministic selector about; 16 per row of ``X``, but
        between 4,096 and 32,000, by default.
    n_draws : int
        Masks to draw from a selector that draws them.
    gaps : bool
        Whether to measure the predictive gaps, which takes most of the time.
    confidence : float
        Of the intervals of the predictive gaps.
    max_rows : int
        Of more rows than this, a random part is used.
    max_seconds : float, optional
        Stop asking the selector after this time. If it is slow, fewer rows are used, so that
        there is time for probes; the report says how many, and how far the audit came.
    batch_size : int
        Most rows in one call of the selector.
    verbose : bool, optional
        Whether to show progress; by default, if the error stream is a terminal.

    Returns
    -------
    AuditReport

    Examples
    --------
    A selector that reveals ``x0`` if ``x1``, which it hides, is positive:

    >>> import numpy as np
    >>> from suwr.audit import audit
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def sly(X):
    ...     return np.stack([X[:, 1] > 0, X[:, 1] > 9, X[:, 1] > 9], axis=1)
    >>> report = audit(sly, X, random_state=0, gaps=False)
    >>> report.verdict
    'leaks'
    >>> report.witness.changed
    ['x0', 'x1', 'x2']
    >>> audit(lambda X: X < np.inf, X, random_state=0, gaps=False).verdict
    'no leak found'
    """
    check_choice("support", support, ("auto", "product", "empirical"))
    check_fractions(false_alarm_rate=false_alarm_rate, confidence=confidence)
    check_counts(n_probes=(n_probes, 1), n_draws=(n_draws, 500), max_rows=(max_rows, 2))
    check_counts(batch_size=(batch_size, 1))
    check_seconds(max_seconds)
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    problem = X if isinstance(X, FiniteProblem) else None
    if problem is not None:
        X, support, max_rows = problem.frame(), "empirical", max(max_rows, problem.n_rows)
    rows, labels = choose_rows(X, y, max_rows, rng)
    groups = groups if groups is not None else own_groups(selector)
    table = Table(X, feature_names, groups, rows)
    wrapped = as_selector(selector, policy, table.membership)
    check_selector(wrapped)
    budget = n_probes or int(np.clip(16 * table.n_rows, 4096, 32_000))
    classes = None if labels is None else as_classes(labels)
    gaps = gaps and problem is None
    with progress_bars(["Querying the selector", "Measuring bits"], verbose=verbose) as (
        asked,
        measured,
    ):
        oracle = Oracle(wrapped, table, rng, batch_size, max_seconds, asked)
        if max_seconds is not None and problem is None:
            n_affordable = affordable_rows(oracle, max_seconds)
            if n_affordable < table.n_rows:
                rows, labels = choose_rows(X, y, n_affordable, rng)
                table = oracle.table = Table(X, feature_names, groups, rows)
                classes = None if labels is None else as_classes(labels)
        asked.expect(3 * table.n_rows + budget)
        behaviour = observe(oracle)
        if behaviour.stochastic:
            asked.expect(3 * table.n_rows + n_draws)
        deck = Deck(table.unit_codes, table.unit_of, behaviour.masks, classes)
        case = Case(oracle, deck, behaviour, support, false_alarm_rate, rng)
        exact = case.exact(problem, budget)
        if exact is None:
            case.probe(budget, n_draws)
        found = None
        if gaps:
            found = predictive_gaps(
                table,
                behaviour.masks,
                labels,
                rng,
                confidence=confidence,
                false_alarm_rate=false_alarm_rate,
                counter=measured,
            )
    return case.report(found, time.monotonic() - started, partial=rows is not None)
