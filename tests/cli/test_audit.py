"""The command ``suwr audit``, for models and for files of masks."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suwr import SUWRClassifier
from suwr.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit")
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(300, 3), columns=["a", "b", "c"])
    y = (X["a"] > 0).astype(int)
    X.assign(y=y).to_csv(path / "data.csv", index=False)
    SUWRClassifier(max_epochs=5, training={"hidden_size": 16}, random_state=0).fit(X, y).save(
        path / "m.suwr"
    )
    # Reveals b where the hidden a is positive, so the mask encodes the label.
    masks = pd.DataFrame({"a": 0, "b": y, "c": 1 - y})
    masks.to_csv(path / "masks.csv", index=False)
    return path


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_model_file(folder):
    out = folder / "report.json"
    words = ["--model", folder / "m.suwr", "--target", "y", "--json", out]
    done = run(folder / "data.csv", *words, "--plot", folder / "report.png")
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text())["verdict"] == "leak-free by construction"
    assert (folder / "report.png").stat().st_size > 1000


def test_masks_that_leak_the_label(folder):
    done = run(folder / "data.csv", "--masks", folder / "masks.csv", "--target", "y")
    assert done.exit_code == 2, done.output
    assert "about `a`, which is not among the selected features" in done.output


def test_invalid_options(folder):
    done = run(folder / "data.csv")
    assert done.exit_code == 1
    assert "either a model or a file of masks" in done.output
    done = run(folder / "none.csv", "--masks", folder / "masks.csv")
    assert done.exit_code == 1
    assert "none.csv" in done.output


def test_the_exit_status_tells_a_leak_from_a_conditional_one(folder, monkeypatch):
    def leaky(X):
        return np.column_stack([X["a"] < 9, X["c"] > 0, X["a"] > 9])

    # Models that can be stored do not leak.
    monkeypatch.setattr("suwr.estimators.files.load", lambda path: leaky)
    rows = pd.read_csv(folder / "data.csv").drop(columns="y")
    rows.to_csv(folder / "rows.csv", index=False)
    words = [folder / "rows.csv", "--model", folder / "m.suwr"]
    done = run(*words, "--json", folder / "conditional.json")
    assert done.exit_code == 3, done.output
    assert "LEAKS IF COLUMNS VARY INDEPENDENTLY (`c`)" in done.output
    report = json.loads((folder / "conditional.json").read_text())
    assert report["leaks"] is False
    assert report["leaks_if_independent"] is True
    assert report["assumed_independent"] == ["c"]
    assert run(*words, "--support", "product").exit_code == 2
    assert run(*words, "--support", "empirical").exit_code == 0
    assert "--support must be one of" in run(*words, "--support", "all").output
    masks = ["--masks", folder / "masks.csv", "--support", "product"]
    assert "--support requires --model" in run(folder / "data.csv", *masks).output
