"""The commands and their options; what they run is imported after the options have been checked.

Expected errors are printed as one line, and the exit status is non-zero. The commands import their
implementations after the options have been checked, so that neither ``suwr --help`` nor a mistyped
name waits for the import of torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from suwr import __version__
from suwr._utils.files import write_atomic
from suwr._utils.text import counted, printable
from suwr.cli.options import (
    Context,
    CsvFormat,
    Data,
    MeanFeatures,
    Model,
    Seed,
    Target,
    Terminal,
    check_inputs,
    check_model,
    check_option,
    check_outputs,
    check_table,
    parse_loss,
    parse_number,
    parse_pairs,
    parse_range,
    parse_sparsity_weight,
    read_columns,
    report_errors,
    split_names,
    to_json,
)
from suwr.data.files import check_suffix, find_files

app = typer.Typer(
    name="suwr",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add a command, whose expected errors are printed as one line."""
    return app.command()(report_errors(function))


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


@command
def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("suwr-demo"),
    seed: Seed = 0,
) -> None:
    """Train on the breast cancer data and explain three predictions step by step."""
    from suwr.cli.fit import run_demo

    run_demo(out, seed)


@command
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
    missing_values: Annotated[
        str | None,
        typer.Option(
            help="Texts that mean 'missing', TEXT,TEXT: for instance 'n.d.,<*', where '*' stands "
            "for any text. A column that is numeric otherwise is numeric.",
            show_default=False,
        ),
    ] = None,
    *,
    form: CsvFormat,
    seed: Seed = 0,
) -> None:
    """Train a model on a table; under torchrun, with all of its processes."""
    form = replace(form, missing=tuple(split_names(missing_values)))
    # A file may have the characters of a pattern in its name.
    single = Path(data).is_file() or not any(c in data for c in "*?[")
    whole = not stream and not Path(data).is_dir() and single
    check_outputs(
        {"--out": out, "--test-out": test_out, "--checkpoint": checkpoint},
        *([Path(data)] if whole else map(Path, find_files(data))),
        columns,
    )
    of_dates = split_names(dates)
    if whole:
        check_table(Path(data))
        named = {"--target": [target], "--drop": drop or [], "--dates": of_dates}
        for option, names in named.items():
            for name in names:
                form.check_column(Path(data), name, option)
    elif drop or drop_identifiers or dates or test_size is not None or form != CsvFormat():
        raise ValueError(
            "--test-size, --drop, --drop-identifiers, --dates, --missing-values, --sep, --encoding "
            "and --decimal require a single file that is read as a whole."
        )
    check_option("--date-order", date_order, ("auto", "ymd", "dmy", "mdy"))
    if test_size is not None and not (
        0 < test_size < 1 or (test_size >= 1 and test_size.is_integer())
    ):
        raise ValueError(
            f"--test-size must be between 0 and 1, or a whole number of rows. Got {test_size:g}."
        )
    if test_out is not None:
        if test_size is None:
            raise ValueError("--test-out requires --test-size.")
        check_suffix(test_out)
    params = {
        "sparsity_weight": parse_sparsity_weight(sparsity_weight),
        "groups": {n: split_names(v) for n, v in parse_pairs(group or [])},
        "costs": {n: parse_number(v, f"--cost {n}") for n, v in parse_pairs(cost or [])},
        "max_cost": None if max_cost is None else parse_range(max_cost, "--max-cost"),
        "max_steps": max_steps,
        "max_epochs": max_epochs or "auto",
        "columns": None if columns is None else read_columns(columns),
        "device": device,
        "random_state": seed,
    }
    check_option("--task", task, ("auto", "classification", "regression"))
    of_loss = parse_loss(task, loss, quantile, target_transform)
    if of_loss:
        task, params = "regression", params | of_loss
    if class_weight is not None:
        check_option("--class-weight", class_weight, ("balanced",))
        if task == "regression":
            raise ValueError("--class-weight is for classification: omit it.")
        task, params = "classification", params | {"class_weight": class_weight}
    from suwr.cli.fit import FitInput, fit_table

    source = FitInput(
        data, target, whole, form, scratch, drop or [], drop_identifiers, of_dates, date_order
    )
    fit_table(source, out, task, params, checkpoint, test_size, test_out)


