"""Tables in files: which files there are, and the readers of CSV, TSV and Parquet files.

pandas takes the first column as an index if the first row has a field more than the header, drops
further fields, and fills missing ones with NaN, all in silence. `DelimitedFile` counts the fields
of every row before pandas parses it.
"""

from __future__ import annotations

import csv
import glob
import io
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import counted
from suwr._utils.validation import require
from suwr.data.encode import TableEncoder
from suwr.data.frame import arrow_to_pandas
from suwr.exceptions import TableError

# Suffixes of tables with the default separator of their columns; Parquet files have none.
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".parquet": None, ".pq": None}
# Characters that are read at least at a time.
_BLOCK = 2**18
# Cells per batch of a text file: texts take more memory than numbers.
_TEXT_CELLS = 2**22
# Bytes of the longest row. Without a limit, a quote that is not closed is read to the end.
_MAX_ROW = 2**28
_LF, _CR, _QUOTE = b'\n\r"'


def find_files(entry: str) -> list[str]:
    """Return the tables of a folder, the files of a pattern, or the file itself, by name.

    Parameters
    ----------
    entry : str
        A file, a folder, or a glob pattern.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    TableError
        A file is not a table, by its suffix.
    """
    path = Path(entry)
    if path.is_dir():
        found = sorted(str(p) for p in path.iterdir() if _is_table(p) and p.is_file())
        message = f"The directory {entry!r} contains no CSV, TSV or Parquet file."
    elif path.exists():
        found, message = [entry], ""
    else:
        found = sorted(p for p in glob.glob(entry, recursive=True) if os.path.isfile(p))
        message = f"No file matches {entry!r}."
    if not found:
        raise FileNotFoundError(message)
    for name in found:
        check_suffix(name)
    return found


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in _SEPARATORS and not path.name.startswith((".", "_"))


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Raise a `TableError` unless the name of a file is that of a table."""
    if Path(path).suffix.lower() not in _SEPARATORS:
        raise TableError(f"{os.fspath(path)!r} must end in .csv, .tsv, .parquet or .pq.")


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a Parquet file, by its suffix."""
    return separator_of(path) is None


def separator_of(path: str | os.PathLike[str]) -> str | None:
    """Return the usual separator of the columns of a file; None for a Parquet file."""
    return _SEPARATORS.get(Path(path).suffix.lower(), ",")


def open_table(
    path: str | os.PathLike[str],
    sep: str | None = None,
    encoding: str | None = None,
    **options: Any,
) -> DelimitedFile | ParquetFile:
    """Open a table.

    Parameters
    ----------
    path : path
    sep, encoding, **options
        As in `DelimitedFile`; a Parquet file has none of these.
    """
    return ParquetFile(path) if is_parquet(path) else DelimitedFile(path, sep, encoding, **options)


def is_separator(text: str) -> bool:
    """Whether a text can separate the columns of a file."""
    return len(text) == 1 and text.isascii() and text not in '"\r\n\0'


def with_points(frame: Any, encoder: TableEncoder, decimal: str) -> Any:
    """Return a frame of texts in which the numbers of a model have decimal points.

    Parameters
    ----------
    frame : pandas.DataFrame
        The columns of the model.
    encoder : TableEncoder
    decimal : {'.', ','}
        The decimal separator of the texts.
    """
    if decimal == "." or frame.shape[1] != len(encoder.codes):
        return frame
    frame = frame.copy()
    for column, code in zip(list(frame.columns), encoder.codes, strict=True):
        if code.type == "number":
            # Each cell by itself, whatever the others contain.
            frame[column] = [
                cell.replace(decimal, ".") if isinstance(cell, str) else cell
                for cell in frame[column]
            ]
    return frame


class TableFile(ABC):
    """A table in a file, whose columns are read as pandas frames.

    Raises
    ------
    TableError
        The file cannot be read, or lacks a column.
    """

    path: Path

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None: ...

    @abstractmethod
    def _frames(self, n_rows: int, columns: list[str], groups: Any) -> Iterator[Any]: ...

    @abstractmethod
    def _frame(self, columns: list[str]) -> Any: ...

    def read_frame(self, columns: list[str] | None = None) -> Any:
        """Return the table as a pandas frame.

        Parameters
        ----------
        columns : list of str, optional
            The columns to read; all by default. No other column is read.
        """
        with self._readable():
            frame = self._frame(self._chosen(columns))
            return frame if columns is None else frame[columns]

    def batches(
        self, n_rows: int, columns: list[str] | None = None, row_groups: Sequence[int] | None = None
    ) -> Iterator[Any]:
        """Iterate over pandas frames of at most ``n_rows`` rows, fewer for wide text files.

        Parameters
        ----------
        n_rows : int
        columns : list of str, optional
            The columns to read; all by default. No other column is read.
        row_groups : sequence of int, optional
            The row groups to read of a Parquet file; all by default.
        """
        with self._readable():
            for frame in self._frames(n_rows, self._chosen(columns), row_groups):
                yield frame if columns is None else frame[columns]

    def _chosen(self, columns: list[str] | None) -> list[str]:
        missing = [name for name in columns or [] if name not in self.names]
        if missing:
            raise TableError(
                f"{str(self.path)!r} lacks {len(missing)} column(s) of the model: "
                + ", ".join(map(repr, missing[:8]))
            )
        return self.names if columns is None else columns

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (TableError, UnicodeDecodeError):
            raise
        except (ValueError, OSError, csv.Error) as error:
            raise TableError(f"{str(self.path)!r} cannot be read: {error}") from error


