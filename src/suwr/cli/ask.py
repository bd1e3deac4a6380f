"""``suwr ask``: acquire features one at a time, in the terminal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from suwr import __version__
from suwr._utils.files import write_atomic
from suwr._utils.text import printable
from suwr.cli.terminal import Terminal
from suwr.data.descriptions import ColumnDescription
from suwr.data.encoding import ColumnCode
from suwr.data.parsing import INVALID
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.io import load
from suwr.explanation import Explanation

__all__ = [
    "Answer", "Interview", "UnseenError", "ask_questions", "default_record", "describe",
    "read_answer",
]  # fmt: skip

MISSING = ("", "?", "missing", "unknown")
UNDO = ("undo",)
# With a leading colon, a command is recognised even if a category has the same name.
COMMANDS = {":missing": "missing", ":unknown": "missing", ":undo": "undo"}
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
    """

    value: Any = None
    undo: bool = False


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
    >>> read_answer("4.5", ColumnCode()), read_answer("missing", ColumnCode())
    (Answer(value=4.5, undo=False), Answer(value=None, undo=False))
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
    word = COMMANDS.get(text.lower(), text.lower())
    if word in UNDO:
        return Answer(undo=True)
    if word in MISSING:
        return Answer(None)
    value = code.parse(text)
    if value is None:
        return Answer(None)
    if code.categories is None:
        return Answer(_number(value, text, code))
    return Answer(value if value in code.categories else _unseen(text, code, column))


def describe(code: ColumnCode, column: ColumnDescription = NO_COLUMN_DESCRIPTION) -> str:
    """Return what a column expects, for the prompt."""
    if code.categories is not None:
        return _listing([column.value_text(category) for category in code.categories])
    summary = code.summary
    if summary is None:
        low, high = code.center - code.scale, code.center + code.scale
    elif summary.values is not None:
        return _alternatives([_value_text(column, value) for value in summary.values])
    else:
        # The central 80 % of the training values.
        low, high = summary.quantiles[2], summary.quantiles[-3]
    whole = summary is not None and all(q == int(q) for q in summary.quantiles if abs(q) < 2**53)
    unit = "" if column.unit is None else f" {printable(column.unit)}"
    return f"a {'whole ' if whole else ''}number, usually {low:.3g} to {high:.3g}{unit}"


def ask_questions(
    model_path: Path,
    record: Path | None,
    mean_features: float | None = None,
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
    context : bool, default=True
        Whether to say where answers lie among the training values.
    """
    interview = Interview(load(model_path), Terminal(), mean_features, context=context)
    began = datetime.now()
    try:
        interview.run()
    except (EOFError, KeyboardInterrupt):
        interview.terminal.print()
    session = interview.session
    if session.known:
        interview.terminal.print()
        interview.terminal.print(session.narrative().text(context=context))
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
    mean_features : float, optional
        As in `SUWRClassifier.acquire`.
    context : bool, default=True
        Whether to say where answers lie among the training values.

    Attributes
    ----------
    session : Acquisition
    log : list of dict
        Every answer that was used, including those that were taken back later.
    """

    def __init__(
        self,
        model: Any,
        terminal: Terminal,
        mean_features: float | None = None,
        *,
        context: bool = True,
    ) -> None:
        self.model = model
        self.context = context
        self.terminal = terminal
        self.session: Acquisition = model.acquire(mean_features=mean_features)
        self.log: list[dict[str, Any]] = []

    def run(self) -> None:
        """Ask until the policy stops and the last answer is confirmed."""
        self.terminal.print(
            "Answer each question. 'missing' if you do not have the value, 'undo' to go back.",
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
        columns = self.session.next_columns
        values: list[Any] = []
        while len(values) < len(columns):
            name = columns[len(values)]
            answer = self._ask(name)
            if not answer.undo:
                values.append(answer.value)
                self.log.append({"column": name, "value": answer.value})
                note = self.session.description.note(name, answer.value, context=self.context)
                if note:
                    self.terminal.print(f"  {note}", style="dim")
            elif values:
                values.pop()
                self.log.append({"undo": columns[len(values)]})
            else:
                self._undo()
                return
        self.session.observe(dict(zip(columns, values, strict=True)))
        narrative = self.session.narrative()
        prediction = narrative._format(narrative.prediction)
        self.terminal.print(f"  → {prediction}", style="cyan")

    def _ask(self, name: str) -> Answer:
        """Ask until the answer is valid; an unusual answer must be given twice."""
        code = self.model.encoder_.codes[self.model.encoder_.names.index(name)]
        words = self.session.description
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

    def _wants_undo(self) -> bool:
        """Offer to take back the last answer; the end of the input means no."""
        if not self.session.known:
            return False
        question = "The model has stopped asking. Enter to finish, 'undo' to go back: "
        try:
            return self.terminal.input((question, "")).strip().lower() in ("undo", ":undo")
        except EOFError:
            return False

    def _undo(self) -> None:
        if not self.session.known:
            self.terminal.print("There is no answer to take back.", style="yellow")
            return
        last = self.session.narrative().steps[-1]
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
            f"{value:g} {unseen} ({describe(code)}). Enter it again to use it anyway.", value
        )
    return float(value)


def _unseen(text: str, code: ColumnCode, column: ColumnDescription) -> Any:
    assert code.categories is not None
    message = f"Please enter one of: {describe(code, column)}. Got {text!r}."
    if all(isinstance(c, str) for c in code.categories):
        # Rare categories are encoded as 'any other', so an unseen one is valid.
        raise UnseenError(f"{message} Enter it again to use it as 'any other'.", text)
    raise ValueError(message)


def _value_text(column: ColumnDescription, value: float) -> str:
    """Return the label of a value that has one; otherwise the number as it is typed."""
    labelled = any(known == value for known, _ in column.labels)
    return column.value_text(value) if labelled else f"{value:g}"


def _alternatives(texts: Sequence[str]) -> str:
    """Return '1', '1 or 2', '1, 2 or 3'."""
    *rest, last = texts
    return f"{', '.join(rest)} or {last}" if rest else last


def _listing(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:MAX_CATEGORIES])
    n_more = len(texts) - MAX_CATEGORIES
    return shown if n_more <= 0 else f"{shown}, … ({n_more} more)"
