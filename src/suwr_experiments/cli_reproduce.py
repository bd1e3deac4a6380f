"""``suwr reproduce``: the paper's experiments from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suwr_experiments.options import HELP, Options

__all__ = ["reproduce_command"]


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def reproduce_command(
    experiment: Annotated[str, typer.Argument(help=HELP["experiment"])],
    preset: Annotated[str, typer.Option(help=HELP["preset"])] = "quick",
    out: Annotated[Path | None, typer.Option(help=HELP["out"])] = None,
    methods: Annotated[str, typer.Option(help=HELP["methods"])] = "",
    data: Annotated[str, typer.Option(help=HELP["data"])] = "",
    seeds: Annotated[int | None, typer.Option(help=HELP["seeds"])] = None,
    jobs: Annotated[int, typer.Option(help=HELP["jobs"])] = 1,
    device: Annotated[str, typer.Option(help=HELP["device"])] = "cpu",
    together: Annotated[int, typer.Option(help=HELP["together"])] = 60,
    scheduler: Annotated[str | None, typer.Option(help=HELP["scheduler"])] = None,
    audit: Annotated[bool, typer.Option("--audit", help=HELP["audit"])] = False,
    tables: Annotated[bool, typer.Option("--tables", help=HELP["tables"])] = False,
) -> None:
    """Run one of the paper's experiments and write its tables and figures.

    Started again, it goes on where it was stopped.
    """
    from suwr_experiments.reproduce import reproduce

    options = Options(
        experiment, preset, out, _split(methods), _split(data), seeds, jobs, device, together,
        scheduler, audit, tables,
    )  # fmt: skip
    if not reproduce(options):
        raise typer.Exit(1)
