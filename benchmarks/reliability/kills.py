"""Is anything lost, half-written or orphaned when a process is killed?

    python benchmarks/reliability/kills.py [kills]

Each subject is a command that is started, killed (SIGKILL) at a random moment, and started again
until it has been killed often enough; then it runs to its end. What is in its folder is compared
with what an undisturbed run leaves: the same files, with the same bytes. After every kill each
visible file must be whole. A new subject is one more line in ``SUBJECTS``.
"""

from __future__ import annotations

import json
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

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import suwr
from common import machine, write_json

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "tests" / "estimators" / "fixtures" / "classifier-1.suwr"

SAVE_FOREVER = """
import sys, suwr
model = suwr.load(sys.argv[1])
for _ in range(int(sys.argv[3])):
    model.save(sys.argv[2])
"""


@dataclass(frozen=True)
class Subject:
    """A command that may be killed.

    Attributes
    ----------
    command : callable (folder, data) -> words
        Writes into ``folder``, reads what `prepare` put into ``data``; exits with 0 when done.
    check : callable (path) -> None
        Raises when a file is not whole.
    resumes : bool
        It does not repeat what is finished. Once everything is, it begins anew, since there would
        be nothing left to disturb.
    """

    command: Callable[[Path, Path], list[str]]
    check: Callable[[Path], object]
    resumes: bool


def prepare(data: Path) -> None:
    """Rows to score: 24 partitions of 5,000 rows."""
    rng = np.random.RandomState(0)
    n = 120_000
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
        part = frame.iloc[5_000 * number : 5_000 * (number + 1)]
        part.to_parquet(data / f"{number:02d}.parquet")


def check_scored(path: Path) -> None:
    if path.suffix == ".parquet":
        assert len(pq.read_table(path)) == 5_000
    else:
        json.loads(path.read_text())


SUBJECTS = {
    "save": Subject(
        lambda folder, data: ["-c", SAVE_FOREVER, str(MODEL), str(folder / "m.suwr"), "300"],
        suwr.load,
        resumes=False,
    ),
    "partitioned scoring": Subject(
        lambda folder, data: [
            "-m", "suwr.cli", "predict", str(MODEL), str(data / "*.parquet"), "--out", str(folder),
        ],
        check_scored,
        resumes=True,
    ),
}  # fmt: skip


def run(subject: Subject, folder: Path, data: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *subject.command(folder, data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.decode()[-2000:])


def visible(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def clear(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def torment(subject: Subject, data: Path, n_kills: int, rng: Random) -> dict:
    """Kill a subject that often, then let it finish."""
    with tempfile.TemporaryDirectory() as quiet, tempfile.TemporaryDirectory() as rough:
        # The same name, since results may carry it.
        calm, harsh = Path(quiet) / "out", Path(rough) / "out"
        calm.mkdir()
        harsh.mkdir()
        start = time.perf_counter()
        finish(run(subject, calm, data))
        whole = time.perf_counter() - start
        kills, broken, progress = 0, 0, []
        while kills < n_kills:
            process, start = run(subject, harsh, data), time.perf_counter()
            try:
                process.wait(rng.uniform(0.3, 1.0) * whole)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            else:
                finish(process)
                # It was done before it could be killed: begin anew, and be quicker.
                whole = min(whole, time.perf_counter() - start)
                clear(harsh)
                continue
            process.stderr.close()
            kills += 1
            for path in harsh.iterdir():
                if path.is_file() and not path.name.startswith("."):
                    try:
                        subject.check(path)
                    except Exception as error:
                        broken += 1
                        print(f"{path.name}: {error!r}", file=sys.stderr)
            progress.append(len(visible(harsh)))
            if subject.resumes and visible(harsh).keys() == visible(calm).keys():
                clear(harsh)
        finish(run(subject, harsh, data))
        orphans = sorted({p.name for p in harsh.iterdir()} - {p.name for p in calm.iterdir()})
        return {
            "kills": kills,
            "files_after_each_kill": progress,
            "broken_files": broken,
            "orphans": orphans,
            "same_bytes": visible(calm) == visible(harsh),
            "undisturbed_seconds": round(whole, 1),
        }


def table(result: dict) -> str:
    about = result["about"]
    lines = [
        "# Killed processes",
        "",
        f"SIGKILL at random moments, then started again ({about['machine']}, {about['date']}; the "
        "machine was shared).",
        "",
        "| command | kills | broken files | orphans | result beside an undisturbed run |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for name, r in result["subjects"].items():
        same = "the same bytes" if r["same_bytes"] else "DIFFERENT"
        lines.append(
            f"| {name} | {r['kills']} | {r['broken_files']} | {len(r['orphans'])} | {same} |"
        )
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


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
