"""Raw cells of files and partitions that were not revealed change nothing and raise nothing."""

import csv
import decimal
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from helpers.tables import TEXTS, mixed_table, poisoned_cells
from suwr import score_partitions
from suwr.cli import app
from suwr.exceptions import TableError


@pytest.fixture(scope="module")
def saved(mixed_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "m.suwr"
    mixed_model.save(path)
    return path


@pytest.fixture(scope="module")
def tables(mixed_model):
    """The rows, and the same rows with other texts in the unrevealed cells."""
    X = mixed_table(seed=1)[0]
    return X, poisoned_cells(X, mixed_model.select(X), TEXTS)


def write_csv(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(path, columns):
    texts = {name: [str(c) for c in cells] for name, cells in columns.items()}
    pq.write_table(pa.table(texts), path, row_group_size=50)


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_commands(kind, tables, saved, tmp_path):
    X, bad = tables
    outputs = {}
    for name, columns in {"clean": {c: X[c].tolist() for c in X}, "bad": bad}.items():
        (tmp_path / name).mkdir()
        path = tmp_path / name / f"rows.{kind}"
        if kind == "parquet":
            write_parquet(path, columns)
        elif kind == "csv":
            write_csv(path, columns)
        else:
            pd.DataFrame(columns, dtype=object).to_csv(path, sep="\t", index=False)
        run("predict", saved, path, "--out", tmp_path / name / "predictions.csv")
        run("explain", saved, path, "--json", tmp_path / name / "narratives.json")
        run("predict", saved, path.parent / f"r*.{kind}", "--out", f"{path.parent}/scored/")
        scored = pd.concat(map(pd.read_parquet, sorted(path.parent.glob("scored/*.parquet"))))
        outputs[name] = [
            (path.parent / "predictions.csv").read_text(),
            json.loads((path.parent / "narratives.json").read_text()),
            run("explain", saved, path, "--row", 3),
            scored.drop(columns="file").to_csv(),
        ]
    assert outputs["clean"] == outputs["bad"]


def test_one_cell_that_is_no_boolean(mixed_model, tmp_path):
    X = mixed_table(seed=1)[0]
    mask = mixed_model.select(X)
    hidden = int(np.flatnonzero(~mask[:, 1])[0])
    bad = X.astype({"member": object})
    bad.loc[hidden, "member"] = "maybe"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    scored = score_partitions(mixed_model, tmp_path / "bad.csv", tmp_path / "scored").to_frame()
    assert scored["prediction"].tolist() == mixed_model.predict(X).tolist()
    shown = int(np.flatnonzero(mask[:, 1])[0])
    bad.loc[shown, "member"] = "perhaps"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    where = rf"bad.csv': Row {shown} of column 'member' must be true or false.*'perhaps'"
    with pytest.raises(TableError, match=where):
        score_partitions(mixed_model, tmp_path / "bad.csv", tmp_path / "again")


def test_rows_that_share_a_file_do_not_matter(mixed_model, saved, tmp_path):
    """The categories 1, 2 and x of 'code' are not numbers where a file lacks x."""
    X = mixed_table(seed=2)[0]
    X.to_csv(tmp_path / "all.csv", index=False)
    without = X[X["code"] != "x"]
    without.to_csv(tmp_path / "part.csv", index=False)
    for name in ("all", "part"):
        run("predict", saved, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}.out.csv")
    whole, part = (pd.read_csv(tmp_path / f"{n}.out.csv") for n in ("all", "part"))
    expected = whole[(X["code"] != "x").to_numpy()].drop(columns="row").reset_index(drop=True)
    pd.testing.assert_frame_equal(part.drop(columns="row"), expected)


def test_dask_partitions(mixed_model, tables, tmp_path):
    dataframe = pytest.importorskip("dask.dataframe")
    X, _ = tables
    cells = [*TEXTS, None, np.nan, 7, -1.5, np.inf, 10**400, True]
    bad = pd.DataFrame(poisoned_cells(X, mixed_model.select(X), cells), dtype=object)
    parts = [bad.iloc[:50], bad.iloc[50:]]
    frame = dataframe.from_map(lambda i: parts[i], [0, 1], meta=bad.iloc[:0])
    scored = score_partitions(mixed_model, frame, tmp_path / "scored").to_frame()
    assert scored["prediction"].tolist() == mixed_model.predict(X).tolist()
    # Each partition has the types that its reader has inferred.
    order = np.argsort(X["code"] == "x", kind="stable")
    X.iloc[order].to_csv(tmp_path / "x.csv", index=False)
    inferred = pd.read_csv(tmp_path / "x.csv")
    halves = [inferred.iloc[:60], inferred.iloc[60:]]
    halves[0] = halves[0].astype({"code": int})
    frame = dataframe.from_map(
        lambda i: halves[i], [0, 1], meta=inferred.iloc[:0], enforce_metadata=False
    )
    scored = score_partitions(mixed_model, frame, tmp_path / "halves").to_frame()
    assert scored["prediction"].tolist() == mixed_model.predict(X.iloc[order]).tolist()


def test_errors_name_the_row_of_the_file(mixed_model, tmp_path, monkeypatch):
    monkeypatch.setattr("suwr.data.files._TEXT_CELLS", 6 * 16)
    X = mixed_table(seed=1)[0]
    row, column = np.argwhere(mixed_model.select(X)[:, [0, 1]])[-1]
    bad = X.astype(object)
    bad.iat[row, column] = "unclear"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(TableError, match=f"Row {row} of column '{X.columns[column]}'"):
        score_partitions(mixed_model, tmp_path / "bad.csv", tmp_path / "scored")


def test_bytes_that_are_not_text(mixed_model, tmp_path):
    """A hidden cell need not be valid UTF-8."""
    X = mixed_table(seed=1)[0]
    row = int(np.flatnonzero(~mixed_model.select(X)[:, 3])[0])
    X.to_csv(tmp_path / "a.csv", index=False)
    lines = (tmp_path / "a.csv").read_bytes().splitlines()
    lines[1 + row] = lines[1 + row].replace(b"Oslo", b"\xff\xfe").replace(b"Rome", b"\xff\xfe")
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    scored = score_partitions(mixed_model, tmp_path / "a.csv", tmp_path / "scored").to_frame()
    assert scored["prediction"].tolist() == mixed_model.predict(X).tolist()


TYPED = {
    "time": pa.array([5], pa.time64("ns")),
    "timestamp": pa.array([5], pa.timestamp("ns", tz="UTC")),
    "duration": pa.array([5], pa.duration("ns")),
    "list": pa.array([[1, 2]]),
    "struct": pa.array([{"a": 1}]),
    "decimal": pa.array([decimal.Decimal("1.5")]),
    "bytes": pa.array([b"\xff"]),
    "integer": pa.array([2**64 - 1], pa.uint64()),
    "null": pa.nulls(1),
}


@pytest.mark.parametrize("kind", TYPED)
def test_hidden_columns_of_other_types_in_parquet_files(kind, mixed_model, saved, tmp_path):
    X = mixed_table(seed=1)[0].astype({"level": int})
    mask = mixed_model.select(X)
    hidden_somewhere = np.flatnonzero(~mask.all(axis=0))
    # Numbers and texts: a file of pandas records the types that it had at first.
    assert {"age", "city"} <= set(X.columns[hidden_somewhere])
    for column in hidden_somewhere.tolist():
        rows = X[~mask[:, column]].reset_index(drop=True)
        cells = pa.chunked_array([TYPED[kind]] * len(rows))
        table = pa.Table.from_pandas(rows, preserve_index=False)
        path, out = tmp_path / f"{column}.parquet", tmp_path / f"{column}.csv"
        pq.write_table(table.set_column(column, X.columns[column], cells), path)
        run("predict", saved, path, "--out", out)
        expected = mixed_model.predict(rows).tolist()
        assert pd.read_csv(out)["prediction"].tolist() == expected
        scored = score_partitions(mixed_model, path, tmp_path / f"scored_{column}").to_frame()
        assert scored["prediction"].tolist() == expected
