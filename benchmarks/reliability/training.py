"""Training on data larger than memory: peak memory and time, from files and in memory.

    python benchmarks/reliability/training.py [folder]

Parquet files are generated, and deleted at the end. Each run is a process of its own and records
the peak of its anonymous memory, which excludes the pages of memory-mapped files that the operating
system can evict at any time. Both runs must give the same model, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from common import machine, write_json
from suwr import SUWRClassifier, fit_partitions

HERE = Path(__file__).parent
N_FILES, N_COLUMNS = 4, 30
ROWS = int(os.environ.get("ROWS", 4_000_000))
ROW_GROUP = 125_000
MODEL = {
    "max_steps": 3, "hidden_size": 16, "n_layers": 2, "max_epochs": 1, "random_state": 0,
    "device": "cpu",
}  # fmt: skip


def generate(folder: Path) -> None:
    """Write the files by row group; the first column determines which one is informative."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(N_COLUMNS)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.int64())])
    for number in range(N_FILES):
        with pq.ParquetWriter(folder / f"part-{number}.parquet", schema) as writer:
            for _ in range(ROWS // N_FILES // ROW_GROUP):
                x = rng.standard_normal((N_COLUMNS, ROW_GROUP))
                y = np.where(x[0] > 0, x[1] > 0, x[2] > 0).astype(np.int64)
                writer.write_table(pa.table([*x, y], schema=schema))


class MemoryMonitor(threading.Thread):
    """Records the peak anonymous memory of this process, twenty times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.done = 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            status = Path("/proc/self/status").read_text()
            held = int(status.split("RssAnon:")[1].split()[0])
            self.peak = max(self.peak, held)


def work(folder: Path, way: str) -> dict:
    """Run one case in this process."""
    monitor = MemoryMonitor()
    monitor.start()
    start, model = time.process_time(), SUWRClassifier(**MODEL)
    if way == "files":
        fit_partitions(model, folder / "data", "y", scratch=folder)
    else:
        frame = pd.concat([pd.read_parquet(p) for p in sorted((folder / "data").iterdir())])
        y = frame.pop("y").to_numpy()
        model.fit(frame, y)
    cpu = time.process_time() - start
    monitor.done.set()
    sha = hashlib.sha256()
    for tensor in model.policy_.network.state_dict().values():
        sha.update(tensor.numpy().tobytes())
    return {
        "way": way,
        "cpu_seconds": round(cpu),
        "peak_anonymous_mb": round(monitor.peak / 1024),
        "peak_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "model": sha.hexdigest(),
    }


def measure(folder: Path) -> dict:
    generate(folder / "data")
    size = sum(p.stat().st_size for p in (folder / "data").iterdir())
    runs = []
    for way in ("files", "memory"):
        words = [sys.executable, __file__, "--work", str(folder), way]
        runs.append(json.loads(subprocess.run(words, stdout=-1, check=True).stdout))
        print(runs[-1], flush=True)
    return {
        "rows": ROWS,
        "columns": N_COLUMNS,
        "parquet_gb": round(size / 1e9, 2),
        "encoded_gb": round(4 * ROWS * N_COLUMNS / 1e9, 2),
        "runs": runs,
        "same_model": runs[0]["model"] == runs[1]["model"],
    }


def table(result: dict) -> str:
    about = result["about"]
    lines = [
        "# Training on data larger than memory",
        "",
        f"{result['rows']:,} rows × {result['columns']} columns of Parquet "
        f"({result['parquet_gb']} GB; {result['encoded_gb']} GB encoded), one epoch of each phase, "
        f"networks of 2 × 16 units, one thread ({about['machine']}, {about['date']}). Resident "
        "memory includes pages of the memory-mapped file, which the operating system can evict; "
        "anonymous memory does not.",
        "",
        "| trained from | peak anonymous memory | peak resident memory | CPU time |",
        "| --- | ---: | ---: | ---: |",
    ]
    for r in result["runs"]:
        lines.append(
            f"| {r['way']} | {r['peak_anonymous_mb']:,} MB | {r['peak_resident_mb']:,} MB | "
            f"{r['cpu_seconds']:,} s |"
        )
    same = "the same model, bit for bit" if result["same_model"] else "DIFFERENT models"
    return "\n".join([*lines, "", f"Both runs gave {same}.", "", f"Command: `{about['command']}`"])


if __name__ == "__main__":
    if "--work" in sys.argv:
        print(json.dumps(work(Path(sys.argv[2]), sys.argv[3])))
        sys.exit()
    if "--table" in sys.argv:
        stored = json.loads((HERE / "training.json").read_text())
    else:
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
            stored = {"about": machine(), **measure(Path(made))}
        write_json(HERE / "training.json", stored)
    (HERE / "training.md").write_text(table(stored) + "\n")
    print(table(stored))
