"""``suwr explain --receipts`` and ``suwr verify``: receipts as files, at bounded memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import typer

from suwr._utils.files import atomic_file
from suwr._utils.progress import progress_bars
from suwr._utils.text import printable
from suwr.cli.options import CsvFormat
from suwr.cli.tables import model_columns, read_frame
from suwr.cli.terminal import Terminal
from suwr.data.stored import source_columns
from suwr.estimators.results import receipt_texts
from suwr.estimators.verify import Verifier
from suwr.narrative.receipt import MAX_BYTES
from suwr.scale.partitions import find_partitions, read_batches

__all__ = ["verify_receipts", "write_receipts"]

# Receipts in memory at a time; their bytes are limited too.
BATCH = 8192
BATCH_BYTES = 2**25
# Failures that are printed one by one.
MAX_SHOWN = 20


def write_receipts(
    model: Any,
    data: Path,
    out: Path,
    mean_features: float | None = None,
    form: CsvFormat | None = None,
) -> None:
    """Write one receipt per row of a table, as lines of JSON."""
    n_rows = 0
    with (
        _without_collection(),
        atomic_file(out) as path,
        open(path, "wb") as file,
        progress_bars(["receipts"], verbose=None, total=1, unit="file") as (bar,),
    ):
        for frame in _row_batches(model, data, form):
            for start in range(0, len(frame), BATCH):
                rows = frame.iloc[start : start + BATCH]
                rows = rows.set_axis(range(n_rows, n_rows + len(rows)))
                for text in receipt_texts(model, rows, mean_features):
                    file.write(text.encode() + b"\n")
                n_rows += len(rows)
                bar(0, status=f"{n_rows:,} rows")
    Terminal().print_written(out, f"{n_rows:,} receipts")


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspend the search for reference cycles, which takes a fifth of the time and finds none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _row_batches(model: Any, data: Path, form: CsvFormat | None) -> Iterator[Any]:
    if form is not None and form != CsvFormat():
        # Only files of the default format are read in batches.
        yield model_columns(model, read_frame(data, infer_types=False, form=form), form)
        return
    columns = source_columns(model)
    for partition in find_partitions(data, 2**62):
        for frame in read_batches(partition, columns):
            yield model_columns(model, frame)


def verify_receipts(receipts: Path, model: Path) -> None:
    """Print whether receipts are verified; the exit status is 2 if any of them is not."""
    terminal, verifier = Terminal(), Verifier(model)
    if receipts.suffix.lower() != ".jsonl":
        with open(receipts, "rb") as file:
            result = verifier.verify([file.read(MAX_BYTES + 1)])[0]
        terminal.print(str(result))
        if not result:
            raise typer.Exit(2)
        return
    n_receipts = n_failed = n_near = 0
    size = receipts.stat().st_size // 1000
    with (
        _without_collection(),
        open(receipts, "rb") as file,
        progress_bars(["verifying"], verbose=None, total=1 + size, unit="kB") as (bar,),
    ):
        for batch in _line_batches(file):
            for number, result in enumerate(verifier.verify(batch), start=n_receipts + 1):
                n_failed += not result
                n_near += bool(result) and bool(result.near_ties)
                if not result and n_failed <= MAX_SHOWN:
                    terminal.print(f"Line {number}: {result}")
            n_receipts += len(batch)
            bar(sum(map(len, batch)) // 1000, status=f"{n_receipts:,} receipts")
    if n_failed > MAX_SHOWN:
        terminal.print(f"… and {n_failed - MAX_SHOWN:,} more.")
    near = f"; {n_near:,} of them have a decision within rounding of a tie" if n_near else ""
    terminal.print(f"{n_receipts - n_failed:,} of {n_receipts:,} receipts are verified{near}.")
    if n_receipts == 0:
        raise ValueError(f"{printable(receipts)} has no receipts.")
    if n_failed:
        raise typer.Exit(2)


def _line_batches(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines in batches of bounded size; a longer line is cut, and then refused."""
    batch, size = list[bytes](), 0
    while line := file.readline(MAX_BYTES + 2):
        batch.append(line.rstrip(b"\r\n"))
        size += len(line)
        # The rest of a line that is too long is skipped; its beginning will be refused.
        while len(line) == MAX_BYTES + 2 and not line.endswith(b"\n"):
            line = file.readline(MAX_BYTES + 2)
        if len(batch) == BATCH or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
