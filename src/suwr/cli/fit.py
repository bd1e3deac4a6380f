"""``suwr fit`` and ``suwr demo``: train a model on a table or on an example.

Columns that are probably read wrongly are noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from suwr._utils.files import write_atomic
from suwr._utils.text import counted, printable
from suwr._utils.validation import require
from suwr.cli.options import CsvFormat, Terminal, file_digest, write_frame
from suwr.data.dates import WEEKDAYS, DateParts
from suwr.data.stored import identifier_columns
from suwr.estimators.base import SUWRModel
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.verify import poison_check
from suwr.exceptions import TableError
from suwr.nn.distributed import torchrun_process_group
from suwr.scale import ParquetTable

# With --task auto, a numeric target with more distinct values than this is a regression target.
MAX_CLASSES = 20


@dataclass(frozen=True)
class FitInput:
    """The table that ``suwr fit`` reads.

    Attributes
    ----------
    data : str
        A file, a folder or a pattern.
    target : str
        The column to predict.
    whole : bool
        Whether the table is a file that is read as a whole.
    form : CsvFormat
    scratch : Path or None
        Folder for temporary files of tables that are read in chunks.
    drop : sequence of str
        Columns that are not used.
    drop_identifiers : bool
        Whether columns that look like identifiers are not used.
    dates : sequence of str
        Columns of dates, which are replaced by their parts.
    date_order : {'auto', 'ymd', 'dmy', 'mdy'}
    """

    data: str
    target: str
    whole: bool
    form: CsvFormat
    scratch: Path | None
    drop: Sequence[str]
    drop_identifiers: bool
    dates: Sequence[str]
    date_order: Any


def fit_table(
    source: FitInput,
    out: Path,
    task: str,
    params: dict[str, Any],
    checkpoint: Path | None,
    test_size: float | None,
    test_out: Path | None,
) -> None:
    """Train on files and write the model; under ``torchrun``, with all of its processes.

    Of the rows, ``test_size`` are held out and scored at the end, and written to ``test_out`` as
    they are in the table.
    """
    # Before the fit, during which the file may change.
    digest = file_digest(Path(source.data)) if source.whole else None
    X, y, sample = _read_whole(source) if source.whole else _read_stored(source)
    dates = None
    if source.dates:
        dates = DateParts(source.dates, order=source.date_order).fit(X)
        X = sample = dates.transform(X)
        params = params | date_parameters(dates, params["groups"], params["columns"])
    if task == "auto":
        task = "regression" if _is_regression_target(y) else "classification"
    kind: type[SUWRModel] = SUWRRegressor if task == "regression" else SUWRClassifier
    test = None
    if test_size is not None:
        X, y, test = _hold_out(X, y, test_size, task, int(params["random_state"]))
        sample = X
    settings = {**params, "groups": params["groups"] or None, "costs": params["costs"] or None}
    model = kind(verbose=1, **settings)
    with torchrun_process_group(str(params["device"])) as leads:
        written = model._fit(X, y, checkpoint)
    if not leads:
        return
    model.target_name_, model.dates_, model.training_file_ = source.target, dates, digest
    model.csv_format_ = source.form.to_dict()
    model.save(out)
    if written is not None:
        written.remove()
    terminal = Terminal()
    used = model.select(sample).sum(axis=1).mean()
    terminal.print(
        f"Trained a {task} model on {counted(len(X), 'row')} and "
        f"{counted(sample.shape[1], 'column')}; "
        f"it selects {used:.1f} columns per row on average."
    )
    if test is not None:
        terminal.print("On the test rows, which were not used in training:")
        terminal.print(model.evaluate(*test).text())
    elif model.report_ is not None:
        terminal.print("On the validation rows, which chose the best epoch of training:")
        terminal.print(model.report_.text())
    terminal.print_written(out)
    if test is not None and test_out is not None:
        rows = source.form.read_frame(Path(source.data))
        write_frame(rows.iloc[test[0].index], test_out, source.form)
        terminal.print_written(test_out, counted(len(test[0]), "test row"))


def date_parameters(
    dates: DateParts, groups: Mapping[str, Sequence[str]], columns: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return ``groups`` and ``columns`` for a table in which dates are replaced by their parts.

    Parameters
    ----------
    dates : DateParts
        Fitted.
    groups : mapping of str to sequence of str
        The value of --group. A date in a group stands for its parts; any other date is a unit.
    columns : mapping or None
        The value of --columns. The label of a date precedes the names of its parts.
    """
    parts = dates.groups_
    resolved = {
        unit: [part for name in names for part in parts.get(name, [name])]
        for unit, names in groups.items()
    }
    grouped = {name for names in groups.values() for name in names}
    resolved |= {name: own for name, own in parts.items() if name not in grouped}
    described = {name: value for name, value in (columns or {}).items() if name not in parts}
    for date in dates.dates_:
        label = dict((columns or {}).get(date.name) or {}).get("label")
        for part, column in zip(date.parts, date.columns, strict=True):
            own: dict[str, Any] = {} if label is None else {"label": f"{label} {part}"}
            if part == "weekday":
                own["categories"] = WEEKDAYS
            if own:
                described.setdefault(column, own)
    return {"groups": resolved, "columns": described or None}


