"""Shared by the benchmarks: provenance of a run, and writing of results."""

from __future__ import annotations

import datetime
import json
import lzma
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import suwr
from suwr._utils.files import write_atomic
from suwr_experiments.records import COMMIT


def machine() -> dict[str, Any]:
    """Date, commit, hardware, versions and command of a run."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": COMMIT,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **_gpu(),
        "versions": {name: version(name) for name in ("numpy", "scikit-learn", "torch")}
        | {"suwr": suwr.__version__},
        # Folders of one machine are not part of a record.
        "command": " ".join(["python", *("FOLDER" if a.startswith("/") else a for a in sys.argv)]),
    }


def _gpu() -> dict[str, str]:
    """Name of the GPU, if there is one."""
    import torch

    return {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}


def read_json(path: Path) -> Any:
    """Read a result, compressed if its name ends in ``.xz``."""
    data = path.read_bytes()
    return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)


def write_json(path: Path, content: Any) -> None:
    """Write a result atomically, compressed if its name ends in ``.xz``."""
    data = f"{json.dumps(content, indent=1)}\n".encode()
    write_atomic(path, lzma.compress(data) if path.suffix == ".xz" else data)
