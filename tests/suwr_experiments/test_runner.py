"""Runs that are killed, fail or continue."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.records import COMMIT, RecordStore, provenance, source_commit
from suwr_experiments.runner import find_experiment, run, run_cell

SMALL = {"n_train": 60, "n_test": 60}
BRIEF = {"max_epochs": 1, "hidden_size": 4, "n_layers": 1}


def test_cell_is_config_command_and_record():
    cell = Cell("synthetic", "Syn4", "SUWR", 3, sparsity_share=0.01, params={"max_steps": 11})
    assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    assert json.loads(cell.command.split("'")[1]) == cell.to_dict()
    with pytest.raises(ValueError, match="colour"):
        Cell.from_dict({**cell.to_dict(), "colour": 1})


def test_key_depends_on_every_field_but_the_audit():
    base = Cell("synthetic", "Syn4", "L2X", 0, params={"n_units": 5})
    content = base.to_dict()
    changes = {"data": "Syn5", "method": "CAE", "seed": 1, "n_train": 5, "params": {"n_units": 4}}
    keys = {Cell.from_dict(content | {name: value}).key for name, value in changes.items()}
    assert len(keys | {base.key}) == len(changes) + 1
    assert Cell.from_dict(content | {"audit": True}).key == base.key


def mini(tmp_path, **kwargs):
    fields = {"preset": "mini", "out": tmp_path, "methods": ("AllFeatures", "CAE"), "seeds": 1}
    return RunConfig("synthetic", **(fields | kwargs))


def test_finished_cells_are_not_repeated(tmp_path, capsys):
    store = run(mini(tmp_path))
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert len(first) == 2
    run(mini(tmp_path))
    assert "2 already finished" in capsys.readouterr().err
    assert first == {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    # The joined file alone identifies the finished cells.
    for path in first:
        path.unlink()
    assert store.unfinished(find_experiment("synthetic").cells(mini(tmp_path))) == []
    # A cell without the requested audit is unfinished.
    audited = find_experiment("synthetic").cells(mini(tmp_path, audit=True))
    assert len(store.unfinished(audited)) == 2


def test_failure_is_recorded_and_other_cells_run(tmp_path, monkeypatch):
    good = Cell("synthetic", "Syn1", "AllFeatures", **SMALL, params=BRIEF)
    bad = Cell("synthetic", "Syn1", "CAE", **SMALL, params={**BRIEF, "n_units": -1})
    monkeypatch.setattr(
        type(find_experiment("synthetic")), "cells", lambda self, config: [bad, good]
    )
    store = run(mini(tmp_path))
    records = store.read()
    assert records[good.key]["status"] == "done"
    assert records[bad.key]["status"] == "failed"
    assert "'max_steps' parameter" in records[bad.key]["error"]
    assert store.records() == [records[good.key]]
    assert store.unfinished([bad, good]) == [bad]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_run_continues(tmp_path, jobs):
    command = [sys.executable, "-m", "suwr_experiments", "synthetic", "--preset", "mini"]
    command += ["--methods", "AllFeatures,Oracle,CAE", "--seeds", "40", "--out", str(tmp_path)]
    command += ["--jobs", jobs]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    folder = tmp_path / "records"
    while not folder.exists() or len(list(folder.glob("*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    # Kill the workers as well, so that no process can finish or clean up, not even joblib's.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for path in Path("/dev/shm").glob(f"*[-_]{process.pid}[-_]*"):
        path.rmdir() if path.is_dir() else path.unlink()
    finished = RecordStore(tmp_path).read()
    assert 3 <= len(finished) < 120
    assert all(record["status"] == "done" for record in finished.values())
    config = mini(tmp_path, methods=("AllFeatures", "Oracle", "CAE"), seeds=2)
    run(config)
    after = RecordStore(tmp_path)
    assert after.unfinished(find_experiment("synthetic").cells(config)) == []
    assert all(after.read()[key] == record for key, record in finished.items())
    assert not [path for path in folder.iterdir() if path.suffix != ".json"]


def test_in_parallel(tmp_path):
    store = run(mini(tmp_path, jobs=2))
    assert len(store.records()) == 2


@pytest.mark.slow
def test_without_the_extras(tmp_path):
    code = (
        "import sys\n"
        "for name in ('typer', 'matplotlib'): sys.modules[name] = None\n"
        "from suwr_experiments.__main__ import main\n"
        "sys.exit(main(['synthetic', '--preset', 'mini', '--methods', 'CAE', '--seeds', '1',"
        f" '--out', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Syn4 CAE n_units=5 seed 0: 1/1 (100 %)" in done.stderr
    assert "No figures" in done.stderr
    assert (tmp_path / "table.md").exists()


def test_records_name_the_commit_of_the_process(monkeypatch):
    commit = provenance()["commit"]
    assert commit == COMMIT != ""
    monkeypatch.setenv("SUWR_COMMIT", "abc123")
    assert source_commit() == "abc123"
    assert provenance()["commit"] == commit


def test_a_commit_is_marked_if_sources_have_changes(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    source, results = tmp_path / "records.py", tmp_path / "results.json"
    source.write_text("")
    results.write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    monkeypatch.delenv("SUWR_COMMIT", raising=False)
    monkeypatch.setattr("suwr_experiments.records.__file__", str(source))
    commit = source_commit()
    assert re.fullmatch("[0-9a-f]{7,}", commit)
    results.write_text("{}")
    assert source_commit() == commit
    source.write_text("changed = True")
    assert source_commit() == f"{commit}-dirty"


def test_failed_cells_are_recorded(tmp_path):
    cells = [Cell("synthetic", "Syn1", "SUWR", s, **SMALL, params={"nope": 1}) for s in (0, 1)]
    outcomes = [run_cell(cell, tmp_path) for cell in cells]
    assert all("nope" in error for _, _, error in outcomes)
    assert {record["status"] for record in RecordStore(tmp_path).read().values()} == {"failed"}


@pytest.mark.parametrize(
    "kwargs",
    [
        {"preset": "huge"},
        {"seeds": 0},
        {"jobs": 0},
        {"methods": ("NONE",)},
        {"datasets": ("Syn9",)},
    ],
)
def test_invalid_config(tmp_path, kwargs):
    with pytest.raises(ValueError, match=f"'{next(iter(kwargs))}' parameter of RunConfig must"):
        find_experiment("synthetic").cells(mini(tmp_path, **kwargs))


def test_records_of_the_former_experiment_name_are_read():
    cell = Cell("images", "mnist", "CAE", params={"n_units": 5})
    assert Cell.from_dict({**cell.to_dict(), "experiment": "mnist"}) == cell


def test_former_command_is_translated(tmp_path):
    about = {"command": "suwr reproduce mnist --preset full"}
    RecordStore(tmp_path).join(about)
    assert RecordStore(tmp_path).command() == "python -m suwr_experiments images --preset full"
