"""Outputs of the experiments from their records: tables, figures and the pages in docs/results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from suwr.exceptions import MissingExtraError
from suwr_experiments import (
    draws,
    image_page,
    image_results,
    paper_results,
    pareto_results,
    synthetic_page,
    synthetic_results,
    tabular_page,
    tabular_results,
    unseen,
)
from suwr_experiments.records import Record, RecordStore
from suwr_experiments.tables import write_text

__all__ = ["RECORD_FOLDERS", "write_outputs", "write_pages"]

#: Folders of the committed records. That of the images is named after their data set.
RECORD_FOLDERS = {
    "pareto": Path("benchmarks") / "pareto",
    "synthetic": Path("benchmarks") / "synthetic",
    "images": Path("benchmarks") / "mnist",
    "tables": Path("benchmarks") / "tables",
    "unseen": Path("benchmarks") / "unseen",
    "draws": Path("benchmarks") / "draws",
    "paper": Path("benchmarks") / "paper",
}
# What is written beside the records.
_OUTPUTS: dict[str, tuple[Callable[[list[Record], Path], list[Path]], ...]] = {
    "pareto": (pareto_results.write_tables, pareto_results.write_figures),
    "synthetic": (synthetic_results.write_tables, synthetic_results.write_figures),
    "images": (image_results.write_tables, image_results.write_figures),
    "tables": (tabular_results.write_tables, tabular_results.write_figures),
    "unseen": (tabular_results.write_tables,),
    "draws": (),
    "paper": (paper_results.write_figures,),
}
_PAGES = {
    "pareto": ("pareto.md", pareto_results.page),
    "synthetic": ("synthetic.md", synthetic_page.page),
    "images": ("mnist.md", image_page.page),
    "tables": ("tables.md", tabular_page.page),
    "unseen": ("unseen.md", unseen.page),
    "draws": ("draws.md", draws.page),
    "paper": ("paper.md", paper_results.page),
}


def write_outputs(experiment: str, store: RecordStore) -> list[Path]:
    """Write tables and figures of all finished records in a folder, and return their paths."""
    records = store.records()
    if not records:
        raise ValueError(f"The folder {str(store.folder)!r} holds no finished record.")
    written = []
    try:
        for write in _OUTPUTS[experiment]:
            written += write(records, store.folder)
    except MissingExtraError as error:
        print(f"No figures: {error}", file=sys.stderr)
    return written


def write_pages(folders: Mapping[str, Path], out: Path) -> list[Path]:
    """Write the page of every experiment that has records.

    Parameters
    ----------
    folders : mapping from str to Path
        Folder of the records of each experiment.
    out : Path
        Folder of the pages.
    """
    texts = {}
    for name, folder in folders.items():
        store = RecordStore(folder)
        records = store.records()
        if records:
            file, page = _PAGES[name]
            link = Path(os.path.relpath(folder.absolute(), out.absolute())).as_posix()
            texts[file] = "\n".join([page(records, link), *_provenance(records, store), ""])
    return write_text(out, texts)


def _provenance(records: list[Record], store: RecordStore) -> list[str]:
    """Section with the command, the dates, commits, hardware and versions of the records."""
    lines = ["", "## Provenance", ""]
    command = store.command()
    lines += [f"Last command: `{command}`.", ""] if command else []
    for about in {json.dumps(r["about"], sort_keys=True): r["about"] for r in records}.values():
        versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
        commit = f", commit {about['commit']}" if "commit" in about else ""
        lines.append(
            f"- {about['date']}{commit}, {about['device']} ({about['machine']}), Python "
            f"{about['python']}, {versions}"
        )
    return lines
