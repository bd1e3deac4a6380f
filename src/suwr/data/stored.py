"""What estimators receive: validated tables in memory, or tables stored in a memory-mapped file.

Columns that are probably not meant as they are read are noted: identifiers, dates, free text.
"""

from __future__ import annotations

import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from suwr._utils.text import counted, printable
from suwr._utils.validation import warn_caller
from suwr.data.encode import ColumnCode, TableEncoder, category_code, number_code
from suwr.data.frame import (
    Table,
    column_names,
    is_frame,
    object_column,
    raw_columns,
    read_table,
    select_columns,
    unmasked,
)
from suwr.data.parse import ABSENT, describe_cell, is_missing, parse_cell
from suwr.exceptions import ColumnWarning, TableError

# Columns that a warning names.
MAX_SHOWN = 5


class StoredTable(ABC):
    """A table on disk that ``fit`` accepts in place of a data frame, with the same result.

    At any time, memory holds a single column or a batch of rows.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    n_rows : int
        Number of rows.
    scratch : path, optional
        Directory for the encoded rows, which take 4 bytes per encoded value; by default the
        system's directory for temporary files.
    """

    def __init__(
        self, names: list[str], n_rows: int, scratch: str | os.PathLike[str] | None = None
    ) -> None:
        if scratch is not None and not os.path.isdir(scratch):
            raise FileNotFoundError(
                "The 'scratch' parameter must be an existing directory. "
                f"Got {str(scratch)!r} instead."
            )
        self.names = names
        self.n_rows = n_rows
        self.scratch = scratch

    def __len__(self) -> int:
        return self.n_rows

    @abstractmethod
    def header(self) -> Any:
        """Return the columns as a data frame without rows."""

    @abstractmethod
    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """Iterate over a column in pieces, in the representation of `suwr.data.frame.Table`."""

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """Iterate over the rows in order, a batch at a time, with all columns."""

    def fit_encoder(self, *, joint: bool = False, n_bins: int = 0) -> TableEncoder:
        """Fit an encoder one column at a time; equal to `TableEncoder.fit` on the whole table."""
        if joint:
            raise ValueError(
                "The 'groups' parameter must not be Patches for data that is read in batches: "
                "pixels share one scale, which requires all columns at once."
            )
        return TableEncoder(self.names, [self._fit_column(name, n_bins) for name in self.names])

    def _fit_column(self, name: str, n_bins: int) -> ColumnCode:
        numbers, counts, filled = np.full(self.n_rows, np.nan), Counter[Any](), 0
        for piece in self.column(name):
            if piece.dtype.kind == "f":
                numbers[filled : filled + len(piece)] = piece
            else:
                counts.update(v for v in piece if v is not None)
            filled += len(piece)
        if np.isinf(numbers).any():
            raise TableError(
                f"Input X contains infinity in column {name!r}. Use NaN for missing values."
            )
        # A piece of a text column with only missing values is read as numbers that are all NaN.
        if not counts:
            return number_code(numbers, n_bins)
        if not np.isnan(numbers).all():
            raise TableError(
                f"Column {name!r} mixes numbers and text. Convert it to a single type."
            )
        if len({type(value) for value in counts} & {bool, str}) == 2:
            raise TableError(
                f"Column {name!r} mixes booleans and text. Convert it to a single type."
            )
        return category_code(counts, counts.total() < self.n_rows)

    def encode(
        self, encoder: TableEncoder, parts: Sequence[NDArray[np.intp]]
    ) -> list[NDArray[np.float32]]:
        """Encode subsets of the rows into memory-mapped arrays.

        Parameters
        ----------
        encoder : TableEncoder
        parts : sequence of ndarray of int
            Row numbers, unique within a part.

        Returns
        -------
        list of ndarray of shape (len(part), n_values)
            One array per part, with the rows in the order of the part.
        """
        width = len(encoder.column_of)
        arrays = [mapped_array((len(rows), width), self.scratch) for rows in parts]
        positions = [_inverse(rows, self.n_rows) for rows in parts]
        start = 0
        for batch in self.batches():
            encoded = encoder.encode(encoder.parse(batch.columns))
            for array, position in zip(arrays, positions, strict=True):
                target = position[start : start + batch.n_rows]
                chosen = target >= 0
                array[target[chosen]] = encoded[chosen]
            start += batch.n_rows
        return arrays


