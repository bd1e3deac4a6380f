"""The best leak-free policy, by the linear program of the paper (Algorithm 2)."""

from typing import Any

import numpy as np
from scipy import optimize, sparse

from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, MaskedStates, bits_mask, check_memory
from suwr.exceptions import SuwrError


def solve_lp(
    problem: FiniteProblem,
    sparsity_weight: float,
    max_size: int,
    *,
    reduce: bool = True,
    time_limit: float | None = None,
) -> StatePolicy:
    """Minimise cᵀθ subject to Aθ = 1 and θ ≥ 0.

    A has a row for each support row x and a column for each masked state s; A[x, s] = 1 if x
    agrees with s. θ(s) is the probability ζ(h | x) that all rows x of s share.

    Parameters
    ----------
    problem : FiniteProblem
        The problem.
    sparsity_weight : float
        λ in the paper.
    max_size : int
        Maximum number of revealed features.
    reduce : bool, default=True
        Remove every state whose cost exceeds the total cost of some split of it. Weight on such a
        state can be moved to the states of the split, so the optimum does not change.
    time_limit : float, default=None
        Time limit of the solver in seconds.
    """
    states = problem.states
    masks = np.arange(2**problem.n_features, dtype=np.int64)
    masks = masks[bits_mask(masks, problem.n_features).sum(axis=1) <= max_size]
    n_entries = problem.n_rows * len(masks)
    # 100 bytes per entry: the matrix in two sparse formats, and the copies of the solver.
    check_memory(
        100 * n_entries,
        problem.max_memory,
        states.n_positive,
        f"The linear program with {problem.n_rows:,} constraints and {n_entries:,} entries",
    )
    stop = states.stop_cost(np.array([sparsity_weight]), max_size)
    kept = _undominated(states, stop) if reduce else (states.mass > 0) & np.isfinite(stop[:, 0])
    columns, matrix = _constraints(problem, masks, kept)
    # The tolerances of the solver are absolute: scale the cost of a typical row to about 1.
    scale = problem.n_rows / (stop[states.root, 0] or 1.0)
    found, _, _ = minimise(scale * stop[columns, 0], matrix, np.ones(problem.n_rows), time_limit)
    theta = np.clip(found, 0.0, 1.0)
    positive = theta > 1e-12
    return StatePolicy(problem, columns[positive], theta[positive])


def minimise(
    cost: Floats, matrix: Any, target: Floats, time_limit: float | None = None
) -> tuple[Floats, Floats, float]:
    """Solve min cᵀθ subject to Aθ = b and θ ≥ 0 with HiGHS.

    Parameters
    ----------
    cost : ndarray of shape (n,)
        c.
    matrix : sparse array of shape (m, n)
        A.
    target : ndarray of shape (m,)
        b.
    time_limit : float, default=None
        Time limit in seconds.

    Returns
    -------
    theta : ndarray of shape (n,)
    duals : ndarray of shape (m,)
        Dual values of the constraints.
    minimum : float
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


def _undominated(states: MaskedStates, stop: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    value = stop.copy()
    states.sweep(value)
    dominated = value[:, 0] < stop[:, 0] * (1 - 1e-12)
    return (states.mass > 0) & np.isfinite(stop[:, 0]) & ~dominated


def _constraints(
    problem: FiniteProblem, masks: Ints, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Ints, sparse.csc_array]:
    """Indices of the states that are variables, and the matrix A over them."""
    columns = np.flatnonzero(kept)
    place = np.full(problem.states.n_states, -1, dtype=np.int64)
    place[columns] = np.arange(len(columns))
    rows, entries = [], []
    all_rows = np.arange(problem.n_rows)
    for mask in masks:
        found = place[problem.states.index(all_rows, mask)]
        rows.append(all_rows[found >= 0])
        entries.append(found[found >= 0])
    row, column = np.concatenate(rows), np.concatenate(entries)
    return columns, sparse.csc_array(
        (np.ones(len(row)), (row, column)), shape=(problem.n_rows, len(columns))
    )
