"""Smoke test with the oldest supported versions of the dependencies, and without extras.

    python benchmarks/reliability/minimal.py

Installs the core with the lowest supported version of each dependency into a scratch environment;
then imports every public name, fits, explains, saves, loads and checks the errors about missing
extras. If the package index lacks a version for this Python, the lowest available one is used and
recorded.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SMOKE = """
import tempfile, os
import numpy as np
import suwr
from suwr import SUWRClassifier, SUWRRegressor, load, audit, sparsity_path
from suwr.exceptions import MissingExtraError
for name in suwr.__all__:
    try:
        getattr(suwr, name)
    except MissingExtraError:
        pass
rng = np.random.RandomState(0)
X = rng.randn(80, 4)
for kind, y in ((SUWRClassifier, (X[:, 0] > 0).astype(int)), (SUWRRegressor, X[:, 0])):
    model = kind(max_epochs=2, training={"hidden_size": 8}, random_state=0).fit(X, y)
    story = model.explain(X)
    assert suwr.Explanation.from_json(story.to_json()) == story
    path = os.path.join(tempfile.mkdtemp(), "m.suwr")
    model.save(path)
    assert (load(path).predict(X) == model.predict(X)).all()
    assert model.acquire().next_unit
assert not audit(model, X, random_state=0, n_probes=20, n_draws=200).leaks
assert len(sparsity_path(SUWRClassifier(max_epochs=1), X, X[:, 0] > 0, [0.1, 1.0]).score) == 2
for call in (lambda: story.to_frame(), lambda: suwr.score_partitions(model, "x.csv", "scored")):
    try:
        call()
    except (MissingExtraError, FileNotFoundError) as error:
        print(type(error).__name__, error)
"""


def available(python: Path, requirement: str) -> str:
    """Lowest version in the package index that satisfies the requirement."""
    name, least = requirement.split(">=")
    words = [str(python), "-m", "pip", "index", "versions", name]
    found = subprocess.run(words, capture_output=True, text=True).stdout
    listed = re.search(r"Available versions: (.*)", found)
    versions = [v.strip() for v in listed.group(1).split(",")] if listed else []

    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", text)[:4])

    fit = sorted((v for v in versions if number(v) >= number(least)), key=number)
    return fit[0] if fit else ""


def try_install(python: Path, pins: list[str]) -> str:
    """Install binary packages; return the last line of the error, or an empty string."""
    words = [str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", *pins]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (lines or [done.stderr[-300:]])[-1] if done.returncode else ""


def measure() -> dict:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        taken = {}
        for requirement in requirements:
            name, least = requirement.split(">=")
            error = try_install(python, [f"{name}=={least}"])
            taken[name] = {"claimed": least, "note": error}
            if error:
                lowest = available(python, requirement)
                again = try_install(python, [f"{name}=={lowest}" if lowest else name])
                taken[name]["note"] = again or "the supported version is not in the index"
        listed = subprocess.run(
            [str(python), "-m", "pip", "list", "--format=json"], capture_output=True, check=True
        )
        versions = {p["name"].lower(): p["version"] for p in json.loads(listed.stdout)}
        for name, entry in taken.items():
            entry["installed"] = versions.get(name.lower(), "none")
        done = subprocess.run(
            [str(python), "-W", "error::DeprecationWarning:suwr", "-c", SMOKE],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        )
    return {
        "versions": taken,
        "passed": done.returncode == 0,
        "output": (done.stdout + done.stderr)[-1500:],
    }


def table(result: dict) -> str:
    about = result["about"]
    lines = [
        "# Oldest supported versions, without extras",
        "",
        f"The core in a scratch environment (Python {about['python']}, {about['machine']}, "
        f"{about['date']}). The smoke test " + ("passed." if result["passed"] else "FAILED."),
        "",
        "| package | lowest supported | tested | note |",
        "| --- | --- | --- | --- |",
    ]
    for name, v in result["versions"].items():
        note = v["note"] if v["installed"] != v["claimed"] else ""
        lines.append(f"| {name} | {v['claimed']} | {v['installed']} | {note} |")
    return "\n".join([*lines, "", f"Command: `{about['command']}`", ""])


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "minimal.json").read_text())
    else:
        stored = {"about": machine(), **measure()}
        write_json(HERE / "minimal.json", stored)
    (HERE / "minimal.md").write_text(table(stored))
    print(table(stored))
    sys.exit(not stored["passed"])
