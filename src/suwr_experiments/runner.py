"""Run cells in parallel; resume; survive failures.

A finished cell is a file, written whole by the process that ran it. So a run that is killed loses
the cells in progress and nothing else, and the next run starts where it ended.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from suwr._utils.progress import job_progress
from suwr.scale.engine import engine
from suwr_experiments.cells import Cell
from suwr_experiments.fitting import fit_group
from suwr_experiments.options import Options
from suwr_experiments.registry import Experiment, find_experiment
from suwr_experiments.store import Store

__all__ = ["about", "run", "run_cell", "run_group"]

Outcome = tuple[str, float, str | None]
# Seconds after which a worker without work ends; so do those whose run was killed.
IDLE = 10


def about(device: str = "cpu") -> dict[str, Any]:
    """Facts that a reader needs to judge a number."""
    from suwr_experiments.devices import device_name

    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": device_name(device),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("suwr", "torch", "numpy", "scikit-learn")},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        import suwr

        # Run from the sources, which are not installed.
        return suwr.__version__ if package == "suwr" else "unknown"


def run(options: Options) -> Store:
    """Run what is not finished yet, and join the records.

    Parameters
    ----------
    options : Options

    Returns
    -------
    Store
    """
    experiment = find_experiment(options.experiment)
    cells = experiment.cells(options)
    store = Store(options.folder)
    todo = store.unfinished(cells)
    print(
        f"{options.experiment}: {len(cells)} cells, {len(cells) - len(todo)} finished before.",
        file=sys.stderr,
    )
    together = options.device.startswith("cuda")
    grouped = [cell for cell in todo if together and _can_join(cell)]
    single = [cell for cell in todo if not (together and _can_join(cell))]
    with job_progress(len(todo)) as report:
        for group in _groups(grouped, experiment, options.together):
            for outcome in run_group(group, options.folder, options.device):
                report(*outcome)
        for outcome in _in_parallel(single, options):
            report(*outcome)
    store.join(about(options.device) | {"command": options.command})
    return store


def run_cell(cell: Cell, folder: Path | None, device: str = "cpu") -> Outcome:
    """Fit, measure and record one cell; an error becomes part of the record."""

    def work() -> tuple[dict[str, Any], float]:
        return find_experiment(cell.experiment).run(cell, device)

    return _record(cell, folder, device, work)


def run_group(cells: Sequence[Cell], folder: Path, device: str) -> Iterator[Outcome]:
    """Fit SUWR cells of one shape together, then measure and record each as a cell of its own."""
    experiment = find_experiment(cells[0].experiment)
    try:
        tasks = [experiment.load(cell) for cell in cells]
        models, seconds = fit_group(cells, tasks, device)
    except Exception:
        error = traceback.format_exc()
        for cell in cells:
            yield _record(cell, folder, device, _raiser(f"Its group failed:\n{error}"))
        return
    for cell, model, task in zip(cells, models, tasks, strict=True):

        def work(
            cell: Cell = cell, model: Any = model, task: Any = task
        ) -> tuple[dict[str, Any], float]:
            return experiment.measure(cell, model, task), seconds

        yield _record(cell, folder, device, work)


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
    record: dict[str, Any] = {"cell": cell.to_dict(), "status": "done", "about": about(device)}
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
        Store(folder).write(record)
    return cell.title, record["seconds"], error


def _can_join(cell: Cell) -> bool:
    """Whether a cell can be trained in a stack."""
    return cell.method == "SUWR" and cell.params.get("network") != "conv"


def _groups(cells: Sequence[Cell], experiment: Experiment, most: int) -> Iterator[list[Cell]]:
    """Cells of one shape, at most ``most`` at once."""
    shapes: dict[str, list[Cell]] = {}
    for cell in cells:
        shapes.setdefault(experiment.shape(cell), []).append(cell)
    for same in shapes.values():
        for start in range(0, len(same), most):
            yield same[start : start + most]


def _in_parallel(cells: Sequence[Cell], options: Options) -> Iterator[Outcome]:
    folder, device = options.folder.absolute(), options.device
    if options.jobs == 1 and options.scheduler is None:
        for cell in cells:
            yield run_cell(cell, folder, device)
        return
    left = {cell.key: cell for cell in cells}
    try:
        # One thread a worker: the workers already use every core.
        here = parallel_config(backend="loky", n_jobs=options.jobs, inner_max_num_threads=1)
        with here, engine(options.scheduler):
            tasks = (delayed(_keyed)(cell, folder, device) for cell in cells)
            parallel = Parallel(return_as="generator_unordered", idle_worker_timeout=IDLE)
            for key, outcome in parallel(tasks):
                del left[key]
                yield outcome
    except BrokenProcessPool:
        yield from _one_by_one(Store(folder).unfinished(left.values()), options)


def _keyed(cell: Cell, folder: Path, device: str) -> tuple[str, Outcome]:
    return cell.key, run_cell(cell, folder, device)


def _one_by_one(cells: Sequence[Cell], options: Options) -> Iterator[Outcome]:
    """After a worker was killed, as for want of memory: each cell in a process of its own.

    Whose cell it was is not known; the one that is killed again is recorded as failed.
    """
    folder, device = options.folder.absolute(), options.device
    for cell in cells:
        try:
            with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
                alone = Parallel(pre_dispatch=1, idle_worker_timeout=IDLE)
                yield alone([delayed(run_cell)(cell, folder, device)])[0]
        except BrokenProcessPool as killed:
            yield _record(cell, folder, device, _raiser(f"Its process was killed. {killed}"))
