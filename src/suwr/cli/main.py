"""The commands. Each says what went wrong in one line and leaves a non-zero exit status."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from suwr import __version__

__all__ = ["app"]

app = typer.Typer(
    name="suwr",
    help="Feature selection for each prediction that provably tells nothing else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Model = Annotated[Path, typer.Argument(help="A model file that 'suwr fit' wrote.")]
Data = Annotated[Path, typer.Argument(help="A CSV, TSV or Parquet file.")]
MeanFeatures = Annotated[
    float | None,
    typer.Option(help="Features of a row on average, for a model fitted for a range of prices."),
]


def _plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Turn expected errors into one clear line."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError, ImportError, KeyError) as error:
            text = str(error) if not isinstance(error, KeyError) else str(error.args[0])
            if isinstance(error, OSError) and error.strerror and error.filename:
                text = f"{error.filename}: {error.strerror}"
            typer.secho("Error: " + " ".join(text.split()), fg="red", err=True)
            raise typer.Exit(1) from None

    return run


def _version(show: bool) -> None:
    if show:
        typer.echo(f"suwr {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Feature selection for each prediction that provably tells nothing else."""


@app.command()
@_plainly
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demo writes.")] = Path("suwr-demo"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Train on a real data set and tell the story of three predictions."""
    from suwr.cli.demo import run_demo

    run_demo(out, seed)


@app.command()
@_plainly
def fit(
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV or Parquet file. Parquet files larger than memory: a folder of them, "
            "or a pattern in quotes: 'data/*.parquet'."
        ),
    ],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    task: Annotated[str, typer.Option(help="'classification', 'regression' or 'auto'.")] = "auto",
    sparsity_weight: Annotated[
        str,
        typer.Option(
            help="Price of a feature in units of the loss, 'auto', or a range LOW:HIGH for a model "
            "that leaves the choice to --mean-features."
        ),
    ] = "auto",
    max_steps: Annotated[int | None, typer.Option(help="Most steps of a row.")] = None,
    max_epochs: Annotated[int, typer.Option(help="Epochs of policy training.")] = 100,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Columns revealed together: NAME=column,column. Repeatable."),
    ] = None,
    cost: Annotated[
        list[str] | None, typer.Option(help="Price of a unit: NAME=number. Repeatable.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File from which a fit that was stopped goes on when called again."),
    ] = None,
    device: Annotated[str, typer.Option(help="'auto', 'cpu' or 'cuda'.")] = "auto",
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read a Parquet file piece by piece, as a folder or pattern is read."
        ),
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(help="Folder for what is then written meanwhile; it needs room."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Train a model on a table; under torchrun, by all of its processes together."""
    from suwr.cli.fitting import fit_table

    fit_table(
        data, target, out, task, sparsity_weight, group or [], cost or [], stream, scratch,
        max_steps=max_steps, max_epochs=max_epochs, checkpoint=checkpoint, device=device,
        random_state=seed,
    )  # fmt: skip


@app.command()
@_plainly
def predict(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(
            help="A CSV, TSV or Parquet file. For a folder of results also a folder of files, or "
            "a pattern in quotes: 'data/*.parquet'."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="A CSV, TSV or Parquet file; or a folder, for data of any size: what was finished "
            "there is not done again."
        ),
    ],
    jobs: Annotated[int, typer.Option(help="Partitions at once, for a folder.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://…, for a folder.")
    ] = None,
    mean_features: MeanFeatures = None,
) -> None:
    """Predict every row, with the features that each prediction used."""
    from suwr.cli.commands import predict_folder, predict_table

    if not (out.is_dir() or not out.suffix):
        predict_table(model, Path(data), out, mean_features)
    elif mean_features is not None:
        raise ValueError("--mean-features needs a file as --out, not a folder.")
    else:
        predict_folder(model, data, out, jobs, scheduler)


@app.command()
@_plainly
def explain(
    model: Model,
    data: Data,
    row: Annotated[
        list[int] | None, typer.Option(help="Number of a row, from 0. Repeatable.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the narratives as JSON.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page to look at, with the model inside.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column of the truth, to show it in the page.")
    ] = None,
    page_model: Annotated[
        bool | None,
        typer.Option(
            "--with-model/--without-model",
            help="Put the model into the page; without either, where it is small.",
            show_default=False,
        ),
    ] = None,
    hidden_values: Annotated[
        bool,
        typer.Option(
            "--hidden-values/--no-hidden-values",
            help="Put the values that were not revealed into the page too.",
        ),
    ] = True,
    mean_features: MeanFeatures = None,
) -> None:
    """Tell how the predictions of some rows came about."""
    from suwr.cli.commands import PageOptions, explain_rows

    options = PageOptions(target, page_model, hidden_values)
    explain_rows(model, data, row or [], json, html, options, mean_features)


@app.command()
@_plainly
def audit(
    data: Data,
    model: Annotated[Path | None, typer.Option(help="A model file to audit.")] = None,
    masks: Annotated[
        Path | None,
        typer.Option(help="A CSV of 0 and 1: the selections of somebody else's selector."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column of labels, for what is told about them.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the report as a figure.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Look for leakage in a model, or in masks that another selector made."""
    from suwr.cli.commands import audit_table

    audit_table(data, model, masks, target, json, plot, seed)


@app.command()
@_plainly
def ask(
    model: Model,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            "--out",
            help="Where to write the record, as JSON; by default a new file named after the model "
            "and the time.",
        ),
    ] = None,
    no_record: Annotated[bool, typer.Option("--no-record", help="Write no record.")] = False,
) -> None:
    """Be asked for one feature at a time until the model has enough."""
    from suwr.cli.questions import ask_questions, default_record

    if record is not None and no_record:
        raise ValueError("Say either --record or --no-record.")
    ask_questions(model, None if no_record else record or default_record(model))


@app.command()
@_plainly
def figures(
    model: Model,
    data: Data,
    target: Annotated[
        str | None, typer.Option(help="The column of true classes or values.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("suwr-figures"),
    pair: Annotated[
        str | None, typer.Option(help="Two classes whose narratives are compared: 5,9.")
    ] = None,
    flip: Annotated[
        str | None, typer.Option(help="Two classes that one patch turns into each other: 3,8.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="A model of another sparsity weight, for the curve. Repeatable."),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="JSON of exact or published points for the curve.")
    ] = None,
) -> None:
    """Draw what a model does with a table; for images the paper's figures."""
    from suwr.cli.figures import write_figures

    write_figures(model, data, target, out, pair, flip, also or [], references)
