"""Comparison with the published AUROC on other draws of the test rows.

Test rows differ in difficulty. AUROC is therefore compared by its *gap* to the AUROC of the true
p(y | x) on the same rows; for the published AUROC, on the test rows of the paper. A fit has
*failed* if its gap is more than 0.02 larger than the published one. The published gap is *reached*
if no fit has failed, and the mean gap less its standard error over the draws is at most the
published one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.tables import mean_and_sd, mean_sd

__all__ = ["HEADER", "METRICS", "compared_cells", "n_failed", "published_gap", "verdict"]

#: Metrics on test rows that are compared, with their digits.
METRICS = {"auroc": 4, "tpr": 1, "fdr": 1, "cfsr": 1, "n_selected": 2}
#: Titles of the columns of `compared_cells`.
HEADER = (
    "AUROC", "TPR", "FDR", "CFSR", "features", "gap", "gap, range", "failed", "published gap",
)  # fmt: skip
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


def compared_cells(
    metrics: Mapping[str, Sequence[float]], gaps: Sequence[float], method: str, data: str
) -> list[str]:
    """Cells of a table that compare the fits of one method with its published results.

    Parameters
    ----------
    metrics : mapping from the names in `METRICS` to the values of the fits
    gaps : sequence of float
        Gap of each fit.
    method, data : str
        Published values, if there are any, are in brackets.
    """
    known = PUBLISHED.get(method, {}).get(data, {})
    cells = []
    for name, digits in METRICS.items():
        published = f" ({known[name]:g})" if name in known else ""
        cells.append(mean_sd(metrics[name], digits) + published if metrics[name] else "–")
    gap, spread = mean_sd(gaps, 4), f"{min(gaps):.4f} to {max(gaps):.4f}"
    if "auroc" not in known:
        return [*cells, gap, spread, "–", "–"]
    limit = published_gap(method, data)
    failed = f"{n_failed(gaps, limit)} of {len(gaps)}"
    return [*cells, f"{gap} ({limit:.4f})", spread, failed, verdict(gaps, limit)]
