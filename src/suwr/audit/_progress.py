"""A progress bar for whoever watches, silence for everybody else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial


class Counter:
    """Counts towards a total, on a bar if there is one."""

    def __init__(self, update: Callable[..., None] | None = None) -> None:
        self._update = update

    def __call__(self, n: int) -> None:
        """Count ``n`` more."""
        if self._update is not None:
            self._update(advance=n)

    def expect(self, total: int) -> None:
        """Set the total, once it is known."""
        if self._update is not None:
            self._update(total=total, visible=total > 0)


@contextmanager
def progress(verbose: bool | None) -> Iterator[tuple[Counter, Counter]]:
    """Two counters, one for rows asked about and one for targets of the predictive gaps.

    ``verbose=None`` shows them when the error stream is a terminal.
    """
    shown = sys.stderr.isatty() if verbose is None else verbose
    if not shown:
        yield Counter(), Counter()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=verbose is None) as bar:
        tasks = [
            bar.add_task(text, total=None, visible=False)
            for text in ("Asking the selector", "Measuring bits")
        ]
        asked, measured = (Counter(partial(bar.update, task)) for task in tasks)
        yield asked, measured
