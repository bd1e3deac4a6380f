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
from suwr.data.encoding import ColumnCode, TableEncoder
from suwr.data.parsing import INVALID
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.io import load
from suwr.explanation import Explanation

__all__ = [
    "Answer", "Interview", "UnseenError", "ask_questions", "default_record", "describe",
    "read_answer", "read_known",
]  # fmt: skip

UNKNOWN = ("", "?", "unknown", "missing")
UNDO = ("undo",)
UNAVAILABLE = ("unavailable",)
# With a leading colon, a command is recognised even if a category has the same name.
COMMANDS = {":unknown": "unknown", ":undo": "undo", ":unavailable": "unavailable"}
# Categories listed in a question or an error message.
MAX_CATEGORIES = 12


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
        The value; None for 'unknown'.
    undo : bool
        Whether the previous answer is to be taken back instead.
    unavailable : bool
        Whether the feature cannot be had, so that the model has to do without it.
    """

    value: Any = None
    undo: bool = False
    unavailable: bool = False


def read_answer(text: str, code: ColumnCode) -> Answer:
    """Parse the answer to a question about one column.

    Parameters
    ----------
    text : str
        The line that was typed.
    code : ColumnCode
        Encoding of the column.

    Raises
    ------
    UnseenError
        The answer is valid, but unlike anything in the training data.
    ValueError
        The answer is invalid; the message says what is expected.

    Examples
    --------
    >>> read_answer("4.5", ColumnCode()).value, read_answer("unknown", ColumnCode()).value
    (4.5, None)
    >>> read_answer("Red", ColumnCode(categories=("blue", "red"))).value
    'red'
    """
    text = text.strip()
    # Categories take precedence over commands: a category may be named 'unknown'.
    category = _category(text, code.categories or ())
    if category is not None:
        return Answer(category)
    word = COMMANDS.get(text.lower(), text.lower())
    if word in UNDO:
        return Answer(undo=True)
    if word in UNAVAILABLE:
        return Answer(unavailable=True)
    if word in UNKNOWN:
        return Answer(None)
    value = code.parse(text)
    if value is None:
        return Answer(None)
    if code.categories is None:
        return Answer(_number(value, text, code))
    return Answer(value if value in code.categories else _unseen(text, code))


def describe(code: ColumnCode) -> str:
    """Return what a column expects, for the prompt."""
    if code.categories is not None:
        return _listing(code.categories)
    summary = code.summary
    if summary is None:
        low, high = code.center - code.scale, code.center + code.scale
    elif summary.values is not None:
        return _alternatives(summary.values)
    else:
        # The central 80 % of the training values.
        low, high = summary.quantiles[2], summary.quantiles[-3]
    whole = summary is not None and all(q == int(q) for q in summary.quantiles if abs(q) < 2**53)
    return f"a {'whole ' if whole else ''}number, usually {low:.3g} to {high:.3g}"


def read_known(pairs: Sequence[str], encoder: TableEncoder) -> dict[str, Any]:
    """Return the values of ``column=value`` pairs by column.

    Examples
    --------
    >>> read_known(["age=41"], TableEncoder(["age"], [ColumnCode()]))
    {'age': 41.0}
    """
    known: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
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


def ask_questions(
    model_path: Path,
    record: Path | None,
    mean_features: float | None = None,
    known: Sequence[str] = (),
    unavailable: Sequence[str] = (),
    max_cost: float | None = None,
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
    """
    model = load(model_path)
    session = model.acquire(
        known=read_known(known, model.encoder_) or None, unavailable=unavailable, max_cost=max_cost,
        mean_features=mean_features,
    )  # fmt: skip
    interview = Interview(model, Terminal(), session)
    began = datetime.now()
    try:
        interview.run()
    except (EOFError, KeyboardInterrupt):
        interview.terminal.print()
    if session.known:
        interview.terminal.print()
        interview.terminal.print(session.narrative().text())
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
    session : Acquisition

    Attributes
    ----------
    log : list of dict
        Every answer that was used, including those that were taken back later.
    """

    def __init__(self, model: Any, terminal: Terminal, session: Acquisition) -> None:
        self.model = model
        self.terminal = terminal
        self.session = session
        self.log: list[dict[str, Any]] = []

    def run(self) -> None:
        """Ask until the policy stops and the last answer is confirmed."""
        self.terminal.print(
            "Answer each question. 'unknown' if the value is missing, 'unavailable' if it cannot "
            "be had, 'undo' to go back.",
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
            if answer.unavailable:
                self._leave_out(name)
                return
            if not answer.undo:
                values.append(answer.value)
                self.log.append({"column": name, "value": answer.value})
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
        unconfirmed = None
        while True:
            question = (printable(name), "bold"), (f" ({describe(code)})", "dim"), (": ", "")
            text = self.terminal.input(*question).strip()
            try:
                return read_answer(text, code)
            except UnseenError as error:
                if text == unconfirmed:
                    return Answer(error.value)
                unconfirmed, hint = text, str(error)
            except ValueError as error:
                hint = str(error)
            self.terminal.print(hint, style="yellow")

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


def _category(text: str, categories: tuple[Any, ...]) -> Any:
    """Return the category that equals the text, or the only one that equals it ignoring case."""
    for category in categories:
        if text == str(category):
            return category
    alike = [c for c in categories if text.lower() == str(c).lower()]
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


def _unseen(text: str, code: ColumnCode) -> Any:
    assert code.categories is not None
    message = f"Please enter one of: {_listing(code.categories)}. Got {text!r}."
    if all(isinstance(c, str) for c in code.categories):
        # Rare categories are encoded as 'any other', so an unseen one is valid.
        raise UnseenError(f"{message} Enter it again to use it as 'any other'.", text)
    raise ValueError(message)


def _alternatives(values: tuple[float, ...]) -> str:
    """Return '1', '1 or 2', '1, 2 or 3'."""
    *rest, last = (f"{value:g}" for value in values)
    return f"{', '.join(rest)} or {last}" if rest else last


def _listing(categories: tuple[Any, ...]) -> str:
    shown = ", ".join(printable(c) for c in categories[:MAX_CATEGORIES])
    n_more = len(categories) - MAX_CATEGORIES
    return shown if n_more <= 0 else f"{shown}, … ({n_more} more)"
