"""Tables and dates of the command line: reading and writing of files, with pandas."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr._utils.text import printable
from suwr.cli.options import CsvFormat, check_table, encoding_error, print_warning, read_header
from suwr.data.dates import WEEKDAYS, DateColumn, DateParts
from suwr.data.files import is_parquet, separator_of
from suwr.data.stored import source_columns

__all__ = [
    "date_of", "date_parameters", "file_digest", "model_columns", "read_date", "read_frame",
    "read_rows", "warn_training_file", "write_frame",
]  # fmt: skip


def date_parameters(
    dates: DateParts, groups: Mapping[str, Sequence[str]], columns: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return ``groups`` and ``columns`` for a table in which dates are replaced by their parts.

    Parameters
    ----------
    dates : DateParts
        Fitted.
    groups : mapping of str to sequence of str
        The value of --group. A date in a group stands for its parts; any other date is a unit.
    columns : mapping or None
        The value of --columns. The label of a date precedes the names of its parts.
    """
    parts = dates.groups_
    resolved = {
        unit: [part for name in names for part in parts.get(name, [name])]
        for unit, names in groups.items()
    }
    grouped = {name for names in groups.values() for name in names}
    resolved |= {name: own for name, own in parts.items() if name not in grouped}
    described = {name: value for name, value in (columns or {}).items() if name not in parts}
    for date in dates.dates_:
        label = dict((columns or {}).get(date.name) or {}).get("label")
        for part, column in zip(date.parts, date.columns, strict=True):
            own: dict[str, Any] = {} if label is None else {"label": f"{label} {part}"}
            if part == "weekday":
                own["categories"] = WEEKDAYS
            if own:
                described.setdefault(column, own)
    return {"groups": resolved, "columns": described or None}


def date_of(model: Any, columns: Sequence[str]) -> DateColumn | None:
    """Return the date whose parts are the first of the columns that are asked for, if any."""
    for date in () if model.dates_ is None else model.dates_.dates_:
        if list(columns[: len(date.columns)]) == date.columns:
            found: DateColumn = date
            return found
    return None


def read_date(date: DateColumn, text: str) -> dict[str, float | None]:
    """Return the parts of a date that was typed, by column.

    Raises
    ------
    ValueError
        The text is not a date.
    """
    values = date.values(text)
    if values is None:
        raise ValueError(f"Please enter {date.expected}. Got {text!r}.")
    return dict(zip(date.columns, values, strict=True))


def read_frame(
    path: Path,
    *,
    infer_types: bool,
    columns: list[str] | None = None,
    form: CsvFormat | None = None,
) -> Any:
    """Read a CSV, TSV or Parquet file.

    Parameters
    ----------
    path : Path
    infer_types : bool
        Whether the type of a column is inferred from its cells, as for ``fit``. If not, the cells
        of a CSV file are read as text, and a fitted model parses them by the types of its columns.
    columns : list of str, optional
        The columns to read; all by default.
    form : CsvFormat, optional
        How a CSV file is written. The decimal separator of cells that are read as text is replaced
        by `model_columns`.
    """
    check_table(path)
    form = form or CsvFormat()
    try:
        with form.open(path, infer_types=infer_types) as file:
            return file.read_frame(columns)
    except UnicodeDecodeError as error:
        raise encoding_error(path, form, error) from error


def read_rows(
    model: Any, path: Path, form: CsvFormat | None = None, target: str | None = None
) -> Any:
    """Read the columns that the model was fitted on, as the model expects them, and no others.

    Parameters
    ----------
    model : estimator
    path : Path
    form : CsvFormat, optional
    target : str, optional
        A column that is none of a model that was fitted without names.
    """
    columns = source_columns(model)
    if columns is None and target is not None:
        columns = [name for name in read_header(path, form or CsvFormat()) if name != target]
    frame = read_frame(path, infer_types=False, columns=columns, form=form)
    return model_columns(model, frame, form)


def model_columns(model: Any, frame: Any, form: CsvFormat | None = None) -> Any:
    """Return the columns that `suwr.data.stored.source_columns` names as the model expects them.

    Columns of dates are replaced by their parts, if the model was fitted on these.

    Parameters
    ----------
    model : estimator
    frame : pandas.DataFrame
        Of cells that were read as text.
    form : CsvFormat, optional
        If its decimal separator is a comma, it is replaced in the columns of numbers.
    """
    chosen = frame
    if source_columns(model) is None:
        chosen = frame.set_axis(range(frame.shape[1]), axis=1)
    elif model.dates_ is not None:
        chosen = model.dates_.transform(frame)[list(model.feature_names_in_)]
    if form is None or form.decimal == "." or chosen.shape[1] != len(model.encoder_.codes):
        return chosen
    chosen = chosen.copy()
    for column, code in zip(list(chosen.columns), model.encoder_.codes, strict=True):
        if code.type == "number":
            # Each cell by itself, whatever the others contain.
            chosen[column] = [
                cell.replace(form.decimal, ".") if isinstance(cell, str) else cell
                for cell in chosen[column]
            ]
    return chosen


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def warn_training_file(model: Any, data: Path) -> None:
    """Print a warning if a table is the file that ``suwr fit`` has read."""
    if model.training_file_ is not None and model.training_file_ == file_digest(data):
        print_warning(
            f"{printable(data)} is the file that the model was fitted on. Scores of training rows "
            "are too good, and certificates do not hold: hold rows out with 'suwr fit --test-size "
            "0.25 --test-out test.csv'."
        )


def write_frame(frame: Any, path: Path) -> None:
    """Write a CSV, TSV or Parquet file atomically."""
    if is_parquet(path):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_atomic(path, buffer.getvalue())
    else:
        text = frame.to_csv(index=False, sep=separator_of(path))
        write_atomic(path, text.encode())
