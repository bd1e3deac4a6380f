"""Goodness of fit of sampled masks to the probabilities that a selector states.

A misfit is no leak by itself, and a good fit is no evidence against one: it shows that the stated
probabilities describe the selector up to the detectable difference.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2, ncx2

from suwr.audit.queries import SelectorQueries

_N_ROWS = 40
_N_DRAWS = 500
_MIN_VARIANCE = 5.0


@dataclass(frozen=True)
class FitResult:
    """Result of the goodness-of-fit test.

    Attributes
    ----------
    p_value : float
        Corrected for the two tests.
    detectable_difference : float
        Root mean square, over rows, of the difference between the actual and the stated
        probability of a mask that the test detects with 95 % power (at probability one half).
    """

    p_value: float
    detectable_difference: float


def compare_samples(
    queries: SelectorQueries,
    level: float,
    rng: np.random.Generator,
    n_rows: int = _N_ROWS,
    n_draws: int = _N_DRAWS,
) -> FitResult:
    """Compare the frequency of a mask with its stated probability, for several rows.

    Half of the rows are background rows, half have independent units. For each row, the mask is
    chosen on one half of the draws and counted on the other. A binomial test of each row detects
    large differences of few rows, a chi-squared test of all rows detects small differences of many.

    Parameters
    ----------
    queries : SelectorQueries
        The selector must have ``mask_probability``.
    level : float
        False-alarm rate.
    rng : numpy.random.Generator
    n_rows, n_draws : int
        Number of rows, and of masks drawn for each.
    """
    background = queries.background
    drawn = rng.integers(background.n_rows, size=(n_rows, background.n_units))
    drawn[::2] = drawn[::2, :1]
    sources = drawn[:, background.unit_of]
    half = n_draws // 2
    samples = queries.select(np.repeat(sources, n_draws, axis=0)).reshape(n_rows, n_draws, -1)
    chosen = np.empty((n_rows, background.n_columns), dtype=bool)
    for i, masks in enumerate(samples):
        distinct, counts = np.unique(masks[:half], axis=0, return_counts=True)
        chosen[i] = distinct[counts.argmax()]
    stated = np.clip(queries.mask_probability(sources, chosen), 0.0, 1.0)
    counts = (samples[:, half:] == chosen[:, None]).all(axis=2).sum(axis=1)
    of_rows = [
        float(binomtest(int(count), half, float(p)).pvalue)
        for count, p in zip(counts, stated, strict=True)
    ]
    variance = half * stated * (1 - stated)
    usable = variance >= _MIN_VARIANCE
    squares = (counts - half * stated)[usable] ** 2 / variance[usable]
    pooled = float(chi2.sf(squares.sum(), usable.sum())) if usable.any() else 1.0
    return FitResult(
        p_value=min(1.0, 2 * n_rows * min(of_rows), 2 * pooled),
        detectable_difference=detectable_difference(level / 2, n_rows, half),
    )


def detectable_difference(level: float, n_rows: int, n_draws: int, power: float = 0.95) -> float:
    """Difference that the chi-squared test of ``n_rows`` rows with ``n_draws`` draws detects.

    Examples
    --------
    >>> round(detectable_difference(0.005, 40, 250), 3)
    0.036
    """
    critical = chi2.isf(level, n_rows)
    noncentrality = brentq(lambda value: ncx2.sf(critical, n_rows, value) - power, 1e-3, 1e4)
    return float(np.sqrt(0.25 * noncentrality / (n_rows * n_draws)))
