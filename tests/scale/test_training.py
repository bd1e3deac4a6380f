"""Training from files yields the same model as training in memory."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import suwr.scale as partitions
import suwr.training.data
from suwr import Patches, SUWRClassifier, SUWRRegressor, fit_partitions, load
from suwr.cli import app
from suwr.data.stored import mapped_array
from suwr.exceptions import TableError
from suwr.scale import ParquetTable

SMALL = {
    "max_epochs": 2,
    "training": {"hidden_size": 8, "n_layers": 2},
    "random_state": 0,
    "device": "cpu",
}


def make_rows(n=300):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "height": rng.randn(n),
            "class": rng.choice(["no", "yes"], n),
            "age": pd.array(rng.randint(20, 80, n), dtype="Int64"),
            "colour": rng.choice(["red", "green", "blue"], n).astype(object),
            "member": rng.choice([True, False, None], n),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], n)),
            "narrow": rng.randn(n).astype(np.float32),
            "weight": rng.randint(0, 3, n).astype(float),
            "nothing": np.full(n, np.nan),
        }
    )
    frame.loc[rng.rand(n) < 0.2, "age"] = pd.NA
    frame.loc[rng.rand(n) < 0.2, "narrow"] = np.nan
    # A whole batch without values, which does not show the type of the column.
    frame.loc[100:180, "colour"] = None
    frame.loc[100:180, "member"] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table in three files, one of them in several row groups."""
    path = tmp_path_factory.mktemp("parquet")
    frame = make_rows()
    frame[:120].to_parquet(path / "a.parquet", row_group_size=50)
    frame[120:121].to_parquet(path / "b.parquet")
    frame[121:].to_parquet(path / "c.parquet")
    return path


@pytest.fixture(scope="module")
def whole(folder):
    return pd.concat([pd.read_parquet(p) for p in sorted(folder.iterdir())], ignore_index=True)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(partitions, "BATCH", 32)


def check_same(found, expected):
    ours, theirs = (m.policy_.network.state_dict() for m in (found, expected))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert found.encoder_.to_dict() == expected.encoder_.to_dict()
    assert found.feature_names_in_.tolist() == expected.feature_names_in_.tolist()


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("kind", "target", "params"),
    [
        (SUWRClassifier, "class", {}),
        (SUWRClassifier, "class", {"sparsity_weight": (0.001, 0.1)}),
        (SUWRRegressor, "height", {"trainer": "lookahead"}),
        (SUWRClassifier, "size", {"trainer": "reinforce"}),
    ],
)
def test_files_train_as_memory_does(folder, whole, tmp_path, kind, target, params):
    model = kind(**SMALL, **params)
    found = fit_partitions(
        model, folder / "*.parquet", target, sample_weight="weight", scratch=tmp_path
    )
    assert found is model
    X = whole.drop(columns=[target, "weight"])
    expected = kind(**SMALL, **params).fit(X, whole[target].to_numpy(), whole["weight"])
    check_same(found, expected)
    if found.weight_range_ is not None:
        np.testing.assert_array_equal(found.weight_range_.n_units, expected.weight_range_.n_units)
    assert list(tmp_path.iterdir()) == []


def test_evaluation_in_blocks_equals_evaluation_of_all_rows(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.randn(3000, 5)
    y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    training = SMALL["training"] | {"validation_fraction": 0.5}
    model = SUWRClassifier(**SMALL | {"max_epochs": 1, "training": training})
    expected = model.fit(X, y).predict_proba(X)
    monkeypatch.setattr(suwr.training.data, "BLOCK_ROWS", 100)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_the_command_accepts_a_glob_pattern(folder, whole, tmp_path):
    options = ["--target", "class", "--max-epochs", "1", "--device", "cpu"]
    options += ["--scratch", str(tmp_path)]
    out = tmp_path / "m.suwr"
    pattern = str(folder / "*.parquet")
    done = CliRunner().invoke(app, ["fit", pattern, "--out", str(out), *options])
    assert done.exit_code == 0, done.output
    assert "on 300 rows and 8 columns" in done.output
    expected = SUWRClassifier(max_epochs=1, random_state=0, device="cpu")
    check_same(load(out), expected.fit(whole.drop(columns="class"), whole["class"].to_numpy()))

    one = tmp_path / "one.parquet"
    whole.to_parquet(one)
    for words in [], ["--stream"]:
        done = CliRunner().invoke(app, ["fit", str(one), "--out", str(out), *options, *words])
        assert done.exit_code == 0, done.output
        check_same(load(out), expected)


def write(folder, name, **columns):
    pq.write_table(pa.table(columns), folder / name)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": ["a", "b"], "y": [0, 1]}, "'x' mixes numbers and text"),
        ({"x": [1.0, np.inf], "y": [0, 1]}, "infinity in column 'x'"),
        ({"z": [1.0, 2.0], "y": [0, 1]}, "lacks 1 column"),
        ({"x": [1.0, 2.0], "y": [0, None]}, "y contains NaN"),
    ],
)
def test_inconsistent_files_are_errors(tmp_path, second, message):
    write(tmp_path, "a.parquet", x=[1.0, 2.0], y=[0, 1])
    write(tmp_path, "b.parquet", **second)
    with pytest.raises(ValueError, match=message):
        fit_partitions(SUWRClassifier(**SMALL), tmp_path, "y")


def test_invalid_files_columns_and_parameters_are_errors(tmp_path):
    write(tmp_path, "a.parquet", x=[1.0, 2.0], y=[0, 1])
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    with pytest.raises(TableError, match="must be a Parquet file"):
        ParquetTable(tmp_path)
    with pytest.raises(TableError, match="'z' must be a column"):
        fit_partitions(SUWRClassifier(), tmp_path / "a.parquet", "z")
    with pytest.raises(ValueError, match="must not be Patches"):
        fit_partitions(SUWRClassifier(groups=Patches((1, 1), 1)), tmp_path / "a.parquet", "y")
    with pytest.raises(
        FileNotFoundError, match="'scratch' parameter must be an existing directory"
    ):
        fit_partitions(SUWRClassifier(), tmp_path / "a.parquet", "y", scratch=tmp_path / "no")
    with pytest.raises(FileNotFoundError, match="No file matches"):
        fit_partitions(SUWRClassifier(), tmp_path / "no-*.parquet", "y")


def test_a_full_disk_is_an_error_before_training(tmp_path):
    with pytest.raises(OSError, match="training needs 4000000"):
        mapped_array((10**9, 10**6), tmp_path)
    assert list(tmp_path.iterdir()) == []
    array = mapped_array((3, 2), tmp_path)
    assert array.tolist() == [[0.0, 0.0]] * 3
    assert list(tmp_path.iterdir()) == []
