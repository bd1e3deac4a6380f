"""Is anything lost, half-written or orphaned when a process is killed?

    python benchmarks/reliability/kills.py [kills]

Each subject is a command that is started, killed (SIGKILL) at a random moment, and started again,
until it has been killed often enough and has come to its end; whenever it comes to its end before
that, it begins anew. Every fourth kill hits the command alone, whose workers must then end by
themselves; the others hit the whole process group.

After every kill each visible file must be whole, and what was finished before must still be there
and not have been done again. At every end, what is in the folder is compared with what an
undisturbed run leaves: the same files, with the same bytes. Only ``reproduce`` writes times and
dates, which are left out of the comparison (`without_times`). A new subject is one more entry in
``SUBJECTS``.
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
# Seconds in which workers must have noticed that nobody waits for them (joblib's take 40).
PATIENCE = 120
SHARED_MEMORY = Path("/dev/shm")

SAVE_FOREVER = """
import sys, suwr
model = suwr.load(sys.argv[1])
for _ in range(int(sys.argv[2])):
    model.save("m.suwr")
"""


def same(path: Path) -> Any:
    return path.read_bytes()


@dataclass(frozen=True)
class Subject:
    """A command that may be killed.

    Attributes
    ----------
    command : callable (data) -> words
        Writes into the working folder, reads what `prepare` put into ``data``; exits with 0 when
        done.
    check : callable (path) -> object
        Raises when a file is not whole.
    finished : callable (folder) -> comparable
        What need not be done again. It must never be less (``<=``) than after an earlier kill.
    content : callable (path) -> comparable
        What must be as in an undisturbed run.
    """

    command: Callable[[Path], list[str]]
    check: Callable[[Path], object]
    finished: Callable[[Path], Any]
    content: Callable[[Path], Any] = same


def prepare(data: Path) -> None:
    """Rows to score, 24 partitions of 20,000 rows; and iris, to fit."""
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
    """The phase of training that was under way, and its epochs that are done."""
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
    """The content of a file of ``suwr reproduce``, but for dates and the seconds of fits."""
    if path.suffix == ".json":

        def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {k: v for k, v in pairs if k not in ("date", "seconds", "fit_seconds")}

        return json.loads(path.read_text(), object_pairs_hook=plain)
    if path.suffix not in (".md", ".tex"):
        return path.read_bytes()
    # Tables have a column of seconds.
    rows = [line.split("|" if path.suffix == ".md" else "&") for line in path.open()]
    header = next(row for row in rows if any("fit, s" in cell for cell in row))
    at = next(i for i, cell in enumerate(header) if "fit, s" in cell)
    return [r[:at] + r[at + 1 :] if len(r) == len(header) else r for r in rows]


def files_done(pattern: str) -> Callable[[Path], set[tuple[str, int]]]:
    """Finished files with the times of their writing: one that is done again has another."""
    return lambda folder: {(p.name, p.stat().st_mtime_ns) for p in folder.glob(pattern)}


SUBJECTS = {
    "save": Subject(
        lambda data: ["-c", SAVE_FOREVER, str(MODEL), "2000"],
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
            "-m", "suwr.cli", "reproduce", "synthetic", "--preset", "mini", "--jobs", "2",
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
    # What it says goes to a file: workers that outlive it would keep a pipe open.
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
    """Living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def kill(process: subprocess.Popen, whole_group: bool) -> bool:
    """Kill a command, and wait until its workers are gone; False if they would not go."""
    # The group of a session's first process has its number.
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    end = time.monotonic() + PATIENCE
    while members(process.pid):
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def sweep_shared_memory(pid: int) -> int:
    """Remove joblib's semaphores and folders of a process whose whole group was killed."""
    patterns = (f"sem.loky-{pid}-*", f"joblib_memmapping_folder_{pid}_*")
    found = [path for pattern in patterns for path in SHARED_MEMORY.glob(pattern)]
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return len(found)


def visible(folder: Path) -> dict[str, Path]:
    """Files by their names; temporary ones begin with a dot."""
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


def torment(subject: Subject, data: Path, n_kills: int, rng: Random) -> dict[str, Any]:
    """Kill a subject that often, and let it finish."""
    with tempfile.TemporaryDirectory() as quiet, tempfile.TemporaryDirectory() as rough:
        calm, harsh = Path(quiet) / "out", Path(rough) / "out"
        calm.mkdir()
        harsh.mkdir()
        start = time.perf_counter()
        require_success(run(subject, calm, data), calm)
        whole = time.perf_counter() - start
        wanted, names = contents(subject, calm), everything(calm)
        found: dict[str, Any] = {
            "kills": 0, "ends": 0, "files_after_each_kill": [], "broken_files": 0, "lost": 0,
            "immortal_workers": 0, "in_shared_memory": 0, "orphans": [], "different_ends": 0,
            "undisturbed_seconds": round(whole, 1),
        }  # fmt: skip
        before = subject.finished(harsh)
        while True:
            process = run(subject, harsh, data)
            enough = found["kills"] == n_kills
            try:
                process.wait(None if enough else rng.uniform(0.3, 1.0) * whole)
            except subprocess.TimeoutExpired:
                found["kills"] += 1
                found["immortal_workers"] += not kill(process, found["kills"] % 4 > 0)
                found["in_shared_memory"] += sweep_shared_memory(process.pid)
                found["broken_files"] += count_broken(subject, harsh)
                found["files_after_each_kill"].append(len(visible(harsh)))
            after = subject.finished(harsh)
            found["lost"] += not before <= after
            before = after
            # Killed when its results were there already, it has come to its end as well.
            if process.returncode >= 0 or visible(harsh).keys() == wanted.keys():
                if process.returncode >= 0:
                    require_success(process, harsh)
                    found["orphans"] += sorted(everything(harsh) - names)
                found["ends"] += 1
                found["different_ends"] += contents(subject, harsh) != wanted
                if enough:
                    return found
                shutil.rmtree(harsh)
                harsh.mkdir()
                before = subject.finished(harsh)


def table(result: dict[str, Any]) -> str:
    about = result["about"]
    lines = [
        "# Killed processes",
        "",
        f"SIGKILL at random moments, then started again ({about['machine']}, {about['date']}; the "
        "machine was shared). Every fourth kill hit the command alone, the others its workers too.",
        "",
        "| command | kills | broken files | finished work lost | orphans | workers left | "
        "results compared | different from an undisturbed run |",
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
            "Results are compared byte for byte; those of `reproduce` without the dates and "
            "seconds in them. Finished work is lost where a record or partition is written again, "
            "or a fit falls back behind an epoch that its checkpoint had.",
            "",
            f"Where a whole group was killed, joblib's own semaphores and empty folders stayed in "
            f"the system's shared memory ({left} in all, 32 bytes each): the process that sweeps "
            "them away was killed too.",
            "",
            f"Command: `{about['command']}`",
            "",
        ]
    )


if __name__ == "__main__":
    n_kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as rows:
        prepare(Path(rows))
        results = {}
        for name, subject in SUBJECTS.items():
            results[name] = torment(subject, Path(rows), n_kills, Random(name))
            print(name, results[name], flush=True)
    stored = {"about": machine(), "subjects": results}
    write_json(HERE / "kills.json", stored)
    (HERE / "kills.md").write_text(table(stored))
    print(table(stored))
