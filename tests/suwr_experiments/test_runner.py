"""Runs that are stopped, fail or start again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suwr_experiments.cells import Cell
from suwr_experiments.options import Options
from suwr_experiments.registry import find_experiment
from suwr_experiments.runner import run, run_group
from suwr_experiments.store import Store

SMALL = {"n_train": 60, "n_test": 60}
BRIEF = {"max_epochs": 1, "hidden_size": 4, "n_layers": 1}


def test_a_cell_is_config_command_and_record():
    cell = Cell("synthetic", "Syn4", "SUWR", 3, sparsity_share=0.01, params={"max_steps": 11})
    assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    assert json.loads(cell.command.split("'")[1]) == cell.to_dict()
    with pytest.raises(ValueError, match="colour"):
        Cell.from_dict({**cell.to_dict(), "colour": 1})


def test_only_the_audit_leaves_the_key_alone():
    base = Cell("synthetic", "Syn4", "L2X", 0, params={"n_units": 5})
    content = base.to_dict()
    changes = {"data": "Syn5", "method": "CAE", "seed": 1, "n_train": 5, "params": {"n_units": 4}}
    keys = {Cell.from_dict(content | {name: value}).key for name, value in changes.items()}
    assert len(keys | {base.key}) == len(changes) + 1
    assert Cell.from_dict(content | {"audit": True}).key == base.key


def mini(tmp_path, **kwargs):
    options = {"preset": "mini", "out": tmp_path, "methods": ("AllFeatures", "CAE"), "seeds": 1}
    return Options("synthetic", **(options | kwargs))


def test_nothing_finished_is_repeated(tmp_path, capsys):
    store = run(mini(tmp_path))
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    assert len(first) == 2
    run(mini(tmp_path))
    assert "2 finished before" in capsys.readouterr().err
    assert first == {path: path.stat().st_mtime_ns for path in (tmp_path / "records").iterdir()}
    # The joined file alone is enough to know what is finished.
    for path in first:
        path.unlink()
    assert store.unfinished(find_experiment("synthetic").cells(mini(tmp_path))) == []
    # An audit that was not made is missing.
    wanted = find_experiment("synthetic").cells(mini(tmp_path, audit=True))
    assert len(store.unfinished(wanted)) == 2


def test_a_failure_is_recorded_and_stops_nothing(tmp_path, monkeypatch):
    good = Cell("synthetic", "Syn1", "AllFeatures", **SMALL, params=BRIEF)
    bad = Cell("synthetic", "Syn1", "CAE", **SMALL, params={**BRIEF, "n_units": -1})
    monkeypatch.setattr(
        type(find_experiment("synthetic")), "cells", lambda self, options: [bad, good]
    )
    store = run(mini(tmp_path))
    records = store.read()
    assert records[good.key]["status"] == "done"
    assert records[bad.key]["status"] == "failed"
    assert "'n_units' parameter" in records[bad.key]["error"]
    assert store.records() == [records[good.key]]
    assert store.unfinished([bad, good]) == [bad]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_and_started_again(tmp_path, jobs):
    command = [sys.executable, "-m", "suwr_experiments", "synthetic", "--preset", "mini"]
    command += ["--methods", "AllFeatures,Oracle,CAE", "--seeds", "40", "--out", str(tmp_path)]
    command += ["--jobs", jobs]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    folder = tmp_path / "records"
    while not folder.exists() or len(list(folder.glob("*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    # With its workers, so that nobody is left who could finish or clean up; not even joblib.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for path in Path("/dev/shm").glob(f"*[-_]{process.pid}[-_]*"):
        path.rmdir() if path.is_dir() else path.unlink()
    finished = Store(tmp_path).read()
    assert 3 <= len(finished) < 120
    assert all(record["status"] == "done" for record in finished.values())
    options = mini(tmp_path, methods=("AllFeatures", "Oracle", "CAE"), seeds=2)
    run(options)
    after = Store(tmp_path)
    assert after.unfinished(find_experiment("synthetic").cells(options)) == []
    assert all(after.read()[key] == record for key, record in finished.items())
    assert not [path for path in folder.iterdir() if path.suffix != ".json"]


def test_in_parallel(tmp_path):
    store = run(mini(tmp_path, jobs=2))
    assert len(store.records()) == 2


def test_without_the_extras(tmp_path):
    code = (
        "import sys\n"
        "for name in ('rich', 'typer', 'matplotlib'): sys.modules[name] = None\n"
        "from suwr_experiments.__main__ import main\n"
        "sys.exit(main(['synthetic', '--preset', 'mini', '--methods', 'CAE', '--seeds', '1',"
        f" '--out', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[1/1, 0:00:00 left] Syn4 CAE n_units=5 seed 0" in done.stderr
    assert "No figures" in done.stderr
    assert (tmp_path / "table.md").exists()


def test_models_of_one_shape_train_together(tmp_path):
    pytest.importorskip("suwr_experiments.together")
    cells = [
        Cell("synthetic", data, "SUWR", seed, **SMALL, sparsity_share=0.01,
             params={**BRIEF, "max_steps": 11})
        for data, seed in (("Syn1", 0), ("Syn4", 1))
    ]  # fmt: skip
    assert [error for _, _, error in run_group(cells, tmp_path, "cpu")] == [None, None]
    assert len(Store(tmp_path).records()) == 2


def test_a_group_that_fails_is_recorded_cell_by_cell(tmp_path):
    cells = [Cell("synthetic", "Syn1", "SUWR", s, **SMALL, params={"nope": 1}) for s in (0, 1)]
    outcomes = list(run_group(cells, tmp_path, "cpu"))
    assert all("nope" in error for _, _, error in outcomes)
    assert {record["status"] for record in Store(tmp_path).read().values()} == {"failed"}


@pytest.mark.parametrize(
    "kwargs",
    [{"preset": "huge"}, {"seeds": 0}, {"jobs": 0}, {"methods": ("NONE",)}, {"data": ("Syn9",)}],
)
def test_bad_options(tmp_path, kwargs):
    with pytest.raises(ValueError, match=f"'{next(iter(kwargs))}' parameter must"):
        find_experiment("synthetic").cells(mini(tmp_path, **kwargs))
