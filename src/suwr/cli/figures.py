"""``suwr figures``: draw the figures of a model into a folder."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suwr._utils.text import printable
from suwr.cli.options import CsvFormat, missing_column
from suwr.cli.tables import model_columns, read_frame, warn_training_file
from suwr.cli.terminal import Terminal
from suwr.estimators.files import load
from suwr.plots import draw_figures

__all__ = ["FigureOptions", "write_figures"]


@dataclass(frozen=True)
class FigureOptions:
    """Options of ``suwr figures``.

    Attributes
    ----------
    pair, flip : str or None
        Two classes, separated by a comma.
    also : tuple of Path
        Models with other sparsity weights.
    references : Path or None
        JSON file of published points.
    mean_features : float or None
        Mean number of features per row, for a model that was fitted for a range.
    form : CsvFormat
    """

    pair: str | None = None
    flip: str | None = None
    also: tuple[Path, ...] = ()
    references: Path | None = None
    mean_features: float | None = None
    form: CsvFormat = field(default_factory=CsvFormat)


def write_figures(
    model_path: Path, data: Path, target: str | None, out: Path, options: FigureOptions
) -> None:
    """Draw every figure that applies to the model; ``target`` is by default that of the fit."""
    model = _at_mean_features(load(model_path), options.mean_features)
    name = target or model.target_name_
    if name is None:
        raise ValueError("--target is required, since the model file does not name its target.")
    X, y = _read_rows(model, data, name, options.form)
    warn_training_file(model, data)
    references = None if options.references is None else _read_references(options.references)
    terminal = Terminal()
    with terminal.console.status("Drawing"):
        written = draw_figures(
            model, X, y, out,
            pair=_two_classes(options.pair, model, "--pair"),
            flip=_two_classes(options.flip, model, "--flip"),
            others={str(path): load(path) for path in options.also},
            references=references,
        )  # fmt: skip
    for path in written:
        terminal.print_written(path)


def _at_mean_features(model: Any, mean_features: float | None) -> Any:
    """Return the model with the policy of this mean number of features for all its methods."""
    if mean_features is None:
        return model
    fixed = copy(model)
    fixed.policy_, fixed.weight_range_ = model._policy_at(mean_features=mean_features), None
    return fixed


def _read_rows(model: Any, data: Path, target: str, form: CsvFormat) -> tuple[Any, Any]:
    """Read the features and the target column of a table."""
    frame = read_frame(data, infer_types=False, form=form)
    if target not in frame.columns:
        raise missing_column(data, target, "--target", frame.columns, form)
    X = model_columns(model, frame.drop(columns=[target]), form)
    y = read_frame(data, infer_types=True, columns=[target], form=form)[target].to_numpy()
    # A model fitted without column names warns about a data frame.
    return X if hasattr(model, "feature_names_in_") else X.to_numpy(), y


def _two_classes(text: str | None, model: Any, option: str) -> tuple[Any, Any] | None:
    """Parse '3,8' into two class labels of the model."""
    if text is None:
        return None
    by_name = {str(label): label for label in getattr(model, "classes_", [])}
    names = [part.strip() for part in text.split(",")]
    if len(names) != 2 or any(n not in by_name for n in names):
        raise ValueError(
            f"{option} must be two of the classes {', '.join(map(printable, by_name))}, separated "
            f"by a comma. Got {text!r}."
        )
    first, second = (by_name[n] for n in names)
    return getattr(first, "item", lambda: first)(), getattr(second, "item", lambda: second)()


def _read_references(path: Path) -> dict[str, Any]:
    """Read a JSON object that maps labels to [costs, scores] or to a single score."""
    try:
        return {
            str(name): tuple(value) if isinstance(value, list) else float(value)
            for name, value in json.loads(path.read_text()).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--references must be a JSON object of [costs, scores] or scores: {error}"
        ) from error
