"""``suwr predict`` and ``suwr explain``: apply a model file to tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suwr._utils.files import write_atomic
from suwr._utils.text import counted, printable
from suwr._utils.validation import require
from suwr.cli.options import CsvFormat, missing_column
from suwr.cli.score import evaluate_table
from suwr.cli.tables import model_columns, read_frame, warn_training_file, write_frame
from suwr.cli.terminal import Terminal
from suwr.cli.verify import write_receipts
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.files import load
from suwr.scale import score_partitions
from suwr.scale.scoring import engine

__all__ = ["PageOptions", "explain_rows", "predict_folder", "predict_table"]


def predict_table(
    model_path: Path,
    data: Path,
    out: Path,
    mean_features: float | None = None,
    form: CsvFormat | None = None,
) -> None:
    """Write the prediction and the selected columns of every row to one file."""
    pandas = require("pandas", "tables", "Writing predictions")
    model = load(model_path)
    frame = read_frame(data, infer_types=False, form=form)
    X = model_columns(model, frame, form)
    masks = model.select(X, mean_features=mean_features)
    columns: dict[str, Any] = {
        "row": np.arange(len(X)),
        "prediction": model.predict(X, mean_features=mean_features),
    }
    if isinstance(model, SUWRClassifier):
        probability = model.predict_proba(X, mean_features=mean_features)
        for number, label in enumerate(model.classes_):
            columns[f"probability of {label}"] = probability[:, number]
    names = np.array(model.encoder_.names, dtype=object)
    columns["n_selected"] = masks.sum(axis=1)
    columns["selected"] = ["; ".join(names[mask]) for mask in masks]
    write_frame(pandas.DataFrame(columns), out)
    terminal = Terminal()
    terminal.print_written(out, f"{len(X)} predictions")
    if model.target_name_ in frame.columns:
        try:
            found = evaluate_table(model, data, X, model.target_name_, mean_features, form)
            terminal.print(f"Compared with the column {printable(model.target_name_)!r}:")
            terminal.print(found.text())
            warn_training_file(model, data)
        except ValueError as error:
            terminal.print(f"Note: no score, since {error}", style="yellow")


def predict_folder(
    model_path: Path, data: str, out: Path, jobs: int, scheduler: str | None
) -> None:
    """Write the predictions of any number of files, one partition at a time."""
    with engine(scheduler):
        scored = score_partitions(
            load(model_path), data, out, n_jobs=None if scheduler else jobs, verbose=1
        )
    resumed = f"; {scored.n_resumed} of them already existed" if scored.n_resumed else ""
    Terminal().print(
        f"Wrote {scored.n_rows:,} predictions to {len(scored.paths)} files in {printable(out)}"
        f"{resumed}"
    )


@dataclass(frozen=True)
class PageOptions:
    """Options of the page that ``suwr explain --html`` writes.

    Attributes
    ----------
    target : str or None
        Column with the true classes or values.
    model : bool or None
        Whether to embed the model; None embeds models of at most 3 MB.
    hidden_values : bool
        Whether to embed values that were not revealed.
    context : bool
        Whether to say where numbers lie among the training values, also in printed narratives.
    """

    target: str | None = None
    model: bool | None = None
    hidden_values: bool = False
    context: bool = True


def explain_rows(
    model_path: Path,
    data: Path,
    rows: list[int],
    json: Path | None,
    html: Path | None,
    options: PageOptions,
    mean_features: float | None = None,
    receipts: Path | None = None,
    form: CsvFormat | None = None,
) -> None:
    """Print the narratives of the given rows; without any, write those of all rows to files."""
    model = load(model_path)
    if receipts is not None:
        write_receipts(model, data, receipts, mean_features, form)
        if json is None and html is None:
            return
    frame = read_frame(data, infer_types=False, form=form)
    X = model_columns(model, frame, form)
    if options.target is not None and options.target not in frame.columns:
        raise missing_column(data, options.target, "--target", frame.columns, form)
    invalid = [r for r in rows if not 0 <= r < len(X)]
    if invalid:
        raise ValueError(f"--row must be between 0 and {len(X) - 1}. Got {invalid[0]}.")
    explanation = model.explain(X.iloc[rows] if rows else X, mean_features=mean_features)
    terminal = Terminal()
    if rows:
        terminal.print(explanation.text(context=options.context))
    if json is not None:
        write_atomic(json, explanation.to_json().encode())
        terminal.print_written(json, counted(len(explanation), "narrative"))
    if html is not None:
        y = None
        if options.target is not None:
            targets = read_frame(data, infer_types=True, columns=[options.target], form=form)
            y = targets[options.target]
        explanation.to_html(
            html,
            title=f"Predictions for {data.name}, step by step",
            y=y if y is None or not rows else y.iloc[rows],
            model="auto" if options.model is None else options.model,
            hidden_values=options.hidden_values,
            context=options.context,
        )
        terminal.print_written(html, f"a page with {counted(len(explanation), 'row')}")
