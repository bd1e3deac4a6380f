"""Run experiments without the command line's extras: ``python -m suwr_experiments synthetic``.

What `suwr reproduce` does, for machines that have neither typer nor rich nor matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from suwr_experiments.cells import Cell
from suwr_experiments.options import HELP, PRESETS, Options
from suwr_experiments.pages import write_pages
from suwr_experiments.registry import EXPERIMENTS
from suwr_experiments.reproduce import reproduce
from suwr_experiments.runner import run_cell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m suwr_experiments", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("cell", help="run one cell, given as JSON, and print its record")
    one.add_argument("json")
    one.add_argument("--out", type=Path, required=True, help=HELP["out"])
    one.add_argument("--device", default="cpu", help=HELP["device"])
    pages = commands.add_parser("pages", help="write the result pages from records")
    for name in EXPERIMENTS:
        pages.add_argument(f"--{name}", type=Path, default=Path("benchmarks") / name)
    pages.add_argument("--out", type=Path, default=Path("docs") / "results")
    for name in EXPERIMENTS:
        command = commands.add_parser(name, help=f"reproduce the experiment '{name}'")
        command.add_argument("--preset", default="quick", choices=PRESETS, help=HELP["preset"])
        command.add_argument("--out", type=Path, default=None, help=HELP["out"])
        command.add_argument("--methods", default="", help=HELP["methods"])
        command.add_argument("--data", default="", help=HELP["data"])
        command.add_argument("--seeds", type=int, default=None, help=HELP["seeds"])
        command.add_argument("--jobs", type=int, default=1, help=HELP["jobs"])
        command.add_argument("--device", default="cpu", help=HELP["device"])
        command.add_argument("--together", type=int, default=60, help=HELP["together"])
        command.add_argument("--scheduler", default=None, help=HELP["scheduler"])
        command.add_argument("--audit", action="store_true", help=HELP["audit"])
        command.add_argument("--tables", action="store_true", help=HELP["tables"])
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if a cell failed."""
    given = vars(_parser().parse_args(arguments))
    command = given.pop("command")
    if command == "cell":
        cell = Cell.from_dict(json.loads(given["json"]))
        title, seconds, error = run_cell(cell, given["out"], given["device"])
        print(f"{title}: {seconds:.0f} s" if error is None else f"{title} failed: {error}")
        return int(error is not None)
    if command == "pages":
        for path in write_pages({k: given[k] for k in EXPERIMENTS}, given["out"]):
            print(path)
        return 0
    for name in ("methods", "data"):
        given[name] = tuple(given[name].split(",")) if given[name] else ()
    try:
        return int(not reproduce(Options(command, **given)))
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
