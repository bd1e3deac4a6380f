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
import suwr.scale as partitions
from suwr import score_partitions
from suwr.cli import app
from suwr.exceptions import TableError

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
    unfinished = ".part-00002.parquet.abcdefgh.suwr-part"
    (tmp_path / "scored" / ".unfinished" / unfinished).write_bytes(b"half")
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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def scored(tmp_path, model, rows):
    """A folder of complete results, and the data."""
    rows.to_parquet(tmp_path / "x.parquet", row_group_size=250)
    out = tmp_path / "scored"
    score_partitions(model, tmp_path / "x.parquet", out, rows_per_partition=250)
    return out


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ["part-00000-c000.snappy.parquet"],
        ["part-00000.parquet"],
        ["part-00000.parquet", "_SUCCESS"],
        [".unfinished/part-00000.parquet"],
        [".unfinished/.part-00000.parquet.abcdefgh.suwr-part"],
        ["._plan.json.backup.part", "notes.txt"],
    ],
)
def test_files_of_other_programs_are_not_touched(tmp_path, model, rows, names, overwrite):
    rows.iloc[:5].to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "ds"
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(out / name)
    before = contents(out)
    with pytest.raises(FileExistsError, match="must be an empty directory, or one with results"):
        score_partitions(model, tmp_path / "x.csv", out, overwrite=overwrite)
    assert contents(out) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"part-00000.parquet": 1}',
        '{"format": 1, "model": "", "partitions": 9}',
        '{"format": 1, "model": "", "partitions": ["../x", "/x", 3]}',
    ],
)
def test_a_manifest_that_suwr_has_not_written(tmp_path, model, rows, text, overwrite):
    """A forged manifest names files that suwr has not written."""
    rows.iloc[:5].to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "ds"
    out.mkdir()
    (out / "_plan.json").write_text(text)
    for number in range(3):
        rows.to_parquet(out / f"part-{number:05d}.parquet")
    before = contents(tmp_path)
    with pytest.raises(FileExistsError):
        score_partitions(model, tmp_path / "x.csv", out, overwrite=overwrite)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["other name", "name of a result", "link", "folder"])
def test_other_files_beside_results_are_not_overwritten(tmp_path, model, rows, scored, kind):
    if kind == "other name":
        rows.to_parquet(scored / "part-00000-c000.snappy.parquet")
    elif kind == "name of a result":
        rows.to_parquet(scored / "part-00002.parquet")
    elif kind == "link":
        (scored / "part-00002.parquet").unlink()
        (scored / "part-00002.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    else:
        (scored / ".unfinished").symlink_to(tmp_path)
    before = contents(scored)
    rows.iloc[:5].to_csv(tmp_path / "y.csv", index=False)
    with pytest.raises(FileExistsError, match="results of suwr"):
        score_partitions(model, tmp_path / "y.csv", scored, overwrite=True)
    assert contents(scored) == before
    assert not (tmp_path / "elsewhere.parquet").exists()


def test_a_file_of_another_program_is_no_result(tmp_path, model, rows, scored):
    """A call is not resumed with it."""
    rows.to_parquet(scored / "part-00001.parquet")
    with pytest.raises(FileExistsError, match=r"contains 'part-00001\.parquet'"):
        score_partitions(model, tmp_path / "x.parquet", scored, rows_per_partition=250)


def test_results_are_replaced_by_fewer(tmp_path, model, rows, scored):
    (scored / ".unfinished").mkdir()
    (scored / ".unfinished" / "notes.txt").write_text("mine")
    rows.iloc[:20].to_parquet(tmp_path / "x.parquet")
    done = score_partitions(model, tmp_path / "x.parquet", scored, overwrite=True)
    assert (done.n_scored, done.n_rows) == (1, 20)
    assert sorted(contents(scored)) == ["_plan.json", "notes.txt", "part-00000.parquet"]


def test_an_interrupted_overwrite_leaves_results_of_one_manifest(
    tmp_path, model, rows, scored, monkeypatch
):
    def full(*args):
        raise OSError(28, "No space left on device")

    rows.iloc[:20].to_csv(tmp_path / "y.csv", index=False)
    with monkeypatch.context() as patch:
        patch.setattr("suwr.scale.write_atomic", full)
        with pytest.raises(OSError, match="No space left"):
            score_partitions(model, tmp_path / "y.csv", scored, overwrite=True)
    again = score_partitions(model, tmp_path / "x.parquet", scored, rows_per_partition=250)
    assert again.n_scored == 4
    check(again.to_frame(), model, rows)


def test_a_folder_without_results_needs_no_overwrite(tmp_path, model, rows):
    """The file is mended after an error."""
    (tmp_path / "x.csv").write_text("age,colour\n1,red,2\n")
    with pytest.raises(TableError):
        score_partitions(model, tmp_path / "x.csv", tmp_path / "scored")
    rows.iloc[:20].to_csv(tmp_path / "x.csv", index=False)
    assert score_partitions(model, tmp_path / "x.csv", tmp_path / "scored").n_rows == 20


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["same folder", "link to the folder", "hard link"])
def test_the_data_are_not_overwritten(tmp_path, model, rows, kind, overwrite):
    out = data = tmp_path / "ds"
    out.mkdir()
    rows.to_parquet(data / "part-00000.parquet")
    if kind == "link to the folder":
        out = tmp_path / "link"
        out.symlink_to(data)
    elif kind == "hard link":
        out = tmp_path / "out"
        out.mkdir()
        os.link(data / "part-00000.parquet", out / "part-00000.parquet")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="'out' must not contain the data"):
        score_partitions(model, data, out, overwrite=overwrite)
    assert contents(tmp_path) == before


@pytest.mark.filterwarnings("ignore::suwr.exceptions.ColumnWarning")
def test_results_are_not_scored_into_their_folder(tmp_path, scored):
    """The columns of the model are those of the results."""
    frame = pd.read_parquet(scored / "part-00000.parquet")
    clf = suwr.SUWRClassifier(max_epochs=1, random_state=0)
    clf.fit(frame[["row", "n_selected"]], frame["prediction"])
    before = contents(scored)
    with pytest.raises(ValueError, match="'out' must not contain the data"):
        score_partitions(clf, scored, scored, overwrite=True)
    assert contents(scored) == before


def test_concurrent_writers_are_an_error(tmp_path, model, rows):
    from suwr.scale import open_folder

    rows.iloc[:5].to_csv(tmp_path / "x.csv", index=False)
    with (
        open_folder(tmp_path / "scored", {"format": 1, "model": "", "partitions": []}, False),
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
