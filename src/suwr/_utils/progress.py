"""A progress bar for training, shown when ``verbose`` is set."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suwr.training.loop import Epoch, Progress

__all__ = ["training_progress"]


@contextmanager
def training_progress(n_epochs: int, verbose: int) -> Iterator[Progress]:
    """Yield the function that training calls after every epoch.

    Parameters
    ----------
    n_epochs : int
        Of all phases together.
    verbose : int
        0 shows nothing.
    """
    if not verbose:
        yield lambda epoch: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("validation {task.fields[value]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    ) as bar:
        task = bar.add_task("starting", total=n_epochs, value="")

        def report(epoch: Epoch) -> None:
            bar.update(task, advance=1, description=epoch.phase, value=f"{epoch.value:.4f}")

        yield report