def _hold_out(
    X: Any, y: NDArray[Any], size: float, task: str, seed: int
) -> tuple[Any, NDArray[Any], tuple[Any, NDArray[Any]]]:
    """Split off test rows, with the same class frequencies if possible."""
    number = int(size) if size >= 1 else max(1, round(size * len(X)))
    if number > len(X) - 2:
        raise ValueError(f"--test-size must leave two of the {len(X)} rows. Got {size:g}.")
    stratify = None
    if task == "classification":
        counts = np.unique(y, return_counts=True)[1]
        if counts.min() > 1 and min(number, len(X) - number) >= len(counts):
            stratify = y
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=number, stratify=stratify, random_state=seed
    )
    if stratify is None and task == "classification":
        # Classes that occur only among the test rows cannot be evaluated.
        known = np.isin(y_test, y_train)
        test, y_test = test[known], y_test[known]
    return train, y_train, (test, y_test)


def _read_whole(source: FitInput) -> tuple[Any, NDArray[Any], Any]:
    """Return features, target, and the rows that the final message summarises: all of them."""
    path, target = Path(source.data), source.target
    frame = source.form.read_frame(path, infer_types=True)
    for option, names in (("--target", [target]), ("--drop", source.drop)):
        if both := set(names) & set(source.dates):
            raise ValueError(f"--dates and {option} must not name the same column: {min(both)!r}.")
    y, X = frame[target], frame.drop(columns=[target, *source.drop])
    if y.isna().any():
        raise TableError(
            f"The target column {target!r} has {int(y.isna().sum())} missing values, the first in "
            f"row {int(y.isna().to_numpy().argmax())}. A model is fitted on rows with a target: "
            "remove the others from the file, or write a class of its own into them."
        )
    terminal = Terminal()
    if source.drop_identifiers:
        identifiers = identifier_columns(X.drop(columns=list(source.dates)))
        X = X.drop(columns=identifiers)
        if identifiers:
            terminal.print(f"Not used, as identifiers: {', '.join(map(printable, identifiers))}.")
    return X, y.to_numpy(), X


def _read_stored(source: FitInput) -> tuple[Any, NDArray[Any], Any]:
    """Like `_read_whole`, for files read in chunks; the summary is of the first rows only."""
    table = ParquetTable(source.data, [source.target], source.scratch)
    return table, table.read_excluded(source.target), table.head()


def _is_regression_target(y: NDArray[Any]) -> bool:
    return y.dtype.kind in "iuf" and len(np.unique(y)) > MAX_CLASSES


def run_demo(out: Path, seed: int = 0) -> None:
    """Train, compare with gradient boosting, explain, check for leakage and write files."""
    require("pandas", "tables", "The demo")
    out.mkdir(parents=True, exist_ok=True)
    names = ("breast-cancer.suwr", "narratives.json", "narratives.txt", "narratives.html")
    paths = [out / name for name in names]
    present = [path for path in paths if path.exists()]
    if present and paths[0] not in present:
        raise FileExistsError(
            f"--out must be a new folder, or that of an earlier demo. Got {str(out)!r}, which "
            f"contains another {present[0].name!r}."
        )
    terminal = Terminal()
    bunch = load_breast_cancer(as_frame=True)
    X, n_columns = bunch.data, bunch.data.shape[1]
    y = bunch.target_names[bunch.target]
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    terminal.print(
        f"Breast cancer: {len(X_train)} training and {len(X_test)} test patients, "
        f"{n_columns} measurements each."
    )
    # At most ten steps, so that every narrative is easy to read.
    model = SUWRClassifier(max_steps=10, random_state=seed, verbose=1)
    model.fit(X_train, y_train)
    boosting = HistGradientBoostingClassifier(random_state=seed).fit(X_train, y_train)

    used = model.select(X_test).sum(axis=1)
    table = RichTable("", "accuracy", "AUROC", "measurements used")
    rows = (
        ("suwr", model.predict_proba(X_test), f"{used.mean():.1f} of {n_columns}, leak-free"),
        ("gradient boosting", boosting.predict_proba(X_test), f"all {n_columns}"),
    )
    for name, probability, cost in rows:
        label = model.classes_[probability.argmax(axis=1)]
        auroc = roc_auc_score(y_test == model.classes_[1], probability[:, 1])
        table.add_row(name, f"{accuracy_score(y_test, label):.3f}", f"{auroc:.3f}", cost)
    terminal.console.print(table)

    explanation = model.explain(X_test)
    by_length = np.argsort(used, kind="stable")
    chosen = [int(by_length[i]) for i in (0, len(used) // 2, len(used) - 1)]
    terminal.print("\nThree narratives: the shortest, one of median length, and the longest.\n")
    for number in chosen:
        terminal.print(explanation[number].text())
        terminal.print(f"The true diagnosis is {y_test[number]}.\n", style="dim")

    report = poison_check(model, X_test, random_state=seed)
    result = (
        "selections and predictions are bit-identical"
        if report.passed
        else f"{report.n_changed} ROWS CHANGED"
    )
    terminal.print(
        f"Leakage check: {report.n_cells:,} hidden values of {report.n_rows} patients were "
        f"replaced by NaN, by huge numbers and by other patients' values: {result}."
    )

    model.save(paths[0])
    write_atomic(paths[1], explanation.to_json().encode())
    write_atomic(paths[2], (explanation.text() + "\n").encode())
    title = "Breast cancer: every diagnosis, step by step"
    # The data are public, so readers may see hidden values too.
    explanation.to_html(paths[3], y=y_test, title=title, hidden_values=True)
    terminal.print("\nWrote:")
    for path in paths:
        terminal.print(f"  {printable(path)}")
    if not report.passed:
        raise ValueError("The leakage check failed.")
