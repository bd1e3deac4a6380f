"""Comparison with the published AUROC on other draws of the test rows.

Test rows differ in difficulty. AUROC is therefore compared by its *gap* to the AUROC of the true
p(y | x) on the same rows; for the published AUROC, on the test rows of the paper. A fit has
*failed* if its gap is more than 0.02 larger than the published one. The published gap is *reached*
if no fit has failed, and the mean gap less its standard error over the draws is at most the
published one.
"""

from __future__ import annotations

from collections.abc import Sequence

from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.tables import mean_and_sd

__all__ = ["n_failed", "published_gap", "verdict"]

FAILED_ABOVE = 0.02


def n_failed(gaps: Sequence[float], published: float) -> int:
    """Number of fits whose gap is more than 0.02 larger than the published one.

    Examples
    --------
    >>> n_failed([0.01, 0.035, 0.025], 0.013)
    1
    """
    return sum(gap > published + FAILED_ABOVE for gap in gaps)


def verdict(gaps: Sequence[float], published: float) -> str:
    """Whether the published gap is reached.

    Examples
    --------
    A failed fit would widen the standard error until the published gap is within it:

    >>> verdict([0.012, 0.016], 0.013), verdict([0.001, 0.1], 0.013)
    ('reached', 'not reached')
    """
    mean, sd = mean_and_sd(gaps)
    within = mean - sd / len(gaps) ** 0.5 <= published
    return "reached" if within and not n_failed(gaps, published) else "not reached"


def published_gap(method: str, data: str) -> float:
    """Published AUROC below that of the true p(y | x) on the same rows."""
    return LIMIT[data] - PUBLISHED[method][data]["auroc"]
