"""The best leak-free policy, by the paper's linear program (Algorithm 2)."""

import numpy as np
from scipy import sparse

from suwr.exact._arrays import Floats, Ints
from suwr.exact._checks import check_memory
from suwr.exact._highs import minimise
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.states import MaskedStates, bits_mask
from suwr.exact.steps import Steps


def solve_lp(
    problem: FiniteProblem,
    sparsity_weight: float,
    steps: Steps,
    *,
    reduce: bool = True,
    time_limit: float | None = None,
) -> Solution:
    """Minimise cᵀθ subject to Aθ = 1 and θ ≥ 0.

    A has a row for each support row x and a column for each masked state s; A[x, s] = 1 where x
    agrees with s. θ(s) is the probability ζ(h | x) that all rows x of s share.

    Parameters
    ----------
    problem : FiniteProblem
        The problem.
    sparsity_weight : float
        The paper's λ.
    steps : Steps
        The linear program knows no steps; it respects the number of features they can reveal.
    reduce : bool, default=True
        Leave out every state that is worse than some way of splitting it further. Weight on such a
        state can always be moved to the states of the split, so the optimum stays what it is.
    time_limit : float, default=None
        Seconds that the solver may take.
    """
    states = problem.states
    max_size = steps.max_size(problem.n_features)
    masks = np.arange(2**problem.n_features, dtype=np.int64)
    masks = masks[bits_mask(masks, problem.n_features).sum(axis=1) <= max_size]
    n_entries = problem.n_rows * len(masks)
    # 100 bytes an entry: the matrix in two layouts here, and the solver's own copies.
    check_memory(
        100 * n_entries,
        problem.max_memory,
        states.n_positive,
        f"The linear program with {problem.n_rows:,} constraints and {n_entries:,} entries",
    )
    stop = states.stop_cost(np.array([sparsity_weight]), max_size)
    kept = _useful(states, stop) if reduce else (states.mass > 0) & np.isfinite(stop[:, 0])
    columns, matrix = _constraints(problem, masks, kept)
    found, _, _ = minimise(stop[columns, 0], matrix, np.ones(problem.n_rows), time_limit)
    theta = np.clip(found, 0.0, 1.0)
    positive = theta > 1e-12
    policy = StatePolicy(problem, columns[positive], theta[positive])
    return Solution(problem, "lp", sparsity_weight, policy)


def _useful(states: MaskedStates, stop: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    value = stop.copy()
    states.sweep(value)
    with np.errstate(invalid="ignore"):  # inf - inf where a state is too large to be allowed
        worse = stop[:, 0] - value[:, 0] > 1e-12 * (1 + np.abs(value[:, 0]))
    return (states.mass > 0) & np.isfinite(stop[:, 0]) & ~worse


def _constraints(
    problem: FiniteProblem, masks: Ints, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Ints, sparse.csc_array]:
    """The states that are variables, and the matrix A over them."""
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
