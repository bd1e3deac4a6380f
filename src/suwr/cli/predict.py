"""``suwr predict | explain | score | audit | figures | verify``: apply a model file to tables."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import typer
from numpy.typing import NDArray

from suwr._utils.files import atomic_file
from suwr._utils.progress import progress_bars
from suwr._utils.text import counted, printable
from suwr._utils.validation import require
from suwr.cli.options import (
    CsvFormat,
    Terminal,
    file_digest,
    print_warning,
    write_frame,
)
from suwr.data.files import with_points
from suwr.data.stored import source_columns
from suwr.estimators.base import SUWRModel
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.evaluate import Evaluation
from suwr.estimators.files import load
from suwr.estimators.verify import Verifier, verify_certificate
from suwr.exceptions import TableError
from suwr.narrative.receipt import MAX_BYTES
from suwr.scale import find_partitions, read_batches


class Rows:
    """The rows of a table file, for a model.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    path : Path
    form : CsvFormat
    target : str, optional
        The target column; that of the fit by default.

    Attributes
    ----------
    X : pandas.DataFrame
        The columns of the model, as it expects them; no others are read.
    """

    def __init__(
        self, model: SUWRModel, path: Path, form: CsvFormat, target: str | None = None
    ) -> None:
        self.model, self.path, self.form = model, path, form
        self.target: str | None = target or model.target_name_
        columns, header = source_columns(model), form.read_header(path)
        if columns is None and self.target is not None:
            columns = [name for name in header if name != self.target]
        if columns is not None and model.dates_ is None:
            # Those that no prediction reads may be absent.
            columns = [c for c in columns if c in header or c not in model.unused_columns_]
        if set(columns or ()) - set(header) and (hint := form.hint(path, header)):
            raise TableError(f"{str(path)!r} lacks the columns of the model.{hint}")
        frame = form.read_frame(path, columns)
        self.X = model_columns(model, frame, form)

    @property
    def has_target(self) -> bool:
        """Whether the table has the target column."""
        return self.target in self.form.read_header(self.path)

    def values(self) -> Any:
        """Return the target column, of the type that is inferred from its cells."""
        name = self.target
        if name is None:
            raise ValueError("--target is required, since the model file does not name its target.")
        self.form.check_column(self.path, name, "--target")
        return self.form.read_frame(self.path, [name], infer_types=True)[name]

    def labels(self) -> tuple[Any, NDArray[np.bool_]]:
        """Return the targets, as the model has them, and the rows in which they are not missing."""
        column, labels = self.values(), self.model.target_.labels
        present = column.notna().to_numpy()
        if not present.any():
            raise TableError(f"The target column {self.target!r} is missing in every row.")
        y = column.to_numpy()[present]
        if labels is not None:
            # A file may contain the text of a label that is a number, or the other way round.
            known, values = {str(label): label for label in labels}, set(labels)
            y = [v if v in values else known.get(str(v), v) for v in y.tolist()]
        elif y.dtype.kind not in "biuf":
            raise TableError(f"The target column {self.target!r} must be numeric, as in fit.")
        return y, present

    def calibration(self, labelled: bool, group: str | None) -> tuple[Any, Any, Any]:
        """Return the rows with their targets, if ``labelled``, and with their groups as text.

        Rows without a target are then left out, with a warning.
        """
        X, y, groups, present = self.X, None, None, np.ones(len(self.X), dtype=bool)
        if labelled:
            y, present = self.labels()
            if not present.all():
                print_warning(f"{(~present).sum():,} rows without {self.target!r} are left out.")
            X = X[present]
        if group is not None:
            groups = self.form.read_frame(self.path, [group])[group][present]
            if groups.isna().any() or (groups == "").any():
                raise ValueError(f"--group: the column {group!r} must not have missing values.")
            groups = groups.astype(str).to_numpy()
        return X, y, groups

    def evaluate(self, mean_features: float | None) -> Evaluation:
        """Evaluate the model on the rows whose target is not missing."""
        y, present = self.labels()
        return self.model.evaluate(self.X[present], y, mean_features=mean_features)

    def warn_if_trained(self) -> None:
        """Print a warning if the table is the file that ``suwr fit`` has read."""
        digest = self.model.training_file_
        if digest is not None and digest == file_digest(self.path):
            print_warning(
                f"{printable(self.path)} is the file that the model was fitted on. Scores of "
                "training rows are too good, and certificates do not hold: hold rows out with "
                "'suwr fit --test-size 0.25 --test-out test.csv'."
            )


def model_columns(model: SUWRModel, frame: Any, form: CsvFormat | None = None) -> Any:
    """Return the columns that `suwr.data.stored.source_columns` names as the model expects them.

    Columns of dates are replaced by their parts, if the model was fitted on these.

    Parameters
    ----------
    model : estimator
    frame : pandas.DataFrame
        Of cells that were read as text.
    form : CsvFormat, optional
        If its decimal separator is a comma, it is replaced in the columns of numbers.
    """
    chosen = frame
    if source_columns(model) is None:
        chosen = frame.set_axis(range(frame.shape[1]), axis=1)
    elif model.dates_ is not None:
        chosen = model.dates_.transform(frame)[list(model.feature_names_in_)]
    return chosen if form is None else with_points(chosen, model.encoder_, form.point)


# Receipts in memory at a time; their bytes are limited too.
BATCH = 8192
BATCH_BYTES = 2**25
# Failures that are printed one by one.
MAX_SHOWN = 20


def write_receipts(
    model: SUWRModel,
    data: Path,
    out: Path,
    mean_features: float | None,
    form: CsvFormat,
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


def _row_batches(model: SUWRModel, data: Path, form: CsvFormat) -> Iterator[Any]:
    if form != CsvFormat():
        # Only files of the default format are read in batches.
        yield Rows(model, data, form).X
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


def verify_calibration(
    model: Path, data: Path, form: CsvFormat, target: str | None, group: str | None
) -> None:
    """Print whether a certificate is verified; the exit status is 2 if it is not."""
    fitted = load(model)
    certificate = fitted.fitted_policy().certificate
    if certificate is None:
        raise ValueError(f"{printable(model)} has no certificate: it was not made by 'certify'.")
    labelled = certificate.class_kind == "true" or certificate.risk in ("error", "loss")
    X, y, groups = Rows(fitted, data, form, target).calibration(labelled, group)
    terminal, result = Terminal(), verify_certificate(fitted, X, y, groups=groups)
    terminal.print(str(result))
    if not result:
        raise typer.Exit(2)
    terminal.print(certificate.sentence)


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
    model: SUWRModel, data: Path, out: Path, mean_features: float | None, form: CsvFormat
) -> None:
    """Write the prediction and the selected columns of every row to one file."""
    pandas = require("pandas", "tables", "Writing predictions")
    rows = Rows(model, data, form)
    X = rows.X
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
    if rows.has_target:
        try:
            found = rows.evaluate(mean_features)
            terminal.print(f"Compared with the column {printable(rows.target)!r}:")
            terminal.print(found.text())
            rows.warn_if_trained()
        except ValueError as error:
            terminal.print(f"Note: no score, since {error}", style="yellow")


def at_mean_features(model: SUWRModel, mean_features: float | None) -> Any:
    """Return the model with the policy of this mean number of features for all its methods."""
    if mean_features is None:
        return model
    fixed = copy(model)
    fixed.policy_ = model.fitted_policy(mean_features=mean_features).policy
    fixed.weight_range_ = None
    return fixed


def two_classes(text: str | None, model: SUWRModel, option: str) -> tuple[Any, Any] | None:
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


def read_references(path: Path) -> dict[str, Any]:
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
