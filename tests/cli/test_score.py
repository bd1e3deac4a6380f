"""The command ``suwr score``, and the scores that ``fit`` and ``predict`` print."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.exceptions import UnusualValueWarning


def run(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("score")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.randn(120, 2), columns=["a", "b"])
    frame["kind"] = (frame["a"] > 0).astype(int)
    frame.to_csv(path / "data.csv", index=False)
    frame["value"] = 2.0 * frame["a"]
    frame.drop(columns="kind").to_csv(path / "values.csv", index=False)
    words = ["--target", "kind", "--out", path / "m.suwr", "--max-epochs", 3, "--test-size", 0.25,
             "--class-weight", "balanced", "--test-out", path / "test.csv"]  # fmt: skip
    done = run("fit", path / "data.csv", *words)
    assert done.exit_code == 0, done.output
    (path / "fit.txt").write_text(done.output)
    return path


def test_fit_reports_test_rows(folder):
    output = (folder / "fit.txt").read_text()
    assert "On the test rows, which were not used in training:" in output
    assert "30 rows" in output
    assert "all features" in output
    assert f"Wrote 30 test rows to {folder / 'test.csv'}" in output.replace("\n", "")
    table = output.partition("training:\n")[2].partition("Wrote")[0]
    done = run("score", folder / "m.suwr", folder / "test.csv")
    assert done.output == table
    assert suwr.load(folder / "m.suwr").class_weight == "balanced"
    done = run("fit", folder / "values.csv", "--target", "value", "--out", folder / "r.suwr",
               "--max-epochs", 1)  # fmt: skip
    assert "On the validation rows" in done.output
    assert "R²" in done.output
    for size in ("0", "1.5", "-1", "119"):
        words = ["--target", "kind", "--out", folder / "x.suwr", "--test-size", size]
        done = run("fit", folder / "data.csv", *words)
        assert "--test-size must" in done.output
        assert done.exit_code == 1


def test_test_rows_are_written_as_they_are(folder):
    """Cells keep their text: '007' is not 7, and a missing cell stays empty."""
    lines = [f'{i:03d},"{i},5",{"" if i % 3 else "x"},{i % 2}' for i in range(40)]
    (folder / "raw.csv").write_text("\n".join(["code,size,note,kind", "", *lines]) + "\n")
    words = ["--target", "kind", "--max-epochs", 1, "--test-size", 8, "--decimal", ","]
    words += ["--out", folder / "raw.suwr", "--test-out", folder / "held.csv"]
    done = run("fit", folder / "raw.csv", *words)
    assert done.exit_code == 0, done.output
    header, *held = (folder / "held.csv").read_text().splitlines()
    assert header == "code,size,note,kind"
    assert len(held) == len(set(held)) == 8
    assert set(held) <= set(lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--test-out", "t.csv"], "--test-out requires --test-size"),
        (["--test-size", "9", "--test-out", "t.txt"], "must end in .csv"),
        (["--class-weight", "even"], "--class-weight must be 'balanced'. Got 'even'."),
        (["--class-weight", "balanced", "--task", "regression"], "--class-weight is for class"),
    ],
)
def test_invalid_options_of_fit(folder, words, message):
    out = ["--target", "kind", "--out", folder / "none.suwr"]
    done = run("fit", folder / "data.csv", *out, *words)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert not (folder / "none.suwr").exists()


def test_table_and_json(folder):
    model = suwr.load(folder / "m.suwr")
    assert model.target_name_ == "kind"
    frame = pd.read_csv(folder / "data.csv")
    expected = model.evaluate(frame[["a", "b"]], frame["kind"])
    assert run("score", folder / "m.suwr", folder / "data.csv").stdout.strip() == str(expected)
    done = run("score", folder / "m.suwr", folder / "data.csv", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(expected.to_dict()))


def test_labels_may_be_text_and_targets_missing(folder):
    frame = pd.read_csv(folder / "data.csv", dtype=str)
    frame.loc[0, "kind"] = None
    frame.to_parquet(folder / "text.parquet")
    done = run("score", folder / "m.suwr", folder / "text.parquet")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("119 rows")


def test_predict_reports_the_score(folder):
    words = ["predict", folder / "m.suwr", folder / "data.csv", "--out", folder / "p.csv"]
    done = run(*words)
    assert "Compared with the column 'kind':" in done.output
    frame = pd.read_csv(folder / "data.csv")
    frame.assign(kind="other").to_csv(folder / "other.csv", index=False)
    done = run("predict", folder / "m.suwr", folder / "other.csv", "--out", folder / "p.csv")
    assert done.exit_code == 0
    assert "Note: no score, since y must contain the classes of fit" in done.output
    frame[["a", "b"]].to_csv(folder / "none.csv", index=False)
    done = run("predict", folder / "m.suwr", folder / "none.csv", "--out", folder / "p.csv")
    assert "rows" not in done.output


def test_mistakes(folder):
    done = run("score", folder / "m.suwr", folder / "data.csv", "--target", "kid")
    assert "Did you mean 'kind'?" in done.output
    done = run("score", folder / "m.suwr", folder / "values.csv")
    assert "--target must be a column of values.csv" in done.output
    model = suwr.load(folder / "m.suwr")
    model.target_name_ = None
    model.save(folder / "unnamed.suwr")
    done = run("score", folder / "unnamed.suwr", folder / "data.csv")
    assert "--target is required" in done.output


@pytest.mark.filterwarnings("always::suwr.exceptions.UnusualValueWarning")
def test_warnings_are_printed_once(folder, monkeypatch):
    def warn(*args, **kwargs):
        for _ in range(2):
            warnings.warn("a value\x1b is unusual", UnusualValueWarning, stacklevel=1)

    monkeypatch.setattr("suwr.cli.predict.predict_table", warn)
    done = run("predict", folder / "m.suwr", folder / "data.csv", "--out", folder / "p.csv")
    assert done.output == "Warning: a value\\x1b is unusual\n"


def test_the_training_file_is_recognised(folder, tmp_path):
    words = [folder / "m.suwr", folder / "data.csv"]
    message = "is the file that the model was fitted on"
    for options in (
        ["score", *words],
        ["predict", *words, "--out", tmp_path / "p.csv"],
        ["figures", *words, "--out", tmp_path / "figures"],
        ["certify", *words, "--out", tmp_path / "c.suwr"],
    ):
        done = run(*options)
        assert done.exit_code == 0, done.output
        assert message in " ".join(done.stderr.split()), options[0]
        assert message not in done.stdout
    assert message not in run("score", folder / "m.suwr", folder / "test.csv").output
    assert message not in run("predict", folder / "m.suwr", folder / "values.csv").output
