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
from suwr.scale.scoring import engine
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.draws import DrawsExperiment
from suwr_experiments.experiment import Experiment, fit_group
from suwr_experiments.image_experiment import ImageExperiment
from suwr_experiments.paper import PaperExperiment
from suwr_experiments.pareto_experiment import ParetoExperiment
from suwr_experiments.records import RecordStore, provenance
from suwr_experiments.synthetic_experiment import SyntheticExperiment
from suwr_experiments.tabular_experiment import TablesExperiment
from suwr_experiments.unseen import UnseenExperiment

__all__ = ["EXPERIMENTS", "find_experiment", "run", "run_cell", "run_group"]

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
    groups = _groups(unfinished, experiment, config)
    deadline = time.time() + (config.max_seconds or float("inf"))
    with progress_bars(["cells"], verbose=1, total=len(unfinished)) as (bar,):
        for title, seconds, error in _in_parallel(groups, config, deadline):
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


def run_group(cells: Sequence[Cell], folder: Path, device: str) -> list[Outcome]:
    """Fit the cells of one job, then evaluate and record each of them.

    A group of one cell may be of any method.
    """
    if len(cells) == 1:
        return [run_cell(cells[0], folder, device)]
    experiment = find_experiment(cells[0].experiment)
    try:
        tasks = [experiment.load(cell) for cell in cells]
        models, seconds = fit_group(cells, tasks, device)
    except Exception:
        error = traceback.format_exc()
        failure = _raiser(f"The fits failed:\n{error}")
        return [_record(cell, folder, device, failure) for cell in cells]
    outcomes = []
    for cell, model, task in zip(cells, models, tasks, strict=True):

        def work(
            cell: Cell = cell, model: Any = model, task: Any = task
        ) -> tuple[dict[str, Any], float]:
            return experiment.measure(cell, model, task), seconds

        outcomes.append(_record(cell, folder, device, work))
    return outcomes


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


def _can_join(cell: Cell) -> bool:
    """Whether a cell can be in one job with others."""
    return cell.method == "SUWR" and cell.params.get("network") != "conv"


def _groups(cells: Sequence[Cell], experiment: Experiment, config: RunConfig) -> list[list[Cell]]:
    """The cells that are fitted together, in the order of the first of each group.

    On a GPU at most ``config.together`` cells of one shape; otherwise every cell alone.
    """
    found: list[list[Cell]] = []
    current: dict[str, list[Cell]] = {}
    for cell in cells:
        if not (config.device.startswith("cuda") and _can_join(cell)):
            found.append([cell])
            continue
        shape = experiment.shape(cell)
        if len(current.get(shape, ())) in (0, config.together):
            current[shape] = []
            found.append(current[shape])
        current[shape].append(cell)
    return found


def _in_parallel(
    groups: Sequence[list[Cell]], config: RunConfig, deadline: float
) -> Iterator[Outcome]:
    folder, device = config.folder.absolute(), config.device
    if config.jobs == 1 and config.scheduler is None:
        for group in groups:
            if time.time() < deadline:
                yield from run_group(group, folder, device)
        return
    remaining = dict(enumerate(groups))
    try:
        # One thread per worker: the workers already use every core.
        local = parallel_config(backend="loky", n_jobs=config.jobs, inner_max_num_threads=1)
        with local, engine(config.scheduler):
            tasks = (
                delayed(_numbered)(number, group, folder, device, deadline)
                for number, group in enumerate(groups)
            )
            parallel = Parallel(return_as="generator_unordered", idle_worker_timeout=IDLE_TIMEOUT)
            for number, outcomes in parallel(tasks):
                del remaining[number]
                yield from outcomes
    except BrokenProcessPool:
        finished = RecordStore(folder)
        left = [finished.unfinished(group) for group in remaining.values()]
        yield from _one_by_one([group for group in left if group], config, deadline)


def _numbered(
    number: int, group: list[Cell], folder: Path, device: str, deadline: float
) -> tuple[int, list[Outcome]]:
    """Run a group, unless the deadline has passed since it was queued."""
    return number, run_group(group, folder, device) if time.time() < deadline else []


def _one_by_one(
    groups: Sequence[list[Cell]], config: RunConfig, deadline: float
) -> Iterator[Outcome]:
    """Run each group in a process of its own, after a worker was killed, e.g. out of memory.

    joblib does not say which group the worker was running; the one that is killed again is recorded
    as failed.
    """
    folder, device = config.folder.absolute(), config.device
    for group in groups:
        if time.time() >= deadline:
            return
        try:
            with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
                alone = Parallel(pre_dispatch=1, idle_worker_timeout=IDLE_TIMEOUT)
                yield from alone([delayed(run_group)(group, folder, device)])[0]
        except BrokenProcessPool as killed:
            failure = _raiser(f"The process of this cell was killed. {killed}")
            for cell in group:
                yield _record(cell, folder, device, failure)
