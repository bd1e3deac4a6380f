"""``suwr fit --checkpoint`` killed where a file is about to be put in place, and called again.

`benchmarks/reliability/kills.py` does it at random moments, to more commands.
"""

import json
import subprocess
import sys

from sklearn.datasets import load_iris

# For each pair of a folder and n: a process that dies with its n-th file written but not yet in
# place; n = 0 goes on to the end. Forks, so that the libraries are imported once.
DRIVER = """
import json, os, signal, sys
from suwr.cli import app
import suwr.cli.commands, torch._dynamo
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


def test_a_killed_fit_ends_at_the_same_file(tmp_path):
    load_iris(as_frame=True).frame.to_csv(tmp_path / "iris.csv", index=False)
    for name in ("calm", "harsh"):
        (tmp_path / name).mkdir()
    # One epoch of pretraining, three of the policy, one of fine-tuning. Killed in the third of
    # them, in the first after what was kept, and in the model itself.
    plan = [("calm", 0), ("harsh", 3), ("harsh", 1), ("harsh", 4), ("harsh", 0)]
    words = [sys.executable, "-c", DRIVER, json.dumps(plan)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("DONE")]
    ends = [json.loads(line.removeprefix("DONE")) for line in lines]
    assert [code for code, _ in ends] == [0, -9, -9, -9, 0]
    # What was under way when it was killed; the next call sweeps it away.
    parts = [[n for n in names if n.startswith(".")] for _, names in ends]
    assert [len(part) for part in parts] == [0, 1, 1, 1, 0]
    assert parts[1][0].startswith(".fit.checkpoint.")
    assert parts[3][0].startswith(".m.suwr.")
    # The checkpoint outlives the fit until the model is in its file.
    assert "fit.checkpoint" in ends[3][1]
    assert ends[1][1][1:] == ["fit.checkpoint"]
    assert ends[0][1] == ends[4][1] == ["m.suwr"]
    results = [(tmp_path / name / "m.suwr").read_bytes() for name in ("calm", "harsh")]
    assert results[0] == results[1]
