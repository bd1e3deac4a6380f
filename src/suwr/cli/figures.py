"""``suwr figures``: the figures of a model, written into a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from suwr.cli.files import model_columns, read_frame
from suwr.estimators.persistence import load
from suwr.exceptions import TableError
from suwr.plots.model_figures import draw_figures

__all__ = ["write_figures"]


def write_figures(
    model_path: Path,
    data: Path,
    target: str | None,
    out: Path,
    pair: str | None,
    flip: str | None,
    also: list[Path],
    references: Path | None,
) -> None:
    """Draw every figure that suits the model."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"--out must be a folder. {str(out)!r} is a file.")
    model = load(model_path)
    X, y = _rows(model, data, target)
    beside = None if references is None else _read_references(references)
    console = Console(highlight=False)
    with console.status("Drawing"):
        written = draw_figures(
            model, X, y, out,
            pair=_two_classes(pair, model, "--pair"),
            flip=_two_classes(flip, model, "--flip"),
            others={str(path): load(path) for path in also}, references=beside,
        )  # fmt: skip
    for path in written:
        console.print(f"Wrote {path}", markup=False, soft_wrap=True)


def _rows(model: Any, data: Path, target: str | None) -> tuple[Any, Any]:
    """Read the features and the target column of a file."""
    frame = read_frame(data)
    if target is None or target not in frame.columns:
        raise TableError(f"--target must be a column of {data.name}. Got {target!r}.")
    X = model_columns(model, frame.drop(columns=[target]))
    # Trained without names, a model would warn about them.
    return X if hasattr(model, "feature_names_in_") else X.to_numpy(), frame[target].to_numpy()


def _two_classes(text: str | None, model: Any, option: str) -> tuple[Any, Any] | None:
    """'3,8' as the two classes of these names."""
    if text is None:
        return None
    by_name = {str(label): label for label in getattr(model, "classes_", [])}
    names = [part.strip() for part in text.split(",")]
    if len(names) != 2 or any(n not in by_name for n in names):
        raise ValueError(
            f"{option} must be two of the classes {', '.join(by_name)}, with a comma in between. "
            f"Got {text!r}."
        )
    first, second = (by_name[n] for n in names)
    return getattr(first, "item", lambda: first)(), getattr(second, "item", lambda: second)()


def _read_references(path: Path) -> dict[str, Any]:
    """Name → [features, scores], or name → score, from a JSON file."""
    try:
        read = json.loads(path.read_text())
        return {
            str(name): tuple(value) if isinstance(value, list) else float(value)
            for name, value in read.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--references must be a JSON object of [features, scores] or scores: {error}"
        ) from error
