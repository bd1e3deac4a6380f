"""``suwr figures``: draw the figures of a model into a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suwr._utils.text import printable
from suwr.cli.tables import model_columns, read_frame
from suwr.cli.terminal import Terminal
from suwr.data.tables import raw_columns
from suwr.estimators.io import load
from suwr.exceptions import TableError
from suwr.plots import draw_figures

__all__ = ["write_figures"]


def write_figures(
    model_path: Path,
    data: Path,
    target: str,
    out: Path,
    pair: str | None,
    flip: str | None,
    also: list[Path],
    references: Path | None,
) -> None:
    """Draw every figure that applies to the model."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"--out must be a folder. {str(out)!r} is a file.")
    model = load(model_path)
    X, y = _read_rows(model, data, target)
    drawn_references = None if references is None else _read_references(references)
    terminal = Terminal()
    with terminal.console.status("Drawing"):
        written = draw_figures(
            model, X, y, out,
            pair=_two_classes(pair, model, "--pair"),
            flip=_two_classes(flip, model, "--flip"),
            others={str(path): load(path) for path in also},
            references=drawn_references,
        )  # fmt: skip
    for path in written:
        terminal.print_written(path)


def _read_rows(model: Any, data: Path, target: str) -> tuple[Any, Any]:
    """Read the features and the target column of a table."""
    frame = read_frame(data, infer_types=False)
    if target not in frame.columns:
        raise TableError(f"--target must be a column of {printable(data.name)}. Got {target!r}.")
    X = model_columns(model, frame.drop(columns=[target]))
    # Figures of images need numbers. A column with cells that are not valid stays as it is.
    columns, parsed = raw_columns(X), model.encoder_.parse(raw_columns(X))
    for number in range(len(columns)):
        if number not in parsed.invalid:
            columns[number] = parsed.columns[number]
    X = type(X)(dict(zip(X.columns, columns, strict=True)), index=X.index)
    y = read_frame(data, infer_types=True, columns=[target])[target].to_numpy()
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
