"""Run an experiment and write its tables and figures."""

from __future__ import annotations

import sys

from suwr.exceptions import MissingExtraError
from suwr_experiments.options import Options
from suwr_experiments.registry import find_experiment
from suwr_experiments.runner import run
from suwr_experiments.store import Store

__all__ = ["reproduce"]


def reproduce(options: Options) -> bool:
    """Run what is missing, then make tables and figures of all records in the folder.

    Returns
    -------
    bool
        Whether every cell of the grid is finished.
    """
    store = Store(options.folder) if options.tables else run(options)
    experiment = find_experiment(options.experiment)
    open_cells = store.unfinished(experiment.cells(options))
    records = store.records()
    if not records:
        raise ValueError(f"The folder {str(options.folder)!r} holds no finished cell.")
    if options.tables:
        store.join()
    written = experiment.write_tables(records, options.folder)
    try:
        written += experiment.write_figures(records, options.folder)
    except MissingExtraError as error:
        print(f"No figures: {error}", file=sys.stderr)
    for path in written:
        print(path)
    if open_cells:
        print(
            f"{len(open_cells)} cells failed or are missing; run again for them.", file=sys.stderr
        )
    return not open_cells
