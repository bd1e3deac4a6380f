"""``suwr score``: evaluate a model file on a table with known targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.cli.options import CsvFormat, missing_column
from suwr.cli.tables import model_columns, read_frame, warn_training_file
from suwr.cli.terminal import Terminal
from suwr.estimators.evaluate import Evaluation
from suwr.estimators.files import load
from suwr.exceptions import TableError

__all__ = ["evaluate_table", "read_labels", "score_table"]


def score_table(
    model_path: Path,
    data: Path,
    target: str | None,
    as_json: bool,
    mean_features: float | None,
    form: CsvFormat,
) -> None:
    """Print the evaluation of a model as a table, or as JSON."""
    model = load(model_path)
    name = target or model.target_name_
    if name is None:
        raise ValueError("--target is required, since the model file does not name its target.")
    frame = read_frame(data, infer_types=False, form=form)
    if name not in frame.columns:
        raise missing_column(data, name, "--target", frame.columns, form)
    X = model_columns(model, frame, form)
    warn_training_file(model, data)
    found = evaluate_table(model, data, X, name, mean_features, form)
    text = json.dumps(found.to_dict(), ensure_ascii=False, indent=2) if as_json else found.text()
    Terminal().print(text)


def evaluate_table(
    model: Any, data: Path, X: Any, target: str, mean_features: float | None, form: CsvFormat | None
) -> Evaluation:
    """Evaluate a model on the rows of a file whose target is not missing.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    data : Path
        The file, from which the target is read.
    X : pandas.DataFrame
        The columns of the model.
    target : str
        Column of the file.
    mean_features : float or None
    form : CsvFormat or None
    """
    y, present = read_labels(model, data, target, form)
    return model.evaluate(X[present], y, mean_features=mean_features)


def read_labels(
    model: Any, data: Path, target: str, form: CsvFormat | None
) -> tuple[Any, NDArray[np.bool_]]:
    """Read the targets of a file, with the labels of the model.

    Parameters
    ----------
    model, data, target, form
        As in `evaluate_table`.

    Returns
    -------
    y : sequence
        The targets that are not missing.
    present : ndarray of bool, shape (n_rows,)
        Their rows.
    """
    column = read_frame(data, infer_types=True, columns=[target], form=form)[target]
    present = column.notna().to_numpy()
    if not present.any():
        raise TableError(f"The target column {target!r} is missing in every row.")
    y = column.to_numpy()[present]
    labels = getattr(model, "classes_", None)
    if labels is not None:
        # A file may contain the text of a label that is a number, or the other way round.
        known = {str(label): label for label in labels.tolist()}
        values = set(labels.tolist())
        y = [v if v in values else known.get(str(v), v) for v in y.tolist()]
    elif y.dtype.kind not in "biuf":
        raise TableError(f"The target column {target!r} must be numeric, as in fit.")
    return y, present
