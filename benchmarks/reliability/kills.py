"""Killed processes: no lost work, no partial files, no orphans.

    python benchmarks/reliability/kills.py [kills]
    python benchmarks/reliability/kills.py --table

Each subject is a command that is started, killed (SIGKILL) at a random time and started again,
until it has been killed often enough and has completed; if it completes earlier, it starts from an
empty folder. Every fourth kill hits the command alone, whose workers must then exit by themselves;
the others hit the whole process group.

After every kill each visible file must be complete, and finished work must be preserved and not
repeated. At every completion the folder must have the same files with the same bytes as after an
uninterrupted run. Only ``reproduce`` writes times and dates, which are excluded from the comparison
(`without_times`). A new subject is one more entry in ``SUBJECTS``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[1]))
import matplotlib.image
import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
from safetensors import safe_open
from sklearn.datasets import load_iris

import suwr
from common import machine, write_json

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "tests" / "estimators" / "fixtures" / "classifier-1.suwr"
PARTITION = 20_000
# Seconds within which workers must exit after their parent was killed (joblib's take 40).
WORKER_TIMEOUT = 120
SHARED_MEMORY = Path("/dev/shm")

SAVE_REPEATEDLY = """
import sys, suwr
model = suwr.load(sys.argv[1])
for _ in range(int(sys.argv[2])):
    model.save("m.suwr")
"""


def same(path: Path) -> Any:
    return path.read_bytes()


@dataclass(frozen=True)
class Subject:
    """A command to be killed.

    Attributes
    ----------
    command : callable (data) -> words
        Writes into the working folder and reads the files of `prepare` in ``data``; exits with 0
        on completion.
    check : callable (path) -> object
        Raises if a file is not complete.
    finished : callable (folder) -> comparable
        Finished work; must never decrease (``<=``) from one kill to the next.
    content : callable (path) -> comparable
        Content to compare with that of an uninterrupted run.
    """

    command: Callable[[Path], list[str]]
    check: Callable[[Path], object]
    finished: Callable[[Path], Any]
    content: Callable[[Path], Any] = same


def prepare(data: Path) -> None:
    """Write 24 partitions of 20,000 rows to score, and the iris data to fit."""
    rng = np.random.RandomState(0)
    n = 24 * PARTITION
    frame = pd.DataFrame(
        {
            "age": rng.randint(20, 80, n).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n),
            "height": rng.randn(n),
            "width": rng.randn(n),
            "member": rng.rand(n) < 0.5,
        }
    )
    for number in range(24):
        part = frame.iloc[PARTITION * number : PARTITION * (number + 1)]
        part.to_parquet(data / f"{number:02d}.parquet")
    load_iris(as_frame=True).frame.to_csv(data / "iris.csv", index=False)


def check_scored(path: Path) -> None:
    if path.suffix == ".parquet":
        assert len(pq.read_table(path)) == PARTITION
    else:
        json.loads(path.read_text())


def check_fit(path: Path) -> None:
    if path.suffix == ".suwr":
        suwr.load(path)
    else:
        epochs_done(path)


def epochs_done(checkpoint: Path) -> tuple[int, int]:
    """Current phase of the training, and its finished epochs."""
    with safe_open(checkpoint, "numpy") as file:
        return int(file.metadata()["phase"]), int(file.get_tensor("epoch"))


def fitted(folder: Path) -> tuple[float, ...]:
    if (folder / "m.suwr").exists():
        return (np.inf,)
    checkpoint = folder / "fit.checkpoint"
    return epochs_done(checkpoint) if checkpoint.exists() else ()


def check_reproduced(path: Path) -> None:
    match path.suffix:
        case ".json":
            json.loads(path.read_text())
        case ".png":
            matplotlib.image.imread(path)
        case ".svg":
            ElementTree.parse(path)
        case _:
            assert path.read_text().endswith("\n")


def without_times(path: Path) -> Any:
    """Content of a file of an experiment, without dates and durations."""
    if path.suffix == ".json":

        def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {k: v for k, v in pairs if k not in ("date", "seconds", "fit_seconds")}

        return json.loads(path.read_text(), object_pairs_hook=plain)
    if path.suffix not in (".md", ".tex"):
        return path.read_bytes()
    # Remove the column of durations.
    rows = [line.split("|" if path.suffix == ".md" else "&") for line in path.open()]
    header = next(row for row in rows if any("fit, s" in cell for cell in row))
    at = next(i for i, cell in enumerate(header) if "fit, s" in cell)
    return [r[:at] + r[at + 1 :] if len(r) == len(header) else r for r in rows]


def files_done(pattern: str) -> Callable[[Path], set[tuple[str, int]]]:
    """Finished files with their modification times, which change if work is repeated."""
    return lambda folder: {(p.name, p.stat().st_mtime_ns) for p in folder.glob(pattern)}


SUBJECTS = {
    "save": Subject(
        lambda data: ["-c", SAVE_REPEATEDLY, str(MODEL), "2000"],
        suwr.load,
        lambda folder: {p.name for p in folder.glob("*.suwr")},
    ),
    "fit with checkpoint": Subject(
        lambda data: [
            "-m", "suwr.cli", "fit", str(data / "iris.csv"), "--target", "target",
            "--max-epochs", "30", "--out", "m.suwr", "--checkpoint", "fit.checkpoint",
        ],
        check_fit,
        fitted,
    ),
    "reproduce": Subject(
        lambda data: [
            "-m", "suwr_experiments", "synthetic", "--preset", "mini", "--jobs", "2",
            "--out", "results",
        ],
        check_reproduced,
        files_done("results/records/*.json"),
        without_times,
    ),
    "partitioned scoring": Subject(
        lambda data: [
            "-m", "suwr.cli", "predict", str(MODEL), str(data / "*.parquet"), "--out", "scored",
        ],
        check_scored,
        files_done("scored/*.parquet"),
    ),
}  # fmt: skip


def run(subject: Subject, folder: Path, data: Path) -> subprocess.Popen:
    # Standard error goes to a file, since surviving workers would keep a pipe open.
    with open(folder.parent / "errors", "wb") as errors:
        return subprocess.Popen(
            [sys.executable, *subject.command(data)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


def require_success(process: subprocess.Popen, folder: Path) -> None:
    if process.wait():
        raise RuntimeError((folder.parent / "errors").read_text()[-2000:])


def members(group: int) -> list[psutil.Process]:
    """Running processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def kill(process: subprocess.Popen, whole_group: bool) -> bool:
    """Kill a command and wait until its workers exit; False if they do not."""
    # The id of the process group is that of the first process of the session.
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    end = time.monotonic() + WORKER_TIMEOUT
    while members(process.pid):
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def sweep_shared_memory(pid: int) -> int:
    """Remove joblib's semaphores and folders after a whole process group was killed."""
    patterns = (f"sem.loky-{pid}-*", f"joblib_memmapping_folder_{pid}_*")
    found = [path for pattern in patterns for path in SHARED_MEMORY.glob(pattern)]
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return len(found)


