"""Empirical test of the invariant: replacing unrevealed cells must not change anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from suwr.data.tables import Table
from suwr.nn.rollout import Trace

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["PoisonReport", "poison_check", "poisoned"]

POISONS = ("missing", "huge", "other rows")


@dataclass(frozen=True)
class PoisonReport:
    """The result of `poison_check`.

    Attributes
    ----------
    n_rows, n_cells : int
        Rows tested, and unrevealed cells replaced over all kinds of replacement.
    n_changed : int
        Rows in which the mask, the order, a stop probability or a prediction changed.
    """

    n_rows: int
    n_cells: int
    n_changed: int

    @property
    def passed(self) -> bool:
        """Whether no row changed."""
        return self.n_changed == 0


def poisoned(
    table: Table, mask: NDArray[np.bool_], poison: str, rng: np.random.RandomState
) -> Table:
    """Return a table in which every unrevealed cell is replaced.

    Parameters
    ----------
    table : Table
    mask : ndarray of bool, shape (n_rows, n_columns)
        The revealed cells.
    poison : {'missing', 'huge', 'other rows'}
        Replace by a missing value, by 1e30 or an unknown category, or by values of other rows.
    rng : RandomState
    """
    columns = []
    for number, column in enumerate(table.columns):
        replaced = column.copy()
        hidden = ~mask[:, number]
        is_number = column.dtype.kind == "f"
        if poison == "missing":
            replaced[hidden] = np.nan if is_number else None
        elif poison == "huge":
            replaced[hidden] = 1e30 if is_number else "an unknown category"
        else:
            replaced[hidden] = rng.permutation(column)[hidden]
        columns.append(replaced)
    return Table(columns, table.n_rows)


def poison_check(model: BaseSUWR, X: Any, random_state: Any = None) -> PoisonReport:
    """Replace every cell that a row did not reveal, and compare the rollouts bit for bit.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame
    random_state : int, RandomState or None

    Returns
    -------
    PoisonReport
    """
    rng = check_random_state(random_state)
    table = model._read(X)
    before = model.policy_.rollout(model._encode(table), record=True)
    changed = np.zeros(table.n_rows, dtype=bool)
    for poison in POISONS:
        other = poisoned(table, before.mask, poison, rng)
        changed |= _differs(before, model.policy_.rollout(model._encode(other), record=True))
    n_cells = int((~before.mask).sum()) * len(POISONS)
    return PoisonReport(table.n_rows, n_cells, int(changed.sum()))


def _differs(one: Trace, two: Trace) -> NDArray[np.bool_]:
    """Return which rows have traces that differ in any bit."""
    if one.order.shape != two.order.shape:
        return np.ones(len(one.mask), dtype=bool)
    pairs = [
        (one.mask, two.mask),
        (one.order, two.order),
        (one.stop_probability, two.stop_probability),
        (one.prediction, two.prediction),
    ]
    differs = np.zeros(len(one.mask), dtype=bool)
    for a, b in pairs:
        left, right = np.asarray(a), np.asarray(b)
        same = (left == right) | ((left != left) & (right != right))
        differs |= ~same.reshape(len(left), -1).all(axis=1)
    return differs
