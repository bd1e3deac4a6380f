"""How λ is chosen for a data set: by training rows alone.

Each model of a λ path has validation rows that it never learned from, the same ones for every λ of
a seed. With *l(λ, s)* the validation loss of seed *s* and λ* the λ of the least mean loss, the
*excess* of a seed is *l(λ, s) − l(λ*, s)*. The rule takes **the largest λ whose mean excess is at
most one standard error of that mean** over the seeds: the fewest features that cost no
accuracy that could be told from chance. With a single seed the standard error is unknown, and half
a percent of the loss of the best constant prediction stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["SINGLE_SEED_TOLERANCE", "choose_share"]

SINGLE_SEED_TOLERANCE = 0.005


def choose_share(losses: Mapping[float, Sequence[float]]) -> float:
    """Choose from a path by the rule above.

    Parameters
    ----------
    losses : mapping from share to sequence of float
        For each λ, as a share of the constant loss: validation loss of each seed, in units of the
        constant loss; the same seeds in the same order.

    Examples
    --------
    0.02 is worse than 0.01 in both seeds, but by less than chance explains; 0.04 is not.

    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.501, 0.525], 0.04: [0.60, 0.61]})
    0.01
    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.499, 0.525], 0.04: [0.60, 0.61]})
    0.02
    """
    table = {share: np.asarray(values, dtype=float) for share, values in losses.items()}
    if not table or len({len(v) for v in table.values()}) != 1:
        raise ValueError("'losses' must hold one loss for each seed, the same number for every λ.")
    best = table[min(table, key=lambda share: (table[share].mean(), -share))]
    allowed = []
    for share, values in table.items():
        excess = values - best
        error = (
            SINGLE_SEED_TOLERANCE
            if len(excess) == 1
            else float(excess.std(ddof=1)) / np.sqrt(len(excess))
        )
        if excess.mean() <= error:
            allowed.append(share)
    return max(allowed)
