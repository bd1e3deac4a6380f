"""``suwr ask``: acquire features one at a time, in the terminal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from suwr import __version__
from suwr._utils.files import write_atomic
from suwr._utils.text import format_number, format_value, printable
from suwr.cli.options import Terminal
from suwr.data.dates import DateColumn, DateParts
from suwr.data.descriptions import ColumnDescription
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.parse import INVALID
from suwr.estimators.base import SUWRModel
from suwr.estimators.files import load
from suwr.estimators.session import Acquisition
from suwr.narrative.explanation import Explanation

MISSING = ("", "?", "missing")
UNDO = ("undo",)
UNAVAILABLE = ("unavailable",)
# With a leading colon, a command is recognised even if a category has the same name.
COMMANDS = {f":{word}": word for word in ("missing", "undo", "unavailable")}
# Categories listed in a question or an error message.
MAX_CATEGORIES = 12
NO_COLUMN_DESCRIPTION = ColumnDescription()


class UnseenError(ValueError):
    """The answer is valid, but unlike anything in the training data, so it may be a typing error.

    Attributes
    ----------
    value : Any
        The value that the answer stands for.
    """

    def __init__(self, message: str, value: Any) -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class Answer:
    """A parsed answer.

    Attributes
    ----------
    value : Any
        The value; None for 'missing'.
    undo : bool
        Whether the previous answer is to be taken back instead.
    unavailable : bool
        Whether the feature is not available, so that the model has to do without it.
    """

    value: Any = None
    undo: bool = False
    unavailable: bool = False


def read_answer(
    text: str, code: ColumnCode, column: ColumnDescription = NO_COLUMN_DESCRIPTION
) -> Answer:
    """Parse the answer to a question about one column.

    Parameters
    ----------
    text : str
        The line that was typed.
    code : ColumnCode
        Encoding of the column.
    column : ColumnDescription
        Its labels are answers too.

    Raises
    ------
    UnseenError
        The answer is valid, but unlike anything in the training data.
    ValueError
        The answer is invalid; the message says what is expected.

    Examples
    --------
    >>> read_answer("4.5", ColumnCode()).value, read_answer("missing", ColumnCode()).value
    (4.5, None)
    >>> read_answer("Red", ColumnCode(categories=("blue", "red"))).value
    'red'
    """
    text = text.strip()
    # Categories take precedence over commands: a category may be named 'missing'.
    known = [(str(category), category) for category in code.categories or ()]
    for names in (known, [(label, value) for value, label in column.labels]):
        found = _category(text, names)
        if found is not None:
            return Answer(found)
    command = read_command(text)
    if command is not None:
        return command
    value = code.parse(text)
    if value is None:
        return Answer(None)
    if code.categories is None:
        return Answer(_number(value, text, code))
    return Answer(value if value in code.categories else _unseen(text, code, column))


def read_command(text: str) -> Answer | None:
    """Return what 'missing', 'undo' and 'unavailable' stand for; None for any other text."""
    word = COMMANDS.get(text.lower(), text.lower())
    if word in UNDO:
        return Answer(undo=True)
    if word in UNAVAILABLE:
        return Answer(unavailable=True)
    return Answer(None) if word in MISSING else None


def describe(code: ColumnCode, column: ColumnDescription = NO_COLUMN_DESCRIPTION) -> str:
    """Return what a column expects, for the prompt."""
    if code.categories is not None:
        return _listing([column.value_text(category) for category in code.categories])
    summary = code.summary
    if summary is None:
        low, high = code.center - code.scale, code.center + code.scale
    elif summary.values is not None:
        if not column.labels and _is_long_range(summary.values):
            unit = "" if column.unit is None else f" {printable(column.unit)}"
            return f"a whole number from {summary.values[0]:g} to {summary.values[-1]:g}{unit}"
        return _alternatives([_value_text(column, value) for value in summary.values])
    else:
        # The central 80 % of the training values.
        low, high = summary.quantiles[2], summary.quantiles[-3]
    unit = "" if column.unit is None else f" {printable(column.unit)}"
    usual = f"{format_number(low, 3)} to {format_number(high, 3)}{unit}"
    return f"a {'whole ' if code.whole else ''}number, usually {usual}"


def read_known(
    pairs: Sequence[str], encoder: TableEncoder, dates: DateParts | None = None
) -> dict[str, Any]:
    """Return the values of ``column=value`` pairs by column; dates stand for their parts.

    Examples
    --------
    >>> read_known(["age=41"], TableEncoder(["age"], [ColumnCode()]))
    {'age': 41.0}
    """
    known: dict[str, Any] = {}
    by_name = {} if dates is None else {date.name: date for date in dates.dates_}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if sign and name in by_name:
            date = by_name[name]
            if known.keys() & set(date.columns):
                raise ValueError(f"--known has two values for {name!r}.")
            known |= read_date(date, text)
            continue
        if not sign or name not in encoder.names:
            expected = "COLUMN=VALUE, with a column of the model"
            raise ValueError(f"--known must be {expected}. Got {pair!r}.")
        if name in known:
            raise ValueError(f"--known has two values for {name!r}.")
        try:
            answer = read_answer(text, encoder.codes[encoder.names.index(name)])
        except UnseenError as error:
            answer = Answer(error.value)
        except ValueError as error:
            raise ValueError(f"--known {name}: {error}") from None
        if answer.undo or answer.unavailable:
            raise ValueError(f"--known {name} must be a value. Got {text!r}.")
        known[name] = answer.value
    return known


def read_date(date: DateColumn, text: str) -> dict[str, float | None]:
    """Return the parts of a date that was typed, by column.

    Raises
    ------
    ValueError
        The text is not a date.
    """
    values = date.values(text)
    if values is None:
        raise ValueError(f"Please enter {date.expected}. Got {text!r}.")
    return dict(zip(date.columns, values, strict=True))


def _category(text: str, names: Sequence[tuple[str, Any]]) -> Any:
    """Return the category with this name, or the only one with it ignoring case."""
    for name, category in names:
        if text == name:
            return category
    alike = [category for name, category in names if text.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _number(value: Any, text: str, code: ColumnCode) -> float:
    if value is INVALID:
        raise ValueError(f"Please enter a finite number. Got {text!r}.")
    summary = code.summary
    unseen = None
    if code.is_far(value):
        unseen = "is far outside the training data"
    elif summary is not None and summary.values is not None and value not in summary.values:
        unseen = "does not occur in the training data"
    if unseen is not None:
        raise UnseenError(
            f"{format_value(value)} {unseen} ({describe(code)}). Type it again to use it anyway.",
            value,
        )
    return float(value)


def _unseen(text: str, code: ColumnCode, column: ColumnDescription) -> Any:
    assert code.categories is not None
    message = f"Please enter one of: {describe(code, column)}. Got {text!r}."
    if all(isinstance(c, str) for c in code.categories):
        # Rare categories are encoded as 'any other', so an unseen one is valid.
        raise UnseenError(f"{message} Type it again to use it as 'any other'.", text)
    raise ValueError(message)


def _value_text(column: ColumnDescription, value: float) -> str:
    """Return the label of a value that has one; otherwise the number as it is typed."""
    labelled = any(known == value for known, _ in column.labels)
    return column.value_text(value) if labelled else f"{value:g}"


def _is_long_range(values: Sequence[float]) -> bool:
    """Whether the values are more than three consecutive whole numbers."""
    first = values[0]
    return len(values) > 3 and list(values) == [first + i for i in range(len(values))]


def _alternatives(texts: Sequence[str]) -> str:
    """Return '1', '1 or 2', '1, 2 or 3'."""
    *rest, last = texts
    return f"{', '.join(rest)} or {last}" if rest else last


def _listing(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:MAX_CATEGORIES])
    n_more = len(texts) - MAX_CATEGORIES
    return shown if n_more <= 0 else f"{shown}, … ({n_more} more)"


def ask_questions(
    model_path: Path,
    record: Path | None,
    mean_features: float | None = None,
    known: Sequence[str] = (),
    unavailable: Sequence[str] = (),
    max_cost: float | None = None,
    *,
    context: bool = True,
) -> None:
    """Ask until the policy stops, then print the narrative and write the record.

    Parameters
    ----------
    model_path : Path
    record : Path or None
        JSON file for the questions and answers; None writes no file.
    mean_features : float, optional
        Mean number of features per row, for a model that was fitted for a range.
    known : sequence of str
        Values known in advance, as ``column=value``.
    unavailable : sequence of str
        Units that are not available.
    max_cost : float, optional
        Largest cost of the questions.
    context : bool, default=True
        Whether to say where answers lie among the training values.
    """
    model = load(model_path)
    values = read_known(known, model.encoder_, model.dates_)
    interview = Interview(model, Terminal(), context=context)
    began = datetime.now()
    try:
        start = model.fitted_policy().always_known
        values |= interview.ask_known([name for name in start if name not in values])
        limits = {"unavailable": unavailable, "max_cost": max_cost, "mean_features": mean_features}
        interview.session = session = model.acquire(known=values or None, **limits)
    except (EOFError, KeyboardInterrupt):
        raise ValueError("The input ended before the model stopped asking.") from None
    try:
        interview.run()
    except (EOFError, KeyboardInterrupt):
        interview.terminal.print()
    if session.known:
        interview.terminal.print()
        # There is a single row, whose label says nothing.
        text = session.narrative().text(context=context)
        interview.terminal.print(text.removeprefix(f"Row {session.narrative().row}. "))
    if record is not None and interview.log:
        write_atomic(record, _record(interview, model_path, began).encode())
        interview.terminal.print_written(record)
    if not session.done:
        raise ValueError("The input ended before the model stopped asking.")


def default_record(model_path: Path) -> Path:
    """Return a new file name in the working directory, from the model's name and the time."""
    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return Path(f"{model_path.stem}-answers-{stamp}.json")


