"""Linear programs min cᵀθ subject to Aθ = b, θ ≥ 0, by HiGHS."""

from typing import Any

import numpy as np
from scipy import optimize

from suwr.exact._arrays import Floats
from suwr.exceptions import SuwrError


def minimise(
    cost: Floats, matrix: Any, target: Floats, time_limit: float | None = None
) -> tuple[Floats, Floats, float]:
    """Solution, dual prices of the constraints, and the minimum.

    Parameters
    ----------
    cost : ndarray of shape (n,)
        The paper's c.
    matrix : sparse array of shape (m, n)
        The paper's A.
    target : ndarray of shape (m,)
        The paper's b.
    time_limit : float, default=None
        Seconds that the solver may take.
    """
    solver: Any = optimize.linprog
    result = solver(
        cost,
        A_eq=matrix,
        b_eq=target,
        bounds=(0, None),
        method="highs",
        options={} if time_limit is None else {"time_limit": float(time_limit)},
    )
    if result.x is None or result.status != 0:
        raise SuwrError(
            f"The linear program with {matrix.shape[0]:,} constraints and {matrix.shape[1]:,} "
            f"masked states was not solved: {result.message}"
        )
    return np.asarray(result.x), np.asarray(result.eqlin.marginals), float(result.fun)
