"""How far a fitted model is from the best that is possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from suwr.exact._arrays import Floats, Ints
from suwr.exact._checks import check_weight
from suwr.exact._losses import row_loss
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.solve import solve
from suwr.exact.table import as_table

_CHUNK = 65_536  # pairs of a row and a mask that are predicted at once


@dataclass(frozen=True)
class Gap:
    """Exact performance of a model, and the optima at the same λ.

    Attributes
    ----------
    sparsity_weight : float
        The paper's λ.
    loss, cost, n_selected : float
        Expected loss, cost and number of features of the model.
    dp : Solution
        The best SUWR policy with its f*.
    lp : Solution or None
        The best leak-free policy with its f*; None if it was not asked for.

    Examples
    --------
    >>> from suwr.exact import gap, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> best = gap(solve(problem, 0.3), problem, 0.3)
    >>> round(best.to_suwr, 9), round(best.to_lp, 9)
    (0.0, 0.0)
    """

    sparsity_weight: float
    loss: float
    cost: float
    n_selected: float
    dp: Solution
    lp: Solution | None

    @property
    def objective(self) -> float:
        """Loss + λ cost of the model."""
        return self.loss + self.sparsity_weight * self.cost

    @property
    def to_suwr(self) -> float:
        """How much higher the model's objective is than that of the best SUWR policy."""
        return self.objective - self.dp.objective

    @property
    def to_lp(self) -> float:
        """How much higher it is than that of the best leak-free policy.

        A negative number proves that the model leaks. NaN if the linear program was not solved.
        """
        return float("nan") if self.lp is None else self.objective - self.lp.objective

    def summary(self) -> str:
        """A few lines for people."""
        lines = [
            f"λ = {self.sparsity_weight:g}",
            f"{'model':<22}{self.objective:.6f}  loss {self.loss:.6f}  cost {self.cost:.4f}",
        ]
        for name, best in (("best SUWR policy", self.dp), ("best leak-free policy", self.lp)):
            if best is not None:
                lines.append(
                    f"{name:<22}{best.objective:.6f}  loss {best.loss:.6f}  cost {best.cost:.4f}"
                )
        return "\n".join(lines)


def gap(
    estimator: Any,
    problem: FiniteProblem,
    sparsity_weight: float,
    *,
    lp: bool = True,
    max_steps: int | None = None,
    units_per_step: int = 1,
) -> Gap:
    """Evaluate a fitted model exactly, and compare it with the optima.

    Nothing is sampled: every mask of every row enters with its exact probability.

    Parameters
    ----------
    estimator : object
        With ``mask_probability(X, masks)`` and ``predict_masked(X, masks)``; a classifier also
        with ``classes_``, which its columns follow.
    problem : FiniteProblem
        Support rows, labels and probabilities.
    sparsity_weight : float
        The paper's λ, the same for the model and the optima.
    lp : bool, default=True
        Whether to solve the linear program too, which can take long beyond 8 features.
    max_steps, units_per_step : int
        Limits on the optima, as in :func:`suwr.exact.solve`.

    Returns
    -------
    Gap

    Examples
    --------
    >>> from suwr.exact import gap, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> round(gap(solve(problem, 0.2, method="global"), problem, 0.2).to_suwr, 6)
    0.284375
    """
    weight = check_weight(sparsity_weight, "gap")
    table = as_table(problem, estimator)
    rows, columns = np.nonzero(table.probabilities > 0)
    share = problem.p[rows] * table.probabilities[rows, columns]
    share = share / share.sum()  # an estimator in single precision sums to 1 only nearly
    losses = np.concatenate(
        [
            _losses(estimator, problem, rows[i : i + _CHUNK], table.masks[columns[i : i + _CHUNK]])
            for i in range(0, len(rows), _CHUNK)
        ]
    )
    costs = np.ones(problem.n_features) if problem.costs is None else problem.costs
    limits: dict[str, Any] = {"max_steps": max_steps, "units_per_step": units_per_step}
    return Gap(
        sparsity_weight=weight,
        loss=float(share @ losses),
        cost=float(share @ (table.masks @ costs)[columns]),
        n_selected=float(share @ table.masks.sum(axis=1)[columns]),
        dp=solve(problem, weight, "dp", **limits),
        lp=solve(problem, weight, "lp", **limits) if lp else None,
    )


def _losses(estimator: Any, problem: FiniteProblem, rows: Ints, masks: Any) -> Floats:
    support = problem.frame()
    X = support.iloc[rows] if hasattr(support, "iloc") else support[rows]
    raw = np.asarray(estimator.predict_masked(X, masks), dtype=float)
    if not problem.is_classification:
        if raw.shape not in ((len(rows),), (len(rows), 1)):
            raise ValueError(
                f"predict_masked(X, masks) must return {len(rows)} values. "
                f"Got shape {raw.shape} instead."
            )
        return row_loss(raw.reshape(-1), problem, rows)
    return row_loss(_by_label(raw, estimator, problem), problem, rows)


def _by_label(raw: Floats, estimator: Any, problem: FiniteProblem) -> Floats:
    """Reorder a classifier's columns; a label that it never saw has probability 0."""
    classes = np.asarray(estimator.classes_).tolist()
    if raw.ndim != 2 or raw.shape[1] != len(classes):
        raise ValueError(
            f"predict_masked(X, masks) must return one column for each of {len(classes)} classes. "
            f"Got shape {raw.shape} instead."
        )
    place = {label: i for i, label in enumerate(classes)}
    # A class that the problem does not have is a wrong answer: it keeps a last, labelless column.
    ordered = np.zeros((len(raw), len(problem.labels) + 1))
    known = problem.labels.tolist()
    for j, label in enumerate(known):
        if label in place:
            ordered[:, j] = raw[:, place[label]]
    strangers = [i for label, i in place.items() if label not in known]
    if strangers:
        ordered[:, -1] = raw[:, strangers].max(axis=1)
    return ordered