def mapped_array(
    shape: tuple[int, int], folder: str | os.PathLike[str] | None = None
) -> NDArray[np.float32]:
    """Allocate a float32 array of zeros in an unnamed temporary file.

    The file disappears with the process, however it ends. Disk space is allocated immediately, so
    that a full disk raises an error here instead of a bus error later.
    """
    size = 4 * shape[0] * shape[1]
    with tempfile.TemporaryFile(dir=folder) as file:
        if size == 0:
            return np.zeros(shape, dtype=np.float32)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                where = os.fspath(folder or tempfile.gettempdir())
                what = f"{error.strerror}: training needs {size / 1e9:.1f} GB here"
                raise OSError(error.errno, what, where) from error
        # The mapping stays valid after the file object is closed.
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def _inverse(rows: NDArray[np.intp], n: int) -> NDArray[np.int64]:
    """Return the position of each of ``n`` rows within ``rows``; -1 if absent."""
    position = np.full(n, -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    return position


def name_columns(estimator: Any) -> list[str]:
    """Return ``feature_names_in_`` as strings, or x0, x1, … for data without names."""
    if hasattr(estimator, "feature_names_in_"):
        return [str(n) for n in estimator.feature_names_in_]
    return [f"x{i}" for i in range(estimator.n_features_in_)]


def source_columns(estimator: Any) -> list[str] | None:
    """Return the columns that a fitted estimator needs of a file; None for all, without names.

    These are columns of dates instead of their parts, which ``estimator.dates_`` computes.
    """
    if not hasattr(estimator, "feature_names_in_"):
        return None
    names, dates = name_columns(estimator), estimator.dates_
    return names if dates is None else dates.sources(names)


def read_fit_table(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
) -> tuple[Table | StoredTable, Any, NDArray[np.float64]]:
    """Read the arguments of ``fit``; sets ``n_features_in_`` and ``feature_names_in_``.

    Returns
    -------
    table : Table or StoredTable
    y : object
        The target, not validated except for its length.
    weight : ndarray of shape (n_rows,)
        Sample weights; ones by default.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    table: Table | StoredTable
    if isinstance(X, StoredTable):
        validate_data(estimator, X.header(), reset=True, skip_check_array=True)
        check_size(len(X), len(X.names), min_rows=2)
        table = X
    else:
        table = read_table(_validate(estimator, X, reset=True, min_rows=2))
        _check_finite(table, name_columns(estimator))
        if is_frame(X):
            warn_columns(X)
    check_consistent_length(X, y)
    return table, y, read_weight(sample_weight, table.n_rows)


def read_weight(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    """Read the weights of rows; ones by default."""
    if sample_weight is None:
        return np.ones(n_rows)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    weight: NDArray[np.float64] = check_array(
        sample_weight, dtype=np.float64, ensure_2d=False, copy=True, input_name="sample_weight"
    )
    if weight.shape != (n_rows,):
        raise ValueError(
            f"'sample_weight' must have one weight for each of the {n_rows} rows. "
            f"Got shape {weight.shape} instead."
        )
    if (weight < 0).any():
        raise ValueError("'sample_weight' must not be negative.")
    if not (weight > 0).any():
        raise ValueError("'sample_weight' must be positive for at least one row. Got only zeros.")
    return weight


def read_predict_table(estimator: Any, X: Any, rows: Sequence[Any] | None = None) -> Table:
    """Read the ``X`` of a fitted estimator; columns of data frames may be in any order.

    Data frames may have further columns, which are ignored with a warning, and lack columns that
    the estimator is not expected to read: a row for which one is asked is an error.

    Every cell is parsed by the type that its column had in ``fit``. Cells that cannot be parsed
    are marked in the table and raise an error only when they are revealed.

    Parameters
    ----------
    estimator : estimator
        With an ``encoder_``.
    X : array-like or data frame of shape (n, d)
    rows : sequence, optional
        Labels of the rows, for errors; by default the index of a pandas frame, or positions.
    """
    absent: set[str] = set()
    if is_frame(X) and hasattr(estimator, "feature_names_in_"):
        expected, given = list(estimator.feature_names_in_), column_names(X) or []
        lacking = set(expected) - set(given)
        if given != expected and lacking <= estimator.unused_columns_:
            extra = [name for name in given if name not in set(expected)]
            if extra:
                shown = ", ".join(map(repr, extra[:MAX_SHOWN]))
                more = ", …" if len(extra) > MAX_SHOWN else ""
                warn_caller(
                    f"{counted(len(extra), 'column')} that the model was not fitted on will be "
                    f"ignored: {shown}{more}.",
                    UserWarning,
                )
            X, absent = select_columns(X, [n for n in expected if n not in lacking]), lacking
    if rows is None and hasattr(X, "iloc"):
        rows = X.index
    if absent:
        check_size(len(X), len(expected), 1)
        present = dict(zip(column_names(X) or (), raw_columns(X), strict=True))
        nothing = object_column([ABSENT] * len(X))
        columns = [present.get(name, nothing) for name in expected]
    else:
        columns = raw_columns(_validate(estimator, X, reset=False, min_rows=1))
    table: Table = estimator.encoder_.parse(columns, rows)
    return table


def _as_objects(X: Any) -> NDArray[Any]:
    """Return nested sequences as an array of objects; some cells may be sequences too."""
    rows = X if isinstance(X, list | tuple) else ()
    widths = {len(row) if isinstance(row, list | tuple) else 0 for row in rows}
    cells = [cell for row in rows for cell in row] if len(widths) == 1 and min(widths) else []
    if all(type(cell) in (list, tuple) for cell in cells):
        return np.array(X, dtype=object)
    return object_column(cells).reshape(len(rows), widths.pop())


def _validate(estimator: Any, X: Any, *, reset: bool, min_rows: int) -> Any:
    """Return a data frame unchanged and anything else as a two-dimensional array.

    Checks the shape and the column names, but no cell.
    """
    if is_frame(X):
        names = column_names(X) or []
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        check_size(len(X), len(names), min_rows)
        return X
    X = unmasked(X)
    if issparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. Use "
            "OneHotEncoder(sparse_output=False) or sparse_threshold=0 in a ColumnTransformer, or "
            "X.toarray(). Categories need no encoding: a column of texts is one feature."
        )
    if not hasattr(X, "dtype") and not hasattr(X, "__array__"):
        # Without a common type, which would depend on all cells.
        X = _as_objects(X)
    # The message of scikit-learn contains the values.
    if getattr(X, "ndim", 2) < 2:
        raise TableError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it "
            "contains a single sample."
        )
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )


def as_rows(X: Any) -> Any:
    """Return a data frame unchanged, and anything else as a two-dimensional array.

    Raises
    ------
    TableError
        If ``X`` is not two-dimensional, or a data frame has duplicate column names.
    """
    if is_frame(X):
        column_names(X)
        return X
    rows = unmasked(X if hasattr(X, "dtype") else np.asarray(X))
    if rows.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {rows.ndim}D array instead. Flatten images to one row each."
        )
    return check_array(
        rows, dtype=None, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0
    )


def check_size(n_rows: int, n_columns: int, min_rows: int) -> None:
    """Raise a `TableError` if a table has no columns or too few rows."""
    if n_columns < 1:
        raise TableError(
            f"Found table with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required."
        )
    if n_rows < min_rows:
        raise TableError(
            f"Found table with {n_rows} sample(s) (shape=({n_rows}, {n_columns})) while a minimum "
            f"of {min_rows} is required."
        )


def _check_finite(table: Table, names: list[str]) -> None:
    for name, column in zip(names, table.columns, strict=True):
        if column.dtype.kind == "f" and np.isinf(column).any():
            row = int(np.isinf(column).argmax())
            raise TableError(
                f"Input X contains infinity in column {name!r}, row {row}. Use NaN for missing "
                "values."
            )


# Fewer rows do not suffice to recognise an identifier.
MIN_ROWS = 20
# Share of distinct values from which a text column is an identifier.
DISTINCT = 0.95
# Share of the values of a text column that must look like dates or numbers.
ALIKE = 0.9
# Share of the rows of a text column with a value of their own from which it is reported.
SINGLE = 0.5
# Bad cells of a column that are quoted.
MAX_QUOTED = 3
_NAME = re.compile(r"(?:^|[\W_])(?:id|ids|uid|uuid|guid|index|key)$|[a-z]I[Dd]$|^Unnamed: \d+$")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?: .*)?"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def warn_columns(X: Any) -> None:
    """Warn about columns of a data frame that are probably not meant as they are read."""
    notes = column_notes(X, identifier_columns(X))
    if notes:
        warn_caller(" ".join(notes), ColumnWarning)


def identifier_columns(X: Any) -> list[str]:
    """Return the columns of a data frame that probably number or name the rows.

    Text of which almost all values are distinct, integers that count the rows, and distinct
    integers in a column with a name such as 'patient_id'.
    """
    named = zip(column_names(X) or (), raw_columns(X), strict=True)
    return [str(name) for name, column in named if _is_identifier(str(name), column)]


def column_notes(X: Any, identifiers: Collection[str]) -> list[str]:
    """Return sentences about identifiers, and about dates, times and numbers read as text."""
    notes = []
    for name, column in zip(column_names(X) or (), raw_columns(X), strict=True):
        shown = repr(printable(name))
        if name in identifiers:
            notes.append(
                f"Column {shown} looks like an identifier, which cannot help on new rows: leave it "
                "out ('suwr fit --drop-identifiers')."
            )
        elif note := _text_note(column):
            notes.append(f"Column {shown} {note.replace('NAME', shown)}")
    return notes


def _texts(column: NDArray[Any]) -> dict[int, str]:
    """Return the values of a column of texts by row; none if it is of another type."""
    if column.dtype != object:
        return {}
    present = {row: cell for row, cell in enumerate(column) if not is_missing(cell)}
    return present if all(isinstance(cell, str) for cell in present.values()) else {}


def _is_identifier(name: str, column: NDArray[Any]) -> bool:
    if len(column) < MIN_ROWS:
        return False
    if column.dtype.kind in "iu":
        values = np.unique(column)
        counts = int(values[-1]) - int(values[0]) == len(column) - 1
        return len(values) == len(column) and (counts or bool(_NAME.search(name)))
    texts = list(_texts(column).values())
    distinct = len(set(texts)) >= DISTINCT * len(texts)
    return len(texts) >= MIN_ROWS and distinct and not _alike(texts, _DATE)


def _alike(texts: Collection[str], pattern: re.Pattern[str]) -> bool:
    """Whether most of the texts match."""
    return sum(bool(pattern.fullmatch(text.strip())) for text in texts) >= ALIKE * len(texts)


def _text_note(column: NDArray[Any]) -> str | None:
    present = _texts(column)
    texts = list(present.values())
    if not texts:
        return None
    first = describe_cell(texts[0])
    if _alike(texts, _DATE):
        return (
            f"contains dates such as {first}, which are used as text: use their year, month, day "
            "and weekday with suwr.DateParts ('suwr fit' has --dates NAME)."
        )
    if _alike(texts, _TIME):
        return (
            f"contains times such as {first}, which are used as text: replace it by a number, for "
            "example the hour."
        )
    bad = {row: text for row, text in present.items() if not _is_number(text)}
    if 0 < len(bad) <= (1 - ALIKE) * len(texts):
        rows: dict[str, int] = {}
        for row, text in bad.items():
            rows.setdefault(text, row)
        cells = [f"row {row} is {describe_cell(text)}" for text, row in rows.items()]
        quoted, patterns = ", ".join(cells[:MAX_QUOTED]), dict.fromkeys(map(_pattern, rows))
        return (
            f"is used as text, since {len(bad)} of its {len(texts)} values are not numbers: "
            f"{quoted}. If they mean 'missing', replace them by NaN ('suwr fit' has "
            f"--missing-values {','.join(patterns)!r})."
        )
    if not bad and _alike(texts, _DECIMAL_COMMA):
        return (
            f"contains texts such as {first}: if the comma is a decimal separator, read the file "
            "with decimal=',' ('suwr fit' has --decimal ',')."
        )
    single = sum(number == 1 for number in Counter(texts).values())
    if len(texts) >= MIN_ROWS and single >= SINGLE * len(texts):
        return (
            f"is text, and {single} of its {len(texts)} values occur once, which cannot help on "
            "new rows: use suwr.TextUnits, replace it by categories, or leave it out ('suwr fit' "
            "has --drop)."
        )
    return None


def _is_number(text: str) -> bool:
    """Whether a text is a number, with a decimal point or a decimal comma."""
    comma = _DECIMAL_COMMA.fullmatch(text.strip()) is not None
    return comma or isinstance(parse_cell(text, "number"), float)


def _pattern(text: str) -> str:
    """The text as --missing-values accepts it: a limit of detection stands for all."""
    return f"{text[0]}*" if text[0] in "<>" else text.strip()