class ParquetFile(TableFile):
    """A Parquet file.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    file : pyarrow.parquet.ParquetFile
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        parquet = require("pyarrow.parquet", "tables", "Reading Parquet files")
        with self._readable():
            self.file = parquet.ParquetFile(self.path)

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.file.schema_arrow.names)

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def _frame(self, columns: list[str]) -> Any:
        # With the columns of an index that pandas stored.
        return arrow_to_pandas(self.file.read(columns=columns, use_pandas_metadata=True))

    def _frames(self, n_rows: int, columns: list[str], groups: Any) -> Iterator[Any]:
        arrow = require("pyarrow", "tables", "Reading Parquet files")
        for batch in self.file.iter_batches(n_rows, row_groups=groups, columns=columns):
            yield arrow_to_pandas(arrow.Table.from_batches([batch]), ignore_metadata=True)


class DelimitedFile(TableFile):
    """A CSV or TSV file with a header, each of whose rows has as many fields as the header.

    A line without text is no row if the header has several columns. In a file of a single column
    it is a row whose cell is missing.

    Parameters
    ----------
    path : path
    sep : str, optional
        Separator of the columns; by default a tab for .tsv and a comma for other files.
    encoding : str, optional
        UTF-8 by default.
    infer_types : bool, default=False
        Whether `read_frame` infers the type of a column from its cells, as for ``fit``, which
        requires valid text. By default, all cells are read as text, for a model to parse.
    decimal : {'.', ','}, default='.'
        Decimal separator, if types are inferred.

    Raises
    ------
    TableError
        The file cannot be read, or a row has more or fewer fields than the header.
    UnicodeDecodeError
        Types are inferred, and the file has another encoding.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("city,rooms\\nOslo,2\\nRome,3\\n")
    ...     with DelimitedFile(path, infer_types=True) as file:
    ...         print(file.names, file.read_frame()["rooms"].tolist())
    ['city', 'rooms'] [2, 3]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sep: str | None = None,
        encoding: str | None = None,
        *,
        infer_types: bool = False,
        decimal: str = ".",
    ) -> None:
        self.path = Path(path)
        self.sep = separator_of(path) or "," if sep is None else sep
        if not is_separator(self.sep):
            raise ValueError(
                "The separator of columns must be one ASCII character, and no quote. "
                f"Got {self.sep!r} instead."
            )
        self._options: dict[str, Any] = (
            # By default, pandas infers types of parts of a column.
            {"low_memory": False, "decimal": decimal}
            if infer_types
            else {"dtype": str, "na_filter": False}
        )
        with self._readable():
            self._file = open(  # noqa: SIM115
                self.path,
                encoding=encoding or "utf-8",
                errors="strict" if infer_types else "replace",
                newline="",
            )
        self._special = bytes(code in (_LF, _CR, _QUOTE, ord(self.sep)) for code in range(256))
        self._rest, self._line, self._at_end, self._at_start = b"", 1, False, True

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; those without a name are numbered, as by pandas."""
        with self._readable():
            data, ends, _ = self._first
            header = data[: ends[0]]
            given = next(csv.reader(io.StringIO(header.decode(), newline=""), delimiter=self.sep))
        names = [name or f"Unnamed: {number}" for number, name in enumerate(given)]
        for labels in (given, names):
            twice = [name for name, number in Counter(labels).items() if number > 1]
            if twice:
                raise TableError(f"{str(self.path)!r} has two columns named {twice[0]!r}.")
        return names

    def _frame(self, columns: list[str]) -> Any:
        return self._parse(columns)

    def _frames(self, n_rows: int, columns: list[str], groups: Any) -> Iterator[Any]:
        n_rows = max(1, min(n_rows, _TEXT_CELLS // max(1, len(columns))))
        with self._parse(columns, chunksize=n_rows) as frames:
            yield from frames

    def _parse(self, columns: list[str], **options: Any) -> Any:
        pandas = require("pandas", "tables", "Reading tables")
        return pandas.read_csv(
            self, sep=self.sep, header=0, names=self.names, usecols=columns, index_col=False,
            skip_blank_lines=False, **self._options, **options,
        )  # fmt: skip

    def __iter__(self) -> Iterator[str]:
        """Iterate over blocks of rows; pandas requires files to be iterable."""
        return iter(self.read, "")

    def read(self, size: int = _BLOCK) -> str:
        """Return the next rows, about ``size`` characters, after counting their fields."""
        if self._at_start:
            self._at_start = False
            return self._checked(*self._first).decode()
        rows = b""
        # No text would be the end of the file.
        while not rows and not self._at_end:
            rows = self._checked(*self._rows(size))
        return rows.decode()

    @cached_property
    def _first(self) -> tuple[bytes, NDArray[np.intp], NDArray[np.intp]]:
        """The header and the rows that are read with it, as by `_rows`."""
        while not self._at_end:
            data, ends, fields = self._rows(_BLOCK)
            start = 0
            for number, end in enumerate(ends.tolist()):
                if data[start:end].strip():
                    self._line += _count_lines(data[:start])
                    return data[start:], ends[number:] - start, fields[number:]
                start = end
            self._line += _count_lines(data)
        raise TableError(f"{str(self.path)!r} cannot be read: it has no header.")

    def _rows(self, size: int) -> tuple[bytes, NDArray[np.intp], NDArray[np.intp]]:
        """Read complete rows; return them with their ends and their numbers of fields."""
        data, first = self._rest, not self._rest and self._line == 1
        while not self._at_end:
            # Doubled, since a row in progress is searched again.
            text = self._file.read(max(size, len(data)))
            self._at_end = not text
            data += (text.removeprefix("\ufeff") if first else text).encode()
            first = False
            if self._at_end and data and not data.endswith((b"\n", b"\r")):
                data += b"\n"
            ends, fields = self._find_rows(data)
            length = int(ends[-1]) if len(ends) else 0
            if length or self._at_end or len(data) > _MAX_ROW:
                self._rest = data[length:]
                if self._rest and (self._at_end or len(self._rest) > _MAX_ROW):
                    line = self._line + _count_lines(data[:length])
                    raise TableError(
                        f"{str(self.path)!r} must have a closing quote for every quoted cell. "
                        f"The row that begins in line {line} does not end."
                    )
                return data[:length], ends, fields
        return b"", np.arange(0), np.arange(0)

    def _find_rows(self, data: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the ends of the rows and their numbers of fields."""
        codes = np.frombuffer(data, np.uint8)
        place = np.flatnonzero(np.frombuffer(data.translate(self._special), np.bool_))
        kind = codes[place]
        if b"\r" in data:
            # CR LF is one line end; LF may also be the first character of the next block.
            following = np.append(codes[1:], 0 if self._at_end else _LF)[place]
            single = (kind != _CR) | (following != _LF)
            place, kind = place[single], kind[single]
        if b'"' in data:
            quoting = kind == _QUOTE
            quotes = place[quoting]
            before = codes[quotes - 1]
            at_start = (quotes == 0) | (before == ord(self.sep)) | (before == _LF) | (before == _CR)
            # The second of two quotes in a quoted cell opens the cell again.
            if not (at_start | (before == _QUOTE))[::2].all():
                quoting[quoting] = _find_quoting(quotes, at_start)
            outside = ~np.logical_xor.accumulate(quoting) & (kind != _QUOTE)
            place, kind = place[outside], kind[outside]
        last = np.flatnonzero(kind != ord(self.sep))
        return place[last] + 1, np.diff(last, prepend=-1)

    def _checked(self, data: bytes, ends: NDArray[np.intp], fields: NDArray[np.intp]) -> bytes:
        """Return rows without blank lines, or raise an error for one that is too long or short."""
        n_fields, kept, begin = len(self.names), list[bytes](), 0
        for number in np.flatnonzero(fields != n_fields).tolist():
            start, end = int(ends[number - 1]) if number else 0, int(ends[number])
            if fields[number] > 1 or data[start:end].strip():
                line = self._line + _count_lines(data[:start])
                if fields[number] < n_fields:
                    hint = ""
                elif n_fields == 1:
                    hint = f": the separator of columns may be another than {self.sep!r}"
                elif data[start:end].rstrip(b"\r\n").endswith(self.sep.encode()):
                    hint = f": the row must not end with {self.sep!r}"
                else:
                    hint = f": a cell that contains {self.sep!r} must be in quotes"
                raise TableError(
                    f"{str(self.path)!r} must have {counted(n_fields, 'field')} in every row, as "
                    f"in its header. Got {fields[number]} in line {line} instead{hint}."
                )
            kept.append(data[begin:start])
            begin = end
        self._line += _count_lines(data)
        return b"".join([*kept, data[begin:]])


def _count_lines(data: bytes) -> int:
    returns = data.count(b"\r")
    return data.count(b"\n") + (returns and returns - data.count(b"\r\n"))


def _find_quoting(quotes: NDArray[np.intp], at_start: NDArray[np.bool_]) -> list[bool]:
    """Whether each quote opens or closes a cell; it is text if it is inside an unquoted cell."""
    found, quoted, closed = [], False, -1
    for place, starts in zip(quotes.tolist(), at_start.tolist(), strict=True):
        if quoted:
            quoted, closed = False, place
            found.append(True)
        else:
            quoted = starts or place - 1 == closed
            found.append(quoted)
    return found
