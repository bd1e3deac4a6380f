"""Two processes train the model that one would train."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import team_of_two
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from team_of_two import MODELS, SMALL, outcome, table
from typer.testing import CliRunner

import suwr.estimators.checkpoint as checkpoint
from suwr import SUWRClassifier, load
from suwr.cli import app
from suwr.nn.distributed import Share, Team, launched
from suwr.nn.ensembles import EnsembleConv, EnsembleMLP


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two processes left, which began one of their fits from a checkpoint of a single one."""
    path = tmp_path_factory.mktemp("team")
    leave_checkpoint(path / "stopped")
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    words = [sys.executable, "-W", "error", team_of_two.__file__, str(path)]
    pair = [
        subprocess.Popen(words, env=os.environ | common | {"RANK": str(rank)}, stderr=-1)
        for rank in range(2)
    ]
    ended = [process.communicate(timeout=300)[1].decode() for process in pair]
    assert [process.returncode for process in pair] == [0, 3], "\n".join(ended)
    return path


@pytest.fixture(scope="module")
def facts(folder):
    """What each of the two noted down."""
    return [json.loads((folder / f"facts-{rank}.json").read_text()) for rank in range(2)]


def leave_checkpoint(path):
    """A fit that is stopped in its second phase."""

    class Stopped(BaseException):
        pass

    write, count = checkpoint.FileCheckpoint.write, 0

    def writing(self, phase, state):
        nonlocal count
        write(self, phase, state)
        count += 1
        if count == 2:
            raise Stopped

    model = SUWRClassifier(checkpoint=path, **SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.FileCheckpoint, "write", writing)
        with pytest.raises(Stopped):
            model.fit(*table(model))


@pytest.mark.parametrize("name", [*MODELS, "resumed"])
def test_two_processes_train_as_one(folder, name):
    model = SUWRClassifier(**SMALL) if name == "resumed" else clone(MODELS[name])
    expected = outcome(model.fit(*table(model)))
    first, second = (np.load(folder / f"{name}-{rank}.npz") for rank in range(2))
    for key, value in expected.items():
        np.testing.assert_array_equal(first[key], second[key])
        np.testing.assert_allclose(first[key], value, atol=1e-4, err_msg=key)


def test_one_process_writes(folder, facts):
    # Two epochs were left to do.
    assert [f["checkpoints written"] for f in facts] == [2, 0]
    assert not (folder / "stopped").exists()


def test_disagreement_is_told_to_everyone(facts):
    for told in facts:
        assert "same data and parameters" in told["other data"]
        assert "same data and parameters" in told["other parameters"]
        assert "needs 'random_state' to be an int" in told["no seed"]


def test_nobody_waits_for_a_process_that_ended(facts):
    assert facts[0]["the other failed"]


@given(st.integers(0, 200), st.integers(1, 40))
def test_shares_are_all_rows_once(n_rows, size):
    shares = [Share.cut(n_rows, rank, size) for rank in range(size)]
    covered = [row for share in shares for row in range(share.start, share.stop)]
    assert covered == list(range(n_rows))
    lengths = [share.stop - share.start for share in shares]
    # Joined shares may be padded at the end, not in between.
    assert sorted(lengths, reverse=True) == lengths
    assert len(set(lengths) - {0, lengths[0]}) <= 1


def test_noise_of_a_share_is_that_of_all_rows():
    torch.manual_seed(0)
    for ensemble, x in [
        (EnsembleMLP(3, 5, 8, 2, 2, dropout=0.4), torch.rand(3, 7, 5)),
        (EnsembleConv(2, (4, 3), 1, 8, 2, dropout=0.4), torch.rand(2, 7, 25)),
    ]:
        torch.manual_seed(0)
        expected = ensemble(x)
        for share in [Share(0, 4, 7), Share(4, 7, 7), Share(7, 7, 7)]:
            torch.manual_seed(0)
            found = ensemble.evaluate(share.of(x), share=share)
            torch.testing.assert_close(found, share.of(expected))


def test_alone_there_is_no_team():
    assert Team.current() is None
    with launched() as leads:
        assert leads
        assert Team.current() is None


def test_the_command_under_torchrun(tmp_path, monkeypatch):
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
