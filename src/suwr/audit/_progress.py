"""A progress bar for whoever watches, silence for everybody else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suwr.audit._oracle import Tick


def _silent(_: int) -> None:
    return None


@contextmanager
def progress(verbose: bool | None, n_probes: int, n_targets: int) -> Iterator[tuple[Tick, Tick]]:
    """Two counters, one for rows asked about and one for targets of the predictive gaps.

    ``verbose=None`` shows them when the error stream is a terminal.
    """
    shown = sys.stderr.isatty() if verbose is None else verbose
    if not shown:
        yield _silent, _silent
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
        probes = bar.add_task("Asking the selector", total=n_probes)
        targets = bar.add_task("Measuring bits", total=n_targets, visible=n_targets > 0)
        yield (
            lambda n: bar.update(probes, advance=n),
            lambda n: bar.update(targets, advance=n),
        )
