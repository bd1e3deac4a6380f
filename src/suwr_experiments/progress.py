"""Progress of a run, with the time left: by rich where it is there, in plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["cell_progress", "time_left"]

# Called after every cell with its title, its seconds, and its error or None.
Report = Callable[[str, float, str | None], None]


def time_left(elapsed: float, done: int, total: int) -> str:
    """Hours, minutes and seconds that the rest will take at the pace so far.

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
def cell_progress(total: int) -> Iterator[Report]:
    """Yield the function that the runner calls after every cell."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        yield _plain(total)
        return
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _plain(total)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        speed_estimate_period=3600,
    ) as bar:
        task = bar.add_task("cells", total=total)

        def report(title: str, seconds: float, error: str | None) -> None:
            if error is not None:
                console.print(f"{title} failed: {error}", style="red", markup=False)
            bar.update(task, advance=1, description=title)

        yield report


def _plain(total: int) -> Report:
    start, done = time.monotonic(), 0

    def report(title: str, seconds: float, error: str | None) -> None:
        nonlocal done
        done += 1
        state = f"{seconds:.0f} s" if error is None else f"FAILED: {error}"
        left = time_left(time.monotonic() - start, done, total)
        print(f"[{done}/{total}, {left} left] {title}: {state}", file=sys.stderr, flush=True)

    return report
