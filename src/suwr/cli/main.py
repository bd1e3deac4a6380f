"""The commands and their options.

Expected errors are printed as one line, and the exit status is non-zero. The commands import their
implementations when they are called, so that ``suwr --help`` does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from suwr import __version__
from suwr._utils.text import printable
from suwr.cli.terminal import print_error

__all__ = ["app"]

app = typer.Typer(
    name="suwr",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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


def _report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print expected errors as one line instead of a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError, ImportError, KeyError) as error:
            text = str(error) if not isinstance(error, KeyError) else str(error.args[0])
            if isinstance(error, OSError) and error.strerror and error.filename:
                text = f"{printable(error.filename)}: {error.strerror}"
            print_error(text)
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
    """Instance-wise feature selection, provably leakage-free."""


@app.command()
@_report_errors
def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("suwr-demo"),
    seed: Seed = 0,
) -> None:
    """Train on the breast cancer data and explain three predictions step by step."""
    from suwr.cli.demo import run_demo

    run_demo(out, seed)


@app.command()
@_report_errors
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
    sparsity_weight: Annotated[
        str,
        typer.Option(
            help="Penalty per unit of feature cost, in units of the loss; 'auto'; or a range "
            "LOW:HIGH, to choose later with --mean-features."
        ),
    ] = "auto",
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
    seed: Seed = 0,
) -> None:
    """Train a model on a table; under torchrun, with all of its processes."""
    from suwr.cli.fit import fit_table

    fit_table(
        data, target, out, task, sparsity_weight, group or [], cost or [], stream, scratch,
        max_steps=max_steps, max_epochs=max_epochs or "auto", checkpoint=checkpoint, device=device,
        random_state=seed,
    )  # fmt: skip


@app.command()
@_report_errors
def predict(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV or Parquet file. If --out is a folder, also a folder of files or a "
            "quoted pattern: 'data/*.parquet'."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="CSV, TSV or Parquet file; or a folder, for data of any size. Partitions that "
            "are finished there are skipped."
        ),
    ],
    jobs: Annotated[int, typer.Option(help="Partitions in parallel, if --out is a folder.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler, tcp://…, if --out is a folder."),
    ] = None,
    mean_features: MeanFeatures = None,
) -> None:
    """Predict every row, and list the features that each prediction used."""
    from suwr.cli.predict import predict_folder, predict_table

    if not (out.is_dir() or not out.suffix):
        predict_table(model, Path(data), out, mean_features)
    elif mean_features is not None:
        raise ValueError("--mean-features requires --out to be a file, not a folder.")
    else:
        predict_folder(model, data, out, jobs, scheduler)


@app.command()
@_report_errors
def explain(
    model: Model,
    data: Data,
    row: Annotated[
        list[int] | None, typer.Option(help="Row number, counted from 0. Repeatable.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the narratives as JSON.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a self-contained interactive HTML page.")
    ] = None,
    receipts: Annotated[
        Path | None,
        typer.Option(
            help="Write the receipt of every row as a line of JSON, for 'suwr verify'; at bounded "
            "memory, for tables of any size."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of true classes or values, shown in the page.")
    ] = None,
    page_model: Annotated[
        bool | None,
        typer.Option(
            "--with-model/--without-model",
            help="Embed the model in the page; by default if it takes at most 3 MB.",
            show_default=False,
        ),
    ] = None,
    hidden_values: Annotated[
        bool,
        typer.Option(
            "--hidden-values/--no-hidden-values",
            help="Embed values that were not revealed in the page too.",
        ),
    ] = False,
    mean_features: MeanFeatures = None,
) -> None:
    """Explain predictions step by step, as text, JSON, an HTML page or receipts."""
    from suwr.cli.predict import PageOptions, explain_rows

    options = PageOptions(target, page_model, hidden_values)
    explain_rows(model, data, row or [], json, html, options, mean_features, receipts)


@app.command()
@_report_errors
def verify(
    receipts: Annotated[
        Path,
        typer.Argument(help="A receipt as JSON, or a .jsonl file with one receipt per line."),
    ],
    model: Annotated[Path, typer.Option(help="The model file that the receipts are of.")],
) -> None:
    """Replay the decisions of receipts from the revealed values alone.

    The exit status is 2 if a receipt is not verified.
    """
    from suwr.cli.verify import verify_receipts

    verify_receipts(receipts, model)


@app.command()
@_report_errors
def audit(
    data: Data,
    model: Annotated[Path | None, typer.Option(help="Model file to audit.")] = None,
    masks: Annotated[
        Path | None,
        typer.Option(help="CSV file of 0 and 1 with the masks of any other selector."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of labels, to measure leakage about the label.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the report as a figure.")] = None,
    seed: Seed = 0,
) -> None:
    """Search for leakage in a model, or in the masks of another selector.

    The exit status is 2 if there is leakage.
    """
    from suwr.cli.audit import audit_table

    audit_table(data, model, masks, target, json, plot, seed)


@app.command()
@_report_errors
def ask(
    model: Model,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            "--out",
            help="JSON file for questions and answers; by default a new file named after the "
            "model and the time.",
        ),
    ] = None,
    no_record: Annotated[bool, typer.Option("--no-record", help="Write no record.")] = False,
) -> None:
    """Answer questions about one feature at a time until the model stops asking."""
    from suwr.cli.ask import ask_questions, default_record

    if record is not None and no_record:
        raise ValueError("--record and --no-record exclude each other.")
    ask_questions(model, None if no_record else record or default_record(model))


@app.command()
@_report_errors
def figures(
    model: Model,
    data: Data,
    target: Annotated[str, typer.Option(help="Column of true classes or values.")],
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("suwr-figures"),
    pair: Annotated[
        str | None,
        typer.Option(help="Images: two classes whose narratives are compared, such as 5,9."),
    ] = None,
    flip: Annotated[
        str | None,
        typer.Option(help="Images: change one patch so that the prediction flips, such as 3,8."),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Model with another sparsity weight, for 'accuracy'. Repeatable."),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="JSON of exact or published points, for 'accuracy'.")
    ] = None,
) -> None:
    """Draw every figure that applies to a model, from rows that it was not trained on."""
    from suwr.cli.figures import write_figures

    write_figures(model, data, target, out, pair, flip, also or [], references)
