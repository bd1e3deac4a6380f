"""Encoding of tables as the numeric inputs of the networks, by constants of each column.

Each cell is parsed and encoded by itself, with the type and constants of its column that are fixed
in ``fit``. Hence the encoding of a cell contains no information about any other cell.

`ColumnSummary` says where a revealed value lies among the training values, and what answers to
expect. Networks never read summaries; model files contain them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.frame import Table
from suwr.data.parse import ColumnType, parse_cell, parse_column
from suwr.exceptions import TableError

# If a value has at least this share of the rows, the scale of the other rows replaces one that is
# so many times smaller or, for a mostly constant column, larger.
FREQUENT_SHARE, MANY_SCALES = 0.25, 4.0
# Interquartile range of the standard normal distribution.
NORMAL_RANGE = 1.349


def robust_scale(values: NDArray[np.float64]) -> float:
    """Interquartile range of a column in units of that of the standard normal distribution.

    The range is robust to outliers, but 0 for a mostly constant column, whose scale is its standard
    deviation. If many rows share a value, such as the zeros of a count, either may be far from the
    scale of the other rows, which then replaces it: a quartile may be next to this value, and
    outliers may dominate the standard deviation.

    Parameters
    ----------
    values : ndarray of shape (n,)
        At least one number, none of them NaN.

    Returns
    -------
    float
        A positive number; 1 if all values are equal, or if they are so far apart that their range
        is not finite.

    Examples
    --------
    >>> round(robust_scale(np.arange(101.0)), 2)
    37.06
    """
    # The range of extreme values may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        scale = _quartile_scale(values)
        mostly_constant = not np.isfinite(scale) or scale <= 0
        if mostly_constant:
            scale = float(np.std(values))
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) > 1 and counts.max() >= FREQUENT_SHARE * len(values):
            frequent = distinct[counts.argmax()]
            others = values[values != frequent]
            spread = _quartile_scale(others)
            if mostly_constant:
                spread = max(spread, float(abs(np.percentile(others, 50) - frequent)))
            small, large = (spread, scale) if mostly_constant else (scale, spread)
            if np.isfinite(spread) and large > MANY_SCALES * small:
                scale = spread
    return scale if np.isfinite(scale) and scale > 0 else 1.0


def _quartile_scale(values: NDArray[np.float64]) -> float:
    low, high = np.percentile(values, [25, 75])
    return float((high - low) / NORMAL_RANGE)


#: Quantiles of a column that are kept, from the smallest to the largest value.
N_QUANTILES = 21
#: A column with at most this many distinct values is discrete, and all of them are kept.
MAX_VALUES = 12
# A value is far outside if it is further from the training values than this share of their range.
FAR = 0.5


@dataclass(frozen=True)
class ColumnSummary:
    """Where the training values of a numeric column lie.

    Attributes
    ----------
    quantiles : tuple of float
        Quantiles 0, 0.05, …, 1.
    values : tuple of float or None
        The distinct values in increasing order, if there are at most 12.
    """

    quantiles: tuple[float, ...]
    values: tuple[float, ...] | None = None

    @classmethod
    def of(cls, present: NDArray[np.float64]) -> ColumnSummary | None:
        """Summarise a column without missing values; None if it has no values.

        Examples
        --------
        >>> summary = ColumnSummary.of(np.array([1.0, 2.0, 2.0]))
        >>> summary.values, summary.quantiles[0], summary.quantiles[-1]
        ((1.0, 2.0), 1.0, 2.0)
        """
        if len(present) == 0:
            return None
        # Values that occur in the column: an average of extreme values may overflow.
        grid = np.linspace(0.0, 1.0, N_QUANTILES)
        quantiles = np.quantile(present, grid, method="inverted_cdf")
        distinct = np.unique(present)
        values = tuple(distinct.tolist()) if len(distinct) <= MAX_VALUES else None
        return cls(tuple(quantiles.tolist()), values)

    @property
    def low(self) -> float:
        """The smallest training value."""
        return self.quantiles[0]

    @property
    def high(self) -> float:
        """The largest training value."""
        return self.quantiles[-1]

    @property
    def usual_range(self) -> tuple[float, float]:
        """The training range, extended by half of its width on both sides."""
        margin = FAR * (self.high - self.low)
        return self.low - margin, self.high + margin

    def is_far(self, value: float) -> bool:
        """Whether a value is outside the `usual_range`."""
        low, high = self.usual_range
        return not low <= value <= high

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ColumnSummary:
        """Restore the fields from a model file; a ``ValueError`` if they are not valid."""
        quantiles = tuple(float(v) for v in stored["quantiles"])
        values = None if stored["values"] is None else tuple(float(v) for v in stored["values"])
        found = [*quantiles, *(values or ())]
        if len(quantiles) != N_QUANTILES or len(values or ()) > MAX_VALUES or values == ():
            raise ValueError("The summary of a column has a wrong number of values.")
        if not all(map(math.isfinite, found)) or list(quantiles) != sorted(quantiles):
            raise ValueError("The quantiles of a column must be finite and must not decrease.")
        if values is not None and list(values) != sorted(set(values)):
            raise ValueError("The values of a column must increase.")
        return cls(quantiles, values)


# Scaled values are clipped here, so that their squares and differences stay finite.
MAX_SCALED = 1e150
# Scaled values are mapped smoothly into (-10, 10), which bounds outliers.
BOUND = 10.0
# Number of most frequent categories with an indicator of their own.
MAX_CATEGORIES = 64
# Largest number of bins of a numeric column.
MAX_BINS = 256
# Without a summary, numbers more than this many scales away from the centre are far outside.
MAX_SCALES = 10.0
# Number of columns up to which model files contain summaries, of about 400 bytes each.
MAX_SUMMARIES = 2_000


@dataclass(frozen=True)
class ColumnCode:
    """The encoding of one column: a scaled number and its positions in bins, or one-hot indicators.

    Attributes
    ----------
    center, scale : float
        Location and scale of a numeric column; unused for a categorical one.
    categories : tuple or None
        One indicator each; None for a numeric column. All indicators of any other value are 0.
    has_missing : bool
        Whether ``fit`` saw missing values; if so, they have an indicator.
    summary : ColumnSummary or None
        Where the training values of a numeric column lie; the encoding does not depend on it.
    knots : tuple of float
        Boundaries of the bins of a numeric column, in scaled units and increasing; see `pieces`.
    """

    center: float = 0.0
    scale: float = 1.0
    categories: tuple[Any, ...] | None = None
    has_missing: bool = False
    summary: ColumnSummary | None = None
    knots: tuple[float, ...] = ()

    @property
    def n_bins(self) -> int:
        """Number of bins of a numeric column."""
        return max(0, len(self.knots) - 1)

    @property
    def has_valid_bins(self) -> bool:
        """Whether the knots increase, within the range of scaled numbers, and are not too many."""
        knots = np.array(self.knots)
        if len(knots) == 1 or self.n_bins > MAX_BINS:
            return False
        return bool(np.all(np.abs(knots) <= MAX_SCALED) and np.all(knots[1:] > knots[:-1]))

    @property
    def width(self) -> int:
        """Number of encoded values."""
        n_values = 1 + self.n_bins if self.categories is None else len(self.categories)
        return n_values + self.has_missing

    @property
    def type(self) -> ColumnType:
        """The type of the column, by which every cell is parsed after ``fit``."""
        if self.categories is None:
            return "number"
        if not self.categories or isinstance(self.categories[0], str):
            return "text"
        return "boolean" if isinstance(self.categories[0], bool) else "numeric category"

    @property
    def whole(self) -> bool:
        """Whether the numbers of the training rows are whole, as far as quantiles show it."""
        quantiles = () if self.summary is None else self.summary.quantiles
        return bool(quantiles) and all(abs(q) < 2**53 and q == int(q) for q in quantiles)

    @property
    def values(self) -> tuple[float, ...] | None:
        """The numbers of the training rows, if there are few."""
        return None if self.summary is None else self.summary.values

    @property
    def integer(self) -> bool:
        """Whether all numbers of the training rows are known and are short whole numbers."""
        return self.values is not None and all(abs(v) < 1e9 and v == int(v) for v in self.values)

    def parse(self, value: Any) -> Any:
        """Parse one cell; see `suwr.data.parse.parse_cell`."""
        return parse_cell(value, self.type, self.categories or ())

    def is_far(self, value: float) -> bool:
        """Whether a number is far outside the training values of the column."""
        if self.summary is not None:
            return self.summary.is_far(value)
        return abs(value - self.center) > MAX_SCALES * self.scale

    def pieces(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the position of scaled numbers in each bin, from 0 (below) to 1 (above).

        A linear function of these is piecewise linear in the number, so that a network can follow
        the steps of a model of trees.

        Examples
        --------
        >>> ColumnCode(knots=(-1.0, 0.0, 2.0)).pieces(np.array([-3.0, -0.5, 1.0]))
        array([[0. , 0. ],
               [0.5, 0. ],
               [1. , 0.5]])
        """
        low, high = np.array(self.knots[:-1]), np.array(self.knots[1:])
        # Bins may be so narrow that the ratio overflows.
        with np.errstate(over="ignore"):
            return np.clip((scaled[:, None] - low) / (high - low), 0.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for model files."""
        return {name: value for name, value in asdict(self).items() if name != "knots" or value}


def number_code(values: NDArray[np.float64], n_bins: int = 0) -> ColumnCode:
    """Fit the encoding of a numeric column: median, robust scale and quantile bins."""
    present = values[~np.isnan(values)]
    missing = len(present) < len(values)
    if len(present) == 0:
        return ColumnCode(has_missing=missing)
    scale = robust_scale(present)
    # The sum of extreme values may overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        middle = float(np.percentile(present, 50))
    if not np.isfinite(middle):
        middle = 0.0
    code = ColumnCode(middle, scale, None, missing, ColumnSummary.of(present))
    return replace(code, knots=_knots(_scaled(present, code), n_bins))


def _scaled(values: NDArray[np.float64], code: ColumnCode) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.clip((values - code.center) / code.scale, -MAX_SCALED, MAX_SCALED)


def _knots(scaled: NDArray[np.float64], n_bins: int) -> tuple[float, ...]:
    """Quantiles of a column, or its distinct values if they are few; none for two of them."""
    if n_bins < 2:
        return ()
    knots = np.unique(scaled)
    if len(knots) > n_bins + 1:
        knots = np.unique(np.quantile(scaled, np.linspace(0, 1, n_bins + 1), method="nearest"))
    return tuple(knots.tolist()) if len(knots) > 2 else ()


def category_code(counts: Counter[Any], has_missing: bool) -> ColumnCode:
    """Fit the encoding of a categorical column from the counts of its values."""
    # Break ties by the string value, so that the order of rows does not matter.
    ranked = sorted(counts, key=lambda v: (-counts[v], str(v)))[:MAX_CATEGORIES]
    kept = tuple(sorted(ranked, key=lambda v: (str(type(v)), v)))
    return ColumnCode(categories=kept, has_missing=has_missing)


def _fit_category(values: NDArray[Any]) -> ColumnCode:
    counts = Counter(v for v in values if v is not None)
    return category_code(counts, counts.total() < len(values))


class TableEncoder:
    """Encodes tables column by column.

    Parameters
    ----------
    names : list of str
        Column names, for error messages.
    codes : list of ColumnCode
        The encoding of each column.
    unrecorded : bool, default=False
        Whether a missing value was only not recorded; it is encoded as NaN, which the networks see
        as hidden (`suwr.nn.inputs.MaskedInputs.reveal`).
    """

    def __init__(self, names: list[str], codes: list[ColumnCode], unrecorded: bool = False) -> None:
        self.names = list(names)
        self.codes = list(codes)
        self.unrecorded = unrecorded

    def as_unrecorded(self) -> TableEncoder:
        """Return the encoder of the same table in which missing values were not recorded."""
        codes = [replace(code, has_missing=False) for code in self.codes]
        for name, code in zip(self.names, codes, strict=True):
            if code.categories == () or (code.categories is None and code.summary is None):
                raise TableError(
                    f"Column {name!r} has no recorded value. Remove it, or set missing='value'."
                )
        return TableEncoder(self.names, codes, unrecorded=True)

    @classmethod
    def fit(
        cls, table: Table, names: list[str], *, joint: bool = False, n_bins: int = 0
    ) -> TableEncoder:
        """Fit the encoding of every column.

        Parameters
        ----------
        table : Table
        names : list of str
        joint : bool, default=False
            Use one location and scale for all columns, as appropriate for the pixels of images.
        n_bins : int, default=0
            Largest number of bins of a numeric column, unless ``joint``; none if less than 2.
        """
        numeric = [c.dtype.kind == "f" for c in table.columns]
        if joint and all(numeric):
            cells = np.concatenate(table.columns)
            present = cells[~np.isnan(cells)]
            with np.errstate(over="ignore", invalid="ignore"):
                middle = float(np.mean(present)) if len(present) else 0.0
                spread = float(np.std(present)) if len(present) else 0.0
            middle = middle if np.isfinite(middle) else 0.0
            spread = spread if np.isfinite(spread) and spread > 0 else 1.0
            code = ColumnCode(middle, spread, None, len(present) < len(cells))
            return cls(names, [code] * len(names))
        codes = [
            number_code(column, n_bins) if is_number else _fit_category(column)
            for column, is_number in zip(table.columns, numeric, strict=True)
        ]
        return cls(names, codes)

    @property
    def column_of(self) -> NDArray[np.intp]:
        """The column that each encoded value belongs to, shape (n_values,)."""
        return np.repeat(np.arange(len(self.codes)), [c.width for c in self.codes])

    @property
    def pieces(self) -> NDArray[np.bool_] | None:
        """Whether each encoded value is a position in a bin; None if there are no bins."""
        if not any(code.n_bins for code in self.codes):
            return None
        # Those of a column follow its number.
        places = [(np.arange(code.width), code.n_bins) for code in self.codes]
        return np.concatenate([(place > 0) & (place <= n_bins) for place, n_bins in places])

    def parse(self, columns: Sequence[NDArray[Any]], rows: Sequence[Any] | None = None) -> Table:
        """Parse raw columns, each cell by the type of its column alone.

        Parameters
        ----------
        columns : sequence of ndarray of shape (n_rows,)
            Of any type; see `suwr.data.frame.raw_columns`.
        rows : sequence, optional
            Labels of the rows, for errors; their positions by default.
        """
        parsed, invalid = [], {}
        for number, (values, name, code) in enumerate(
            zip(columns, self.names, self.codes, strict=True)
        ):
            categories = frozenset(code.categories or ())
            column, bad = parse_column(values, code.type, name, categories, rows)
            parsed.append(column)
            if bad is not None:
                invalid[number] = bad
        return Table(parsed, len(parsed[0]) if parsed else 0, invalid)

    def encode(self, table: Table) -> NDArray[np.float32]:
        """Encode a parsed table.

        Returns
        -------
        ndarray of shape (n_rows, n_values)
            Finite values; NaN at cells that could not be parsed or were not recorded.
        """
        out = np.zeros((table.n_rows, sum(c.width for c in self.codes)), dtype=np.float32)
        start = 0
        for number, (code, column) in enumerate(zip(self.codes, table.columns, strict=True)):
            block = out[:, start : start + code.width]
            if code.categories is None:
                self._encode_number(block, code, column)
            else:
                self._encode_category(block, code, column)
            if number in table.invalid:
                block[[cell is not None for cell in table.invalid[number]]] = np.nan
            if self.unrecorded:
                block[_is_missing(column)] = np.nan
            start += code.width
        return out

    @staticmethod
    def _encode_number(block: NDArray[np.float32], code: ColumnCode, column: NDArray[Any]) -> None:
        scaled = _scaled(column, code)
        bounded = scaled / np.hypot(1.0, scaled / BOUND)
        missing = np.isnan(column)
        block[:, 0] = np.where(missing, 0.0, bounded)
        if code.knots:
            block[:, 1 : 1 + code.n_bins] = np.where(missing[:, None], 0.0, code.pieces(scaled))
        if code.has_missing:
            block[:, -1] = missing

    @staticmethod
    def _encode_category(
        block: NDArray[np.float32], code: ColumnCode, column: NDArray[Any]
    ) -> None:
        assert code.categories is not None
        index = {value: i for i, value in enumerate(code.categories)}
        indices = np.array([index.get(v, -1) for v in column], dtype=np.intp)
        rows = np.flatnonzero(indices >= 0)
        block[rows, indices[rows]] = 1.0
        if code.has_missing:
            block[:, -1] = [v is None for v in column]

    def decode(self, values: NDArray[np.float32], masks: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Return the columns of encoded rows, with missing values at hidden cells.

        Numbers are recovered up to single precision; categories without an indicator are missing.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_values)
            Encoded rows; those of hidden cells are not read.
        masks : ndarray of bool, shape (n_rows, n_columns)
            The revealed cells.
        """
        columns: list[NDArray[Any]] = []
        start = 0
        for number, code in enumerate(self.codes):
            block = values[:, start : start + code.width].astype(np.float64)
            start += code.width
            shown = masks[:, number].copy()
            if code.has_missing:
                shown &= block[:, -1] < 0.5
            if code.categories is None:
                bounded = np.clip(np.where(shown, block[:, 0], 0.0) / BOUND, -1 + 1e-7, 1 - 1e-7)
                number_of = code.center + code.scale * BOUND * bounded / np.sqrt(1 - bounded**2)
                columns.append(np.where(shown, number_of, np.nan))
                continue
            indicators = block[:, : len(code.categories)]
            column = np.full(len(values), None, dtype=object)
            for row in np.flatnonzero(shown & (indicators > 0.5).any(axis=1)):
                column[row] = code.categories[int(indicators[row].argmax())]
            columns.append(column)
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for model files; without summaries if there are many columns."""
        codes = [c.to_dict() for c in self.codes]
        if len(codes) > MAX_SUMMARIES:
            codes = [{**code, "summary": None} for code in codes]
        state = {"names": self.names, "codes": codes}
        return state | {"unrecorded": True} if self.unrecorded else state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TableEncoder:
        """Create an encoder from the output of `to_dict`."""
        codes = [
            ColumnCode(
                float(c["center"]),
                float(c["scale"]),
                None if c["categories"] is None else tuple(c["categories"]),
                bool(c["has_missing"]),
                # Files of suwr 0.2.0 have none.
                None if c.get("summary") is None else ColumnSummary.from_dict(c["summary"]),
                tuple(float(knot) for knot in c.get("knots", ())),
            )
            for c in state["codes"]
        ]
        return cls([str(n) for n in state["names"]], codes, bool(state.get("unrecorded", False)))


def _is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells of a parsed column are missing."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    return np.array([cell is None for cell in column], dtype=bool)
