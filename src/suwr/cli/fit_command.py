"""The options of ``suwr fit``; `suwr.cli.fit` is imported after they have been checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suwr.cli.arguments import Decimal, Encoding, Seed, Sep, report_errors
from suwr.cli.options import (
    CsvFormat,
    check_column,
    check_outputs,
    check_table,
    check_table_path,
    parse_loss,
    parse_number,
    parse_pairs,
    parse_range,
    parse_sparsity_weight,
    parse_task,
    read_columns,
    split_names,
)
from suwr.data.files import find_files

__all__ = ["fit"]


@report_errors
def fit(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV or Parquet file. For data larger than memory, a folder of Parquet "
            "files or a quoted pattern: 'data/*.parquet'."
        ),
    ],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    task: Annotated[str, typer.Option(help="'classification', 'regression' or 'auto'.")] = "auto",
    loss: Annotated[
        str | None,
        typer.Option(
            help="Loss of a regression: 'squared_error', 'absolute_error', 'quantile', 'poisson' "
            "or 'gamma'. Implies --task regression.",
            show_default="squared_error",
        ),
    ] = None,
    quantile: Annotated[
        float | None,
        typer.Option(help="The quantile of --loss quantile, between 0 and 1.", show_default=False),
    ] = None,
    target_transform: Annotated[
        str | None,
        typer.Option(
            help="Function of the target that is learned, for heavy tails: 'log', 'log1p' or "
            "'asinh'. Predictions are in the units of the target. Implies --task regression.",
            show_default="none",
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="'balanced': all classes have the same total weight. For rare classes.",
            show_default="none",
        ),
    ] = None,
    sparsity_weight: Annotated[
        str,
        typer.Option(
            help="Penalty per unit of feature cost, in units of the loss; 'auto'; or a range "
            "LOW:HIGH, to choose later with --mean-features."
        ),
    ] = "auto",
    max_cost: Annotated[
        str | None,
        typer.Option(
            help="A range of budgets LOW:HIGH to train for; the model is then used with --max-cost "
            "of 'suwr ask', or with 'max_cost' in Python and in the service.",
            show_default="none",
        ),
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Maximum number of steps per row.")] = None,
    max_epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of policy training.", show_default="from the number of rows"),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Columns revealed together: NAME=column,column. Repeatable."),
    ] = None,
    cost: Annotated[
        list[str] | None, typer.Option(help="Cost of a unit: NAME=number. Repeatable.")
    ] = None,
    columns: Annotated[
        Path | None,
        typer.Option(
            help='JSON file with labels, units of measurement and category labels: {"bmi": '
            '{"label": "Body mass index", "unit": "kg/m²"}}.'
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File for checkpoints; an interrupted fit resumes from it."),
    ] = None,
    device: Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")] = "auto",
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read a single Parquet file in chunks, as folders and patterns are."
        ),
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(help="Folder for temporary files when reading in chunks."),
    ] = None,
    test_size: Annotated[
        float | None,
        typer.Option(
            help="Share of the rows, or number of rows, that is held out and scored at the end.",
            show_default="none",
        ),
    ] = None,
    test_out: Annotated[
        Path | None,
        typer.Option(
            help="Write the rows of --test-size to this CSV, TSV or Parquet file, for 'suwr "
            "score', 'figures' and 'certify'."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column that is not used. Repeatable.")
    ] = None,
    drop_identifiers: Annotated[
        bool,
        typer.Option("--drop-identifiers", help="Do not use columns that look like identifiers."),
    ] = False,
    dates: Annotated[
        str | None,
        typer.Option(
            help="Columns of dates, COLUMN,COLUMN, that are replaced by their year, month, day, "
            "weekday and time. The parts of a date are revealed together.",
            show_default=False,
        ),
    ] = None,
    date_order: Annotated[
        str,
        typer.Option(
            help="Order of day, month and year in --dates: 'ymd', 'dmy', 'mdy' or 'auto'."
        ),
    ] = "auto",
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    seed: Seed = 0,
) -> None:
    """Train a model on a table; under torchrun, with all of its processes."""
    form = CsvFormat(sep, encoding, decimal)
    # A file may have the characters of a pattern in its name.
    single = Path(data).is_file() or not any(c in data for c in "*?[")
    whole = not stream and not Path(data).is_dir() and single
    check_outputs(
        {"--out": out, "--test-out": test_out, "--checkpoint": checkpoint},
        *([Path(data)] if whole else map(Path, find_files(data))),
        columns,
    )
    if whole:
        check_table(Path(data))
        of_dates = split_names(dates)
        for option, names in (
            ("--target", [target]),
            ("--drop", drop or []),
            ("--dates", of_dates),
        ):
            for name in names:
                check_column(Path(data), name, option, form)
    elif drop or drop_identifiers or dates or test_size is not None or not form.is_default:
        raise ValueError(
            "--test-size, --drop, --drop-identifiers, --dates, --sep, --encoding and --decimal "
            "require a single file that is read as a whole."
        )
    if date_order not in ("auto", "ymd", "dmy", "mdy"):
        raise ValueError(f"--date-order must be 'auto', 'ymd', 'dmy' or 'mdy'. Got {date_order!r}.")
    if test_size is not None and not (
        0 < test_size < 1 or (test_size >= 1 and test_size.is_integer())
    ):
        raise ValueError(
            f"--test-size must be between 0 and 1, or a whole number of rows. Got {test_size:g}."
        )
    if test_out is not None:
        if test_size is None:
            raise ValueError("--test-out requires --test-size.")
        check_table_path(test_out)
    params = {
        "sparsity_weight": parse_sparsity_weight(sparsity_weight),
        "groups": {n: split_names(v) for n, v in parse_pairs(group or [])},
        "costs": {n: parse_number(v, f"--cost {n}") for n, v in parse_pairs(cost or [])},
        "max_cost": None if max_cost is None else parse_range(max_cost, "--max-cost"),
        "max_steps": max_steps,
        "max_epochs": max_epochs or "auto",
        "columns": None if columns is None else read_columns(columns),
        "checkpoint": checkpoint,
        "device": device,
        "random_state": seed,
    }
    task = parse_task(task)
    of_loss = parse_loss(task, loss, quantile, target_transform)
    if of_loss:
        task, params = "regression", params | of_loss
    if class_weight is not None:
        if class_weight != "balanced":
            raise ValueError(f"--class-weight must be 'balanced'. Got {class_weight!r}.")
        if task == "regression":
            raise ValueError("--class-weight is for classification: omit it.")
        task, params = "classification", params | {"class_weight": class_weight}
    from suwr.cli.fit import FitInput, fit_table

    source = FitInput(
        data,
        target,
        whole,
        scratch,
        form,
        tuple(drop or ()),
        drop_identifiers,
        test_size,
        test_out,
        tuple(split_names(dates)),
        date_order,
    )
    fit_table(source, out, task, params)
