"""``suwr form``: a static branching form that follows the policy of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suwr._utils.validation import check_choice
from suwr.cli.arguments import Decimal, Encoding, MeanFeatures, Model, Sep, report_errors
from suwr.cli.options import CsvFormat, check_column, check_model, check_outputs, check_table
from suwr.cli.terminal import Terminal

__all__ = ["form"]

SUFFIXES = {"html": ".html", "xlsform": ".xlsx", "surveyjs": ".json", "dot": ".dot"}


@report_errors
def form(
    model: Model,
    format: Annotated[
        str, typer.Option(help="html, xlsform (ODK, KoboToolbox), surveyjs or dot (Graphviz).")
    ] = "html",
    out: Annotated[
        Path | None, typer.Option(help="Output file.", show_default="named after the model")
    ] = None,
    max_pages: Annotated[int, typer.Option(help="Maximum number of questions.", min=1)] = 50,
    data: Annotated[
        Path | None, typer.Option(help="CSV, TSV or Parquet file of rows to measure the regret on.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column of true classes or values.", show_default="as in 'suwr fit'"),
    ] = None,
    mean_features: MeanFeatures = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Write a branching form for paper or a survey tool, and measure its regret to the model."""
    check_choice(format, "--format", "suwr form", tuple(SUFFIXES))
    check_model(model)
    csv = CsvFormat(sep, encoding, decimal)
    if data is not None:
        check_table(data)
        check_column(data, target, "--target", csv)
    path = out or Path(f"{model.stem}-form{SUFFIXES[format]}")
    check_outputs({"--out": path}, model, data)
    from suwr.cli.score import read_labels
    from suwr.cli.tables import model_columns, read_frame
    from suwr.deploy import ModelPolicy, make_form, measure_regret, write_form
    from suwr.estimators.files import load

    terminal, fitted = Terminal(), load(model)
    made = make_form(
        ModelPolicy(fitted, mean_features), max_pages=max_pages, target=fitted.target_name_
    )
    note = f"{made.n_questions} questions, {len(made.pages) - made.n_questions} results."
    if data is not None:
        frame = read_frame(data, infer_types=False, form=csv)
        X, y = model_columns(fitted, frame, csv), None
        name = target or fitted.target_name_
        if name in frame.columns:
            y, present = read_labels(fitted, data, name, csv)
            X = X[present]
        note += f" {measure_regret(made, fitted, X, y, mean_features=mean_features)}."
    write_form(made, path, format, note=note)
    terminal.print(note)
    terminal.print_written(path, "the form")
