"""The commands ``explain --receipts`` and ``verify``."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from helpers.receipts import sign
from suwr import Receipt, SUWRClassifier
from suwr.cli import app
from suwr.cli import predict as verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("receipts")
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"age": rng.randint(20, 80, 60), "colour": rng.choice(["red", "blue"], 60)})
    y = np.where(X["colour"] == "red", "yes", "no")
    model = SUWRClassifier(
        max_epochs=1, training={"hidden_size": 8}, sparsity_weight=0.0, random_state=0
    )
    model.fit(X, y).save(path / "m.suwr")
    X.to_csv(path / "data.csv", index=False)
    X.to_parquet(path / "data.parquet", row_group_size=25)
    done = run("explain", path / "m.suwr", path / "data.csv", "--receipts", path / "r.jsonl")
    assert done.exit_code == 0, done.output
    assert "Wrote 60 receipts" in done.output
    return path


def run(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def check(folder, text, name="other.jsonl"):
    (folder / name).write_text(text)
    return run("verify", folder / name, "--model", folder / "m.suwr")


def test_receipts_are_those_of_explain(folder, monkeypatch):
    model = suwr.load(folder / "m.suwr")
    X = pd.read_csv(folder / "data.csv")
    expected = [n.receipt() for n in model.explain(X)]
    lines = (folder / "r.jsonl").read_text().splitlines()
    assert [Receipt.from_json(line) for line in lines] == expected
    # Whatever the format of the table and the size of a batch.
    monkeypatch.setattr(verify, "BATCH", 7)
    out = folder / "p.jsonl"
    assert (
        run("explain", folder / "m.suwr", folder / "data.parquet", "--receipts", out).exit_code == 0
    )
    assert out.read_text().splitlines() == lines


def test_verified_receipts(folder, monkeypatch):
    done = run("verify", folder / "r.jsonl", "--model", folder / "m.suwr")
    assert done.exit_code == 0, done.output
    assert "60 of 60 receipts are verified" in done.output
    monkeypatch.setattr(verify, "BATCH", 7)
    assert run("verify", folder / "r.jsonl", "--model", folder / "m.suwr").output == done.output
    line = (folder / "r.jsonl").read_text().splitlines()[0]
    done = check(folder, json.dumps(json.loads(line), indent=2), "one.json")
    assert (done.exit_code, done.output) == (0, "verified\n")


def test_forged_receipts_are_named_by_line_and_step(folder, monkeypatch):
    lines = (folder / "r.jsonl").read_text().splitlines()
    forged = json.loads(lines[1])
    forged["start_stop_probability"] = 0.25
    lines[1], lines[3] = sign(forged), lines[3].replace('"row":3', '"row":4')
    for batch in (verify.BATCH, 2):
        monkeypatch.setattr(verify, "BATCH", batch)
        done = check(folder, "\n".join(lines))
        assert done.exit_code == 2
        assert "Line 2: differs before the first step: stop probability" in done.output
        assert "Line 4: refused: The receipt is invalid: it was altered" in done.output
        assert "58 of 60 receipts are verified" in done.output
    monkeypatch.setattr(verify, "MAX_SHOWN", 1)
    assert "… and 1 more." in check(folder, "\n".join(lines)).output
    one = check(folder, lines[1], "one.json")
    assert (one.exit_code, one.output.startswith("differs before")) == (2, True)


def test_long_lines_are_refused_at_bounded_memory(folder, monkeypatch):
    line = (folder / "r.jsonl").read_text().splitlines()[0]
    monkeypatch.setattr(verify, "MAX_BYTES", len(line))
    monkeypatch.setattr("suwr.narrative.receipt.MAX_BYTES", len(line))
    text = "\n".join([line, " " * 5 * len(line), line + " ", line])
    done = check(folder, text)
    assert "Line 2: refused: The receipt has more than" in done.output
    assert "Line 3: refused: The receipt has more than" in done.output
    assert "2 of 4 receipts are verified" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "no.jsonl", "--model", "m.suwr"], "no.jsonl: No such file"),
        (["verify", "r.jsonl", "--model", "data.csv"], "not a suwr model"),
        (["verify", "empty.jsonl", "--model", "m.suwr"], "has no receipts"),
        (["explain", "m.suwr", "data.csv", "--row", "1", "--receipts", "x.jsonl"], "omit --row"),
        (["explain", "m.suwr", "data.csv", "--receipts", "no/x.jsonl"], "does not exist"),
        (["explain", "m.suwr", "data.csv"], "--receipts"),
    ],
)
def test_errors_are_one_line(folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    (folder / "empty.jsonl").write_text("")
    done = run(*words)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_messages_about_one_row_are_singular(folder, tmp_path):
    pd.read_csv(folder / "data.csv")[:1].to_csv(tmp_path / "one.csv", index=False)
    model, data = folder / "m.suwr", tmp_path / "one.csv"
    done = run("explain", model, data, "--receipts", tmp_path / "r.jsonl")
    assert "Wrote 1 receipt to" in done.output
    done = run("predict", model, data, "--out", tmp_path / "p.csv")
    assert "Wrote 1 prediction to" in done.output
    done = run("predict", model, data, "--out", tmp_path / "scored")
    assert "Wrote 1 prediction to 1 file in" in done.output
