"""Raw cells of files that were not revealed, in the commands that draw, score, ask and audit."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from helpers.tables import TEXTS, mixed_table, poisoned_cells
from suwr.cli import app


@pytest.fixture(scope="module")
def folder(mixed_model, tmp_path_factory):
    """Clean and poisoned rows with a target, and the model."""
    path = tmp_path_factory.mktemp("raw")
    mixed_model.save(path / "m.suwr")
    X, y = mixed_table(60, seed=1)
    clean = {name: X[name].tolist() for name in X.columns}
    for name, columns in {
        "clean": clean,
        "poisoned": poisoned_cells(X, mixed_model.select(X), TEXTS),
    }.items():
        with open(path / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, "y"])
            writer.writerows(zip(*columns.values(), y, strict=True))
    return path


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_figures(folder, tmp_path):
    written = {}
    for name in ("clean", "poisoned"):
        out = tmp_path / name
        run("figures", folder / "m.suwr", folder / f"{name}.csv", "--target", "y", "--out", out,
            "--also", folder / "m.suwr")  # fmt: skip
        written[name] = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {"narrative.png", "usage.png", "accuracy.png", "calibration.png"} <= set(
        written["clean"]
    )
    assert written["clean"] == written["poisoned"]


def test_score(folder):
    """Only the reference that reads every feature is omitted."""
    clean, poisoned = (
        json.loads(
            run("score", folder / "m.suwr", folder / f"{name}.csv", "--target", "y", "--json")
        )
        for name in ("clean", "poisoned")
    )
    assert clean.pop("all_features") is not None
    assert poisoned.pop("all_features") is None
    assert clean == poisoned


def test_audit_names_an_invalid_cell_without_quoting_it(folder, mixed_model, tmp_path):
    """An audit exchanges hidden cells between rows, so all of them must be valid."""
    frame = pd.read_csv(folder / "clean.csv", dtype=str)
    row = int(np.flatnonzero(~mixed_model.select(mixed_table(60, seed=1)[0])[:, 0])[0])
    frame.loc[row, "age"] = "secret"
    frame.to_csv(tmp_path / "bad.csv", index=False)
    words = ["audit", tmp_path / "bad.csv", "--model", folder / "m.suwr", "--target", "y"]
    output = run(*words, code=1)
    assert f"Row {row} of column 'age'" in output
    assert "secret" not in output


def test_audit_reads_cells_by_the_types_of_the_model(folder, tmp_path):
    """In a file without the category x, the others look like numbers."""
    frame = pd.read_csv(folder / "clean.csv", dtype=str)
    part = frame[frame["code"] != "x"][:20]
    part.to_csv(tmp_path / "part.csv", index=False)
    quoted = csv.QUOTE_NONNUMERIC
    part.to_csv(tmp_path / "quoted.csv", index=False, quoting=quoted)
    reports = []
    for name in ("part", "quoted"):
        out = tmp_path / f"{name}.json"
        run("audit", tmp_path / f"{name}.csv", "--model", folder / "m.suwr", "--json", out)
        reports.append(json.loads(out.read_text()))
        reports[-1]["cost"].pop("seconds")
    assert reports[0]["verdict"] == "leak-free by construction"
    assert reports[0] == reports[1]


def test_other_columns_of_a_parquet_file_are_not_read(folder, tmp_path, mixed_model):
    """Nor does a hidden cell of the model's columns that cannot be converted matter."""
    X = mixed_table(60, seed=1)[0]
    mask = mixed_model.select(X)
    number = list(X.columns).index("city")
    rows = np.flatnonzero(~mask[:, number])
    table = pa.Table.from_pandas(X.iloc[rows].astype({"level": float}), preserve_index=False)
    dates = pa.array([4_000_000] * len(rows), pa.date32())
    wrong = pa.array([b"\xff"] * len(rows), pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(rows), wrong.buffers())
    bad = table.set_column(number, "city", text).append_column("other", dates)
    bad = bad.append_column("nested", pa.array([[1]] * len(rows)))
    for name, found in (("clean", table), ("bad", bad)):
        pq.write_table(found, tmp_path / f"{name}.parquet")
        run(
            "predict",
            folder / "m.suwr",
            tmp_path / f"{name}.parquet",
            "--out",
            tmp_path / f"{name}.csv",
        )
        run("predict", folder / "m.suwr", tmp_path / f"{name}.parquet", "--out", tmp_path / name)
        run(
            "explain",
            folder / "m.suwr",
            tmp_path / f"{name}.parquet",
            "--receipts",
            tmp_path / f"{name}.jsonl",
        )
    for suffix in ("csv", "jsonl"):
        assert (tmp_path / f"bad.{suffix}").read_text() == (
            tmp_path / f"clean.{suffix}"
        ).read_text()
