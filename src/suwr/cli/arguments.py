"""Arguments and options that several commands share, and the report of their errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from suwr._utils.text import printable
from suwr.cli.terminal import print_error, print_warning

__all__ = [
    "Context", "Data", "Decimal", "Encoding", "MeanFeatures", "Model", "Seed", "Sep",
    "report_errors",
]  # fmt: skip

Model = Annotated[Path, typer.Argument(help="Model file, as written by 'suwr fit'.")]
Data = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
MeanFeatures = Annotated[
    float | None,
    typer.Option(
        help="Target for the mean number of features per row; needs a model fitted for a range "
        "of sparsity weights."
    ),
]
Context = Annotated[
    bool,
    typer.Option("--context/--no-context", help="Say where numbers lie among the training values."),
]
Sep = Annotated[
    str | None,
    typer.Option(help="Separator of the columns of a CSV file.", show_default="by the suffix"),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file.", show_default="utf-8")]
Decimal = Annotated[str, typer.Option(help="Decimal separator of a CSV file: '.' or ','.")]


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print expected errors and warnings as one line each, without places in the source code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, UserWarning):
                default(message, category, *place, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                print_warning(str(message))

        try:
            with warnings.catch_warnings():
                default, warnings.showwarning = warnings.showwarning, show
                command(*args, **kwargs)
        except (ValueError, OSError, ImportError, KeyError) as error:
            text = str(error) if not isinstance(error, KeyError) else str(error.args[0])
            if isinstance(error, OSError) and error.strerror and error.filename:
                text = f"{printable(error.filename)}: {error.strerror}"
            print_error(text)
            raise typer.Exit(1) from None

    return run
