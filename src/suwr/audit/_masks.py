"""An audit without the selector: rows, their masks, and what these give away."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.progress import progress_bars
from suwr.audit._gaps import predictive_gaps
from suwr.audit._parameters import check_counts, check_fractions, choose_rows
from suwr.audit._report import LEAKS, NO_LEAK_FOUND, AuditReport
from suwr.audit._table import Groups, Table
from suwr.selector import as_masks


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
    """Audit masks that were chosen earlier, without the selector that chose them.

    Nothing can be asked then, so only the predictive gaps apply: a verdict "leaks" is statistical
    evidence, not a proof, and its absence says little about small leaks.

    Parameters
    ----------
    X : array or data frame of shape (n_rows, n_columns)
    masks : array-like of shape (n_rows, n_columns)
        True, or 1, where a value is revealed.
    y, random_state, groups, feature_names, false_alarm_rate, confidence, max_rows, verbose
        As for :func:`audit`.

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
    check_fractions(false_alarm_rate=false_alarm_rate, confidence=confidence)
    check_counts(max_rows=(max_rows, 2))
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    rows, labels = choose_rows(X, y, max_rows, rng)
    table = Table(X, feature_names, groups, rows)
    chosen = as_masks(masks, len(X), table.n_columns)
    chosen = chosen if rows is None else chosen[rows]
    with progress_bars(["Measuring bits"], verbose=verbose) as (measured,):
        found = predictive_gaps(
            table,
            chosen,
            labels,
            rng,
            confidence=confidence,
            false_alarm_rate=false_alarm_rate,
            counter=measured,
        )
    leaks = bool(found.significant)
    return AuditReport(
        verdict=LEAKS if leaks else NO_LEAK_FOUND,
        witness=None,
        evidence="gaps" if leaks else "none",
        exact=False,
        support="masks only",
        selector="the given masks",
        stochastic=False,
        n_rows=table.n_rows,
        n_columns=table.n_columns,
        mean_features=float(chosen.sum(axis=1).mean()),
        gaps=found,
        cautions=found.cautions,
        seconds=time.monotonic() - started,
        false_alarm_rate=false_alarm_rate,
    )
