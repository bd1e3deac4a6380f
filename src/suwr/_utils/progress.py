"""Progress on the standard error stream: bars of rich, or lines where there is no terminal."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from suwr._utils.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Seconds between two lines where there is no terminal.
LINE_INTERVAL = 10.0


class ProgressCounter:
    """Counts towards a total; does nothing if progress is not shown.

    Parameters
    ----------
    update : callable, optional
        Receives the changes as keyword arguments of ``rich.progress.Progress.update``.
    """

    def __init__(self, update: Callable[..., None] | None = None) -> None:
        self._update = update

    def __call__(
        self, n: int = 1, *, description: str | None = None, status: str | None = None
    ) -> None:
        """Advance by ``n``, optionally with a new description and status text."""
        if self._update is not None:
            changes = {"description": description, "status": status}
            known = {name: printable(t) for name, t in changes.items() if t is not None}
            self._update(advance=n, **known)

    def expect(self, total: int) -> None:
        """Set the total once it is known; a total of 0 hides the bar."""
        if self._update is not None:
            self._update(total=total, visible=total > 0)


@contextmanager
def progress_bars(
    descriptions: Sequence[str],
    *,
    verbose: bool | int | None,
    total: int | None = None,
    completed: int = 0,
    unit: str = "",
) -> Iterator[list[ProgressCounter]]:
    """Show one progress bar per description.

    In a notebook, rich draws bars if ipywidgets is installed. Where there are no bars, a line is
    written about every ten seconds and at the end. At the end of work that has succeeded, what was
    counted is all of it: a fit may need fewer epochs than its largest number.

    Parameters
    ----------
    descriptions : sequence of str
        Initial text of each bar.
    verbose : bool, int or None
        0 and False show nothing; None shows the bars only on a terminal, where they are removed at
        the end, and in a notebook, but not in the workers of a parallel computation.
    total : int or None, default=None
        What the bars count to. With None, a bar appears once `ProgressCounter.expect` is called.
    completed : int, default=0
        Initial count.
    unit : str, default=""
        What is counted, such as ``"epoch"``.

    Yields
    ------
    list of ProgressCounter
        One per description.
    """
    if not (_is_watched() if verbose is None else verbose):
        yield [ProgressCounter() for _ in descriptions]
        return
    bars = _rich_bars(unit, transient=verbose is None)
    console = bars.console
    widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    drawn = widgets or (console.is_terminal and not console.is_dumb_terminal)
    update = bars.update if drawn else _line_writer(bars, unit)
    options: dict[str, Any] = {"total": total, "completed": completed, "status": ""}
    with bars if drawn else nullcontext():
        tasks = [
            bars.add_task(printable(text), visible=total is not None, **options)
            for text in descriptions
        ]
        yield [ProgressCounter(partial(update, task)) for task in tasks]
        for task in bars.tasks:
            if task.total and task.completed:
                update(task.id, total=task.completed, completed=task.completed)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; the shell in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "kernel", None) is not None


def _is_watched() -> bool:
    """Whether a person can watch this thread: it is the main one, in a terminal or a notebook."""
    return (
        (_in_notebook() or sys.stderr.isatty())
        and multiprocessing.current_process().name == "MainProcess"
        and threading.current_thread() is threading.main_thread()
    )


def _line_writer(bars: Progress, unit: str) -> Callable[..., None]:
    """Return a function that updates a bar and writes it as a line from time to time."""
    written = time.monotonic()

    def update(number: TaskID, **changes: Any) -> None:
        nonlocal written
        bars.update(number, **changes)
        task, now = bars.tasks[number], time.monotonic()
        if task.total and (now - written >= LINE_INTERVAL or "completed" in changes):
            written = now
            counts = f"{unit} {task.completed:.0f}/{task.total:.0f}".lstrip()
            status = f", {task.fields['status']}" if task.fields["status"] else ""
            times = [f"{timedelta(seconds=round(task.elapsed or 0))}"]
            if not task.finished and task.time_remaining is not None:
                times.append(f"{timedelta(seconds=round(task.time_remaining))} left")
            line = f"{task.description}: {counts} ({task.percentage:.0f} %){status}"
            print(line, *times, sep=", ", file=sys.stderr, flush=True)

    return update


def _rich_bars(unit: str, transient: bool) -> Progress:
    """Return the progress display of rich; a transient one disappears at the end."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TextColumn(unit),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=transient,
        # Average over the whole run: single epochs and experiments vary in duration.
        speed_estimate_period=3600,
    )


class EpochReport(Protocol):
    """What `training_progress` reads of an epoch."""

    @property
    def phase(self) -> str:
        """Name of the training phase."""

    @property
    def value(self) -> float:
        """Validation objective or training loss."""


def report_choices(choices: Mapping[str, str], verbose: int | None) -> None:
    """Print the settings that a fit chose by itself, with reasons, if ``verbose`` is positive."""
    if verbose:
        for name, reason in choices.items():
            print(f"{name}: {reason}", file=sys.stderr, flush=True)


@contextmanager
def training_progress(
    n_epochs: int, verbose: int | None
) -> Iterator[Callable[[EpochReport], None]]:
    """Show the epochs of a fit with their phase and validation objective.

    Parameters
    ----------
    n_epochs : int
        Epochs of all phases together.
    verbose : int or None
        0 shows nothing, 1 a progress bar, 2 one line per epoch; None as in `progress_bars`.

    Yields
    ------
    callable
        To be called after every epoch.
    """
    if verbose is not None and verbose > 1:
        numbers = count(1)

        def print_line(epoch: EpochReport) -> None:
            number = f"{next(numbers):{len(str(n_epochs))}d}/{n_epochs}"
            line = f"[{number}] {epoch.phase}: validation objective {epoch.value:.4f}"
            print(line, file=sys.stderr, flush=True)

        yield print_line
        return
    with progress_bars(["starting"], verbose=verbose, total=n_epochs, unit="epoch") as (bar,):
        yield lambda epoch: bar(description=epoch.phase, status=f"validation {epoch.value:.4f}")