# Without the import of torch; a function can be a risk in Python only.
RISKS = ("disagreement", "error", "loss")
RULES = ("auto", "confidence", "gain")


@command
def certify(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(
            help="CSV, TSV or Parquet file of complete rows that 'suwr fit' did not use.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Model file to write, with the certificate.")],
    risk: Annotated[
        str,
        typer.Option(
            help="What may go wrong because a row stops early: 'disagreement' with the prediction "
            "from all features, an 'error' that they would avoid, or additional 'loss'."
        ),
    ] = "disagreement",
    level: Annotated[float, typer.Option(help="Largest risk of a new row.")] = 0.05,
    confidence: Annotated[
        float, typer.Option(help="Probability that the guarantee holds, over calibration rows.")
    ] = 0.95,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column of true classes or values, for the risks 'error' and 'loss', and for "
            "--per-class.",
            show_default="as in 'suwr fit'",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups, in each of which the level must hold.")
    ] = None,
    per_class: Annotated[
        bool,
        typer.Option(
            "--per-class",
            help="The level must hold in each class: of the target column or, if the table lacks "
            "it, as predicted from all features.",
        ),
    ] = False,
    per_steps: Annotated[
        bool,
        typer.Option("--per-steps", help="The level must also hold among rows that stop early."),
    ] = False,
    abstain: Annotated[
        bool,
        typer.Option("--abstain", help="Rows that use up the maximum number of steps abstain."),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Regression: difference of predicted values that does not count."),
    ] = None,
    rule: Annotated[
        str, typer.Option(help="What the model stops by: 'auto', 'confidence' or 'gain'.")
    ] = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the certificate as JSON instead of a sentence.")
    ] = False,
    *,
    form: CsvFormat,
) -> None:
    """Certify a model: it stops as early as a guarantee allows, and states the guarantee.

    The guarantee: the expected risk of a new row is at most --level. It holds with probability
    --confidence over the calibration rows, whatever their distribution, if new rows come from the
    same one.
    """
    check_option("--risk", risk, RISKS)
    check_option("--rule", rule, RULES)
    for option, number in (("--level", level), ("--confidence", confidence)):
        if not 0 < number < 1:
            raise ValueError(f"{option} must be between 0 and 1. Got {number:g}.")
    if per_class and per_steps:
        raise ValueError("--per-class and --per-steps cannot be combined.")
    form = check_inputs(model, data, form, target=target, group=group)
    check_outputs({"--out": out}, model, data)
    from suwr.cli.predict import Rows
    from suwr.estimators.files import load

    fitted = load(model)
    rows = Rows(fitted, data, form, target)
    rows.warn_if_trained()
    if risk != "disagreement" and rows.target is None:
        raise ValueError(f"--target is required by --risk {risk}.")
    by_target = per_class and (target is not None or rows.has_target)
    X, y, groups = rows.calibration(by_target or risk != "disagreement", group)
    if fitted.target_.labels is None and per_class:
        raise ValueError("--per-class requires a classification model.")
    if fitted.target_.labels is None and tolerance is None and risk != "loss":
        raise ValueError(
            f"--risk {risk} of a regression model requires --tolerance: the difference of "
            "predicted values that does not count, in the units of the target."
        )
    certified = fitted.certify(
        X, y, risk=risk, level=level, confidence=confidence, groups=groups,
        per="class" if per_class else "steps" if per_steps else None,
        abstain=abstain, tolerance=tolerance, rule=rule,
    )  # fmt: skip
    certified.target_name_ = fitted.target_name_
    certified.save(out)
    terminal, found = Terminal(), certified.certificate_
    if as_json:
        terminal.print(to_json({**found.to_dict(), "sentence": found.sentence}))
        return
    terminal.print(found.sentence)
    terminal.print(
        f"On the calibration rows: mean cost {found.mean_cost:.2f} of {found.full_cost:g} for all "
        f"features that the model can select, "
        f"empirical risk {found.empirical_risk:.3g}."
    )
    terminal.print_written(out)


