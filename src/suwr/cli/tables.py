"""Reading and writing tables as files, with pandas."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr._utils.text import printable
from suwr._utils.validation import require
from suwr.cli.options import CsvFormat, check_table, encoding_error
from suwr.cli.terminal import print_warning
from suwr.data.files import PARQUET
from suwr.data.frame import arrow_to_pandas
from suwr.data.stored import source_columns
from suwr.exceptions import TableError

__all__ = ["file_digest", "model_columns", "read_frame", "warn_training_file", "write_frame"]


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
    if path.suffix.lower() in PARQUET:
        parquet = require("pyarrow.parquet", "tables", "Reading Parquet files")
        try:
            return arrow_to_pandas(parquet.read_table(path, columns=columns))
        except (ValueError, OSError) as error:
            raise TableError(f"{str(path)!r} cannot be read: {error}") from error
    try:
        with form.open(path, infer_types=infer_types) as file:
            return file.read_frame(columns)
    except UnicodeDecodeError as error:
        raise encoding_error(path, form, error) from error


def model_columns(model: Any, frame: Any, form: CsvFormat | None = None) -> Any:
    """Return the columns that the model was fitted on; others, such as the target, are dropped.

    Columns of dates are replaced by their parts, if the model was fitted on these.

    Parameters
    ----------
    model : estimator
    frame : pandas.DataFrame
        Of cells that were read as text.
    form : CsvFormat, optional
        If its decimal separator is a comma, it is replaced in the columns of numbers.
    """
    sources = source_columns(model)
    if sources is None:
        chosen = frame.set_axis(range(frame.shape[1]), axis=1)
    else:
        missing = [n for n in sources if n not in frame.columns]
        if missing:
            raise TableError(
                f"The table lacks {len(missing)} column(s) that the model was fitted on: "
                + ", ".join(repr(n) for n in missing[:8])
            )
        chosen = frame[sources]
        if model.dates_ is not None:
            chosen = model.dates_.transform(chosen)[list(model.feature_names_in_)]
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
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_atomic(path, buffer.getvalue())
    else:
        text = frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ",")
        write_atomic(path, text.encode())
