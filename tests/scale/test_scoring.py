"""Partitioned scoring equals scoring in memory, and never leaves partial results."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import suwr
from suwr import score_partitions
from suwr.cli import app
from suwr.exceptions import TableError
from suwr.scale import partitions

FIXTURES = Path(__file__).parents[1] / "estimators" / "fixtures"
COLUMNS = ["age", "colour", "height", "width", "member"]


@pytest.fixture(scope="module")
def model():
    return suwr.load(FIXTURES / "classifier-1.suwr")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(1)
    n = 1000
    frame = pd.DataFrame(
        {
            "more": np.arange(n),
            "height": rng.randn(n),
            "colour": rng.choice(["red", "green", "blue", "7"], n),
            "age": np.where(rng.rand(n) < 0.2, np.nan, rng.randint(20, 80, n)),
            "member": rng.rand(n) < 0.5,
            "width": rng.randn(n),
        }
    )
    frame.loc[rng.rand(n) < 0.1, "colour"] = None
    return frame


@pytest.fixture
def small_batches(monkeypatch):
    """Reduce the batch size, so that a small table has many batches."""
    monkeypatch.setattr(partitions, "BATCH", 64)


def check(frame, model, rows):
    """Check that results equal those in memory, bit for bit."""
    X = rows[COLUMNS]
    assert frame["prediction"].tolist() == model.predict(X).tolist()
    probability = frame[[f"probability of {c}" for c in model.classes_]].to_numpy()
    np.testing.assert_array_equal(probability, model.predict_proba(X))
    masks = model.select(X)
    assert frame["n_selected"].tolist() == masks.sum(axis=1).tolist()
    names = np.array(COLUMNS)
    assert [list(s) for s in frame["selected"]] == [names[m].tolist() for m in masks]
    explanation = model.explain(X)
    assert [list(s) for s in frame["steps"]] == [[t.unit for t in e.steps] for e in explanation]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_files_are_scored_as_in_memory(tmp_path, model, rows, suffix):
    data, out = tmp_path / "data", tmp_path / "scored"
    data.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        path = data / f"{number}.{suffix}"
        piece = rows.iloc[part]
        if suffix == "parquet":
            piece.to_parquet(path, row_group_size=100)
        else:
            piece.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    done = score_partitions(model, str(data / "*"), out, rows_per_partition=150)
    assert done.n_rows == len(rows)
    frame = done.to_frame()
    check(frame, model, rows)
    assert frame["row"].tolist() == [r for n in (334, 333, 333) for r in range(n)]
    assert frame["file"].astype(str).unique().tolist() == [
        str(data / f"{n}.{suffix}") for n in range(3)
    ]
    pieces = 3 if suffix != "parquet" else 6
    assert sorted(os.listdir(out)) == ["_plan.json"] + [
        f"part-{n:05d}.parquet" for n in range(pieces)
    ]


def test_regression_with_several_units_per_step(tmp_path):
    model = suwr.load(FIXTURES / "regressor-1.suwr")
    X = np.array(json.loads((FIXTURES / "regressor-1.json").read_text())["rows"])
    pd.DataFrame(X, columns=[f"p{i}" for i in range(12)]).to_parquet(tmp_path / "x.parquet")
    frame = score_partitions(model, tmp_path / "x.parquet", tmp_path / "scored").to_frame()
    np.testing.assert_array_equal(frame["prediction"], model.predict(X))
    steps = [[t.unit for t in e.steps] for e in model.explain(X)]
    assert [list(s) for s in frame["steps"]] == steps


def test_a_second_call_skips_completed_partitions(tmp_path, model, rows, monkeypatch):
    rows.to_parquet(tmp_path / "x.parquet", row_group_size=250)
    call = {"data": tmp_path / "x.parquet", "out": tmp_path / "scored", "rows_per_partition": 250}
    whole = score_partitions(model, **call)
    assert (whole.n_scored, whole.n_resumed) == (4, 0)
    contents = [p.read_bytes() for p in whole.paths]
    whole.paths[2].unlink()
    (tmp_path / "scored" / ".unfinished").mkdir()
    (tmp_path / "scored" / ".unfinished" / ".part-00002.parquet.x").write_bytes(b"half")
    again = score_partitions(model, **call)
    assert (again.n_scored, again.n_resumed) == (1, 3)
    assert [p.read_bytes() for p in again.paths] == contents
    assert len(os.listdir(tmp_path / "scored")) == 5


def test_an_error_keeps_completed_partitions_only(tmp_path, model, rows):
    rows.iloc[:10].to_csv(tmp_path / "0.csv", index=False)
    (tmp_path / "1.csv").write_text("age,colour\n1,red\n")
    with pytest.raises(TableError, match=r"1\.csv' lacks 3 column\(s\) of the model: 'height'"):
        score_partitions(model, str(tmp_path / "*.csv"), tmp_path / "scored")
    assert sorted(os.listdir(tmp_path / "scored")) == ["_plan.json", "part-00000.parquet"]


def test_results_of_another_model_or_data_are_not_mixed(tmp_path, model, rows):
    rows.iloc[:10].to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "scored"
    score_partitions(model, tmp_path / "x.csv", out)
    rows.iloc[:20].to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(FileExistsError, match="results of another model or of other data"):
        score_partitions(model, tmp_path / "x.csv", out)
    assert score_partitions(model, tmp_path / "x.csv", out, overwrite=True).n_rows == 20


def test_a_directory_with_other_files_is_not_touched(tmp_path, model, rows):
    rows.iloc[:5].to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(FileExistsError, match="must be an empty directory"):
        score_partitions(model, tmp_path / "x.csv", tmp_path)
    assert os.listdir(tmp_path) == ["x.csv"]


def test_concurrent_writers_are_an_error(tmp_path, model, rows):
    from suwr.scale.results import open_folder

    rows.iloc[:5].to_csv(tmp_path / "x.csv", index=False)
    with (
        open_folder(tmp_path / "scored", {"partitions": []}, False),
        pytest.raises(FileExistsError, match="Another process"),
    ):
        score_partitions(model, tmp_path / "x.csv", tmp_path / "scored")


def test_empty_files_have_empty_results(tmp_path, model, rows):
    rows.iloc[:0].to_csv(tmp_path / "0.csv", index=False)
    rows.iloc[:3].to_csv(tmp_path / "1.csv", index=False)
    rows.iloc[:0].to_parquet(tmp_path / "2.parquet")
    done = score_partitions(model, tmp_path, tmp_path / "scored")
    assert [pq.read_metadata(p).num_rows for p in done.paths] == [0, 3, 0]
    assert len({pq.read_schema(p).remove_metadata().names.__str__() for p in done.paths}) == 1


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("none-*.csv", FileNotFoundError, "No file matches"),
        ("x.txt", TableError, "must end in .csv"),
        ("broken.parquet", TableError, "cannot be read"),
        ("bad.csv", TableError, r"bad.csv': Row 0 of column 'age' must be a finite number.*'old'"),
        ("empty", FileNotFoundError, "contains no CSV"),
    ],
)
def test_invalid_data(tmp_path, model, rows, data, error, message):
    (tmp_path / "x.txt").write_text("a")
    (tmp_path / "broken.parquet").write_text("no")
    (tmp_path / "empty").mkdir()
    rows.iloc[:3].assign(age="old").to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(error, match=message):
        score_partitions(model, tmp_path / data, tmp_path / "scored")


def test_invalid_parameters(tmp_path, model):
    with pytest.raises(
        ValueError, match="'rows_per_partition' parameter of score_partitions must be"
    ):
        score_partitions(model, "x.csv", tmp_path / "s", rows_per_partition=0)
    with pytest.raises(FileNotFoundError, match="empty list"):
        score_partitions(model, [], tmp_path / "s")


def test_on_the_command_line(tmp_path, model, rows, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.to_parquet("a.parquet", row_group_size=500)
    rows.to_parquet("b.parquet")
    words = ["predict", str(FIXTURES / "classifier-1.suwr"), "?.parquet", "--out", "scored/"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "2,000 predictions to 2 files in scored" in done.output
    again = CliRunner().invoke(app, words)
    assert "2 of them already existed" in again.output
    check(pd.read_parquet("scored/part-00001.parquet"), model, rows)
    wrong = CliRunner().invoke(app, [*words[:2], "c*.parquet", "--out", "other/"])
    assert wrong.exit_code == 1
    assert "Error: No file matches 'c*.parquet'" in wrong.output


def test_progress_counts_partitions_and_rows(tmp_path, model, rows, capsys):
    rows.iloc[:30].to_csv(tmp_path / "0.csv", index=False)
    rows.iloc[:20].to_csv(tmp_path / "1.csv", index=False)
    score_partitions(model, tmp_path, tmp_path / "scored", verbose=1)
    err = capsys.readouterr().err
    assert "2/2" in err
    assert "50 rows" in err
