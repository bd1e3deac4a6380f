"""How λ is chosen for a data set: by training rows alone.

Each model of a λ path has validation rows that it never learned from, the same ones for every λ of
a seed. With *l(λ, s)* the validation loss of seed *s* and λ* the λ of the least mean loss, the
*excess* of the default λ in a seed is *l(default, s) − l(λ*, s)*. The rule keeps **the default,
1 % of the loss of the best constant prediction, unless its mean excess is more than two standard
errors** over the seeds; then it takes λ*. A default is left only for a reason that is unlikely to
be chance. With a single seed the standard error is unknown, and a quarter of a percent of the loss
of the best constant prediction stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["DEFAULT_SHARE", "SINGLE_SEED_ERROR", "choose_share"]

DEFAULT_SHARE = 0.01
SINGLE_SEED_ERROR = 0.0025


def choose_share(losses: Mapping[float, Sequence[float]]) -> float:
    """Choose from a path by the rule above.

    Parameters
    ----------
    losses : mapping from share to sequence of float
        For each λ, as a share of the constant loss: validation loss of each seed, in units of the
        constant loss; the same seeds in the same order. Where the default is not among them, the
        nearest share stands for it.

    Examples
    --------
    0.02 is better than the default, but not in every seed; then clearly so.

    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.501, 0.515], 0.04: [0.60, 0.61]})
    0.01
    >>> choose_share({0.01: [0.50, 0.52], 0.02: [0.491, 0.510], 0.04: [0.60, 0.61]})
    0.02
    """
    table = {share: np.asarray(values, dtype=float) for share, values in losses.items()}
    if not table or len({len(v) for v in table.values()}) != 1:
        raise ValueError("'losses' must hold one loss for each seed, the same number for every λ.")
    default = min(table, key=lambda share: abs(np.log(share / DEFAULT_SHARE)))
    best = min(table, key=lambda share: (table[share].mean(), -share))
    excess = table[default] - table[best]
    error = (
        SINGLE_SEED_ERROR if len(excess) == 1 else float(excess.std(ddof=1)) / np.sqrt(len(excess))
    )
    return best if excess.mean() > 2 * error else default
