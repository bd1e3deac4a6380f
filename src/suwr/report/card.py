"""The model card: a Markdown page that says what a model is, how good it is, and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import suwr
from suwr._utils.text import counted, format_number, percent, printable
from suwr.estimators.selection import MinimisationReport, minimisation_report

if TYPE_CHECKING:
    from suwr.estimators.base import SUWRModel

# Columns that the table of columns lists.
MAX_COLUMNS = 40
# Largest number of distinct texts or categories that are listed.
MAX_LISTED = 8


def model_card(model: SUWRModel, X: Any = None, y: Any = None) -> str:
    """Return the model card of a fitted model; see `SUWRModel.model_card`."""
    report = None if X is None else model.evaluate(X, y)
    use = None if X is None else minimisation_report(model, X, y)
    parts = [
        _purpose(model),
        _data(model),
        _columns(model),
        _scores(model, report),
        _minimisation(model, use),
        _guarantee(model),
        _limits(model),
    ]
    return "\n".join(line for part in parts for line in (*part, "")).rstrip() + "\n"


def _cell(text: Any) -> str:
    return printable(text).replace("|", "\\|")


def _table(head: Sequence[str], rows: Iterator[Sequence[Any]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(_cell, line))} |" for line in lines]


def _purpose(model: SUWRModel) -> list[str]:
    target = printable(model.target_name_ or "the target")
    classes = model.target_.labels
    words = model.fitted_policy().description
    kind = "a number" if classes is None else ", ".join(words.class_texts(classes) or ())
    try:
        file = f"SHA-256 of the model file: `{model._file_digest()}`"
    except ValueError:
        file = "it cannot be saved to a file"
    return [
        f"# Model card: {target}",
        "",
        f"Predicts {target} ({printable(kind)}). For each row it reveals one feature after the "
        f"other, in at most {model.max_steps_} steps, and stops when the values revealed so far "
        "suffice. Every decision and the prediction read revealed values only.",
        "",
        f"{type(model).__name__} of suwr {suwr.__version__}; {file}.",
    ]


def _data(model: SUWRModel) -> list[str]:
    n_train, n_held_out = model.n_rows_ or (None, None)
    lines = ["## Training", ""]
    if n_train is not None:
        lines.append(f"- Fitted to {n_train:,} rows; {n_held_out:,} further rows were held out.")
    if model.training_file_ is not None:
        lines.append(f"- SHA-256 of the training file: `{model.training_file_}`.")
    lines.append(f"- λ (`sparsity_weight`): {model.sparsity_weight_:.4g}.")
    lines += [f"- {name}: {_cell(choice)}." for name, choice in model.choices_.items()]
    return lines


def _columns(model: SUWRModel) -> list[str]:
    fitted, shares = model.fitted_policy(), model.feature_importances_
    names = fitted.names
    order = np.arange(len(names)) if shares is None else np.argsort(-shares, kind="stable")
    lines = _table(
        ("column", "training values", "share of the effects"),
        (
            (
                fitted.description.column_text(names[c]),
                _values(fitted.description.column(names[c])),
                "" if shares is None else percent(float(shares[c])),
            )
            for c in order[:MAX_COLUMNS]
        ),
    )
    rest = len(names) - MAX_COLUMNS
    more = ["", f"And {counted(rest, 'further column')}."] if rest > 0 else []
    about = "The effects are changes of the prediction in held-out rows, by the step of the column."
    return [f"## {counted(len(names), 'column')}", "", *lines, *more, "", about]


def _values(column: Any) -> str:
    """The range or the categories of a column."""
    if column.categories is not None:
        shown = [column.value_text(value) for value in column.categories[:MAX_LISTED]]
        return ", ".join(shown + ["…"] * (len(column.categories) > MAX_LISTED))
    if column.limits is None:
        return ""
    low, high = (format_number(limit, 4) for limit in column.limits)
    return f"{low} to {high}{f' {printable(column.unit)}' if column.unit else ''}"


def _scores(model: SUWRModel, report: Any) -> list[str]:
    lines = ["## Scores", ""]
    report, rows = (report, "the given rows") if report is not None else (model.report_, None)
    if report is None:
        return [*lines, "Not measured: the model file is of an earlier version."]
    where = rows or "rows that were held out from training, and that chose the number of epochs"
    level = f"{100 * report.confidence:g} % confidence intervals in parentheses"
    head = (counted(report.n_rows, "row"), "this model", "constant", "all features")
    return [*lines, f"On {where}; {level}.", "", *_table(head, iter(report.rows()))]


def _minimisation(model: SUWRModel, report: MinimisationReport | None) -> list[str]:
    lines = ["## Data minimisation", ""]
    if report is not None:
        return [*lines, report.summary()]
    if model.step_effects_ is None:
        return [*lines, "Not measured: the model file is of an earlier version."]
    read, units = model.step_effects_.cases, model.units_
    words, names = model.fitted_policy().description, model.encoder_.names
    never = [
        words.unit_text(unit, [names[c] for c in units.columns_of(u)])
        for u, unit in enumerate(units.names)
        if u not in read
    ]
    shown = ", ".join(never[:MAX_COLUMNS]) + (", …" if len(never) > MAX_COLUMNS else "")
    found = f"Of {counted(len(units), 'feature')}, {len(read)} were revealed for held-out rows."
    return [*lines, found + (f" Never revealed: {shown}." if never else "")]


def _guarantee(model: SUWRModel) -> list[str]:
    certificate = model._certificate()
    sentence = "None; `certify` adds one." if certificate is None else certificate.sentence
    return ["## Guarantee", "", printable(sentence)]


def _limits(model: SUWRModel) -> list[str]:
    lines = [
        "Steps tell what the prediction follows from. They are no causes: a feature that is not "
        "revealed may matter, and correlated features replace each other.",
        "Values outside of the training values, and categories that did not occur, give a warning "
        "and a prediction that was never tested.",
        "Scores are those of rows like the training rows. They may differ for other times, places "
        "and groups of people, and say nothing about fairness between them.",
    ]
    if model.missing == "value":
        lines.append(
            "A missing value is read as a value of its own: it is a prediction from the fact that "
            "the value is missing."
        )
    return ["## Limits", "", *(f"- {line}" for line in lines)]
