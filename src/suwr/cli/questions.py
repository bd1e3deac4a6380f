"""``suwr ask``: the policy asks for one feature at a time in the terminal."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from suwr import __version__
from suwr._utils.files import check_writable, write_atomic
from suwr.cli.answers import Answer, UnseenError, describe, read_answer
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.io import load
from suwr.explanation import Explanation

__all__ = ["ask_questions", "default_record"]


def ask_questions(model_path: Path, record: Path | None) -> None:
    """Ask until the policy stops, tell the story, write the record.

    Parameters
    ----------
    model_path : Path
    record : Path or None
        Where to write what was asked and answered; None writes nothing.
    """
    if record is not None:
        check_writable(record)
    interview = Interview(load(model_path), Console(highlight=False))
    began = datetime.now()
    try:
        interview.run()
    except (EOFError, KeyboardInterrupt):
        interview.console.print()
    session = interview.session
    if session.known:
        interview.console.print()
        interview.console.print(session.narrative().text(), markup=False, soft_wrap=True)
    if record is not None and interview.log:
        write_atomic(record, _record(interview, model_path, began).encode())
        interview.console.print(f"Wrote {record}", markup=False, soft_wrap=True)
    if not session.done:
        raise ValueError("The input ended before the model had enough.")


def default_record(model_path: Path) -> Path:
    """A new file in the present folder, named after the model and the time."""
    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return Path(f"{model_path.stem}-answers-{stamp}.json")


class Interview:
    """A session with somebody at the keyboard.

    Parameters
    ----------
    model : estimator
        With ``acquire``.
    console : rich Console

    Attributes
    ----------
    session : Acquisition
    log : list of dict
        Everything that was typed and used, also what was taken back later.
    """

    def __init__(self, model: Any, console: Console) -> None:
        self.model = model
        self.console = console
        self.session: Acquisition = model.acquire()
        self.log: list[dict[str, Any]] = []

    def run(self) -> None:
        """Ask until the policy stops and nothing is taken back any more."""
        self.console.print(
            "Answer each question; 'unknown' if it cannot be had, 'undo' to go back.", style="dim"
        )
        while True:
            while not self.session.done:
                self._ask_unit()
            if not self._wants_undo():
                return
            self._take_back()

    def _ask_unit(self) -> None:
        """Ask for every column of the next unit; 'undo' goes one question back."""
        columns = self.session.next_columns
        values: list[Any] = []
        while len(values) < len(columns):
            name = columns[len(values)]
            answer = self._ask(name)
            if not answer.undo:
                values.append(answer.value)
                self.log.append({"column": name, "value": answer.value})
            elif values:
                values.pop()
                self.log.append({"undo": columns[len(values)]})
            else:
                self._take_back()
                return
        self.session.observe(dict(zip(columns, values, strict=True)))
        story = self.session.narrative()
        self.console.print(f"  → {story._say(story.prediction)}", style="cyan", markup=False)

    def _ask(self, name: str) -> Answer:
        """One answer that can be used; what looks like a slip must be given twice."""
        code = self.model.encoder_.codes[self.model.encoder_.names.index(name)]
        refused = None
        while True:
            question = Text.assemble((name, "bold"), (f" ({describe(code)})", "dim"), ": ")
            text = self.console.input(question).strip()
            try:
                return read_answer(text, code)
            except UnseenError as error:
                if text == refused:
                    return Answer(error.value)
                refused, hint = text, str(error)
            except ValueError as error:
                hint = str(error)
            self.console.print(hint, style="yellow", markup=False, soft_wrap=True)

    def _wants_undo(self) -> bool:
        """The last answer may be wrong too. The end of the input means no."""
        if not self.session.known:
            return False
        question = Text("The model has enough. Enter to finish, 'undo' to go back: ")
        try:
            return self.console.input(question).strip().lower() in ("undo", ":undo")
        except EOFError:
            return False

    def _take_back(self) -> None:
        if not self.session.known:
            self.console.print("There is nothing to take back.", style="yellow")
            return
        last = self.session.narrative().steps[-1]
        self.session.undo()
        self.log.append({"undo": last.unit})
        self.console.print(f"  ← {last.unit}", style="cyan", markup=False)


def _record(interview: Interview, model_path: Path, began: datetime) -> str:
    """The narrative as `Explanation.from_json` reads it, with how it came about beside it."""
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
