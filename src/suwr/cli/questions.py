"""``suwr ask``: the policy asks for one feature at a time in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.prompt import Prompt

from suwr._files import check_writable, write_atomic
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.encoding import ColumnCode
from suwr.estimators.persistence import load
from suwr.narrative import Explanation

__all__ = ["ask_questions", "read_answer"]

UNKNOWN = ("", "?", "unknown", "missing")


class _UndoError(Exception):
    """The user wants the last answer back."""


def ask_questions(model_path: Path, out: Path | None) -> None:
    """Ask until the policy stops, then tell the story."""
    if out is not None:
        check_writable(out)
    model = load(model_path)
    session = model.acquire()
    console = Console(highlight=False)
    console.print(
        "Answer each question; 'unknown' if it cannot be had, 'undo' to go back.", style="dim"
    )
    while not session.done:
        try:
            session.observe({name: _ask(console, model, name) for name in session.next_columns})
        except _UndoError:
            if session.known:
                session.undo()
            continue
        _show(console, model, session)
    narrative = session.narrative()
    console.print()
    console.print(narrative.text(), markup=False, soft_wrap=True)
    if out is not None:
        write_atomic(out, Explanation([narrative]).to_json().encode())
        console.print(f"Wrote {out}", soft_wrap=True)


def read_answer(text: str, code: ColumnCode) -> Any:
    """One answer as a value; raises ValueError with what is expected."""
    text = text.strip()
    if text.lower() in UNKNOWN:
        return None
    if code.categories is None:
        value = float(text)
        if value - value != 0:
            raise ValueError("Please give a finite number.")
        return value
    for category in code.categories:
        if text == str(category):
            return category
    shown = ", ".join(str(c) for c in code.categories[:12])
    raise ValueError(f"Please answer one of: {shown}.")


def _ask(console: Console, model: Any, name: str) -> Any:
    code = model.encoder_.codes[model.encoder_.names.index(name)]
    while True:
        try:
            text = Prompt.ask(console.render_str(name, markup=False), console=console, default="")
        except EOFError:
            raise ValueError("The input ended before the model had enough.") from None
        if text.strip().lower() == "undo":
            raise _UndoError
        try:
            return read_answer(text, code)
        except ValueError as error:
            hint = str(error) if code.categories is not None else "Please give a number."
            console.print(hint, style="yellow", markup=False)


def _show(console: Console, model: Any, session: Acquisition) -> None:
    """Where the prediction stands after an answer."""
    narrative = session.narrative()
    console.print(f"  → {narrative._say(narrative.prediction)}", style="cyan", markup=False)
