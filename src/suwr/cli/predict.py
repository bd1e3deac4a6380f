"""``suwr predict | explain | score | audit | figures | verify``: apply a model file to tables."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import typer
from numpy.typing import NDArray

from suwr._utils.files import atomic_file, write_atomic
from suwr._utils.progress import progress_bars
from suwr._utils.text import counted, printable
from suwr._utils.validation import require
from suwr.auditing import audit_files
from suwr.cli.options import CsvFormat, Terminal, check_column, read_header
from suwr.cli.tables import model_columns, read_frame, read_rows, warn_training_file, write_frame
from suwr.data.stored import source_columns
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.evaluate import Evaluation
from suwr.estimators.files import load
from suwr.estimators.verify import Verifier
from suwr.exceptions import TableError
from suwr.narrative.receipt import MAX_BYTES
from suwr.plots import draw_figures
from suwr.plots._style import write_figure
from suwr.scale import score_partitions
from suwr.scale.partitions import find_partitions, read_batches
from suwr.scale.scoring import engine

__all__ = [
    "FigureOptions", "PageOptions", "audit_table", "evaluate_table", "explain_rows",
    "predict_folder", "predict_table", "read_labels", "score_table", "verify_receipts",
    "write_figures", "write_receipts",
]  # fmt: skip


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
    check_column(data, name, "--target", form)
    X = read_rows(model, data, form, name)
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


# Receipts in memory at a time; their bytes are limited too.
BATCH = 8192
BATCH_BYTES = 2**25
# Failures that are printed one by one.
MAX_SHOWN = 20


def write_receipts(
    model: Any,
    data: Path,
    out: Path,
    mean_features: float | None = None,
    form: CsvFormat | None = None,
) -> None:
    """Write one receipt per row of a table, as lines of JSON."""
    n_rows = 0
    with (
        _without_collection(),
        atomic_file(out) as path,
        open(path, "wb") as file,
        progress_bars(["receipts"], verbose=None, total=1, unit="file") as (bar,),
    ):
        for frame in _row_batches(model, data, form):
            for start in range(0, len(frame), BATCH):
                rows = frame.iloc[start : start + BATCH]
                rows = rows.set_axis(range(n_rows, n_rows + len(rows)))
                for narrative in model.explain(rows, mean_features=mean_features):
                    file.write(narrative.receipt().to_json().encode() + b"\n")
                n_rows += len(rows)
                bar(0, status=f"{n_rows:,} rows")
        bar()
    Terminal().print_written(out, counted(n_rows, "receipt"))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspend the search for reference cycles, which takes a fifth of the time and finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _row_batches(model: Any, data: Path, form: CsvFormat | None) -> Iterator[Any]:
    if form is not None and form != CsvFormat():
        # Only files of the default format are read in batches.
        yield read_rows(model, data, form)
        return
    columns = source_columns(model)
    for partition in find_partitions(data, 2**62):
        for frame in read_batches(partition, columns):
            yield model_columns(model, frame)


def verify_receipts(receipts: Path, model: Path) -> None:
    """Print whether receipts are verified; the exit status is 2 if any of them is not."""
    terminal, verifier = Terminal(), Verifier(model)
    if receipts.suffix.lower() != ".jsonl":
        with open(receipts, "rb") as file:
            result = verifier.verify([file.read(MAX_BYTES + 1)])[0]
        terminal.print(str(result))
        if not result:
            raise typer.Exit(2)
        return
    n_receipts = n_failed = n_near = 0
    size = receipts.stat().st_size // 1000
    with (
        _without_collection(),
        open(receipts, "rb") as file,
        progress_bars(["verifying"], verbose=None, total=1 + size, unit="kB") as (bar,),
    ):
        for batch in _line_batches(file):
            for number, result in enumerate(verifier.verify(batch), start=n_receipts + 1):
                n_failed += not result
                n_near += bool(result) and bool(result.near_ties)
                if not result and n_failed <= MAX_SHOWN:
                    terminal.print(f"Line {number}: {result}")
            n_receipts += len(batch)
            bar(sum(map(len, batch)) // 1000, status=f"{n_receipts:,} receipts")
    if n_failed > MAX_SHOWN:
        terminal.print(f"… and {n_failed - MAX_SHOWN:,} more.")
    near = f"; {n_near:,} of them have a decision within rounding of a tie" if n_near else ""
    terminal.print(f"{n_receipts - n_failed:,} of {n_receipts:,} receipts are verified{near}.")
    if n_receipts == 0:
        raise ValueError(f"{printable(receipts)} has no receipts.")
    if n_failed:
        raise typer.Exit(2)


def _line_batches(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines in batches of bounded size; a longer line is cut, and then refused."""
    batch, size = list[bytes](), 0
    while line := file.readline(MAX_BYTES + 2):
        batch.append(line.rstrip(b"\r\n"))
        size += len(line)
        # The rest of a line that is too long is skipped; its beginning will be refused.
        while len(line) == MAX_BYTES + 2 and not line.endswith(b"\n"):
            line = file.readline(MAX_BYTES + 2)
        if len(batch) == BATCH or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
    X = read_rows(model, data, form)
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
    terminal.print_written(out, counted(len(X), "prediction"))
    if model.target_name_ in read_header(data, form or CsvFormat()):
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
        f"Wrote {counted(scored.n_rows, 'prediction')} to {counted(len(scored.paths), 'file')} in "
        f"{printable(out)}{resumed}"
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
    X = read_rows(model, data, form)
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
    fixed.policy_ = model.fitted_policy(mean_features=mean_features).policy
    fixed.weight_range_ = None
    return fixed


def _read_rows(model: Any, data: Path, target: str, form: CsvFormat) -> tuple[Any, Any]:
    """Read the features and the target column of a table."""
    X = read_rows(model, data, form, target)
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


def audit_table(
    data: Path,
    model: Path | None,
    masks: Path | None,
    target: str | None,
    support: str | None,
    json: Path | None,
    plot: Path | None,
    seed: int,
    form: CsvFormat,
) -> None:
    """Print an audit report and exit with status 2 if there is leakage, 3 if it is conditional."""
    selector = None if model is None else load(model)
    options = {} if support is None else {"support": support}
    report = audit_files(
        data, model=selector, masks=masks, label=target, random_state=seed,
        sep=form.separator(data), encoding=form.encoding, **options,
    )  # fmt: skip
    terminal = Terminal()
    terminal.print(report.summary())
    if json is not None:
        write_atomic(json, report.to_json().encode())
        terminal.print_written(json)
    if plot is not None:
        axes: Any = report.plot()
        write_figure(axes.figure, plot, dpi=150, bbox_inches="tight")
        terminal.print_written(plot)
    if report.leaks:
        raise SystemExit(2)
    if report.leaks_if_independent:
        raise SystemExit(3)
