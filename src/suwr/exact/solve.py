"""One door to the three solvers."""

from typing import Any

from suwr.exact._checks import check_choice, check_weight
from suwr.exact.dynamic import solve_dp
from suwr.exact.linear import solve_lp
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.steps import Steps
from suwr.exact.subset import solve_global

METHODS = ("dp", "lp", "global")


def solve(
    problem: FiniteProblem,
    sparsity_weight: float,
    method: str = "dp",
    *,
    max_steps: int | None = None,
    units_per_step: int = 1,
    **options: Any,
) -> Solution:
    """Find the policy with the least expected loss + λ cost.

    Parameters
    ----------
    problem : FiniteProblem
        Support rows, labels and probabilities.
    sparsity_weight : float
        The paper's λ: the price of one unit of feature cost.
    method : {"dp", "lp", "global"}, default="dp"
        Which policies are allowed. "dp": those that SUWR can run, by dynamic programming. "lp":
        all leak-free ones, by the paper's linear program. "global": one subset for all rows, by
        brute force. So the objectives satisfy lp ≤ dp ≤ global.
    max_steps : int, default=None
        Most steps (T in the paper). "lp" and "global", which have no steps, then reveal no more
        features than those steps could.
    units_per_step : int, default=1
        Most features that one step reveals at once.
    **options
        For "lp": ``time_limit`` in seconds, and ``reduce=False`` to keep states that no optimal
        policy needs.

    Returns
    -------
    Solution
        With ``objective``, ``loss``, ``cost``, ``n_selected``, ``mask_probability(X, masks)``,
        ``predict_masked(X, masks)``, ``policy``, and for "dp" a ``tree``.

    Examples
    --------
    Whether x2 matters depends on x1, so SUWR reveals 1.5 features on average.

    >>> from suwr.exact import FiniteProblem, solve
    >>> problem = FiniteProblem([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 4])
    >>> solution = solve(problem, 0.1)
    >>> solution.loss, solution.n_selected
    (0.0, 1.5)
    >>> print(solution.tree)
    reveal x1  (p = 1)
      x1 = 0: predict 0  (p = 0.5)
      x1 = 1: reveal x2  (p = 0.5)
        x2 = 0: predict 0  (p = 0.25)
        x2 = 1: predict 4  (p = 0.25)
    """
    check_choice(method, "method", "solve", METHODS)
    weight = check_weight(sparsity_weight, "solve")
    steps = Steps.checked(max_steps, units_per_step, "solve")
    if method == "lp":
        return solve_lp(problem, weight, steps, **options)
    if options:
        raise TypeError(f"solve() with method={method!r} takes no {sorted(options)}.")
    return (solve_dp if method == "dp" else solve_global)(problem, weight, steps)
