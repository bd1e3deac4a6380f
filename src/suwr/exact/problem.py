"""Problems with finitely many rows and a known distribution p(x, y), and small ones as examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from suwr._utils.validation import check_choice, check_integer, must_error, parameter_error
from suwr.data.frame import column_names, object_column, raw_columns, take_rows
from suwr.data.parse import is_missing
from suwr.exact.states import MaskedStates, Support, build_states, group_sum, memory_limit

LOSSES = ("auto", "squared_error", "cross_entropy", "zero_one")

_OWNER = "FiniteProblem"
_MISSING = "\0missing"  # dictionary key of NaN, which is not equal to itself


@dataclass(frozen=True)
class Alphabet:
    """The distinct values of one column, in a fixed order.

    Attributes
    ----------
    values : tuple
        The distinct values; the code of a value is its position.
    """

    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Codes of ``column``; -1 for a value that is not in the alphabet."""
        codes = {_key(value): code for code, value in enumerate(self.values)}
        values, place = _distinct(column)
        return np.array([codes.get(_key(value), -1) for value in values], dtype=np.int64)[place]

    @classmethod
    def of(cls, column: NDArray[Any]) -> "Alphabet":
        """Collect the distinct values of ``column``."""
        distinct = {_key(value): _to_python(value) for value in _distinct(column)[0]}
        return cls(tuple(distinct[key] for key in sorted(distinct, key=_sort_key)))


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Values among which are all of the column, and the position of each cell among them."""
    if column.dtype.kind not in "biufUS":  # objects cannot be sorted in general
        return column, np.arange(len(column))
    values, place = np.unique(column, return_inverse=True)
    return values, place.reshape(-1)


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(value: Any) -> Any:
    return _MISSING if is_missing(value) else _to_python(value)


def _sort_key(key: Any) -> Any:
    # Values are compared within one type only; types without an order are sorted by their text.
    comparable = key if isinstance(key, int | float | str | bytes) else str(key)
    return isinstance(key, str), str(type(key)), comparable


def split_columns(X: Any) -> tuple[list[NDArray[Any]], list[str] | None]:
    """Columns of a table, and their names if it is a data frame.

    Every column keeps its own type.
    """
    names = column_names(X)
    if names is None and not isinstance(X, np.ndarray):
        # Without dtype=object, a list that mixes numbers and strings would become all strings.
        X = np.array(X, dtype=object)
    if names is None and X.ndim != 2:
        must = "be two-dimensional, one row for each support point"
        raise _error("X", must, f"an array with {X.ndim} dimension(s)")
    columns = [narrow(column) for column in raw_columns(X)]
    return columns, None if names is None else [str(name) for name in names]


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Convert an object column of numbers into a numeric one."""
    if column.dtype != object or not all(
        isinstance(v, int | float | np.number | np.bool_) for v in column
    ):
        return column
    return np.array(column.tolist())


