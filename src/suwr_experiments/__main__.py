"""Command line of the paper's experiments: ``python -m suwr_experiments --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suwr_experiments.config import PRESETS, PROGRAM, Cell, RunConfig, option_name
from suwr_experiments.images import FOLDER_VARIABLE, IMAGE_SETS, load_images
from suwr_experiments.pages import RECORD_FOLDERS, write_outputs, write_pages
from suwr_experiments.records import RecordStore
from suwr_experiments.runner import EXPERIMENTS, find_experiment, run, run_cell
from suwr_experiments.tabular_data import TABLES, write_tables
from suwr_experiments.unseen import UNSEEN_TABLES

DESCRIPTIONS = {
    "pareto": "Experiment 1: policies and exact Pareto fronts",
    "synthetic": "Experiment 2: Syn1 to Syn6",
    "images": "Experiment 3: MNIST and Fashion-MNIST",
    "tables": "Benchmark: real and generated tables over a range of costs",
    "unseen": "Tables that played no part in the development, one split each",
    "draws": "Syn1 to Syn6 on fresh draws, with settings fixed before the run",
    "paper": "The paper's REINFORCE on Syn1 to Syn6, and the steps from it to the default",
}
# Classes of the paper's figures: sandal and ankle boot, and the digits 3 and 8.
PAPER_PAIR = {"fashion-mnist": (5, 9)}
PAPER_FLIP = {"mnist": (3, 8)}


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _names(text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=" ".join(PROGRAM),
        description="Reproduce the paper's experiments. An interrupted run continues when it is "
        "started again.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    # Types of the options that are not plain strings.
    types: dict[str, Any] = {
        "out": Path, "data": Path, "methods": _names, "datasets": _names, "seeds": int,
        "splits": _numbers, "jobs": int, "max_seconds": float,
    }  # fmt: skip
    for name in EXPERIMENTS:
        command = commands.add_parser(name, help=DESCRIPTIONS[name], description=DESCRIPTIONS[name])
        for option in RunConfig.options():
            words: dict[str, Any] = {"default": option.default, "help": option.metadata["help"]}
            if isinstance(option.default, bool):
                words["action"] = "store_true"
            elif option.name == "preset":
                words["choices"] = PRESETS
            else:
                words["type"] = types.get(option.name, str)
            command.add_argument(option_name(option.name), **words)
    cell = commands.add_parser("cell", help="run one cell, given as JSON, and write its record")
    cell.add_argument("json")
    cell.add_argument("--out", type=Path, required=True, help="Folder for the record.")
    cell.add_argument("--device", default="cpu", help="'cpu', 'cuda' or 'auto'.")
    pages = commands.add_parser("pages", help="write the result pages from the records")
    for name in EXPERIMENTS:
        pages.add_argument(f"--{name}", type=Path, default=RECORD_FOLDERS[name])
    pages.add_argument("--out", type=Path, default=Path("docs") / "results")
    merge = commands.add_parser("merge", help="add the records of other folders to a folder")
    merge.add_argument("folders", type=Path, nargs="+", help="Folders with records.")
    merge.add_argument("--out", type=Path, required=True, help="Folder that receives them.")
    export = commands.add_parser("export-tables", help="write the tables of packages as CSV files")
    export.add_argument("--out", type=Path, required=True, help="Folder for the files.")
    figures = commands.add_parser("figures", help="draw the figures of a model of images")
    figures.add_argument("model", type=Path, help="Model file.")
    figures.add_argument("images", choices=tuple(IMAGE_SETS), help="Data set of its test images.")
    figures.add_argument("--out", type=Path, default=Path("suwr-figures"))
    figures.add_argument("--data", type=Path, help="Folder that holds the image files.")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 1 if it failed."""
    given = vars(_parser().parse_args(arguments))
    command = given.pop("command")
    if given.get("data") is not None:
        # Worker processes inherit the environment.
        os.environ[FOLDER_VARIABLE] = str(given["data"].absolute())
    try:
        if command == "cell":
            return _run_cell(given["json"], given["out"], given["device"])
        if command == "pages":
            paths = write_pages({name: given[name] for name in EXPERIMENTS}, given["out"])
            print(*paths, sep="\n")
            return 0
        if command == "merge":
            print(RecordStore(given["out"]).merge(given["folders"]))
            return 0
        if command == "export-tables":
            print(*write_tables(given["out"], TABLES | UNSEEN_TABLES), sep="\n")
            return 0
        if command == "figures":
            return _draw_figures(given["model"], given["images"], given["out"])
        return reproduce(RunConfig(command, **given))
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def reproduce(config: RunConfig) -> int:
    """Run the unfinished cells, write tables and figures.

    Returns 1 if a cell is unfinished; with a time limit, only if a cell has failed.
    """
    store = RecordStore(config.folder) if config.tables else run(config)
    print(*write_outputs(config.experiment, store), sep="\n")
    if config.tables:
        store.join()
    unfinished = store.unfinished(find_experiment(config.experiment).cells(config))
    if unfinished:
        print(
            f"{len(unfinished)} cells failed or are missing; run the command again.",
            file=sys.stderr,
        )
    if config.max_seconds is not None:
        # Cells that were not started are no error.
        known = store.read()
        unfinished = [cell for cell in unfinished if cell.key in known]
    return int(bool(unfinished))


def _run_cell(json_text: str, out: Path, device: str) -> int:
    title, seconds, error = run_cell(Cell.from_dict(json.loads(json_text)), out, device)
    print(f"{title}: {seconds:.0f} s" if error is None else f"{title} failed: {error}")
    return int(error is not None)


def _draw_figures(path: Path, images: str, out: Path) -> int:
    import suwr
    from suwr.plots import draw_figures

    data = load_images(images)
    written = draw_figures(
        suwr.load(path), data.X_test, data.y_test, out,
        pair=PAPER_PAIR.get(images), flip=PAPER_FLIP.get(images),
    )  # fmt: skip
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
