"""Tables in files: which files there are, and the readers of CSV, TSV and Parquet files.

pandas takes the first column as an index if the first row has a field more than the header, drops
further fields, and fills missing ones with NaN, all in silence. `DelimitedFile` counts the fields
of every row before pandas parses it.
"""

from __future__ import annotations

import csv
import glob
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

from suwr._utils.text import counted
from suwr._utils.validation import require
from suwr.data.encode import TableEncoder
from suwr.data.frame import arrow_to_pandas
from suwr.exceptions import TableError

# Suffixes of tables with the default separator of their columns; Parquet files have none.
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".parquet": None, ".pq": None}
# Rows that are passed to pandas at a time.
_BLOCK = 2**12
# Cells per batch of a text file: texts take more memory than numbers.
_TEXT_CELLS = 2**22
# Characters of the longest row. Without a limit, a quote that is not closed is read to the end.
_MAX_ROW = 2**28


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
    if decimal == ".":
        return frame
    frame, codes = frame.copy(), dict(zip(encoder.names, encoder.codes, strict=True))
    for number, column in enumerate(frame.columns):
        # A model without names has the columns of the frame in their order.
        code = codes.get(column if isinstance(column, str) else f"x{number}")
        if code is not None and code.type == "number":
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
        except TableError:
            raise
        except UnicodeDecodeError as error:
            hint = "Pass its encoding with --encoding."
            if error.encoding.replace("-", "") in ("utf8", "ascii"):
                hint = (
                    "Many files of spreadsheets are Latin-1 or Windows-1252: try --encoding "
                    "latin-1 or --encoding cp1252."
                )
            raise TableError(
                f"{str(self.path)!r} cannot be read: the byte 0x{error.object[error.start]:02x} is "
                f"not valid {error.encoding.upper()}. {hint}"
            ) from error
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
        The file cannot be read, types are inferred from a file in another encoding, or a row has
        more or fewer fields than the header.

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
        # The limit of `csv` on the length of a cell holds for the whole process.
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_ROW))
        self._rows, self._checked = self._read_rows(), self._check_rows()

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns; those without a name are numbered, as by pandas."""
        given, _ = self._header
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
        options |= self._options | {"index_col": False, "skip_blank_lines": False}
        names = self.names
        return pandas.read_csv(
            self, sep=self.sep, header=0, names=names, usecols=columns, **options
        )

    def __iter__(self) -> Iterator[str]:
        """Iterate over blocks of rows; pandas requires files to be iterable."""
        return iter(self.read, "")

    def read(self, size: int = -1) -> str:
        """Return the text of the next rows, whose fields are counted; pandas requires a size."""
        return "".join(islice(self._checked, _BLOCK))

    @cached_property
    def _header(self) -> tuple[list[str], str]:
        """The cells of the first row that is not blank, and its text."""
        with self._readable():
            for _, cells, text in self._rows:
                if text.strip():
                    return cells, text
        raise TableError(f"{str(self.path)!r} cannot be read: it has no header.")

    def _read_rows(self) -> Iterator[tuple[int, list[str], str]]:
        """Yield the number of the first line of each row, its cells and its text."""
        number, lines, at_end = 1, list[str](), False

        def read_lines() -> Iterator[str]:
            nonlocal at_end
            size = 0
            for line in chain([self._file.readline().removeprefix("\ufeff")], self._file):
                size = len(line) + (size if lines else 0)
                lines.append(line)
                if size > _MAX_ROW:
                    break
                yield line
            at_end = True
            yield "\n"  # part of the last row, if a quote in it is not closed

        for cells in csv.reader(read_lines(), delimiter=self.sep):
            if at_end and lines:
                raise TableError(
                    f"{str(self.path)!r} must have a closing quote for every quoted cell. "
                    f"The row that begins in line {number} does not end."
                )
            if not at_end:
                yield number, cells, "".join(lines)
            number += len(lines)
            lines.clear()

    def _check_rows(self) -> Iterator[str]:
        """Yield the text of the rows, without blank lines, after counting their fields."""
        yield self._header[1]
        n_fields = len(self.names)
        for line, cells, text in self._rows:
            if len(cells) == n_fields or (n_fields == 1 and not cells):
                yield text
            elif len(cells) > 1 or text.strip():
                hint = f": a cell that contains {self.sep!r} must be in quotes"
                if len(cells) < n_fields:
                    hint = ""
                elif n_fields == 1:
                    hint = f": the separator of columns may be another than {self.sep!r}"
                elif text.rstrip("\r\n").endswith(self.sep):
                    hint = f": the row must not end with {self.sep!r}"
                raise TableError(
                    f"{str(self.path)!r} must have {counted(n_fields, 'field')} in every row, as "
                    f"in its header. Got {len(cells)} in line {line} instead{hint}."
                )
