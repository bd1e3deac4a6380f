"""Two processes train the same model as one."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from typer.testing import CliRunner

import suwr.estimators.container as checkpoint
from helpers import two_processes
from helpers.two_processes import MODELS, SMALL, outcome, table
from suwr import SUWRClassifier, load
from suwr.cli import app
from suwr.nn.distributed import ProcessGroup, Shard, torchrun_process_group
from suwr.nn.ensembles import EnsembleConv, EnsembleMLP


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Output of two processes, which resume one of their fits from a checkpoint of one process."""
    path = tmp_path_factory.mktemp("processes")
    leave_checkpoint(path / "stopped")
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    command = [sys.executable, "-W", "error", two_processes.__file__, str(path)]
    pair = [
        subprocess.Popen(command, env=os.environ | common | {"RANK": str(rank)}, stderr=-1)
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=300)[1].decode() for process in pair]
    assert [process.returncode for process in pair] == [0, 3], "\n".join(errors)
    return path


@pytest.fixture(scope="module")
def facts(folder):
    """Observations recorded by each process."""
    return [json.loads((folder / f"facts-{rank}.json").read_text()) for rank in range(2)]


def leave_checkpoint(path):
    """Interrupt a fit in its second phase."""

    class Stopped(BaseException):
        pass

    write, count = checkpoint.FileCheckpoint.write, 0

    def writing(self, phase, state):
        nonlocal count
        write(self, phase, state)
        count += 1
        if count == 2:
            raise Stopped

    model = SUWRClassifier(**SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.FileCheckpoint, "write", writing)
        with pytest.raises(Stopped):
            model.fit(*table(model), checkpoint=path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "resumed"])
def test_two_processes_train_as_one(folder, name):
    model = SUWRClassifier(**SMALL) if name == "resumed" else clone(MODELS[name])
    expected = outcome(model.fit(*table(model)))
    first, second = (np.load(folder / f"{name}-{rank}.npz") for rank in range(2))
    for key, value in expected.items():
        np.testing.assert_array_equal(first[key], second[key])
        np.testing.assert_allclose(first[key], value, atol=1e-4, err_msg=key)


@pytest.mark.slow
def test_only_the_main_process_writes_checkpoints(folder, facts):
    # The interrupted fit had three epochs left.
    assert [f["checkpoints written"] for f in facts] == [3, 0]
    assert not (folder / "stopped").exists()


@pytest.mark.slow
def test_every_process_reports_different_data_or_parameters(facts):
    for own in facts:
        assert "same data and parameters" in own["other data"]
        assert "same data and parameters" in own["other parameters"]
        assert "'random_state' to be an int" in own["no seed"]


@pytest.mark.slow
def test_failure_of_one_process_ends_the_others(facts):
    assert facts[0]["failure of the other process"]


def test_dropout_of_a_shard_equals_that_of_all_rows():
    torch.manual_seed(0)
    for ensemble, x in [
        (EnsembleMLP(3, 5, 8, 2, 2, dropout=0.4), torch.rand(3, 7, 5)),
        (EnsembleConv(2, (4, 3), 1, 8, 2, dropout=0.4), torch.rand(2, 7, 25)),
    ]:
        torch.manual_seed(0)
        expected = ensemble(x)
        for rows in [slice(0, 4), slice(4, 7), slice(7, 7)]:
            torch.manual_seed(0)
            outputs = ensemble.evaluate(x[:, rows], shard=Shard(rows, 7))
            torch.testing.assert_close(outputs, expected[:, rows])


def test_a_single_process_has_no_process_group():
    assert ProcessGroup.current() is None
    with torchrun_process_group() as is_main:
        assert is_main
        assert ProcessGroup.current() is None


@pytest.mark.slow
def test_fit_command_under_torchrun(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    X, y = table(MODELS["actor"])
    features = pandas.DataFrame(X, columns=list("abcdef"))
    features.assign(y=y).to_parquet("data.parquet")
    options = ["--target", "y", "--max-epochs", "1", "--device", "cpu"]
    alone = CliRunner().invoke(app, ["fit", "data.parquet", "--out", "one.suwr", *options])
    assert alone.exit_code == 0, alone.output
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    both = subprocess.run(
        [*launch, "-m", "suwr.cli", "fit", "data.parquet", "--out", "two.suwr", *options],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("Wrote two.suwr") == 1
    one, two = load("one.suwr"), load("two.suwr")
    np.testing.assert_array_equal(one.select(features), two.select(features))
    np.testing.assert_allclose(one.predict_proba(features), two.predict_proba(features), atol=1e-4)
