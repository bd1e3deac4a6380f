"""What ``predict``, ``explain`` and ``audit`` do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.optional import require
from suwr.audit import audit_files
from suwr.cli.files import check_table_path, model_columns, read_frame, write_frame
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.io import load
from suwr.exceptions import TableError
from suwr.plots.files import write_figure
from suwr.scale import score_partitions
from suwr.scale.engine import engine

__all__ = [
    "PageOptions", "audit_table", "explain_rows", "predict_folder", "predict_table",
]  # fmt: skip


def predict_table(
    model_path: Path, data: Path, out: Path, mean_features: float | None = None
) -> None:
    """Write predictions, and what they were made of, beside the number of the row."""
    check_table_path(out)
    pandas = require("pandas", "tables", "Writing predictions")
    model = load(model_path)
    X = model_columns(model, read_frame(data))
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
    Console().print(f"Wrote {len(X)} predictions to {out}", soft_wrap=True)


def predict_folder(
    model_path: Path, data: str, out: Path, jobs: int, scheduler: str | None
) -> None:
    """Write the predictions of any number of files, partition by partition."""
    with engine(scheduler):
        scored = score_partitions(
            load(model_path), data, out, n_jobs=None if scheduler else jobs, verbose=1
        )
    before = f"; {scored.n_resumed} of them were there before" if scored.n_resumed else ""
    Console().print(
        f"{scored.n_rows:,} predictions in {len(scored.paths)} files in {out}{before}",
        soft_wrap=True,
    )


@dataclass(frozen=True)
class PageOptions:
    """What goes into the page of ``suwr explain --html`` beside the narratives."""

    target: str | None = None
    model: bool | None = None
    hidden_values: bool = False


def explain_rows(
    model_path: Path,
    data: Path,
    rows: list[int],
    json: Path | None,
    html: Path | None,
    options: PageOptions,
    mean_features: float | None = None,
) -> None:
    """Print the narratives of some rows; all rows go to the files if none is named."""
    for path in (json, html):
        if path is not None:
            check_writable(path)
    if not rows and json is None and html is None:
        raise ValueError(
            "Say which rows to explain with --row, or where to write with --json or --html."
        )
    model = load(model_path)
    frame = read_frame(data)
    X = model_columns(model, frame)
    if options.target is not None and options.target not in frame.columns:
        raise TableError(f"--target must be a column of {data.name}. Got {options.target!r}.")
    wrong = [r for r in rows if not 0 <= r < len(X)]
    if wrong:
        raise ValueError(f"--row must be from 0 to {len(X) - 1}. Got {wrong[0]}.")
    explanation = model.explain(X.iloc[rows] if rows else X, mean_features=mean_features)
    if rows:
        Console(highlight=False).print(explanation.text(), markup=False, soft_wrap=True)
    if json is not None:
        write_atomic(json, explanation.to_json().encode())
        Console().print(f"Wrote {len(explanation)} narratives to {json}", soft_wrap=True)
    if html is not None:
        truth = None if options.target is None else frame[options.target]
        explanation.to_html(
            html,
            title=f"How the predictions for {data.name} came about",
            y=truth if truth is None or not rows else truth.iloc[rows],
            model="auto" if options.model is None else options.model,
            hidden_values=options.hidden_values,
        )
        Console().print(f"Wrote a page of {len(explanation)} rows to {html}", soft_wrap=True)


def audit_table(
    data: Path,
    model: Path | None,
    masks: Path | None,
    target: str | None,
    json: Path | None,
    plot: Path | None,
    seed: int,
) -> None:
    """Print the report of an audit; exit with status 2 where there is a leak."""
    for path in (json, plot):
        if path is not None:
            check_writable(path)
    report = audit_files(data, model=model, masks=masks, label=target, random_state=seed)
    console = Console(highlight=False)
    console.print(report.summary(), markup=False, soft_wrap=True)
    if json is not None:
        write_atomic(json, report.to_json().encode())
        console.print(f"Wrote {json}", soft_wrap=True)
    if plot is not None:
        axes: Any = report.plot()
        write_figure(axes.figure, plot, dpi=150, bbox_inches="tight")
        console.print(f"Wrote {plot}", soft_wrap=True)
    if report.leaks:
        raise SystemExit(2)
