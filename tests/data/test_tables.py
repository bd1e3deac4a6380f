import numpy as np
import pandas as pd
import polars as pl
import pytest

from suwr.data.frame import (
    arrow_to_pandas,
    column_names,
    column_values,
    gather_rows,
    is_frame,
    read_table,
    select_columns,
    take_rows,
)
from suwr.data.parse import is_missing
from suwr.data.stored import as_rows
from suwr.exceptions import TableError

DATA = {
    "number": [1.5, None, 3.0],
    "whole": [1, 2, 3],
    "text": ["a", None, "b"],
    "flag": [True, False, True],
}


both = pytest.mark.parametrize(
    "frame", [pd.DataFrame(DATA, index=[7, 7, 2]), pl.DataFrame(DATA)], ids=["pandas", "polars"]
)


@both
def test_frames_are_read_alike(frame):
    table = read_table(frame)
    assert table.n_rows == 3
    np.testing.assert_array_equal(table.columns[0], [1.5, np.nan, 3.0])
    assert table.columns[1].dtype == np.float64
    assert table.columns[2].tolist() == ["a", None, "b"]
    assert table.columns[3].tolist() == [True, False, True]
    assert [table.value(1, c) for c in range(4)] == [None, 2, None, False]
    assert isinstance(table.value(0, 1), int)
    assert table.values(np.array([1, 0]), 1) == [table.value(1, 1), table.value(0, 1)]


def test_categorical_numbers_stay_categories():
    frame = pd.DataFrame({"code": pd.Categorical([3, 1, 3])})
    assert read_table(frame).columns[0].tolist() == [3, 1, 3]
    assert read_table(frame).columns[0].dtype == object


def test_nullable_numbers_become_floats():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")})
    np.testing.assert_array_equal(read_table(frame).columns[0], [1, np.nan, 3])


def test_numbers_stored_as_objects_become_floats():
    np.testing.assert_array_equal(
        read_table(np.array([[1, None]], dtype=object)).columns, [[1.0], [np.nan]]
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, "a", 2], "mixes numbers and text"),
        ([{}, {}, {}], "type dict"),
        (pd.to_datetime(["2020-01-01"] * 3), "type Timestamp"),
    ],
)
def test_unsupported_columns_are_named_in_the_error(column, message):
    frame = pd.DataFrame({"bad one": pd.Series(column)})
    with pytest.raises(TableError, match="'bad one'") as error:
        read_table(frame)
    assert message in str(error.value)


@pytest.mark.parametrize("function", [column_names, read_table, as_rows])
def test_duplicate_column_names_are_an_error(function):
    frame = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(TableError, match="'a' twice"):
        function(frame)


@both
def test_raw_columns_and_rows(frame):
    assert is_frame(frame)
    assert as_rows(frame) is frame
    assert column_names(frame) == list(DATA)
    assert column_values(frame, 1).tolist() == [1, 2, 3]
    assert [is_missing(v) for v in column_values(frame, 2)] == [False, True, False]
    chosen = take_rows(select_columns(frame, ["text", "whole"]), np.array([2, 0]))
    assert type(chosen) is type(frame)
    assert column_names(chosen) == ["text", "whole"]
    assert column_values(chosen, 1).tolist() == [3, 1]


@both
def test_gathered_rows_keep_container_and_types(frame):
    sources = np.array([[0, 1, 2, 0], [2, 0, 0, 1]])
    rows = gather_rows(frame, sources)
    assert type(rows) is type(frame)
    assert list(rows.dtypes) == list(frame.dtypes)
    assert [column_values(rows, j).tolist() for j in range(4)] == [
        [1.5, 3.0],
        [2, 1],
        ["b", "a"],
        [True, False],
    ]
    if hasattr(rows, "index"):
        # The index of the source rows would reveal where the hidden values come from.
        assert rows.index.tolist() == [0, 1]


def test_arrays_are_read_by_the_same_functions():
    X = [[1, 10], [2, 20]]
    assert not is_frame(X)
    assert column_names(X) is None
    assert column_values(X, 1).tolist() == [10, 20]
    assert take_rows(X, np.array([1])).tolist() == [[2, 20]]
    assert gather_rows(X, np.array([[0, 1]])).tolist() == [[1, 20]]
    with pytest.raises(TableError, match="Expected 2D array, got 1D array"):
        as_rows([1, 2])


@pytest.mark.parametrize(
    ("value", "missing"),
    [(None, True), (np.nan, True), (pd.NA, True), (pd.NaT, True), (0, False), ("", False),
     (np.ones(2), False)],
)  # fmt: skip
def test_missing_values(value, missing):
    assert is_missing(value) is missing


@pytest.mark.parametrize(
    "index", [pd.RangeIndex(2), pd.RangeIndex(5, 7), pd.Index(["u", "v"], name="id"), [7, 3]]
)
def test_index_of_pandas_is_restored_whatever_the_types(index):
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": ["x", "y"], "n": [1, 2]}, index=index)
    table = pa.Table.from_pandas(frame)
    pd.testing.assert_frame_equal(arrow_to_pandas(table), frame)
    # pandas has recorded a column of text.
    changed = arrow_to_pandas(table.set_column(0, "a", pa.array([[1], [2]])))
    assert changed.index.equals(frame.index)
    assert [list(cell) for cell in changed["a"]] == [[1], [2]]


@pytest.mark.parametrize(
    "metadata",
    ["{", "[]", "null", "1", '{"columns": []}', '{"index_columns": ["b"], "columns": [3]}',
     '{"index_columns": [{"kind": "range"}], "columns": []}',
     '{"index_columns": ["absent"], "columns": [], "column_indexes": []}'],
)  # fmt: skip
def test_metadata_that_does_not_fit_is_ignored(metadata):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": ["x", "y"], "b": [1, 2]})
    found = arrow_to_pandas(table.replace_schema_metadata({b"pandas": metadata.encode()}))
    assert found.to_dict("list") == {"a": ["x", "y"], "b": [1, 2]}
