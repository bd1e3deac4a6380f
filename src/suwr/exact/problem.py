"""Problems with finitely many rows and a known distribution p(x, y), and small ones as examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from suwr._utils.validation import check_choice, check_integer, parameter_error, require
from suwr.exact.states import MaskedStates, build_states, group_sum, memory_limit

LOSSES = ("auto", "squared_error", "cross_entropy", "zero_one")

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
        distinct, inverse = _distinct(column)
        table = np.array([codes.get(_key(value), -1) for value in distinct], dtype=np.int64)
        return table[inverse]

    @classmethod
    def of(cls, column: NDArray[Any]) -> "Alphabet":
        """Collect the distinct values of ``column``."""
        distinct, _ = _distinct(column)
        return cls(tuple(_to_python(value) for value in distinct))


def split_columns(X: Any) -> tuple[list[NDArray[Any]], list[str] | None]:
    """Columns of a table, and their names if it is a data frame.

    Every column keeps its own type.
    """
    if hasattr(X, "columns"):
        names = [str(name) for name in X.columns]
        return [np.asarray(X[name]) for name in X.columns], names
    # Without dtype=object, a list that mixes numbers and strings would become all strings.
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(
            "The 'X' parameter must be two-dimensional, one row for each support point. "
            f"Got an array with {array.ndim} dimension(s) instead."
        )
    return [narrow(array[:, j]) for j in range(array.shape[1])], None


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
    matrix = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        matrix[:, j] = column.tolist()
    return matrix


def distinct_rows(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of the first occurrence of each distinct row, and the group of every row.

    Groups are numbered in order of first occurrence.
    """
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[inverse.reshape(-1)]


