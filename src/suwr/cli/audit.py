"""``suwr audit``: search for leakage in a model file or in a file of masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr.audit import audit_files
from suwr.cli.options import CsvFormat
from suwr.cli.terminal import Terminal
from suwr.estimators.files import load
from suwr.plots._style import write_figure

__all__ = ["audit_table"]


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
