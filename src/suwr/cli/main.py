"""The commands and their options.

Expected errors are printed as one line, and the exit status is non-zero. The commands import their
implementations after the options have been checked, so that neither ``suwr --help`` nor a mistyped
name waits for the import of torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suwr import __version__
from suwr.cli.arguments import (
    Context,
    Data,
    Decimal,
    Encoding,
    MeanFeatures,
    Model,
    Seed,
    Sep,
    report_errors,
)  # fmt: skip
from suwr.cli.certify import certify
from suwr.cli.fit_command import fit
from suwr.cli.form import form
from suwr.cli.options import (
    CsvFormat,
    check_column,
    check_model,
    check_outputs,
    check_table,
    check_table_path,
)
from suwr.cli.serve import serve

__all__ = ["app"]

app = typer.Typer(
    name="suwr",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
@report_errors
def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("suwr-demo"),
    seed: Seed = 0,
) -> None:
    """Train on the breast cancer data and explain three predictions step by step."""
    from suwr.cli.demo import run_demo

    run_demo(out, seed)


app.command()(fit)
app.command()(serve)
app.command()(form)
app.command()(certify)


@app.command()
@report_errors
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
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Predict every row, and list the features that each prediction used."""
    form = CsvFormat(sep, encoding, decimal)
    check_model(model)
    folder = out.is_dir() or not out.suffix
    if not folder:
        check_table(Path(data))
        check_table_path(out)
        check_outputs({"--out": out}, model, Path(data))
    elif mean_features is not None:
        raise ValueError("--mean-features requires --out to be a file, not a folder.")
    elif not form.is_default:
        raise ValueError("--sep, --encoding and --decimal require --out to be a file.")
    from suwr.cli.predict import predict_folder, predict_table

    if folder:
        predict_folder(model, data, out, jobs, scheduler)
    else:
        predict_table(model, Path(data), out, mean_features, form)


@app.command()
@report_errors
def score(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(help="Column of true classes or values.", show_default="as in 'suwr fit'"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    mean_features: MeanFeatures = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Evaluate a model on rows that it was not trained on.

    Loss, accuracy and AUROC, or R² and mean absolute error, and the mean cost, with confidence
    intervals, beside a constant prediction and the prediction from all features.
    """
    form = CsvFormat(sep, encoding, decimal)
    check_model(model)
    check_table(data)
    check_column(data, target, "--target", form)
    from suwr.cli.score import score_table

    score_table(model, data, target, json, mean_features, form)


@app.command()
@report_errors
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
    context: Context = True,
    mean_features: MeanFeatures = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Explain predictions step by step, as text, JSON, an HTML page or receipts."""
    form = CsvFormat(sep, encoding, decimal)
    check_model(model)
    check_table(data)
    check_column(data, target, "--target", form)
    if not row and json is None and html is None and receipts is None:
        raise ValueError(
            "Give the rows to explain with --row, or an output file with --json, --html or "
            "--receipts."
        )
    if row and receipts is not None:
        raise ValueError("--receipts writes the receipts of all rows: omit --row.")
    check_outputs({"--json": json, "--html": html, "--receipts": receipts}, model, data)
    from suwr.cli.predict import PageOptions, explain_rows

    options = PageOptions(target, page_model, hidden_values, context)
    explain_rows(model, data, row or [], json, html, options, mean_features, receipts, form)


@app.command()
@report_errors
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
    check_model(model)
    from suwr.cli.verify import verify_receipts

    verify_receipts(receipts, model)


@app.command()
@report_errors
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
    support: Annotated[
        str | None,
        typer.Option(
            help="Rows that are possible: 'product' if the columns vary independently, "
            "'empirical' for those of the table only; unknown by default."
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the report as a figure.")] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    seed: Seed = 0,
) -> None:
    """Search for leakage in a model, or in the masks of another selector.

    The exit status is 2 if there is leakage, and 3 if there is leakage provided that columns vary
    independently.
    """
    form = CsvFormat(sep, encoding)
    if support not in (None, "product", "empirical"):
        raise ValueError(f"--support must be 'product' or 'empirical'. Got {support!r}.")
    if support is not None and model is None:
        raise ValueError("--support requires --model: the rows of masks are never combined.")
    if (model is None) == (masks is None):
        raise ValueError("Pass either a model or a file of masks, with --model or --masks.")
    if model is not None:
        check_model(model)
    if masks is not None:
        check_table(masks)
    check_table(data)
    check_column(data, target, "--target", form)
    check_outputs({"--json": json, "--plot": plot}, data, model, masks)
    from suwr.cli.audit import audit_table

    audit_table(data, model, masks, target, support, json, plot, seed, form)


@app.command()
@report_errors
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
    known: Annotated[
        list[str] | None, typer.Option(help="Value known in advance, COLUMN=VALUE. Repeatable.")
    ] = None,
    unavailable: Annotated[
        list[str] | None, typer.Option(help="Feature that cannot be had. Repeatable.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Largest total cost of the questions.")
    ] = None,
    mean_features: MeanFeatures = None,
    context: Context = True,
) -> None:
    """Answer questions about one feature at a time until the model stops asking."""
    if record is not None and no_record:
        raise ValueError("--record and --no-record exclude each other.")
    check_model(model)
    check_outputs({"--record": record}, model)
    from suwr.cli.ask import ask_questions, default_record

    path = None if no_record else record or default_record(model)
    limits = (known or (), unavailable or (), max_cost)
    ask_questions(model, path, mean_features, *limits, context=context)


@app.command()
@report_errors
def figures(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(help="Column of true classes or values.", show_default="as in 'suwr fit'"),
    ] = None,
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
    mean_features: MeanFeatures = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Draw every figure that applies to a model, from rows that it was not trained on."""
    form = CsvFormat(sep, encoding, decimal)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"--out must be a folder. {str(out)!r} is a file.")
    for path in (model, *(also or [])):
        check_model(path)
    check_table(data)
    check_column(data, target, "--target", form)
    for path in out.glob("*.png"):
        check_outputs({"--out": path}, model, data, references, *(also or []))
    from suwr.cli.figures import FigureOptions, write_figures

    options = FigureOptions(pair, flip, tuple(also or ()), references, mean_features, form)
    write_figures(model, data, target, out, options)
