"""Array types, and the one reduction that everything uses."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def group_sum(groups: Ints, amounts: Floats, n_groups: int | None = None) -> Floats:
    """Sum of the amounts of each group 0, 1, …"""
    size = 0 if n_groups is None else n_groups
    return np.bincount(groups, weights=amounts, minlength=size).astype(np.float64, copy=False)