SUFFIXES = {"html": ".html", "xlsform": ".xlsx", "surveyjs": ".json", "dot": ".dot"}


@command
def form(
    model: Model,
    format: Annotated[
        str, typer.Option(help="html, xlsform (ODK, KoboToolbox), surveyjs or dot (Graphviz).")
    ] = "html",
    out: Annotated[
        Path | None, typer.Option(help="Output file.", show_default="named after the model")
    ] = None,
    max_pages: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of questions. With --data, the default is the fewest that are at "
            "most 2 % worse than the model; otherwise 12, which fit on two pages.",
            min=1,
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="CSV, TSV or Parquet file of rows to measure the regret on.")
    ] = None,
    target: Target = None,
    mean_features: MeanFeatures = None,
    *,
    form: CsvFormat,
) -> None:
    """Write a branching form for paper or a survey tool, and measure its regret to the model."""
    check_option("--format", format, tuple(SUFFIXES))
    form = check_inputs(model, data, form, target=target)
    path = out or Path(f"{model.stem}-form{SUFFIXES[format]}")
    check_outputs({"--out": path}, model, data)
    from suwr.cli.predict import Rows
    from suwr.deploy import ModelPolicy, make_form, measure_regret, write_form
    from suwr.deploy.forms import TWO_PAGES, choose_form
    from suwr.estimators.files import load

    terminal, fitted = Terminal(), load(model)
    X, y, found, name = None, None, None, fitted.target_name_
    if data is not None:
        rows = Rows(fitted, data, form, target)
        X = rows.X
        if rows.has_target:
            y, present = rows.labels()
            X = X[present]
    if max_pages is None and X is not None:
        made, found = choose_form(fitted, X, y, mean_features=mean_features, target=name)
    else:
        policy = ModelPolicy(fitted, mean_features)
        made = make_form(policy, max_pages=max_pages or TWO_PAGES, target=name)
        if X is not None:
            found = measure_regret(made, fitted, X, y, mean_features=mean_features)
    results = counted(len(made.pages) - made.n_questions, "result")
    note = f"{counted(made.n_questions, 'question')}, {results}."
    if found is not None:
        excess = max(0.0, found.excess(fitted))
        note += f" {found}. A larger form would gain at most {100 * excess:.1f} %."
    elif max_pages is None:
        note += " With rows in --data, their number is chosen by the regret."
    write_form(made, path, format, note=note)
    terminal.print(note)
    terminal.print_written(path, "the form")


@command
def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
    max_bytes: Annotated[int, typer.Option(help="Size of the body of a request.")] = 1_000_000,
    max_rows: Annotated[int, typer.Option(help="Rows per request.")] = 1000,
    seconds: Annotated[float, typer.Option(help="Time limit of a request.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log errors only.")] = False,
    mean_features: MeanFeatures = None,
) -> None:
    """Serve a model over HTTP: next questions, predictions, explanations, FHIR.

    No value of a request is logged. TLS and authentication are left to a proxy.
    """
    check_model(model)
    # Each process computes one request at a time; more threads would only compete.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from suwr.deploy import Limits, run_server

    limits = Limits(max_bytes=max_bytes, max_rows=max_rows, seconds=seconds)
    server = {"host": host, "port": port, "workers": workers}
    run_server(model, mean_features=mean_features, limits=limits, quiet=quiet, **server)


