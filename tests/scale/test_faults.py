"""Killed processes and full disks leave previous files intact and no partial files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import suwr
from suwr import score_partitions

FIXTURES = Path(__file__).parents[1] / "estimators" / "fixtures"
ROWS = "age,colour,height,width,member\n" + "41,red,0.5,-1.5,True\n" * 50

KILLED = """
import os, signal, sys
from pathlib import Path
import suwr, suwr.scale as scoring
real, done = scoring._score_rows, []
def score_rows(*args):
    done.append(1)
    if len(done) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)
scoring._score_rows = score_rows
suwr.score_partitions(suwr.load(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


@pytest.mark.slow
def test_killed_scoring_resumes(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text(ROWS)
    model, out = FIXTURES / "classifier-1.suwr", tmp_path / "scored"
    words = [sys.executable, "-c", KILLED, str(model), str(tmp_path / "*.csv"), str(out)]
    assert subprocess.run(words).returncode == -9
    assert {p.name for p in out.glob("*.parquet")} == {"part-00000.parquet", "part-00001.parquet"}
    assert len(list((out / ".unfinished").iterdir())) == 1
    done = score_partitions(suwr.load(model), str(tmp_path / "*.csv"), out)
    assert (done.n_scored, done.n_resumed, done.n_rows) == (2, 2, 200)
    assert sorted(p.name for p in out.iterdir()) == ["_plan.json", *(p.name for p in done.paths)]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 64 kB, which requires root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    words = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("Only root can mount a file system.")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_old_file(small_disk):
    model = suwr.load(FIXTURES / "classifier-1.suwr")
    path = small_disk / "m.suwr"
    model.save(path)
    old = path.read_bytes()
    (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    with pytest.raises(OSError, match=r"No space left on device: '.*m\.suwr'"):
        model.save(path)
    assert path.read_bytes() == old
    assert sorted(os.listdir(small_disk)) == ["filler", "m.suwr"]


def test_a_full_disk_keeps_completed_partitions(small_disk, tmp_path):
    model = suwr.load(FIXTURES / "classifier-1.suwr")
    for number in range(20):
        (tmp_path / f"{number:02d}.csv").write_text(ROWS)
    out = small_disk / "scored"
    with pytest.raises(OSError, match="No space left on device"):
        score_partitions(model, str(tmp_path / "*.csv"), out)
    finished = [p.name for p in out.iterdir()]
    assert "_plan.json" in finished
    assert ".unfinished" not in finished
    assert 1 < len(finished) < 21
