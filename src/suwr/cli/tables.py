"""Reading and writing tables as files, with pandas."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.optional import require
from suwr.data.parsing import READ_AS_TEXT
from suwr.exceptions import TableError

__all__ = ["check_table_path", "model_columns", "read_frame", "write_frame"]

_READERS: dict[str, dict[str, Any]] = {".csv": {}, ".tsv": {"sep": "\t"}}
_PARQUET = (".parquet", ".pq")


def read_frame(path: Path, *, infer_types: bool, columns: list[str] | None = None) -> Any:
    """Read a CSV, TSV or Parquet file.

    Parameters
    ----------
    path : Path
    infer_types : bool
        Whether the type of a column is inferred from its cells, as for ``fit``. If not, the cells
        of a CSV file are read as text, and a fitted model parses them by the types of its columns.
    columns : list of str, optional
        The columns to read; all by default.
    """
    if not path.is_file():
        raise FileNotFoundError(f"The file {str(path)!r} does not exist.")
    pandas = require("pandas", "tables", "Reading tables")
    suffix = path.suffix.lower()
    try:
        if suffix in _PARQUET:
            parquet = require("pyarrow.parquet", "tables", "Reading Parquet files")
            # Integers stay integers if some are missing.
            return parquet.read_table(path, columns=columns).to_pandas(integer_object_nulls=True)
        if suffix in _READERS:
            options = _READERS[suffix]
            header = pandas.read_csv(path, header=None, nrows=1, **options, **READ_AS_TEXT).iloc[0]
            doubles = header[header.duplicated()]
            if len(doubles):
                raise TableError(f"{str(path)!r} has two columns named {doubles.iloc[0]!r}.")
            # By default, pandas infers types of parts of a column.
            types = {"low_memory": False} if infer_types else READ_AS_TEXT
            return pandas.read_csv(path, usecols=columns, **options, **types)
    except TableError:
        raise
    except (ValueError, OSError) as error:
        raise TableError(f"{str(path)!r} cannot be read: {error}") from error
    raise TableError(f"{str(path)!r} must end in .csv, .tsv, .parquet or .pq.")


def model_columns(model: Any, frame: Any) -> Any:
    """Return the columns that the model was fitted on; others, such as the target, are dropped."""
    if not hasattr(model, "feature_names_in_"):
        return frame.set_axis(range(frame.shape[1]), axis=1)
    names = list(model.feature_names_in_)
    missing = [n for n in names if n not in frame.columns]
    if missing:
        raise TableError(
            f"The table lacks {len(missing)} column(s) that the model was fitted on: "
            + ", ".join(repr(n) for n in missing[:8])
        )
    return frame[names]


def check_table_path(path: Path) -> None:
    """Raise an error if a table cannot be written to ``path``."""
    if path.suffix.lower() not in (*_READERS, *_PARQUET):
        raise TableError(f"{str(path)!r} must end in .csv, .tsv, .parquet or .pq.")
    check_writable(path)


def write_frame(frame: Any, path: Path) -> None:
    """Write a CSV, TSV or Parquet file atomically."""
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_atomic(path, buffer.getvalue())
    else:
        text = frame.to_csv(index=False, sep="\t" if suffix == ".tsv" else ",")
        write_atomic(path, text.encode())
