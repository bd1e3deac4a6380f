"""Data minimisation: which columns the decisions used, and what dropping a column would cost."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from suwr._utils.text import printable
from suwr._utils.validation import require
from suwr.data.frame import Table
from suwr.estimators.costs import charge_rows
from suwr.estimators.risks import read_target
from suwr.nn.rollout import Policy
from suwr.nn.step import Starts

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["ColumnUse", "MinimisationReport", "minimisation_report"]

# Columns that a sentence lists by name.
_MAX_LISTED = 8


@dataclass(frozen=True)
class ColumnUse:
    """The use of one column.

    Attributes
    ----------
    column : str
    used : float
        Fraction of the rows for which it was read.
    changed : float
        If it were dropped for all rows: fraction of the rows with another class, or the mean
        absolute change of the predicted value.
    cost : float
        If it were dropped: change of the mean cost of a row. Positive if other features must
        replace it.
    score : float or None
        If it were dropped: change of the accuracy or of R²; None without ``y``.
    """

    column: str
    used: float
    changed: float
    cost: float
    score: float | None


@dataclass(frozen=True)
class MinimisationReport:
    """How much of a table the decisions needed; see `minimisation_report`.

    Attributes
    ----------
    n_rows, n_columns : int
    cells_read : float
        Fraction of the cells of the table that were read.
    mean_columns : float
    max_columns : int
        Mean and largest number of columns read for a row.
    columns : tuple of ColumnUse
        In the order of the table.
    classes : bool
        Whether predictions are classes.
    """

    n_rows: int
    n_columns: int
    cells_read: float
    mean_columns: float
    max_columns: int
    columns: tuple[ColumnUse, ...]
    classes: bool

    @property
    def never_read(self) -> tuple[str, ...]:
        """The columns that were read for no row."""
        return tuple(use.column for use in self.columns if use.used == 0)

    @property
    def dispensable(self) -> tuple[str, ...]:
        """The columns that were read, but without which no prediction changes."""
        return tuple(use.column for use in self.columns if use.used > 0 and use.changed == 0)

    def summary(self) -> str:
        """Return the findings in words, for a record of processing activities."""
        lines = [
            f"For {self.n_rows:,} decisions, {self.mean_columns:.1f} of {self.n_columns} columns "
            f"were read on average and at most {self.max_columns}; {1 - self.cells_read:.1%} of "
            "the cells of the table were never read.",
        ]
        if self.never_read:
            lines.append(
                "Not read for any decision, and therefore not necessary for these decisions in "
                f"the sense of Art. 5(1)(c) GDPR: {_listed(self.never_read)}."
            )
        else:
            lines.append("Every column was read for at least one decision.")
        if self.dispensable:
            lines.append(f"Read, but replaceable: {_listed(self.dispensable)}. Without any one of "
                         "these columns no prediction changes.")  # fmt: skip
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def to_frame(self) -> Any:
        """Return a pandas frame with one line per column, the most used first."""
        pandas = require("pandas", "tables", "MinimisationReport.to_frame")
        frame = pandas.DataFrame([vars(use) for use in self.columns])
        return frame.sort_values("used", ascending=False, kind="stable", ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """Plot the use of the columns; see :func:`suwr.plots.plot_minimisation`."""
        from suwr.plots import plot_minimisation

        return plot_minimisation(self, ax)


def minimisation_report(model: BaseSUWR, X: Any, y: ArrayLike | None = None) -> MinimisationReport:
    """Report which columns the decisions about a table used, and what dropping each would cost.

    To drop a column for all rows, the units that contain it are made unavailable to the policy,
    which then reveals others. The model is not fitted again: a model that was fitted without the
    column may need it less. Counterfactual decisions read cells that the actual decisions did not.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame of shape (n, d)
    y : array-like of shape (n,), optional
        The true classes or values, for the change of the score.

    Returns
    -------
    MinimisationReport

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier, minimisation_report
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> report = minimisation_report(clf, X)
    >>> report.n_rows, len(report.columns)
    (150, 4)
    """
    check_is_fitted(model, "policy_")
    table, policy = model._read(X), model._policy_at()
    if table.n_rows == 0:
        raise ValueError("'X' must have at least one row.")
    target = None if y is None else read_target(model, y, table.n_rows)
    mask, before, cost = _decide(model, policy, table)
    score = None if target is None else _score(before, target, model)
    uses = []
    for number, column in enumerate(model.encoder_.names):
        used = float(mask[:, number].mean())
        # No decision changes if the units of the column were never chosen.
        changed, more, lost = 0.0, 0.0, None if score is None else 0.0
        if used > 0:
            _, after, after_cost = _decide(model, _without(policy, number), table)
            changed = _change(before, after, model)
            more = float((after_cost - cost).mean())
            if score is not None and target is not None:
                lost = _score(after, target, model) - score
        uses.append(ColumnUse(column, used, changed, more, lost))
    per_row = mask.sum(axis=1)
    return MinimisationReport(
        table.n_rows, mask.shape[1], float(mask.mean()), float(per_row.mean()), int(per_row.max()),
        tuple(uses), model._class_labels() is not None,
    )  # fmt: skip


def _decide(
    model: BaseSUWR, policy: Policy, table: Table
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Return masks, predictions in the user's units and costs of all rows."""
    masks, predictions, orders = [], [], []
    for values, trace in model._rollouts(table, policy):
        mask = torch.as_tensor(trace.mask, device=values.device)
        predictions.append(model._in_user_units(policy.predict(values, mask).cpu().numpy()))
        masks.append(trace.mask)
        orders.append(trace.order)
    costs = charge_rows(model.units_, orders, Starts.usual(policy.inputs, table.n_rows))
    return np.concatenate(masks), np.concatenate(predictions), costs


def _without(policy: Policy, column: int) -> Policy:
    """Return the policy to which the units of a column are not available."""
    inputs = policy.inputs
    free = ~inputs.membership[:, column]
    if inputs.selectable is not None:
        free = free & inputs.selectable
    changed = copy.copy(policy)
    changed.inputs = replace(inputs, selectable=free)
    return changed


def _change(before: NDArray[Any], after: NDArray[Any], model: BaseSUWR) -> float:
    if model._class_labels() is None:
        return float(np.abs(after - before).mean())
    return float((before.argmax(axis=1) != after.argmax(axis=1)).mean())


def _score(prediction: NDArray[Any], target: NDArray[Any], model: BaseSUWR) -> float:
    """Return accuracy or R²."""
    if model._class_labels() is not None:
        return float((prediction.argmax(axis=1) == target).mean())
    residual, spread = prediction[:, 0] - target, target - target.mean()
    return float(1 - (residual**2).sum() / (spread**2).sum()) if spread.any() else float("nan")


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(printable(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return shown if more <= 0 else f"{shown} and {more} more"
