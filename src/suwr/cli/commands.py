"""What ``fit``, ``predict`` and ``explain`` do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from suwr._engine import engine
from suwr._files import check_writable, write_atomic
from suwr._optional import require
from suwr.audit import audit_files
from suwr.cli.files import check_table_path, read_frame, write_frame
from suwr.estimators.base import BaseSUWR
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.persistence import load
from suwr.estimators.regressor import SUWRRegressor
from suwr.exceptions import TableError
from suwr.nn.distributed import launched
from suwr.scale import score_partitions

__all__ = [
    "PageOptions", "audit_table", "explain_rows", "fit_table", "predict_folder", "predict_table",
]  # fmt: skip

# A numeric target with more distinct values than this is a quantity, not a class.
MOST_CLASSES = 20


def fit_table(
    data: Path,
    target: str,
    out: Path,
    task: str,
    sparsity_weight: str,
    groups: list[str],
    costs: list[str],
    **params: Any,
) -> None:
    """Train on a file and write the model; under ``torchrun``, by all of its processes."""
    check_writable(out)
    frame = read_frame(data)
    if target not in frame.columns:
        known = ", ".join(str(c) for c in list(frame.columns)[:12])
        raise TableError(f"--target must be a column of {data.name}: {known}. Got {target!r}.")
    y, X = frame[target], frame.drop(columns=[target])
    if y.isna().any():
        raise TableError(f"The target column {target!r} has {int(y.isna().sum())} missing values.")
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"--task must be 'auto', 'classification' or 'regression'. Got {task!r}.")
    if task == "auto":
        task = "regression" if _is_quantity(y) else "classification"
    kind: type[BaseSUWR] = SUWRRegressor if task == "regression" else SUWRClassifier
    named = {name: [c.strip() for c in columns.split(",")] for name, columns in _pairs(groups)}
    priced = {name: _number(value, f"--cost {name}") for name, value in _pairs(costs)}
    model = kind(
        sparsity_weight=_price(sparsity_weight),
        groups=named or None,
        costs=priced or None,
        verbose=1,
        **params,
    )
    with launched(str(params["device"])) as leads:
        model.fit(X, y.to_numpy())
    if not leads:
        return
    model.save(out)
    console = Console()
    used = model.select(X).sum(axis=1).mean()
    console.print(
        f"Trained a {task} model on {len(X)} rows and {X.shape[1]} columns; "
        f"it uses {used:.1f} columns on average."
    )
    console.print(f"Wrote {out}", soft_wrap=True)


def predict_table(
    model_path: Path, data: Path, out: Path, mean_features: float | None = None
) -> None:
    """Write predictions, and what they were made of, beside the number of the row."""
    check_table_path(out)
    pandas = require("pandas", "tables", "Writing predictions")
    model = load(model_path)
    X = _features(model, read_frame(data))
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
    hidden_values: bool = True


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
    X = _features(model, frame)
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
        axes.figure.savefig(plot, dpi=150, bbox_inches="tight")
        console.print(f"Wrote {plot}", soft_wrap=True)
    if report.leaks:
        raise SystemExit(2)


def _features(model: Any, frame: Any) -> Any:
    """The columns that the model knows; others, such as the target, are left aside."""
    if not hasattr(model, "feature_names_in_"):
        return frame.set_axis(range(frame.shape[1]), axis=1)
    names = list(model.feature_names_in_)
    missing = [n for n in names if n not in frame.columns]
    if missing:
        raise TableError(
            f"The table lacks {len(missing)} column(s) of the model: "
            + ", ".join(repr(n) for n in missing[:8])
        )
    return frame[names]


def _is_quantity(y: Any) -> bool:
    values = y.to_numpy()
    return values.dtype.kind in "iuf" and len(np.unique(values)) > MOST_CLASSES


def _pairs(texts: list[str]) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            raise ValueError(f"Write NAME=VALUE. Got {text!r}.")
    return [(t.split("=", 1)[0].strip(), t.split("=", 1)[1]) for t in texts]


def _price(text: str) -> float | Literal["auto"] | tuple[float, float]:
    """``--sparsity-weight``: a number, 'auto', or LOW:HIGH."""
    if text == "auto":
        return "auto"
    if ":" not in text:
        return _number(text, "--sparsity-weight")
    low, _, high = text.partition(":")
    return _number(low, "--sparsity-weight"), _number(high, "--sparsity-weight")


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number. Got {text!r}.") from None
