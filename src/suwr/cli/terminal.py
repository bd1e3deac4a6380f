"""Output of the commands: text is printed as it is, and never as markup or control sequences."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from suwr._utils.text import printable

__all__ = ["Terminal", "print_error", "print_warning"]


class Terminal:
    """The standard streams of a command.

    Names of columns, classes, categories and files come from data. Therefore nothing is parsed as
    markup or emoji codes, and control characters are shown as escapes. Line breaks within a name
    must be escaped by the caller, with `suwr._utils.text.printable`.
    """

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False, emoji=False)

    def print(self, text: str = "", style: str | None = None) -> None:
        """Print a text, which may have several lines."""
        self.console.print(_as_data(text, style), soft_wrap=True)

    def print_written(self, path: Any, contents: str = "") -> None:
        """Print that a file was written, with its ``contents`` in words."""
        name = printable(path)
        self.print(f"Wrote {contents} to {name}" if contents else f"Wrote {name}")

    def input(self, *parts: tuple[str, str]) -> str:
        """Print the question, given as pairs of text and style, and read one line."""
        question = Text.assemble(*(_as_data(text, style) for text, style in parts))
        return self.console.input(question)


def print_error(message: str) -> None:
    """Print an error message as one line on the standard error stream."""
    line = " ".join(printable(message, keep="\n").split())
    typer.secho(f"Error: {line}", fg="red", err=True)


def print_warning(message: str) -> None:
    """Print a warning as one line on the standard error stream."""
    line = " ".join(printable(message, keep="\n").split())
    typer.secho(f"Warning: {line}", fg="yellow", err=True)


def _as_data(text: str, style: str | None) -> Text:
    return Text(printable(text, keep="\n"), style=style or "")
