"""Problems with finitely many rows and a known distribution p(x, y)."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from suwr._utils.validation import check_integer, parameter_error, require
from suwr.exact.encoding import (
    Alphabet,
    choose_loss,
    distinct_rows,
    read_labels,
    split_columns,
    stack,
)
from suwr.exact.layouts import build_states
from suwr.exact.states import MaskedStates, group_sum, memory_limit

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