@command
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
    *,
    form: CsvFormat,
) -> None:
    """Predict every row, and list the features that each prediction used."""
    given, form = form, check_inputs(model, None, form)
    folder = out.is_dir() or not out.suffix
    if not folder:
        check_table(Path(data))
        check_suffix(out)
        check_outputs({"--out": out}, model, Path(data))
    elif mean_features is not None:
        raise ValueError("--mean-features requires --out to be a file, not a folder.")
    elif given != CsvFormat():
        raise ValueError("--sep, --encoding and --decimal require --out to be a file.")
    from suwr.cli.predict import predict_table
    from suwr.estimators.files import load
    from suwr.scale import engine, score_partitions

    if not folder:
        predict_table(load(model), Path(data), out, mean_features, form)
        return
    with engine(scheduler):
        scored = score_partitions(
            load(model), data, out, n_jobs=None if scheduler else jobs, verbose=1
        )
    resumed = f"; {scored.n_resumed} of them already existed" if scored.n_resumed else ""
    Terminal().print(
        f"Wrote {counted(scored.n_rows, 'prediction')} to {counted(len(scored.paths), 'file')} in "
        f"{printable(out)}{resumed}"
    )


@command
def score(
    model: Model,
    data: Data,
    target: Target = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    mean_features: MeanFeatures = None,
    *,
    form: CsvFormat,
) -> None:
    """Evaluate a model on rows that it was not trained on.

    Loss, accuracy and AUROC, or R² and mean absolute error, and the mean cost, with confidence
    intervals, beside a constant prediction and the prediction from all features.
    """
    form = check_inputs(model, data, form, target=target)
    from suwr.cli.predict import Rows
    from suwr.estimators.files import load

    rows = Rows(load(model), data, form, target)
    rows.warn_if_trained()
    found = rows.evaluate(mean_features)
    Terminal().print(to_json(found.to_dict()) if json else found.text())


@command
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
    *,
    form: CsvFormat,
) -> None:
    """Explain predictions step by step, as text, JSON, an HTML page or receipts."""
    form = check_inputs(model, data, form, target=target)
    if not row and json is None and html is None and receipts is None:
        raise ValueError(
            "Give the rows to explain with --row, or an output file with --json, --html or "
            "--receipts."
        )
    if row and receipts is not None:
        raise ValueError("--receipts writes the receipts of all rows: omit --row.")
    check_outputs({"--json": json, "--html": html, "--receipts": receipts}, model, data)
    from suwr.cli.predict import Rows, write_receipts
    from suwr.estimators.files import load

    fitted, terminal = load(model), Terminal()
    if receipts is not None:
        write_receipts(fitted, data, receipts, mean_features, form)
        if json is None and html is None:
            return
    rows = Rows(fitted, data, form, target)
    X, y, chosen = rows.X, None if target is None else rows.values(), row or []
    invalid = [number for number in chosen if not 0 <= number < len(X)]
    if invalid:
        raise ValueError(f"--row must be between 0 and {len(X) - 1}. Got {invalid[0]}.")
    if chosen:
        X, y = X.iloc[chosen], None if y is None else y.iloc[chosen]
    explanation = fitted.explain(X, mean_features=mean_features)
    if chosen:
        terminal.print(explanation.text(context=context))
    if json is not None:
        write_atomic(json, explanation.to_json().encode())
        terminal.print_written(json, counted(len(explanation), "narrative"))
    if html is not None:
        explanation.to_html(
            html,
            title=f"Predictions for {data.name}, step by step",
            y=y,
            model="auto" if page_model is None else page_model,
            hidden_values=hidden_values,
            context=context,
        )
        terminal.print_written(html, f"a page with {counted(len(explanation), 'row')}")


