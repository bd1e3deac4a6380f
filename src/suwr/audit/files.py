"""Audits of CSV files, for the command line."""

from pathlib import Path
from typing import Any

import numpy as np

from suwr._utils.validation import parameter_error
from suwr.audit.entry import audit, audit_masks
from suwr.audit.report import AuditReport
from suwr.data.encode import TableEncoder
from suwr.data.files import DelimitedFile
from suwr.data.frame import raw_columns
from suwr.exceptions import TableError
from suwr.selector import BoolArray

__all__ = ["audit_files"]


def audit_files(
    table: str | Path,
    *,
    model: Any | None = None,
    masks: str | Path | None = None,
    label: str | None = None,
    random_state: int | None = 0,
    sep: str = ",",
    encoding: str | None = None,
    **options: Any,
) -> AuditReport:
    """Audit a selector on the rows of a CSV file, or masks from a second file.

    Parameters
    ----------
    table : path
        CSV file with a header.
    model : selector, optional
        A selector, for example a model that ``suwr.load`` returned.
    masks : path, optional
        CSV file of masks, one row per row of ``table``, with the same columns except for the
        label, and values 0 and 1 (or false and true).
    label : str, optional
        Column of ``table`` that contains the labels.
    random_state : int or None
    sep : str, default=","
        Separator, one character, of the columns of both files.
    encoding : str, optional
        Encoding of both files; UTF-8 by default.
    **options
        Further parameters of `audit` or `audit_masks`.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from suwr.audit import audit_files
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "rows.csv"
    ...     X.to_csv(table, index=False)
    ...     report = audit_files(table, model=lambda X: X.to_numpy() > 0, gaps=False)
    >>> report.verdict
    'leaks'
    """
    if (model is None) == (masks is None):
        raise ValueError("Pass either a model or a file of masks to audit, not both.")
    if isinstance(model, str | Path):
        raise parameter_error(
            "model", "audit_files", "a selector, such as the result of suwr.load(path)", model
        )
    encoder = getattr(model, "encoder_", None)
    has_types = isinstance(encoder, TableEncoder)
    rows = _read_csv(table, sep, encoding, infer_types=not has_types)
    labels = None
    if label is not None:
        if label not in rows.columns:
            raise TableError(f"{table} has no label column {label!r}.")
        labels = _read_csv(table, sep, encoding, columns=[label])[label].to_numpy()
        rows = rows.drop(columns=label)
    if masks is not None:
        selected = _read_masks(_read_csv(masks, sep, encoding), masks, list(rows.columns), label)
        if len(selected) != len(rows):
            raise TableError(
                f"{masks} must have one mask per row of {table} ({len(rows)}). "
                f"Got {len(selected)} instead."
            )
        return audit_masks(rows, selected, labels, random_state, **options)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        dates = getattr(model, "dates_", None)
        if dates is not None and set(dates.columns) <= set(rows.columns):
            rows = dates.transform(rows)
        missing = [str(name) for name in names if name not in rows.columns]
        if missing:
            raise TableError(f"{table} lacks columns of the model: {', '.join(missing)}.")
        rows = rows[list(names)]
    if isinstance(encoder, TableEncoder):
        rows = _parse(rows, encoder)
    return audit(model, rows, labels, random_state, **options)


def _parse(rows: Any, encoder: TableEncoder) -> Any:
    """Parse texts by the types of the model; an audit exchanges cells, so all must be valid."""
    if rows.shape[1] != len(encoder.names):
        return rows  # the model raises an error
    parsed = encoder.parse(raw_columns(rows))
    parsed.check_revealed(np.ones(rows.shape, dtype=bool), quote=False)
    return type(rows)(dict(zip(rows.columns, parsed.columns, strict=True)))


def _read_csv(
    path: str | Path,
    sep: str,
    encoding: str | None,
    *,
    infer_types: bool = True,
    columns: list[str] | None = None,
) -> Any:
    if not Path(path).exists():
        raise TableError(f"There is no file {path}.")
    try:
        with DelimitedFile(path, sep, encoding, infer_types=infer_types) as file:
            return file.read_frame(columns)
    except UnicodeDecodeError as error:
        raise TableError(f"{str(path)!r} cannot be read: {error}") from error


def _read_masks(masks: Any, path: str | Path, columns: list[Any], label: str | None) -> BoolArray:
    masks = masks.drop(columns=label) if label in masks.columns else masks
    unknown = [str(name) for name in masks.columns if name not in columns]
    missing = [str(name) for name in columns if name not in masks.columns]
    if unknown or missing:
        problems = [f"unknown: {', '.join(unknown)}"] if unknown else []
        problems += [f"missing: {', '.join(missing)}"] if missing else []
        raise TableError(f"{path} must have the columns of the rows ({'; '.join(problems)}).")
    values = masks[columns].to_numpy()
    if not np.isin(values, (0, 1)).all():
        raise TableError(f"{path} must contain only 0 and 1, or false and true.")
    return values.astype(bool)
