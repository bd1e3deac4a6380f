"""Audits of files, for the command line."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from suwr._utils.optional import require
from suwr.audit._audit import audit
from suwr.audit._masks import audit_masks
from suwr.audit._report import AuditReport
from suwr.exceptions import TableError

__all__ = ["audit_files"]


def audit_files(
    table: str | Path,
    *,
    model: Any | None = None,
    masks: str | Path | None = None,
    label: str | None = None,
    random_state: int | None = 0,
    **options: Any,
) -> AuditReport:
    """Audit a model on the rows of a CSV file, or masks from a second one.

    Parameters
    ----------
    table : path
        CSV of rows, with a header.
    model : selector or path, optional
        A selector, or the path of a model that ``suwr.load`` reads.
    masks : path, optional
        CSV of masks: the columns of ``table`` (without the label), one row each, 0 or 1 (or
        false and true). Only predictive gaps can be measured then, and the report says so.
    label : str, optional
        Column of ``table`` with the labels.
    random_state : int or None
    **options
        For :func:`suwr.audit.audit` or :func:`suwr.audit.audit_masks`.

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
        raise ValueError("Give either a model or a file of masks to audit, and not both.")
    rows = _read(table)
    labels = None
    if label is not None:
        if label not in rows.columns:
            raise TableError(f"{table} has no column {label!r} for the labels.")
        labels = rows[label].to_numpy()
        rows = rows.drop(columns=label)
    if masks is not None:
        chosen = _read_masks(masks, list(rows.columns), label)
        if len(chosen) != len(rows):
            raise TableError(
                f"{masks} must have one mask per row of {table} ({len(rows)}). "
                f"Got {len(chosen)} instead."
            )
        return audit_masks(rows, chosen, labels, random_state, **options)
    if isinstance(model, str | Path):
        # Only this case needs the estimators, and with them torch.
        model = import_module("suwr").load(model)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        missing = [str(name) for name in names if name not in rows.columns]
        if missing:
            raise TableError(f"{table} lacks columns of the model: {', '.join(missing)}.")
        rows = rows[list(names)]
    return audit(model, rows, labels, random_state, **options)


def _read(path: str | Path) -> Any:
    pandas = require("pandas", extra="tables", purpose="Reading CSV files")
    try:
        return pandas.read_csv(path)
    except FileNotFoundError:
        raise TableError(f"There is no file {path}.") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise TableError(f"{path} cannot be read as CSV: {error}") from error


def _read_masks(path: str | Path, columns: list[Any], label: str | None) -> np.ndarray:
    masks = _read(path)
    masks = masks.drop(columns=label) if label in masks.columns else masks
    unknown = [str(name) for name in masks.columns if name not in columns]
    missing = [str(name) for name in columns if name not in masks.columns]
    if unknown or missing:
        wrong = [f"unknown: {', '.join(unknown)}"] if unknown else []
        wrong += [f"missing: {', '.join(missing)}"] if missing else []
        raise TableError(f"{path} must have the columns of the rows ({'; '.join(wrong)}).")
    values = masks[columns].to_numpy()
    if not np.isin(values, (0, 1)).all():
        raise TableError(f"{path} must hold only 0 and 1, or false and true.")
    return values.astype(bool)
