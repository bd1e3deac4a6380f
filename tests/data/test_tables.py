import numpy as np
import pandas as pd
import polars as pl
import pytest

from suwr.data.tables import column_names, read_table
from suwr.exceptions import TableError

DATA = {
    "number": [1.5, None, 3.0],
    "whole": [1, 2, 3],
    "text": ["a", None, "b"],
    "flag": [True, False, True],
}


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(DATA), pl.DataFrame(DATA)], ids=["pandas", "polars"]
)
def test_frames_read_alike(frame):
    table = read_table(frame)
    assert table.n_rows == 3
    np.testing.assert_array_equal(table.columns[0], [1.5, np.nan, 3.0])
    assert table.columns[1].dtype == np.float64
    assert table.columns[2].tolist() == ["a", None, "b"]
    assert table.columns[3].tolist() == [True, False, True]
    assert [table.value(1, c) for c in range(4)] == [None, 2, None, False]
    assert isinstance(table.value(0, 1), int)


def test_categories_stay_categories_even_when_they_are_numbers():
    frame = pd.DataFrame({"code": pd.Categorical([3, 1, 3])})
    assert read_table(frame).columns[0].tolist() == [3, 1, 3]
    assert read_table(frame).columns[0].dtype == object


def test_nullable_numbers_become_floats():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")})
    np.testing.assert_array_equal(read_table(frame).columns[0], [1, np.nan, 3])


def test_objects_that_are_numbers_are_numbers():
    np.testing.assert_array_equal(
        read_table(np.array([[1, None]], dtype=object)).columns, [[1.0], [np.nan]]
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, "a", 2], "mixes numbers and text"),
        ([{}, {}, {}], "type dict"),
        (pd.to_datetime(["2020-01-01"] * 3), "datetime64"),
    ],
)
def test_columns_that_cannot_be_read_are_named(column, message):
    frame = pd.DataFrame({"bad one": pd.Series(column)})
    with pytest.raises(TableError, match="'bad one'") as error:
        read_table(frame)
    assert message in str(error.value)


def test_double_names():
    frame = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(TableError, match="'a' twice"):
        column_names(frame)