class Interview:
    """An acquisition session in the terminal.

    Parameters
    ----------
    model : estimator
        A fitted model with ``acquire``.
    terminal : Terminal
    context : bool, default=True
        Whether to say where answers lie among the training values.

    Attributes
    ----------
    session : Acquisition
        To be set before `run`.
    log : list of dict
        Every answer that was used, including those that were taken back later.
    """

    session: Acquisition

    def __init__(self, model: SUWRModel, terminal: Terminal, *, context: bool = True) -> None:
        self.model = model
        self.context = context
        self.terminal = terminal
        self.description = model.fitted_policy().description
        self.log: list[dict[str, Any]] = []

    def ask_known(self, columns: Sequence[str]) -> dict[str, Any]:
        """Ask for columns that the model always knows at the start, and return their values."""
        values: dict[str, Any] = {}
        if columns:
            text = "The model knows these values at the start. 'missing' or Enter if there is none."
            self.terminal.print(text, style="dim")
        while len(values) < len(columns):
            _, answer = self._ask_next(columns[len(values) :])
            if answer.undo or answer.unavailable:
                self.terminal.print("Please enter a value, or 'missing'.", style="yellow")
            else:
                values |= answer.value
        return values

    def run(self) -> None:
        """Ask until the policy stops and the last answer is confirmed."""
        self.terminal.print(
            "Answer each question. 'missing' or Enter if you do not have the value, 'unavailable' "
            "if the model has to do without it, 'undo' to go back.",
            style="dim",
        )
        while True:
            while not self.session.done:
                self._ask_unit()
            if not self._wants_undo():
                return
            self._undo()

    def _ask_unit(self) -> None:
        """Ask for every column of the next unit; 'undo' goes back one question."""
        columns, units = self.session.next_columns, self.session.next_units
        if self.model.units_.visit_cost and len(units) > 1:
            self.terminal.print(f"One visit: {' and '.join(map(printable, units))}.")
        usual, others = self.session.next_usual, self.session.next_alternatives
        if usual is not None:
            served = " or ".join(map(printable, others))
            instead = f" {served} would serve as well." if served else ""
            self.terminal.print(f"Moves {usual}.{instead}", style="dim")
        values: dict[str, Any] = {}
        asked: list[list[str]] = []
        while len(values) < len(columns):
            names, answer = self._ask_next(columns[len(values) :])
            if answer.unavailable:
                self._leave_out(names[0])
                return
            if not answer.undo:
                asked.append(names)
                values |= answer.value
                for name in names:
                    self.log.append({"column": name, "value": values[name]})
                    note = self.description.note(name, values[name], context=self.context)
                    if note and len(names) == 1:
                        self.terminal.print(f"  {note}", style="dim")
            elif asked:
                for name in asked.pop():
                    del values[name]
                    self.log.append({"undo": name})
            else:
                self._undo()
                return
        self.session.observe(values)
        narrative = self.session.narrative()
        prediction = narrative.prediction_text(narrative.prediction)
        says = narrative.says(len(narrative.steps))
        self.terminal.print(f"  → {prediction}{f', {says}' if says else ''}", style="cyan")

    def _ask_next(self, columns: Sequence[str]) -> tuple[list[str], Answer]:
        """Ask for the first column, or for the date whose parts come first; values by column."""
        dates = () if self.model.dates_ is None else self.model.dates_.dates_
        for date in dates:
            if list(columns[: len(date.columns)]) == date.columns:
                return date.columns, self._ask_date(date)
        name, answer = columns[0], self._ask(columns[0])
        return [name], replace(answer, value={name: answer.value})

    def _ask(self, name: str) -> Answer:
        """Ask until the answer is valid; an unusual answer must be given twice."""
        code = self.model.encoder_.codes[self.model.encoder_.names.index(name)]
        words = self.description
        column = words.column(name)
        expected = describe(code, column)
        unconfirmed = None
        while True:
            question = (words.column_text(name), "bold"), (f" ({expected})", "dim"), (": ", "")
            text = self.terminal.input(*question).strip()
            try:
                return read_answer(text, code, column)
            except UnseenError as error:
                if text == unconfirmed:
                    return Answer(error.value)
                unconfirmed, hint = text, str(error)
            except ValueError as error:
                hint = str(error)
            self.terminal.print(hint, style="yellow")

    def _ask_date(self, date: DateColumn) -> Answer:
        """Ask for a date; the value of the answer are its parts by column."""
        while True:
            question = (printable(date.name), "bold"), (f" ({date.expected})", "dim"), (": ", "")
            text = self.terminal.input(*question).strip()
            command = read_command(text)
            if command is not None and (command.undo or command.unavailable):
                return command
            try:
                return Answer(read_date(date, "" if command is not None else text))
            except ValueError as error:
                self.terminal.print(str(error), style="yellow")

    def _leave_out(self, column: str) -> None:
        """Go on without the requested unit of a column."""
        units, number = self.model.units_, self.model.encoder_.names.index(column)
        unit = next(
            name
            for name in self.session.next_units
            if units.membership[units.names.index(name), number]
        )
        self.session.unavailable(unit)
        self.log.append({"unavailable": unit})
        self.terminal.print(f"  without {printable(unit)}", style="cyan")

    def _wants_undo(self) -> bool:
        """Offer to take back the last answer; the end of the input means no."""
        if not self.session.steps:
            return False
        question = "The model has stopped asking. Enter to finish, 'undo' to go back: "
        try:
            return self.terminal.input((question, "")).strip().lower() in ("undo", ":undo")
        except EOFError:
            return False

    def _undo(self) -> None:
        if not self.session.steps:
            self.terminal.print("There is no answer to take back.", style="yellow")
            return
        last = self.session.steps[-1]
        self.session.undo()
        self.log.append({"undo": last.unit})
        self.terminal.print(f"  ← {printable(last.unit)}", style="cyan")


def _record(interview: Interview, model_path: Path, began: datetime) -> str:
    """Return the narrative, in the format of `Explanation.to_json`, with details of the session."""
    record = json.loads(Explanation([interview.session.narrative()]).to_json())
    record["session"] = {
        "model": model_path.name,
        "model_sha256": hashlib.sha256(model_path.read_bytes()).hexdigest(),
        "suwr": __version__,
        "began": began.astimezone().isoformat(timespec="seconds"),
        "ended": datetime.now().astimezone().isoformat(timespec="seconds"),
        "complete": interview.session.done,
        "answers": interview.log,
    }
    return json.dumps(record, ensure_ascii=False, indent=2)