def stack(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join columns into a matrix, which is numeric if all columns are."""
    if all(column.dtype.kind in "biuf" for column in columns):
        return np.column_stack(columns)
    return np.column_stack([object_column(column.tolist()) for column in columns])


def distinct_rows(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of the first occurrence of each distinct row, and the group of every row.

    Groups are numbered in order of first occurrence.
    """
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[inverse.reshape(-1)]


def read_labels(y: Any, n_rows: int, labels: Any) -> tuple[NDArray[Any], Any]:
    """Distinct labels, and the table p(y | x) with one row for each row of X.

    Parameters
    ----------
    y : array-like
        One label per row, one mapping from labels to probabilities per row, or a matrix whose
        columns follow ``labels``.
    n_rows : int
        Number of rows of X.
    labels : array-like or None
        Names of the columns of a matrix ``y``.
    """
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not isinstance(y, np.ndarray):
        y = list(y)
        shape = np.shape(np.array(y, dtype=object))
        y = np.array(y, dtype=object if len(shape) == 1 else None)
    if y.ndim not in (1, 2):
        raise _error("y", "be one- or two-dimensional", f"{y.ndim} dimensions")
    if len(y) != n_rows:
        must = f"be a label for every one of the {n_rows} rows of X"
        raise _error("y", must, f"{len(y)} label(s)")
    if y.ndim == 2 and y.shape[1] == 1 and labels is None:
        y = y[:, 0]
    if y.ndim == 2:
        names = np.arange(y.shape[1]) if labels is None else narrow(object_column(labels))
        n_distinct = len(Alphabet.of(names))
        if len(names) != y.shape[1] or n_distinct != y.shape[1]:
            must = f"be {y.shape[1]} distinct names, one for each column of 'y'"
            raise _error("labels", must, f"{len(names)} names, {n_distinct} of them distinct,")
        return names, _check_distributions(sparse.csr_array(y.astype(float)))
    given = all(isinstance(row, Mapping) for row in y)
    rows = list(y) if given else [{} if is_missing(label) else {label: 1.0} for label in narrow(y)]
    if not all(rows):
        n_missing = sum(not row for row in rows)
        raise _error("y", "be a label for every row of X", f"{n_missing} row(s) without a label")
    names = narrow(object_column([label for row in rows for label in row]))
    alphabet = Alphabet.of(names)
    place = np.repeat(np.arange(n_rows), [len(row) for row in rows]), alphabet.encode(names)
    weights = np.array([weight for row in rows for weight in row.values()], dtype=float)
    table = sparse.csr_array((weights, place), shape=(n_rows, len(alphabet)))
    return narrow(object_column(alphabet.values)), _check_distributions(table) if given else table


def choose_loss(loss: Any, labels: NDArray[Any]) -> str:
    """Resolve ``"auto"``: squared error for numbers, cross-entropy for all other labels."""
    check_choice(loss, "loss", _OWNER, LOSSES)
    if loss == "auto":
        return "squared_error" if labels.dtype.kind in "iuf" else "cross_entropy"
    if loss == "squared_error" and labels.dtype.kind not in "biuf":
        raise parameter_error(
            "loss", _OWNER, "'cross_entropy' or 'zero_one' if the labels are not numbers", loss
        )
    return str(loss)


def _check_distributions(table: Any) -> Any:
    invalid = int((~np.isfinite(table.data) | (table.data < 0)).sum())
    if invalid:
        got = f"{invalid} negative or non-finite value(s)"
        raise _error("y", "contain non-negative probabilities", got)
    totals = np.asarray(table.sum(axis=1)).reshape(-1)
    off = np.flatnonzero(~np.isclose(totals, 1.0, rtol=0, atol=1e-8))
    if len(off):
        got = f"{len(off)} row(s) that do not; row {off[0]} sums to {totals[off[0]]:.6g}"
        raise _error("y", "contain label distributions that sum to 1", got)
    table = sparse.csr_array(table.multiply((1 / totals)[:, None]))
    table.eliminate_zeros()
    return table


def _error(name: str, must: str, got: str) -> ValueError:
    return must_error(name, _OWNER, must, got)


class FiniteProblem:
    """Support rows with their probabilities and label distributions.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        The rows x with p(x) > 0. Features may be numbers, strings or missing values.
    y : array-like
        One label per row; or one distribution per row, either as a mapping from labels to
        probabilities or as a matrix whose columns follow ``labels``.
    p : array-like of shape (n_rows,), default=None
        p(x); uniform if None. Rows of probability 0 are dropped. A row that occurs several times
        with the same probability has several possible labels, and its occurrences are merged.
    labels : array-like, default=None
        Names of the columns of a matrix ``y``; 0, 1, 2, … if None.
    loss : {"auto", "squared_error", "cross_entropy", "zero_one"}, default="auto"
        Prediction loss (L in the paper). "auto" is squared error for numeric labels and
        cross-entropy, in nats, for all others.
    costs : array-like of shape (n_features,), default=None
        Cost of revealing each feature. If None, every feature costs 1 and ‖h‖ is a count.
    max_memory : int, default=None
        Memory limit of the masked states in bytes; a larger problem raises
        ``ProblemTooLargeError``. If None, the smaller of 4 GiB and half of the physical memory.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        The distinct support rows.
    p : ndarray of shape (n_rows,)
        Their probabilities, all positive.
    labels : ndarray
        The distinct labels.
    label_distribution : sparse array of shape (n_rows, n_labels)
        p(y | x).
    costs : ndarray of shape (n_features,)
        Cost of revealing each feature.
    feature_names : list of str or None
        Column names if X was a data frame.

    Examples
    --------
    >>> from suwr.exact import FiniteProblem
    >>> problem = FiniteProblem([[0, "a"], [0, "b"], [1, "a"], [1, "b"]], [0, 0, 0, 1])
    >>> problem.n_states, problem.loss
    (9, 'squared_error')
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        p: ArrayLike | None = None,
        *,
        labels: Any = None,
        loss: str = "auto",
        costs: ArrayLike | None = None,
        max_memory: int | None = None,
    ) -> None:
        columns, self.feature_names = split_columns(X)
        if not columns or not len(columns[0]):
            raise _error("X", "have at least one row and one column", "an empty table")
        n_rows = len(columns[0])
        if max_memory is not None:
            check_integer(max_memory, "max_memory", _OWNER, 1)
        self.max_memory = memory_limit(max_memory)
        probabilities = _read_probabilities(p, n_rows)
        names, table = read_labels(y, n_rows, labels)
        self.loss = choose_loss(loss, names)
        self.costs = _read_costs(costs, len(columns))

        kept = np.flatnonzero(probabilities > 0)
        columns = [column[kept] for column in columns]
        probabilities, table = probabilities[kept], table[kept]
        self.alphabets = tuple(Alphabet.of(column) for column in columns)
        codes = self._encode(columns)
        first, group = distinct_rows(codes)
        if len(first) < len(codes):
            _check_repeats(probabilities, first, group)
            probabilities, table = _merge(probabilities, table, group, len(first))
        used = np.asarray((table > 0).sum(axis=0)).reshape(-1) > 0
        self.labels = names[used]
        self.label_distribution = sparse.csr_array(table[:, used])
        self.p: NDArray[np.float64] = probabilities
        self.codes: NDArray[np.int64] = codes[first]
        self.X = stack([column[first] for column in columns])
        self._frame = self.X if self.feature_names is None else take_rows(X, kept[first])
        self._row_of = {row.tobytes(): i for i, row in enumerate(self.codes)}

    def _encode(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        pairs = zip(self.alphabets, columns, strict=True)
        return np.column_stack([alphabet.encode(column) for alphabet, column in pairs])

    @property
    def n_rows(self) -> int:
        """Number of rows with positive probability."""
        return len(self.p)

    @property
    def n_features(self) -> int:
        """Number of features (d in the paper)."""
        return self.codes.shape[1]

    @property
    def is_classification(self) -> bool:
        """Whether predictions are distributions over ``labels``."""
        return self.loss != "squared_error"

    @property
    def support(self) -> Support:
        """What the masked states are computed from."""
        return Support(
            self.codes,
            [len(alphabet) for alphabet in self.alphabets],
            self.p,
            self.labels,
            self.label_distribution,
            self.loss,
            self.costs,
        )

    @cached_property
    def states(self) -> MaskedStates:
        """The masked states x ⊙ h, with the probability, prediction f* and loss of each."""
        return build_states(self.support, self.max_memory)

    @property
    def n_states(self) -> int:
        """Number of masked states with positive probability."""
        return self.states.n_positive

    def names(self) -> list[str]:
        """Column names; x1, x2, … as in the paper if X had none."""
        return self.feature_names or [f"x{j + 1}" for j in range(self.n_features)]

    def frame(self) -> Any:
        """The support rows, as a data frame if X was one."""
        return self._frame

    def locate(self, X: Any) -> NDArray[np.int64]:
        """Indices of rows in the support; raises ``ValueError`` for a row outside the support."""
        columns, _ = split_columns(X)
        if len(columns) != self.n_features:
            raise ValueError(
                f"X has {len(columns)} features, but FiniteProblem is expecting "
                f"{self.n_features} features as input."
            )
        codes = self._encode(columns)
        rows = np.array([self._row_of.get(row.tobytes(), -1) for row in codes], dtype=np.int64)
        if (rows < 0).any():
            raise ValueError(
                f"{int((rows < 0).sum())} row(s) of X have probability 0 in this problem; "
                f"the first is row {int(np.flatnonzero(rows < 0)[0])}."
            )
        return rows

    def __repr__(self) -> str:
        return (
            f"FiniteProblem(n_rows={self.n_rows}, n_features={self.n_features}, "
            f"n_labels={len(self.labels)}, loss={self.loss!r})"
        )


def _read_probabilities(p: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    if p is None:
        return np.full(n_rows, 1 / n_rows)
    try:
        values = np.asarray(p, dtype=float)
    except (TypeError, ValueError):
        raise _error("p", "be an array of numbers", repr(p)) from None
    if values.shape != (n_rows,):
        raise _error("p", f"have shape ({n_rows},)", f"shape {values.shape}")
    if not np.isfinite(values).all():
        n_invalid = int((~np.isfinite(values)).sum())
        raise _error("p", "be finite", f"{n_invalid} NaN or infinite value(s)")
    if (values < 0).any():
        n_negative = int((values < 0).sum())
        raise _error(
            "p", "be non-negative", f"{n_negative} negative value(s) down to {values.min():.6g}"
        )
    total = float(values.sum())
    if abs(total - 1) > 1e-8:
        raise _error("p", "sum to 1", f"a sum of {total:.10g}")
    return values / total


def _read_costs(costs: ArrayLike | None, n_features: int) -> NDArray[np.float64]:
    values = np.ones(n_features) if costs is None else np.asarray(costs, dtype=float)
    if values.shape != (n_features,) or not np.isfinite(values).all() or (values < 0).any():
        raise parameter_error("costs", _OWNER, f"{n_features} finite, non-negative numbers", costs)
    return values


def _check_repeats(
    p: NDArray[np.float64], first: NDArray[np.int64], group: NDArray[np.int64]
) -> None:
    differs = ~np.isclose(p, p[first][group], rtol=1e-12, atol=0)
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        raise _error(
            "p",
            "have one probability for each distinct row of X",
            f"{int(differs.sum())} repeated row(s) with a different probability (row {row} has "
            f"{p[row]:.6g}, its first occurrence {p[first[group[row]]]:.6g})",
        )


def _merge(
    p: NDArray[np.float64], table: Any, group: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.float64], Any]:
    merged = group_sum(group, p, n_groups)
    weights = sparse.csr_array(
        (p / merged[group], (group, np.arange(len(p)))), shape=(n_groups, len(p))
    )
    return merged, sparse.csr_array(weights @ table)


def cube(n_features: int, n_values: int = 2) -> NDArray[np.int64]:
    """All combinations of values 0, …, n_values - 1.

    Parameters
    ----------
    n_features : int
    n_values : int, default=2

    Examples
    --------
    >>> from suwr.exact import cube
    >>> cube(2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.array(list(product(range(n_values), repeat=n_features)), dtype=np.int64)


def toy_problem(n_features: int = 10) -> FiniteProblem:
    """Experiment 1 of the paper: y = (Σ x[2i-1] x[2i])² on uniform bits, squared error.

    Parameters
    ----------
    n_features : int, default=10
        Number of bits; must be even.

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> solve(toy_problem(), 0.3).n_selected
    7.025390625
    """
    X = cube(n_features)
    pairs = X[:, 0 : n_features - 1 : 2] * X[:, 1::2]
    return FiniteProblem(X, pairs.sum(axis=1) ** 2)


FIVE_BLOCKS = ("000", "111", "01*", "*01", "1*0")


def five_blocks() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Counterexample to the conjecture of the paper: a problem and its leak-free masks.

    {0,1}³ is partitioned into five subcubes. Each row reveals the coordinates that its subcube
    fixes, and its label is the subcube. Every feature is hidden in some subcube, so that any first
    step reveals a feature that some row should hide.

    Examples
    --------
    >>> from suwr.exact import five_blocks
    >>> problem, masks = five_blocks()
    >>> float(masks.sum(axis=1).mean())
    2.25
    """
    X = cube(3)
    block_of = [
        next(b for b in FIVE_BLOCKS if all(c in ("*", str(v)) for c, v in zip(b, x, strict=True)))
        for x in X
    ]
    masks = np.array([[c != "*" for c in block] for block in block_of])
    return FiniteProblem(X, block_of, loss="zero_one"), masks


def one_hot_rows() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Example without full support (Appendix D of the paper): each row reveals its only 1.

    Examples
    --------
    >>> from suwr.exact import leakage, one_hot_rows
    >>> leakage(*one_hot_rows()).condition.leaks
    False
    """
    X = np.eye(3, dtype=np.int64)
    return FiniteProblem(X, [2, 1, 0]), X.astype(bool)


def leaky_pair() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Table 1 of the paper: y = x[1] + x[2], with masks that determine y and the hidden values.

    Examples
    --------
    >>> from suwr.exact import leakage, leaky_pair
    >>> leakage(*leaky_pair()).feature.bits
    1.25
    """
    X = np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    masks = np.array([[True, False], [False, True], [False, True], [False, False]])
    return FiniteProblem(X, X.sum(axis=1)), masks
