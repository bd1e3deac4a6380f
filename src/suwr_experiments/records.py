"""Records on disk: one JSON file per finished fit, joined in one compressed file."""

from __future__ import annotations

import datetime
import json
import lzma
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import suwr
from suwr._utils.files import write_atomic
from suwr_experiments.config import Cell

__all__ = ["COMMIT", "Record", "RecordStore", "device_name", "provenance", "source_commit"]

Record = dict[str, Any]


class RecordStore:
    """The records of one experiment in one folder.

    ``records/KEY.json`` is written atomically, so that several processes may share a folder and a
    killed process leaves no partial record. `join` collects all records in ``records.jsonl.xz``,
    which is read as well: one line about the last run, and one line per record.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    @property
    def joined(self) -> Path:
        """File that holds all records."""
        return self.folder / "records.jsonl.xz"

    def write(self, record: Record) -> None:
        """Save one record."""
        folder = self.folder / "records"
        folder.mkdir(parents=True, exist_ok=True)
        key = Cell.from_dict(record["cell"]).key
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomic(folder / f"{key}.json", f"{text}\n".encode())

    def read(self) -> dict[str, Record]:
        """All records by key; a single file takes precedence over the joined one."""
        records = self._joined()[1:]
        for path in sorted((self.folder / "records").glob("*.json")):
            records.append(json.loads(path.read_text()))
        return {Cell.from_dict(record["cell"]).key: record for record in records}

    def unfinished(self, cells: Iterable[Cell]) -> list[Cell]:
        """Cells that are not recorded, have failed, or lack the requested audit."""
        known = self.read()

        def is_unfinished(cell: Cell) -> bool:
            record = known.get(cell.key)
            if record is None or record["status"] != "done":
                return True
            return cell.audit and not record["cell"]["audit"]

        return [cell for cell in cells if is_unfinished(cell)]

    def records(self) -> list[Record]:
        """All finished records, sorted by key."""
        return [record for _, record in sorted(self.read().items()) if record["status"] == "done"]

    def command(self) -> str | None:
        """Command line of the last run, if it is known."""
        found: str = self._joined()[0].get("command", "")
        # Older records name the former command of the library.
        found = found.replace("suwr reproduce mnist", "python -m suwr_experiments images")
        return found.replace("suwr reproduce", "python -m suwr_experiments") or None

    def join(self, about: dict[str, Any] | None = None) -> Path:
        """Write all records into one file and keep the single files.

        Parameters
        ----------
        about : dict or None, default=None
            `provenance` of the run; None keeps what is stored.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        records = self.read()
        lines = [self._joined()[0] if about is None else about]
        lines += [records[key] for key in sorted(records)]
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        write_atomic(self.joined, lzma.compress(text.encode()))
        return self.joined

    def _joined(self) -> list[dict[str, Any]]:
        """What the last run was, then the records of the joined file."""
        if not self.joined.exists():
            return [{}]
        text = lzma.decompress(self.joined.read_bytes()).decode()
        return [json.loads(line) for line in text.splitlines()]

    def merge(self, folders: Iterable[Path]) -> Path:
        """Add the records of other folders, such as those of runs on other machines, and join.

        A finished record of this folder is kept.
        """
        known = self.read()
        for folder in folders:
            for key, record in RecordStore(folder).read().items():
                if key not in known or known[key]["status"] != "done":
                    known[key] = record
                    self.write(record)
        return self.join()


def provenance(device: str = "cpu") -> dict[str, Any]:
    """Date, commit, hardware and versions of a run."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": COMMIT,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": device_name(device),
        "python": platform.python_version(),
        "versions": {"suwr": suwr.__version__}
        | {name: _version(name) for name in ("torch", "numpy", "scikit-learn")},
    }


def source_commit() -> str:
    """The commit of the sources, marked if Python files have changes.

    Records and pages do not count: a benchmark may already have written some of them. The
    environment variable ``SUWR_COMMIT`` names the commit for a copy without its history.
    """
    given = os.environ.get("SUWR_COMMIT")
    if given:
        return given
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run(
            [*git, "describe", "--always"], capture_output=True, text=True, check=False
        )
        changes = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", ":(top)*.py"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return "unknown"
    commit = found.stdout.strip()
    return f"{commit}-dirty" if commit and changes.returncode else commit or "unknown"


#: The commit of this process: files may change while it runs, but not what it has imported.
COMMIT = source_commit()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def device_name(device: str) -> str:
    """Name of the hardware behind a torch device.

    Examples
    --------
    >>> device_name("cpu")
    'cpu'
    """
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_name(torch.device(device))
    return device
