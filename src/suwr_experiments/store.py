"""Records on disk: one file for each finished cell, so that nothing finished is ever lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr_experiments.cells import Cell

__all__ = ["Store"]

Record = dict[str, Any]


class Store:
    """The records of one experiment in one folder.

    A worker writes ``records/KEY.json`` whole or not at all, so several processes may share a
    folder. `join` puts all of them into ``results.json``, from which they are read as well.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @property
    def joined(self) -> Path:
        """The file that holds all records."""
        return self.folder / "results.json"

    def write(self, record: Record) -> None:
        """Save one record."""
        folder = self.folder / "records"
        folder.mkdir(parents=True, exist_ok=True)
        key = Cell.from_dict(record["cell"]).key
        write_atomic(folder / f"{key}.json", _as_bytes(record))

    def read(self) -> dict[str, Record]:
        """All records by key; a single file is newer than the joined one."""
        records: list[Record] = []
        if self.joined.exists():
            records += json.loads(self.joined.read_text())["records"]
        for path in sorted((self.folder / "records").glob("*.json")):
            records.append(json.loads(path.read_text()))
        return {Cell.from_dict(record["cell"]).key: record for record in records}

    def unfinished(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those of the cells that still have to be run: new, failed, or not audited as asked."""
        known = self.read()

        def is_open(cell: Cell) -> bool:
            record = known.get(cell.key)
            if record is None or record["status"] != "done":
                return True
            return cell.audit and not record["cell"]["audit"]

        return [cell for cell in cells if is_open(cell)]

    def records(self) -> list[Record]:
        """All finished records, in a fixed order."""
        return [record for _, record in sorted(self.read().items()) if record["status"] == "done"]

    def join(self, about: dict[str, Any] | None = None) -> Path:
        """Write all records into one file; the single ones stay.

        ``about`` says who ran them; what stood there is kept without it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        records = self.read()
        if about is None:
            stored = json.loads(self.joined.read_text()) if self.joined.exists() else {}
            about = stored.get("about", {})
        content = {"about": about, "records": [records[key] for key in sorted(records)]}
        write_atomic(self.joined, _as_bytes(content))
        return self.joined


def _as_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