def read_labels(y: Any, n_rows: int, labels: Any, owner: str) -> tuple[NDArray[Any], Any]:
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
    owner : str
        Name of the caller, for error messages.
    """
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if not isinstance(y, np.ndarray):
        y = list(y)
        if y and all(isinstance(row, Mapping) for row in y):
            return _from_mappings(y, n_rows, owner)
        shape = np.shape(np.array(y, dtype=object))
        y = np.array(y, dtype=object if len(shape) == 1 else None)
    if y.ndim == 2 and y.shape[1] == 1 and labels is None:
        y = y[:, 0]
    if y.ndim == 2:
        return _from_matrix(y, n_rows, labels, owner)
    if y.ndim != 1:
        raise ValueError(
            f"The 'y' parameter of {owner} must be one- or two-dimensional. "
            f"Got {y.ndim} dimensions instead."
        )
    _check_length(len(y), n_rows, owner)
    y = narrow(y)
    _check_present(sum(_is_missing(value) for value in y), owner)
    alphabet = Alphabet.of(y)
    table = sparse.csr_array(
        (np.ones(n_rows), (np.arange(n_rows), alphabet.encode(y))), shape=(n_rows, len(alphabet))
    )
    return narrow(as_objects(alphabet.values)), table


def choose_loss(loss: Any, labels: NDArray[Any], owner: str) -> str:
    """Resolve ``"auto"``: squared error for numbers, cross-entropy for all other labels."""
    check_choice(loss, "loss", owner, LOSSES)
    numeric = labels.dtype.kind in "iuf"
    if loss == "auto":
        return "squared_error" if numeric else "cross_entropy"
    if loss == "squared_error" and labels.dtype.kind not in "biuf":
        raise parameter_error(
            "loss", owner, "'cross_entropy' or 'zero_one' if the labels are not numbers", loss
        )
    return str(loss)


def as_objects(values: Any) -> NDArray[Any]:
    """One-dimensional array of objects, even if the values are sequences."""
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _from_mappings(
    rows: list[Mapping[Any, float]], n_rows: int, owner: str
) -> tuple[NDArray[Any], Any]:
    _check_length(len(rows), n_rows, owner)
    _check_present(sum(not row for row in rows), owner)
    names = narrow(as_objects([label for row in rows for label in row]))
    alphabet = Alphabet.of(names)
    row_index = np.repeat(np.arange(n_rows), [len(row) for row in rows])
    weights = np.array([weight for row in rows for weight in row.values()], dtype=float)
    table = sparse.csr_array(
        (weights, (row_index, alphabet.encode(names))), shape=(n_rows, len(alphabet))
    )
    return narrow(as_objects(alphabet.values)), _check_distributions(table, owner)


def _from_matrix(y: NDArray[Any], n_rows: int, labels: Any, owner: str) -> tuple[NDArray[Any], Any]:
    _check_length(len(y), n_rows, owner)
    names = np.arange(y.shape[1]) if labels is None else narrow(as_objects(labels))
    n_distinct = len(Alphabet.of(names))
    if len(names) != y.shape[1] or n_distinct != y.shape[1]:
        raise ValueError(
            f"The 'labels' parameter of {owner} must be {y.shape[1]} distinct names, one for each "
            f"column of 'y'. Got {len(names)} names, {n_distinct} of them distinct, instead."
        )
    return names, _check_distributions(sparse.csr_array(np.asarray(y, dtype=float)), owner)


def _check_distributions(table: Any, owner: str) -> Any:
    invalid = int((~np.isfinite(table.data) | (table.data < 0)).sum())
    if invalid:
        raise ValueError(
            f"The 'y' parameter of {owner} must contain non-negative probabilities. "
            f"Got {invalid} negative or non-finite value(s) instead."
        )
    totals = np.asarray(table.sum(axis=1)).reshape(-1)
    off = ~np.isclose(totals, 1.0, rtol=0, atol=1e-8)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"The 'y' parameter of {owner} must contain label distributions that sum to 1. "
            f"Got {int(off.sum())} row(s) that do not; row {row} sums to {totals[row]:.6g}."
        )
    table = sparse.csr_array(table.multiply((1 / totals)[:, None]))
    table.eliminate_zeros()
    return table


def _check_length(n_labels: int, n_rows: int, owner: str) -> None:
    if n_labels != n_rows:
        raise ValueError(
            f"The 'y' parameter of {owner} must be a label for every one of the {n_rows} rows of "
            f"X. Got {n_labels} label(s) instead."
        )


def _check_present(n_missing: int, owner: str) -> None:
    if n_missing:
        raise ValueError(
            f"The 'y' parameter of {owner} must be a label for every row of X. "
            f"Got {n_missing} row(s) without a label instead."
        )


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value) or str(value) in ("<NA>", "NaT")


def _distinct(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    if column.dtype.kind in "biufUS":
        distinct, inverse = np.unique(column, return_inverse=True)
        return list(distinct), inverse.reshape(-1)
    seen: dict[Any, Any] = {}
    keys = [_key(value) for value in column]
    for key, value in zip(keys, column, strict=True):
        seen.setdefault(key, value)
    order = sorted(seen, key=lambda key: (isinstance(key, str), str(type(key)), _sort_key(key)))
    place = {key: i for i, key in enumerate(order)}
    return [seen[key] for key in order], np.array([place[key] for key in keys], dtype=np.int64)


def _sort_key(key: Any) -> Any:
    # Values are compared within one type only; types without an order are sorted by their text.
    return key if isinstance(key, int | float | str | bytes) else str(key)


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(value: Any) -> Any:
    value = _to_python(value)
    if value is None or (isinstance(value, float) and value != value):
        return _MISSING
    if str(value) in ("<NA>", "NaT"):
        return _MISSING
    return value


_OWNER = "FiniteProblem"


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
            raise ValueError(
                f"The 'X' parameter of {_OWNER} must have at least one row and one column. "
                "Got an empty table instead."
            )
        n_rows = len(columns[0])
        if max_memory is not None:
            check_integer(max_memory, "max_memory", _OWNER, 1)
        self.max_memory = memory_limit(max_memory)
        probabilities = _read_probabilities(p, n_rows)
        names, table = read_labels(y, n_rows, labels, _OWNER)
        self.loss = choose_loss(loss, names, _OWNER)
        self.costs = _read_costs(costs, len(columns))

        kept = np.flatnonzero(probabilities > 0)
        columns = [column[kept] for column in columns]
        probabilities, table = probabilities[kept], table[kept]
        self.alphabets = tuple(Alphabet.of(column) for column in columns)
        codes = np.column_stack(
            [a.encode(column) for a, column in zip(self.alphabets, columns, strict=True)]
        )
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
        self._row_of = {row.tobytes(): i for i, row in enumerate(self.codes)}

    @classmethod
    def from_data(cls, X: Any, y: Any, **kwargs: Any) -> "FiniteProblem":
        """Build the empirical distribution of a data set.

        Takes the parameters of the class except ``p``, which is counted.

        Examples
        --------
        >>> from suwr.exact import FiniteProblem
        >>> FiniteProblem.from_data([[0], [0], [1], [0]], ["a", "b", "a", "a"]).p
        array([0.75, 0.25])
        """
        if "p" in kwargs:
            raise TypeError("FiniteProblem.from_data() estimates p from the data; it takes no 'p'.")
        return cls(X, y, **kwargs)

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

    @cached_property
    def has_full_support(self) -> bool:
        """Whether every combination of values has positive probability."""
        n_combinations = 1
        for alphabet in self.alphabets:
            n_combinations *= len(alphabet)
        return self.n_rows == n_combinations

    @cached_property
    def states(self) -> MaskedStates:
        """The masked states x ⊙ h, with the probability, prediction f* and loss of each."""
        return build_states(
            codes=self.codes,
            radices=[len(alphabet) for alphabet in self.alphabets],
            p=self.p,
            labels=self.labels,
            label_distribution=self.label_distribution,
            loss=self.loss,
            costs=self.costs,
            max_memory=self.max_memory,
        )

    @property
    def n_states(self) -> int:
        """Number of masked states with positive probability."""
        return self.states.n_positive

    def names(self) -> list[str]:
        """Column names; x1, x2, … as in the paper if X had none."""
        return self.feature_names or [f"x{j + 1}" for j in range(self.n_features)]

    def frame(self) -> Any:
        """The support rows, as a pandas data frame if X was a data frame."""
        if self.feature_names is None:
            return self.X
        pandas = require("pandas", "tables", "A problem that was built from a data frame")
        frame = pandas.DataFrame(self.X, columns=self.feature_names)
        return frame.infer_objects() if self.X.dtype == object else frame

    def locate(self, X: Any) -> NDArray[np.int64]:
        """Indices of rows in the support; raises ``ValueError`` for a row outside the support."""
        columns, _ = split_columns(X)
        if len(columns) != self.n_features:
            raise ValueError(
                f"X has {len(columns)} features, but FiniteProblem is expecting "
                f"{self.n_features} features as input."
            )
        codes = np.column_stack(
            [a.encode(column) for a, column in zip(self.alphabets, columns, strict=True)]
        )
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
        raise _p_error("be an array of numbers", repr(p)) from None
    if values.shape != (n_rows,):
        raise _p_error(f"have shape ({n_rows},)", f"shape {values.shape}")
    if not np.isfinite(values).all():
        n_invalid = int((~np.isfinite(values)).sum())
        raise _p_error("be finite", f"{n_invalid} NaN or infinite value(s)")
    if (values < 0).any():
        n_negative = int((values < 0).sum())
        raise _p_error(
            "be non-negative", f"{n_negative} negative value(s) down to {values.min():.6g}"
        )
    total = float(values.sum())
    if abs(total - 1) > 1e-8:
        raise _p_error("sum to 1", f"a sum of {total:.10g}")
    return values / total


def _p_error(must: str, got: str) -> ValueError:
    return ValueError(f"The 'p' parameter of {_OWNER} must {must}. Got {got} instead.")


def _read_costs(costs: ArrayLike | None, n_features: int) -> NDArray[np.float64] | None:
    if costs is None:
        return None
    values = np.asarray(costs, dtype=float)
    if values.shape != (n_features,) or not np.isfinite(values).all() or (values < 0).any():
        raise parameter_error("costs", _OWNER, f"{n_features} finite, non-negative numbers", costs)
    return values


def _check_repeats(
    p: NDArray[np.float64], first: NDArray[np.int64], group: NDArray[np.int64]
) -> None:
    differs = ~np.isclose(p, p[first][group], rtol=1e-12, atol=0)
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        raise _p_error(
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
