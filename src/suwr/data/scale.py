"""The scale by which a numeric column is divided."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["robust_scale"]

# If a value has at least this share of the rows, the scale of the other rows replaces one that is
# so many times smaller or, for a mostly constant column, larger.
FREQUENT_SHARE, MANY_SCALES = 0.25, 4.0
# Interquartile range of the standard normal distribution.
NORMAL_RANGE = 1.349


def robust_scale(values: NDArray[np.float64]) -> float:
    """Interquartile range of a column in units of that of the standard normal distribution.

    The range is robust to outliers, but 0 for a mostly constant column, whose scale is its standard
    deviation. If many rows share a value, such as the zeros of a count, either may be far from the
    scale of the other rows, which then replaces it: a quartile may be next to this value, and
    outliers may dominate the standard deviation.

    Parameters
    ----------
    values : ndarray of shape (n,)
        At least one number, none of them NaN.

    Returns
    -------
    float
        A positive number; 1 if all values are equal, or if they are so far apart that their range
        is not finite.

    Examples
    --------
    >>> round(robust_scale(np.arange(101.0)), 2)
    37.06
    """
    # The range of extreme values may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _quartile_scale(values)
        mostly_constant = not np.isfinite(scale) or scale <= 0
        if mostly_constant:
            scale = float(np.std(values))
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) > 1 and counts.max() >= FREQUENT_SHARE * len(values):
            frequent = distinct[counts.argmax()]
            others = values[values != frequent]
            spread = _quartile_scale(others)
            if mostly_constant:
                spread = max(spread, float(abs(np.percentile(others, 50) - frequent)))
            small, large = (spread, scale) if mostly_constant else (scale, spread)
            if np.isfinite(spread) and large > MANY_SCALES * small:
                scale = spread
    return scale if np.isfinite(scale) and scale > 0 else 1.0


def _quartile_scale(values: NDArray[np.float64]) -> float:
    low, high = np.percentile(values, [25, 75])
    return float((high - low) / NORMAL_RANGE)