def visible(folder: Path) -> dict[str, Path]:
    """Files by name, without temporary ones, which start with a dot."""
    names = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {n: p for n, p in names.items() if not any(w.startswith(".") for w in Path(n).parts)}


def contents(subject: Subject, folder: Path) -> dict[str, Any]:
    return {name: subject.content(path) for name, path in visible(folder).items()}


def everything(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def count_broken(subject: Subject, folder: Path) -> int:
    broken = 0
    for name, path in visible(folder).items():
        try:
            subject.check(path)
        except Exception as error:
            broken += 1
            print(f"{name}: {error!r}", file=sys.stderr)
    return broken


def kill_repeatedly(subject: Subject, data: Path, n_kills: int, rng: Random) -> dict[str, Any]:
    """Kill a subject ``n_kills`` times, and let it complete."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        reference, killed = Path(first) / "out", Path(second) / "out"
        reference.mkdir()
        killed.mkdir()
        start = time.perf_counter()
        require_success(run(subject, reference, data), reference)
        whole = time.perf_counter() - start
        expected, names = contents(subject, reference), everything(reference)
        found: dict[str, Any] = {
            "kills": 0, "ends": 0, "files_after_each_kill": [], "broken_files": 0, "lost": 0,
            "immortal_workers": 0, "in_shared_memory": 0, "orphans": [], "different_ends": 0,
            "undisturbed_seconds": round(whole, 1),
        }  # fmt: skip
        before = subject.finished(killed)
        while True:
            process = run(subject, killed, data)
            enough = found["kills"] == n_kills
            try:
                process.wait(None if enough else rng.uniform(0.3, 1.0) * whole)
            except subprocess.TimeoutExpired:
                found["kills"] += 1
                found["immortal_workers"] += not kill(process, found["kills"] % 4 > 0)
                found["in_shared_memory"] += sweep_shared_memory(process.pid)
                found["broken_files"] += count_broken(subject, killed)
                found["files_after_each_kill"].append(len(visible(killed)))
            after = subject.finished(killed)
            found["lost"] += not before <= after
            before = after
            # It has also completed if it was killed after writing its last result.
            if process.returncode >= 0 or visible(killed).keys() == expected.keys():
                if process.returncode >= 0:
                    require_success(process, killed)
                    found["orphans"] += sorted(everything(killed) - names)
                found["ends"] += 1
                found["different_ends"] += contents(subject, killed) != expected
                if enough:
                    return found
                shutil.rmtree(killed)
                killed.mkdir()
                before = subject.finished(killed)


def table(result: dict[str, Any]) -> str:
    about = result["about"]
    lines = [
        "# Killed processes",
        "",
        f"SIGKILL at random times, then started again ({about['machine']}, {about['date']}). Every "
        "fourth kill hit the command alone, the others its workers as well.",
        "",
        "| command | kills | partial files | finished work lost | orphaned files | workers left | "
        "completions | different from an uninterrupted run |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, r in result["subjects"].items():
        lines.append(
            f"| {name} | {r['kills']} | {r['broken_files']} | {r['lost']} | {len(r['orphans'])} | "
            f"{r['immortal_workers']} | {r['ends']} | {r['different_ends']} |"
        )
    left = sum(r["in_shared_memory"] for r in result["subjects"].values())
    return "\n".join(
        [
            *lines,
            "",
            "Results are compared byte for byte, those of `reproduce` (`python -m "
            "suwr_experiments`) without dates and durations. Finished work is lost if a record or "
            "partition is written again, or if a fit resumes before an epoch of its checkpoint.",
            "",
            f"After a whole process group was killed, semaphores and empty folders of joblib "
            f"remained in shared memory ({left} in all, 32 bytes each), since the process that "
            "removes them was killed as well.",
            "",
            f"Command: `{about['command']}`",
            "",
        ]
    )


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "kills.json").read_text())
    else:
        n_kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
        with tempfile.TemporaryDirectory() as rows:
            prepare(Path(rows))
            results = {}
            for name, subject in SUBJECTS.items():
                results[name] = kill_repeatedly(subject, Path(rows), n_kills, Random(name))
                print(name, results[name], flush=True)
        stored = {"about": machine(), "subjects": results}
        write_json(HERE / "kills.json", stored)
    (HERE / "kills.md").write_text(table(stored))
    print(table(stored))
