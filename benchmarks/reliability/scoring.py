"""Scoring data larger than memory: rows per second and peak memory with 1 and 2 workers.

    python benchmarks/reliability/scoring.py [folder]

Ten million rows of 30 columns are generated, one file of five million rows and five of one million,
and deleted at the end. Each run is a process of its own. A sample of the results is compared with
predictions in memory.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import suwr
from common import machine, write_json
from suwr import SUWRClassifier, score_partitions

HERE = Path(__file__).parent
COLUMNS = [f"x{i}" for i in range(30)]
ROW_GROUP = 250_000
FILES = {"large": 5_000_000, **{f"small-{n}": 1_000_000 for n in range(5)}}


def generate(folder: Path) -> None:
    """Write the files by row group."""
    folder.mkdir()
    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    rng = np.random.default_rng(0)
    for name, n_rows in FILES.items():
        with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
            for _ in range(n_rows // ROW_GROUP):
                values = rng.standard_normal((30, ROW_GROUP), dtype=np.float32)
                writer.write_table(pa.table(dict(zip(COLUMNS, values, strict=True)), schema))


def train() -> SUWRClassifier:
    """Fit on rows whose first column determines which other column is informative."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(4000, 30), columns=COLUMNS)
    y = np.where(X["x0"] > 0, X["x1"] > 0, X["x2"] + X["x3"] > 0)
    model = SUWRClassifier(max_steps=5, hidden_size=32, max_epochs=30, random_state=0, device="cpu")
    return model.fit(X, y)


def work(folder: Path, n_jobs: int) -> dict:
    """Run one case in this process and its workers."""
    model = suwr.load(folder / "m.suwr")
    start = time.perf_counter()
    done = score_partitions(model, folder / "data", folder / f"scored-{n_jobs}", n_jobs=n_jobs)
    wall = time.perf_counter() - start
    if n_jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    used = {who: resource.getrusage(getattr(resource, who)) for who in WHO}
    cpu = sum(u.ru_utime + u.ru_stime for u in used.values())
    worker = used[WHO[1] if n_jobs > 1 else WHO[0]]
    return {
        "workers": n_jobs,
        "rows": done.n_rows,
        "partitions": len(done.paths),
        "wall_seconds": round(wall, 1),
        "rows_per_second": round(done.n_rows / wall),
        "rows_per_cpu_second": round(done.n_rows / cpu),
        "peak_mb_per_worker": round(worker.ru_maxrss / 1024),
    }


WHO = ("RUSAGE_SELF", "RUSAGE_CHILDREN")


def agrees(folder: Path, n_jobs: int) -> bool:
    """Whether a scored partition equals predictions in memory."""
    model = suwr.load(folder / "m.suwr")
    X = pq.ParquetFile(folder / "data" / "large.parquet").read_row_groups([2, 3]).to_pandas()
    found = pd.read_parquet(folder / f"scored-{n_jobs}" / "part-00001.parquet")
    same = found["prediction"].tolist() == model.predict(X).tolist()
    names = np.array(COLUMNS)
    masks = model.select(X.iloc[:20_000])
    return same and [list(s) for s in found["selected"][:20_000]] == [
        names[m].tolist() for m in masks
    ]


def measure(folder: Path) -> dict:
    generate(folder / "data")
    train().save(folder / "m.suwr")
    size = sum(p.stat().st_size for p in (folder / "data").iterdir())
    runs = []
    for n_jobs in (1, 2):
        load = os.getloadavg()[0]
        words = [sys.executable, __file__, "--work", str(folder), str(n_jobs)]
        result = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        result["load_of_machine"] = round((load + os.getloadavg()[0]) / 2, 1)
        result["agrees"] = agrees(folder, n_jobs)
        runs.append(result)
        print(result, flush=True)
        shutil.rmtree(folder / f"scored-{n_jobs}")
    return {"gigabytes": round(size / 1e9, 2), "runs": runs}


def table(result: dict) -> str:
    about = result["about"]
    lines = [
        "# Scoring data larger than memory",
        "",
        f"{sum(FILES.values()):,} rows × 30 columns of Parquet ({result['gigabytes']} GB), "
        "partitions of 500,000 rows; a classifier of 3 × 32 units, at most 5 steps; one thread per "
        f"worker ({about['machine']}, {about['date']}). Other processes used the machine, as its "
        "load average shows; rows per CPU second do not depend on them.",
        "",
        "| workers | rows per second | rows per CPU second | peak memory per worker | load | "
        "equal to in-memory |",
        "| ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for r in result["runs"]:
        lines.append(
            f"| {r['workers']} | {r['rows_per_second']:,} | {r['rows_per_cpu_second']:,} | "
            f"{r['peak_mb_per_worker']:,} MB | {r['load_of_machine']} | "
            f"{'yes' if r['agrees'] else 'NO'} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


if __name__ == "__main__":
    if "--work" in sys.argv:
        print(json.dumps(work(Path(sys.argv[2]), int(sys.argv[3]))))
        sys.exit()
    if "--table" in sys.argv:
        stored = json.loads((HERE / "scoring.json").read_text())
    else:
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
            stored = {"about": machine(), **measure(Path(made))}
        write_json(HERE / "scoring.json", stored)
    (HERE / "scoring.md").write_text(table(stored))
    print(table(stored))
