"""``suwr fit``: train a model on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import check_writable
from suwr._utils.text import printable
from suwr.cli.tables import read_frame
from suwr.cli.terminal import Terminal
from suwr.estimators.base import BaseSUWR
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.regressor import SUWRRegressor
from suwr.exceptions import TableError
from suwr.nn.distributed import torchrun_process_group
from suwr.scale import ParquetTable

__all__ = ["fit_table"]

# With --task auto, a numeric target with more distinct values than this is a regression target.
MAX_CLASSES = 20


def fit_table(
    data: str,
    target: str,
    out: Path,
    task: str,
    sparsity_weight: str,
    groups: list[str],
    costs: list[str],
    stream: bool,
    scratch: Path | None,
    **params: Any,
) -> None:
    """Train on files and write the model; under ``torchrun``, with all of its processes."""
    check_writable(out)
    read = _read_stored if stream or not Path(data).is_file() else _read_whole
    X, y, sample = read(data, target, scratch)
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"--task must be 'auto', 'classification' or 'regression'. Got {task!r}.")
    if task == "auto":
        task = "regression" if _is_regression_target(y) else "classification"
    kind: type[BaseSUWR] = SUWRRegressor if task == "regression" else SUWRClassifier
    named = {name: [c.strip() for c in columns.split(",")] for name, columns in _pairs(groups)}
    unit_costs = {name: _number(value, f"--cost {name}") for name, value in _pairs(costs)}
    model = kind(
        sparsity_weight=_sparsity_weight(sparsity_weight),
        groups=named or None,
        costs=unit_costs or None,
        verbose=1,
        **params,
    )
    with torchrun_process_group(str(params["device"])) as leads:
        checkpoint = model._fit(X, y)
    if not leads:
        return
    model.save(out)
    if checkpoint is not None:
        checkpoint.remove()
    terminal = Terminal()
    used = model.select(sample).sum(axis=1).mean()
    terminal.print(
        f"Trained a {task} model on {len(X)} rows and {sample.shape[1]} columns; "
        f"it selects {used:.1f} columns per row on average."
    )
    terminal.print_written(out)


def _read_whole(data: str, target: str, scratch: Path | None) -> tuple[Any, NDArray[Any], Any]:
    """Return features, target, and the rows that the final message summarises: all of them."""
    frame = read_frame(Path(data), infer_types=True)
    if target not in frame.columns:
        known = ", ".join(printable(c) for c in list(frame.columns)[:12])
        raise TableError(
            f"--target must be a column of {printable(Path(data).name)}: {known}. Got {target!r}."
        )
    y, X = frame[target], frame.drop(columns=[target])
    if y.isna().any():
        raise TableError(f"The target column {target!r} has {int(y.isna().sum())} missing values.")
    return X, y.to_numpy(), X


def _read_stored(data: str, target: str, scratch: Path | None) -> tuple[Any, NDArray[Any], Any]:
    """Like `_read_whole`, for files read in chunks; the summary is of the first rows only."""
    table = ParquetTable(data, [target], scratch)
    return table, table.read_excluded(target), table.head()


def _is_regression_target(y: NDArray[Any]) -> bool:
    return y.dtype.kind in "iuf" and len(np.unique(y)) > MAX_CLASSES


def _pairs(texts: list[str]) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            raise ValueError(f"--group and --cost must be NAME=VALUE. Got {text!r}.")
    return [(t.split("=", 1)[0].strip(), t.split("=", 1)[1]) for t in texts]


def _sparsity_weight(text: str) -> float | Literal["auto"] | tuple[float, float]:
    """Parse a number, 'auto', or LOW:HIGH."""
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
