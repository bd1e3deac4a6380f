"""Run the cells of an experiment in parallel, and resume interrupted runs.

The process that runs a cell writes its record atomically. A run that is killed therefore loses only
the cells in progress, and the next run continues with the unfinished ones.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from suwr._utils.progress import progress_bars
from suwr._utils.text import printable
from suwr._utils.validation import check_choice
from suwr.scale import engine
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.draws import DrawsExperiment
from suwr_experiments.experiment import Experiment
from suwr_experiments.image_experiment import ImageExperiment
from suwr_experiments.paper import PaperExperiment
from suwr_experiments.pareto_experiment import ParetoExperiment
from suwr_experiments.records import RecordStore, provenance
from suwr_experiments.synthetic_experiment import SyntheticExperiment
from suwr_experiments.tabular_experiment import TablesExperiment
from suwr_experiments.unseen import UnseenExperiment

__all__ = ["EXPERIMENTS", "find_experiment", "run", "run_cell"]

EXPERIMENTS: dict[str, Experiment] = {
    "pareto": ParetoExperiment(),
    "synthetic": SyntheticExperiment(),
    "images": ImageExperiment(),
    "tables": TablesExperiment(),
    "unseen": UnseenExperiment(),
    "draws": DrawsExperiment(),
    "paper": PaperExperiment(),
}

Outcome = tuple[str, float, str | None]
# Seconds after which idle workers exit, including those whose parent process was killed.
IDLE_TIMEOUT = 10


def find_experiment(name: str) -> Experiment:
    """Experiment by name.

    Examples
    --------
    >>> type(find_experiment("pareto")).__name__
    'ParetoExperiment'
    """
    return EXPERIMENTS[check_choice(name, "experiment", "find_experiment", tuple(EXPERIMENTS))]


def run(config: RunConfig) -> RecordStore:
    """Run the unfinished cells of an experiment, and join the records.

    After ``max_seconds`` no cell is started; those that run are finished and recorded.

    Parameters
    ----------
    config : RunConfig

    Returns
    -------
    RecordStore
    """
    experiment = find_experiment(config.experiment)
    cells = experiment.cells(config)
    store = RecordStore(config.folder)
    unfinished = store.unfinished(cells)
    n_finished = len(cells) - len(unfinished)
    print(
        f"{config.experiment}: {len(cells)} cells, {n_finished} already finished.", file=sys.stderr
    )
    deadline = time.time() + (config.max_seconds or float("inf"))
    with progress_bars(["cells"], verbose=1, total=len(unfinished)) as (bar,):
        for title, seconds, error in _in_parallel(unfinished, config, deadline):
            bar(description=title, status=f"{seconds:.0f} s")
            if error is not None:
                print(printable(f"{title} FAILED: {error}"), file=sys.stderr, flush=True)
    store.join(provenance(config.device) | {"command": config.command})
    return store


def run_cell(cell: Cell, folder: Path | None, device: str = "cpu") -> Outcome:
    """Fit, evaluate and record one cell; an error is recorded as well."""

    def work() -> tuple[dict[str, Any], float]:
        return find_experiment(cell.experiment).run(cell, device)

    return _record(cell, folder, device, work)


def _raiser(text: str) -> Callable[[], tuple[dict[str, Any], float]]:
    def fail() -> tuple[dict[str, Any], float]:
        raise RuntimeError(text)

    return fail


def _record(
    cell: Cell,
    folder: Path | None,
    device: str,
    work: Callable[[], tuple[dict[str, Any], float]],
) -> Outcome:
    start = time.perf_counter()
    record: dict[str, Any] = {"cell": cell.to_dict(), "status": "done", "about": provenance(device)}
    error = None
    try:
        metrics, seconds = work()
        record |= {"metrics": metrics, "fit_seconds": round(seconds, 2)}
    except Exception as caught:
        last = str(caught).strip().splitlines()[-1:] or [""]
        error = f"{type(caught).__name__}: {last[0]}"
        record |= {"status": "failed", "error": traceback.format_exc()}
    record["seconds"] = round(time.perf_counter() - start, 2)
    if folder is not None:
        RecordStore(folder).write(record)
    return cell.title, record["seconds"], error


def _in_parallel(cells: Sequence[Cell], config: RunConfig, deadline: float) -> Iterator[Outcome]:
    folder, device = config.folder.absolute(), config.device
    if config.jobs == 1 and config.scheduler is None:
        for cell in cells:
            if time.time() < deadline:
                yield run_cell(cell, folder, device)
        return
    remaining = dict(enumerate(cells))
    try:
        # One thread per worker: the workers already use every core.
        local = parallel_config(backend="loky", n_jobs=config.jobs, inner_max_num_threads=1)
        with local, engine(config.scheduler):
            tasks = (
                delayed(_numbered)(number, cell, folder, device, deadline)
                for number, cell in enumerate(cells)
            )
            parallel = Parallel(return_as="generator_unordered", idle_worker_timeout=IDLE_TIMEOUT)
            for number, outcome in parallel(tasks):
                del remaining[number]
                if outcome is not None:
                    yield outcome
    except BrokenProcessPool:
        left = RecordStore(folder).unfinished(list(remaining.values()))
        yield from _one_by_one(left, config, deadline)


def _numbered(
    number: int, cell: Cell, folder: Path, device: str, deadline: float
) -> tuple[int, Outcome | None]:
    """Run a cell, unless the deadline has passed since it was queued."""
    return number, run_cell(cell, folder, device) if time.time() < deadline else None


def _one_by_one(cells: Sequence[Cell], config: RunConfig, deadline: float) -> Iterator[Outcome]:
    """Run each cell in a process of its own, after a worker was killed, e.g. out of memory.

    joblib does not say which cell the worker was running; the one that is killed again is recorded
    as failed.
    """
    folder, device = config.folder.absolute(), config.device
    for cell in cells:
        if time.time() >= deadline:
            return
        try:
            with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
                alone = Parallel(pre_dispatch=1, idle_worker_timeout=IDLE_TIMEOUT)
                yield from alone([delayed(run_cell)(cell, folder, device)])
        except BrokenProcessPool as killed:
            failure = _raiser(f"The process of this cell was killed. {killed}")
            yield _record(cell, folder, device, failure)
