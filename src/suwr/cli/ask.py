"""``suwr ask``: acquire features one at a time, in the terminal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from suwr import __version__
from suwr._utils.files import write_atomic
from suwr._utils.text import printable
from suwr.cli.answers import (
    Answer,
    UnseenError,
    describe,
    read_answer,
    read_command,
    read_known,
)
from suwr.cli.dates import date_of, read_date
from suwr.cli.terminal import Terminal
from suwr.data.dates import DateColumn
from suwr.estimators.files import load
from suwr.estimators.limits import always_known
from suwr.estimators.session import Acquisition
from suwr.narrative.explanation import Explanation

__all__ = ["Interview", "ask_questions", "default_record"]


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
        Units that cannot be had.
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
        values |= interview.ask_known([name for name in always_known(model) if name not in values])
        interview.session = session = model.acquire(
            known=values or None, unavailable=unavailable, max_cost=max_cost,
            mean_features=mean_features,
        )  # fmt: skip
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

    def __init__(self, model: Any, terminal: Terminal, *, context: bool = True) -> None:
        self.model = model
        self.context = context
        self.terminal = terminal
        self.description = model._description()
        self.log: list[dict[str, Any]] = []

    def ask_known(self, columns: Sequence[str]) -> dict[str, Any]:
        """Ask for columns that the model always knows at the start, and return their values."""
        values: dict[str, Any] = {}
        if columns:
            text = "The model knows these values at the start. 'missing' or Enter if there is none."
            self.terminal.print(text, style="dim")
        while len(values) < len(columns):
            left = columns[len(values) :]
            date = date_of(self.model, left)
            answer = self._ask(left[0]) if date is None else self._ask_date(date)
            if answer.undo or answer.unavailable:
                self.terminal.print("Please enter a value, or 'missing'.", style="yellow")
            else:
                values |= {left[0]: answer.value} if date is None else answer.value
        return values

    def run(self) -> None:
        """Ask until the policy stops and the last answer is confirmed."""
        self.terminal.print(
            "Answer each question. 'missing' or Enter if you do not have the value, 'unavailable' "
            "if it cannot be had, 'undo' to go back.",
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
        values: dict[str, Any] = {}
        asked: list[list[str]] = []
        while len(values) < len(columns):
            left = columns[len(values) :]
            date = date_of(self.model, left)
            names = list(left[:1]) if date is None else date.columns
            answer = self._ask(names[0]) if date is None else self._ask_date(date)
            if answer.unavailable:
                self._leave_out(names[0])
                return
            if not answer.undo:
                asked.append(names)
                values |= answer.value if date is not None else {names[0]: answer.value}
                for name in names:
                    self.log.append({"column": name, "value": values[name]})
                    note = self.description.note(name, values[name], context=self.context)
                    if note and date is None:
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
        prediction = narrative._format(narrative.prediction)
        self.terminal.print(f"  → {prediction}", style="cyan")

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