@command
def verify(
    model: Annotated[
        Path, typer.Option(help="The model file that the receipts or the certificate are of.")
    ],
    receipts: Annotated[
        Path | None,
        typer.Argument(help="A receipt as JSON, or a .jsonl file with one receipt per line."),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="The table that 'suwr certify' was given: checks the certificate."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="As in 'suwr certify', for --calibration.", show_default="as in 'suwr fit'"
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="As in 'suwr certify', for --calibration.")
    ] = None,
    *,
    form: CsvFormat,
) -> None:
    """Replay the decisions of receipts from the revealed values, or check a certificate.

    With --calibration, the numbers of the certificate are computed again from the calibration rows.
    The exit status is 2 if a receipt or the certificate is not verified.
    """
    if (receipts is None) == (calibration is None):
        raise ValueError("Pass either receipts or --calibration.")
    check_inputs(model, calibration, form, target=target, group=group)
    if calibration is not None:
        from suwr.cli.predict import verify_calibration

        verify_calibration(model, calibration, form, target, group)
    elif receipts is not None:
        from suwr.cli.predict import verify_receipts

        verify_receipts(receipts, model)


@command
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
    *,
    form: CsvFormat,
    seed: Seed = 0,
) -> None:
    """Search for leakage in a model, or in the masks of another selector.

    The exit status is 2 if there is leakage, and 3 if there is leakage provided that columns vary
    independently.
    """
    if support is not None:
        check_option("--support", support, ("product", "empirical"))
        if model is None:
            raise ValueError("--support requires --model: the rows of masks are never combined.")
    if (model is None) == (masks is None):
        raise ValueError("Pass either a model or a file of masks, with --model or --masks.")
    form = check_inputs(model, data, form, target=target)
    if masks is not None:
        check_table(masks)
    check_inputs(model, data, form, target=target)
    check_outputs({"--json": json, "--plot": plot}, data, model, masks)
    from suwr.auditing import audit_files
    from suwr.estimators.files import load
    from suwr.plots._style import write_figure

    options: Any = {"label": target, "random_state": seed, "encoding": form.encoding}
    options |= {"sep": form.separator(data), "decimal": form.point}
    options |= {"support": support} if support else {}
    fitted = None if model is None else load(model)
    report = audit_files(data, model=fitted, masks=masks, **options)
    terminal = Terminal()
    terminal.print(report.summary())
    if json is not None:
        write_atomic(json, report.to_json().encode())
        terminal.print_written(json)
    if plot is not None:
        write_figure(report.plot().figure, plot)
        terminal.print_written(plot)
    if report.leaks or report.leaks_if_independent:
        raise typer.Exit(2 if report.leaks else 3)


@command
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
        list[str] | None, typer.Option(help="Feature that is not available. Repeatable.")
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


@command
def figures(
    model: Model,
    data: Data,
    target: Target = None,
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
    *,
    form: CsvFormat,
) -> None:
    """Draw every figure that applies to a model, from rows that it was not trained on."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"--out must be a folder. {str(out)!r} is a file.")
    for path in also or []:
        check_model(path)
    form = check_inputs(model, data, form, target=target)
    for path in out.glob("*.png"):
        check_outputs({"--out": path}, model, data, references, *(also or []))
    from suwr.cli.predict import Rows, at_mean_features, read_references, two_classes
    from suwr.estimators.files import load
    from suwr.plots import draw_figures

    fitted, terminal = at_mean_features(load(model), mean_features), Terminal()
    rows = Rows(fitted, data, form, target)
    X, y = rows.X, rows.values().to_numpy()
    if not hasattr(fitted, "feature_names_in_"):
        # A model fitted without column names warns about a data frame.
        X = X.to_numpy()
    rows.warn_if_trained()
    points = None if references is None else read_references(references)
    with terminal.console.status("Drawing"):
        written = draw_figures(
            fitted, X, y, out,
            pair=two_classes(pair, fitted, "--pair"),
            flip=two_classes(flip, fitted, "--flip"),
            others={str(path): load(path) for path in also or []},
            references=points,
        )  # fmt: skip
    for path in written:
        terminal.print_written(path)
