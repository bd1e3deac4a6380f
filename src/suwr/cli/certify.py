"""``suwr certify``: bound the risk of stopping early on calibration rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from suwr.cli.arguments import Decimal, Encoding, Model, Sep, report_errors
from suwr.cli.options import (
    CsvFormat,
    check_column,
    check_model,
    check_outputs,
    check_table,
    missing_column,
)
from suwr.cli.terminal import Terminal, print_warning

__all__ = ["certify"]

# Without the import of torch; a function can be a risk in Python only.
RISKS = ("disagreement", "error", "loss")
RULES = ("auto", "confidence", "gain")


@report_errors
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
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
) -> None:
    """Certify a model: it stops as early as a guarantee allows, and states the guarantee.

    The guarantee: the expected risk of a new row is at most --level. It holds with probability
    --confidence over the calibration rows, whatever their distribution, if new rows come from the
    same one.
    """
    form = CsvFormat(sep, encoding, decimal)
    for option, value, known in (("--risk", risk, RISKS), ("--rule", rule, RULES)):
        if value not in known:
            raise ValueError(f"{option} must be {_listed(known)}. Got {value!r}.")
    for option, number in (("--level", level), ("--confidence", confidence)):
        if not 0 < number < 1:
            raise ValueError(f"{option} must be between 0 and 1. Got {number:g}.")
    if per_class and per_steps:
        raise ValueError("--per-class and --per-steps cannot be combined.")
    check_model(model)
    check_table(data)
    check_column(data, target, "--target", form)
    check_column(data, group, "--group", form)
    check_outputs({"--out": out}, model, data)
    from suwr.cli.score import read_labels
    from suwr.cli.tables import model_columns, read_frame, warn_training_file
    from suwr.estimators.files import load

    fitted = load(model)
    frame = read_frame(data, infer_types=False, form=form)
    X, y = model_columns(fitted, frame, form), None
    warn_training_file(fitted, data)
    name = target or fitted.target_name_
    if risk != "disagreement" and name is None:
        raise ValueError(f"--target is required by --risk {risk}.")
    by_target = per_class and (target is not None or name in frame.columns)
    if name is not None and (by_target or risk != "disagreement"):
        if name not in frame.columns:
            raise missing_column(data, name, "--target", frame.columns, form)
        y, present = read_labels(fitted, data, name, form)
        if not present.all():
            print_warning(f"{(~present).sum():,} rows without {name!r} are left out.")
        X, frame = X[present], frame[present]
    if fitted._class_labels() is None and per_class:
        raise ValueError("--per-class requires a classification model.")
    if fitted._class_labels() is None and tolerance is None and risk != "loss":
        raise ValueError(
            f"--risk {risk} of a regression model requires --tolerance: the difference of "
            "predicted values that does not count, in the units of the target."
        )
    certified = fitted.certify(
        X, y, risk=risk, level=level, confidence=confidence,
        groups=None if group is None else _read_groups(frame, data, group, form),
        per="class" if per_class else "steps" if per_steps else None,
        abstain=abstain, tolerance=tolerance, rule=rule,
    )  # fmt: skip
    certified.target_name_ = fitted.target_name_
    certified.save(out)
    terminal, found = Terminal(), certified.certificate_
    if as_json:
        state = {**found.to_dict(), "sentence": found.sentence}
        terminal.print(json.dumps(state, ensure_ascii=False, indent=2))
        return
    terminal.print(found.sentence)
    terminal.print(
        f"On the calibration rows: mean cost {found.mean_cost:.2f} of {found.full_cost:g} for all "
        f"features that the model can select, "
        f"empirical risk {found.empirical_risk:.3g}."
    )
    terminal.print_written(out)


def _read_groups(frame: Any, data: Path, name: str, form: CsvFormat) -> Any:
    """Return the group of each calibration row, as text."""
    if name not in frame.columns:
        raise missing_column(data, name, "--group", frame.columns, form)
    groups = frame[name]
    if groups.isna().any() or (groups == "").any():
        raise ValueError(f"--group: the column {name!r} must not have missing values.")
    return groups.astype(str).to_numpy()


def _listed(names: tuple[str, ...]) -> str:
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}"
