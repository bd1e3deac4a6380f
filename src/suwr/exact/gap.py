"""Exact evaluation of a fitted model against the optimal policies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from suwr._utils.validation import check_real
from suwr.data.frame import take_rows
from suwr.exact.policy import as_table
from suwr.exact.problem import FiniteProblem
from suwr.exact.solve import SPARSITY_WEIGHT, Solution, solve
from suwr.exact.states import Floats, Ints, group_sum

_CHUNK = 65_536  # (row, mask) pairs per call of predict_masked


@dataclass(frozen=True)
class OptimalityGap:
    """Exact loss and cost of a model, and the optimal policies at the same λ.

    Attributes
    ----------
    sparsity_weight : float
        λ in the paper.
    loss, cost, n_selected : float
        Expected loss, cost and number of features of the model.
    dp : Solution
        The best SUWR policy with the optimal predictor f*.
    lp : Solution or None
        The best leak-free policy with the optimal predictor f*; None if it was not computed.

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
        """Objective of the model minus that of the best SUWR policy."""
        return self.objective - self.dp.objective

    @property
    def to_lp(self) -> float:
        """Objective of the model minus that of the best leak-free policy.

        A negative value proves leakage. NaN if the linear program was not solved.
        """
        return float("nan") if self.lp is None else self.objective - self.lp.objective

    def summary(self) -> str:
        """Format the objectives, losses and costs as text."""
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
    policy: str | None = None,
    lp: bool = True,
    max_steps: int | None = None,
    units_per_step: int = 1,
) -> OptimalityGap:
    """Evaluate a fitted model exactly and compare it with the optimal policies.

    The expectation over rows and masks is computed with exact probabilities, without sampling.

    Parameters
    ----------
    estimator : object
        Must have ``mask_probability(X, masks)`` and ``predict_masked(X, masks)``; a classifier also
        ``classes_``, the order of its columns.
    problem : FiniteProblem
        Support rows, labels and probabilities.
    sparsity_weight : float
        λ in the paper, for the model and the optimal policies.
    policy : {'greedy', 'sampled'}, optional
        The policy of an estimator that has both. None is the default of its ``mask_probability``.
    lp : bool, default=True
        Whether to solve the linear program as well, which is slow beyond 8 features.
    max_steps, units_per_step : int
        Limits of the optimal policies, as in :func:`suwr.exact.solve`.

    Returns
    -------
    OptimalityGap

    Examples
    --------
    >>> from suwr.exact import gap, solve, toy_problem
    >>> problem = toy_problem(4)
    >>> round(gap(solve(problem, 0.2, method="global"), problem, 0.2).to_suwr, 6)
    0.284375
    """
    weight = check_real(sparsity_weight, "sparsity_weight", "gap", SPARSITY_WEIGHT)
    source = estimator
    if policy is not None:
        probability = partial(estimator.mask_probability, policy=policy)
        source = SimpleNamespace(mask_probability=probability)
    table = as_table(problem, source)
    rows, columns = np.nonzero(table.probabilities > 0)
    share = problem.p[rows] * table.probabilities[rows, columns]
    share = share / share.sum()  # probabilities in single precision sum to 1 only approximately
    losses = np.concatenate(
        [
            _losses(estimator, problem, rows[i : i + _CHUNK], table.masks[columns[i : i + _CHUNK]])
            for i in range(0, len(rows), _CHUNK)
        ]
    )
    limits: dict[str, Any] = {"max_steps": max_steps, "units_per_step": units_per_step}
    return OptimalityGap(
        sparsity_weight=weight,
        loss=float(share @ losses),
        cost=float(share @ (table.masks @ problem.costs)[columns]),
        n_selected=float(share @ table.masks.sum(axis=1)[columns]),
        dp=solve(problem, weight, "dp", **limits),
        lp=solve(problem, weight, "lp", **limits) if lp else None,
    )


def _losses(estimator: Any, problem: FiniteProblem, rows: Ints, masks: Any) -> Floats:
    X = take_rows(problem.frame(), rows)
    raw = np.asarray(estimator.predict_masked(X, masks), dtype=float)
    if not problem.is_classification:
        if raw.shape not in ((len(rows),), (len(rows), 1)):
            raise ValueError(
                f"predict_masked(X, masks) must return {len(rows)} values. "
                f"Got shape {raw.shape} instead."
            )
        return _row_loss(raw.reshape(-1), problem, rows)
    return _row_loss(_by_label(raw, estimator, problem), problem, rows)


def _by_label(raw: Floats, estimator: Any, problem: FiniteProblem) -> Floats:
    """Reorder a classifier's columns; a label that is not in ``classes_`` has probability 0."""
    classes = np.asarray(estimator.classes_).tolist()
    if raw.ndim != 2 or raw.shape[1] != len(classes):
        raise ValueError(
            f"predict_masked(X, masks) must return one column for each of {len(classes)} classes. "
            f"Got shape {raw.shape} instead."
        )
    known = problem.labels.tolist()
    padded = np.column_stack([raw, np.zeros(len(raw))])
    ordered = padded[:, [classes.index(label) if label in classes else -1 for label in known]]
    # Classes that the problem does not have are always wrong; they share an extra last column.
    unknown = [i for i, label in enumerate(classes) if label not in known]
    return np.column_stack([ordered, padded[:, [*unknown, -1]].max(axis=1)])


def _row_loss(prediction: Floats, problem: FiniteProblem, rows: Ints) -> Floats:
    """Expected loss of given predictions for given support rows.

    Parameters
    ----------
    prediction : ndarray of shape (m,) or (m, n_labels)
        Means for squared error; otherwise one probability for each of ``problem.labels``.
    problem : FiniteProblem
        The problem that defines p(y | x).
    rows : ndarray of shape (m,)
        The support row of each prediction.
    """
    table = problem.label_distribution[rows]
    if problem.loss == "squared_error":
        values = problem.labels.astype(float)
        entries = table.tocoo()
        terms = entries.data * (prediction[entries.row] - values[entries.col]) ** 2
        return group_sum(entries.row, terms, len(rows))
    if problem.loss == "zero_one":
        best = np.argmax(prediction, axis=1)
        return 1 - np.asarray(table[np.arange(len(rows)), best]).reshape(-1)
    entries = table.tocoo()
    # Clip as scikit-learn's log_loss does, so that the loss is finite.
    safe = np.clip(prediction[entries.row, entries.col], np.finfo(float).eps, 1.0)
    return group_sum(entries.row, -entries.data * np.log(safe), len(rows))
