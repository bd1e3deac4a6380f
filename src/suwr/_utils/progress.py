"""Progress bars: drawn by rich on the standard error stream, and as HTML in notebooks.

`progress_bars` is the only place that configures rich; the other functions are its uses.
"""

from __future__ import annotations

import html
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Protocol

from suwr._utils.text import printable

__all__ = [
    "NotebookBars", "ProgressCounter", "in_notebook", "job_progress", "progress_bars",
    "report_choices", "time_left", "training_progress",
]  # fmt: skip

# Seconds between two updates of the output.
INTERVAL = 0.2


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # The shell in a terminal has no kernel.
    return getattr(shell, "kernel", None) is not None


class NotebookBars:
    """Bars as HTML, with the methods of ``rich.progress.Progress`` that `progress_bars` calls.

    rich draws bars in notebooks only if ipywidgets is installed.

    Parameters
    ----------
    unit : str
        What is counted.
    """

    def __init__(self, unit: str = "") -> None:
        self.unit = unit
        self._tasks: list[dict[str, Any]] = []
        self._start = time.monotonic()
        self._shown = 0.0
        self._handle: Any = None

    def add_task(self, description: str, **fields: Any) -> int:
        """Add a bar and return its number."""
        self._tasks.append({"description": description, **fields})
        self.refresh(force=True)
        return len(self._tasks) - 1

    def update(self, task: int, *, advance: int = 0, **changes: Any) -> None:
        """Advance a bar and change its texts."""
        self._tasks[task] |= changes
        self._tasks[task]["completed"] += advance
        finished = self._tasks[task]["completed"] == self._tasks[task]["total"]
        self.refresh(force=finished)

    def refresh(self, *, force: bool = False) -> None:
        """Draw all bars, at most a few times per second."""
        now = time.monotonic()
        if not force and now - self._shown < INTERVAL:
            return
        self._shown = now
        from IPython.display import HTML, display

        drawn = HTML(self.to_html())
        if self._handle is None:
            self._handle = display(drawn, display_id=True)
        else:
            self._handle.update(drawn)

    def to_html(self) -> str:
        """Return the visible bars as HTML."""
        elapsed = time.monotonic() - self._start
        return "".join(
            f"<div>{html.escape(task['description'])} "
            f'<progress max="{task["total"]}" value="{task["completed"]}"></progress> '
            f"{html.escape(self.unit)} {task['completed']}/{task['total']} "
            f"{html.escape(task['status'])}, {elapsed:.0f} s</div>"
            for task in self._tasks
            if task["visible"]
        )

    def __enter__(self) -> NotebookBars:
        return self

    def __exit__(self, *error: object) -> None:
        self.refresh(force=True)


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
    options: dict[str, Any] = {"total": total, "completed": completed, "status": ""}
    with NotebookBars(unit) if in_notebook() else _rich_bars(unit, verbose is None) as bars:
        texts = [printable(text) for text in descriptions]
        tasks = [bars.add_task(text, visible=total is not None, **options) for text in texts]
        yield [ProgressCounter(partial(bars.update, task)) for task in tasks]


def _is_watched() -> bool:
    """Whether a person can watch this thread: it is the main one, in a terminal or a notebook."""
    return (
        (in_notebook() or sys.stderr.isatty())
        and multiprocessing.current_process().name == "MainProcess"
        and threading.current_thread() is threading.main_thread()
    )


def _rich_bars(unit: str, transient: bool) -> Any:
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
        *([TextColumn(unit)] if unit else []),
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


def time_left(elapsed: float, done: int, total: int) -> str:
    """Estimate the remaining time as hours, minutes and seconds.

    Examples
    --------
    >>> time_left(60.0, 3, 12)
    '0:03:00'
    """
    if done == 0:
        return "-:--:--"
    minutes, seconds = divmod(round(elapsed / done * (total - done)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


@contextmanager
def job_progress(total: int) -> Iterator[Callable[[str, float, str | None], None]]:
    """Show the progress of long jobs: a bar on a terminal, one line per job elsewhere.

    Parameters
    ----------
    total : int
        Number of jobs.

    Yields
    ------
    callable
        To be called after every job with its title, its duration in seconds, and its error
        message or None.
    """
    start, done, terminal = time.monotonic(), 0, sys.stderr.isatty()
    with progress_bars(["jobs"], verbose=terminal, total=total) as (bar,):

        def report(title: str, seconds: float, error: str | None) -> None:
            nonlocal done
            done += 1
            bar(description=title)
            if terminal and error is None:
                return
            left = time_left(time.monotonic() - start, done, total)
            state = f"{seconds:.0f} s" if error is None else f"FAILED: {error}"
            line = f"[{done}/{total}, {left} left] {title}: {state}"
            print(printable(line), file=sys.stderr, flush=True)

        yield report
