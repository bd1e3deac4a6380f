"""``suwr fit --checkpoint`` killed just before a file is renamed into place, and resumed."""

import json
import subprocess
import sys

import pytest
from sklearn.datasets import load_iris

# For each (folder, n): a process that is killed after its n-th file is written but before it is
# renamed; n = 0 runs to the end. Processes are forked, so that libraries are imported once.
DRIVER = """
import json, os, signal, sys
from suwr.cli import app
import suwr.cli.fit, torch._dynamo
real = os.replace
def fit(folder, left):
    os.chdir(folder)
    def replace(*paths):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*paths)
    os.replace = replace
    app(["fit", "../iris.csv", "--target", "target", "--max-epochs", "3", "--out", "m.suwr",
         "--checkpoint", "fit.checkpoint"])
for folder, moment in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        fit(folder, moment)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("DONE", json.dumps([code, sorted(os.listdir(folder))]), flush=True)
"""


@pytest.mark.slow
def test_resumed_fit_writes_the_same_file(tmp_path):
    load_iris(as_frame=True).frame.to_csv(tmp_path / "iris.csv", index=False)
    for name in ("uninterrupted", "killed"):
        (tmp_path / name).mkdir()
    # Pretraining and the policy have three epochs, fine-tuning has two. Killed in the third epoch,
    # in the first one after resuming, and while writing the model.
    plan = [("uninterrupted", 0), ("killed", 3), ("killed", 1), ("killed", 7), ("killed", 0)]
    words = [sys.executable, "-c", DRIVER, json.dumps(plan)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("DONE")]
    ends = [json.loads(line.removeprefix("DONE")) for line in lines]
    assert [code for code, _ in ends] == [0, -9, -9, -9, 0]
    # Temporary files of the killed process; the next call removes them.
    parts = [[n for n in names if n.startswith(".")] for _, names in ends]
    assert [len(part) for part in parts] == [0, 1, 1, 1, 0]
    assert parts[1][0].startswith(".fit.checkpoint.")
    assert parts[3][0].startswith(".m.suwr.")
    # The checkpoint is kept until the model file exists.
    assert "fit.checkpoint" in ends[3][1]
    assert ends[1][1][1:] == ["fit.checkpoint"]
    assert ends[0][1] == ends[4][1] == ["m.suwr"]
    results = [(tmp_path / name / "m.suwr").read_bytes() for name in ("uninterrupted", "killed")]
    assert results[0] == results[1]
