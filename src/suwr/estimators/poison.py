"""Empirical test of the invariant: replacing unrevealed cells must not change anything.

Cells are replaced in the raw table, before any of them is parsed.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from suwr.data.frame import column_names, is_frame, raw_columns, select_columns
from suwr.data.parse import is_missing
from suwr.nn.rollout import Trace
from suwr.nn.step import Starts

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["PoisonReport", "poison_check", "poisoned"]

# Values of every type, for columns of every type.
_REPLACEMENTS: dict[str, Any] = {
    "missing": None,
    "huge": 1e30,
    "infinite": float("inf"),
    "number": 1,
    "boolean": True,
    "text": "an unknown category",
    "undecided": "maybe",
    "date": datetime.date(2020, 1, 1),
    "overlong integer": 10**400,
}
POISONS = (*_REPLACEMENTS, "other rows")


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


def poisoned(X: Any, mask: NDArray[np.bool_], poison: str, rng: np.random.RandomState) -> Any:
    """Return a table in which every unrevealed cell is replaced.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_columns)
    mask : ndarray of bool, shape (n_rows, n_columns)
        The revealed cells.
    poison : str
        One of `POISONS`: the replacement, or 'other rows' for values of other rows.
    rng : RandomState

    Returns
    -------
    data frame or ndarray of object
        A frame of the library of ``X``. Columns of pandas hold objects. Columns of other libraries
        have a single type, which is text.
    """
    X = X if is_frame(X) or hasattr(X, "dtype") else np.array(X, dtype=object)
    columns = []
    for number, column in enumerate(raw_columns(X)):
        replaced = np.array(column, dtype=object)
        hidden = np.flatnonzero(~mask[:, number])
        if poison == "other rows":
            replaced[hidden] = rng.permutation(replaced)[hidden]
        else:
            replaced[hidden] = _REPLACEMENTS[poison]
        columns.append(replaced)
    names = column_names(X)
    if names is None:
        return np.stack(columns, axis=1)
    if hasattr(X, "iloc"):
        return type(X)(dict(zip(names, columns, strict=True)), index=X.index)
    texts = [[None if is_missing(cell) else str(cell) for cell in c] for c in columns]
    data = dict(zip(names, texts, strict=True))
    backend = nw.from_native(X, eager_only=True).implementation
    return nw.from_dict(data, dict.fromkeys(names, nw.String), backend=backend).to_native()


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
    if is_frame(X) and hasattr(model, "feature_names_in_"):
        X = select_columns(X, list(model.feature_names_in_))
    before = _rollout(model, X)
    n_rows = len(before.mask)
    changed = np.zeros(n_rows, dtype=bool)
    for poison in POISONS:
        changed |= _differs(before, _rollout(model, poisoned(X, before.mask, poison, rng)))
    n_cells = int((~before.mask).sum()) * len(POISONS)
    return PoisonReport(n_rows, n_cells, int(changed.sum()))


def _rollout(model: BaseSUWR, X: Any) -> Trace:
    values = model._encode(model._read(X))
    starts = Starts.usual(model.policy_.inputs, len(values))
    return model.policy_.rollout(values, record=True, starts=starts)


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
