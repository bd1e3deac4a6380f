"""Dates as year, month, day, weekday, hour and minute."""

from datetime import date, datetime
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from suwr import DateParts
from suwr.data.dates import WEEKDAYS, DateColumn, parse_date
from suwr.data.frame import arrow_to_pandas
from suwr.data.parse import INVALID
from suwr.exceptions import TableError


@pytest.mark.parametrize(
    ("cell", "order", "expected"),
    [
        ("2024-03-01", "ymd", datetime(2024, 3, 1)),
        (" 2024/3/1 ", "ymd", datetime(2024, 3, 1)),
        ("2024-03-01T10:20:30.5Z", "ymd", datetime(2024, 3, 1, 10, 20)),
        ("2024-03-01 23:20+02:00", "ymd", datetime(2024, 3, 1, 23, 20)),
        ("1.3.24", "dmy", datetime(2024, 3, 1)),
        ("01-03-2024 9:05", "dmy", datetime(2024, 3, 1, 9, 5)),
        ("3/1/99 12:30 AM", "mdy", datetime(1999, 3, 1, 0, 30)),
        ("3/1/2024 1:30pm", "mdy", datetime(2024, 3, 1, 13, 30)),
        (20240301, "ymd", datetime(2024, 3, 1)),
        (20240301.0, "ymd", datetime(2024, 3, 1)),
        (np.int64(20240301), "ymd", datetime(2024, 3, 1)),
        (np.datetime64("2024-03-01T07:08"), "dmy", datetime(2024, 3, 1, 7, 8)),
        (date(2024, 3, 1), "mdy", datetime(2024, 3, 1)),
        (pd.Timestamp("2024-03-01 07:08"), "ymd", datetime(2024, 3, 1, 7, 8)),
    ],
)
def test_dates_are_parsed(cell, order, expected):
    assert parse_date(cell, order) == expected


@pytest.mark.parametrize("cell", [None, np.nan, pd.NaT, pd.NA, "", " ", "NA", np.datetime64("NaT")])
def test_missing_dates(cell):
    assert parse_date(cell, "ymd") is None


@pytest.mark.parametrize(
    "cell",
    ["soon", "2024-02-30", "2024-13-01", "1.3.2024", "2024-03-01x", "2024-03/01", "0000-01-01",
     "2024-03-01 24:00", "٢٠٢٤-03-01", True, 5, -20240301, 20240301.5, 1e30, np.inf, b"2024-03-01",
     [2024, 3, 1], object()],
)  # fmt: skip
def test_anything_else_is_invalid(cell):
    assert parse_date(cell, "ymd") is INVALID


def test_parts_are_those_of_pandas():
    times = pd.Series(pd.date_range("2019-12-30", periods=400, freq="41h47min"))
    X = pd.DataFrame({"a": range(400), "t": times.astype(str), "b": 0.5})
    found = DateParts(["t"]).fit_transform(X)
    names = ["year", "month", "day", "weekday", "hour", "minute"]
    assert found.columns.tolist() == ["a", *(f"t {name}" for name in names), "b"]
    for name in names:
        expected = times.dt.day_of_week + 1 if name == "weekday" else getattr(times.dt, name)
        assert found[f"t {name}"].tolist() == expected.tolist()
    assert [WEEKDAYS[day] for day in found["t weekday"][:3]] == ["Monday", "Tuesday", "Thursday"]
    assert DateParts(["t"]).fit_transform(X.assign(t=times)).equals(found)


def test_parts_that_do_not_vary_are_left_out():
    X = pd.DataFrame({"d": ["2024-03-01", "2024-03-02", None]}, index=[5, 5, 7])
    dates = DateParts(["d"]).fit(X)
    assert dates.dates_ == (DateColumn("d", "ymd", ("day", "weekday")),)
    found = dates.transform(X)
    assert found.index.tolist() == [5, 5, 7]
    np.testing.assert_array_equal(found.to_numpy(), [[1, 5], [2, 6], [np.nan, np.nan]])
    # A later date has the same parts, and a part that did not vary is not read.
    assert dates.transform(X.assign(d="1999-12-31")).to_numpy().tolist() == [[31, 5]] * 3
    constant = DateParts(["d"]).fit(X.assign(d="2024-03-01"))
    assert constant.groups_ == {"d": ["d year"]}


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["2024-03-01", "2024-03-04"], "ymd"),
        (["01/03/2024", "31/03/2024"], "dmy"),
        (["03/01/2024", "03/31/2024"], "mdy"),
        (["1.3.2024", "2.3.2024"], "dmy"),
        (["01/01/2024", "02/02/2024"], "dmy"),
        ([pd.Timestamp("2024-03-04"), pd.NaT], "ymd"),
    ],
)
def test_order_is_that_of_all_cells(cells, order):
    assert DateParts(["d"]).fit(pd.DataFrame({"d": cells})).dates_[0].order == order


def test_ambiguous_orders_must_be_stated():
    X = pd.DataFrame({"d": ["01/01/2024", "03/04/2024"]})
    with pytest.raises(TableError, match=r"is ambiguous: row 1 is '03/04/2024'"):
        DateParts(["d"]).fit(X)
    for order, month in (("dmy", 4.0), ("mdy", 3.0)):
        assert DateParts(["d"], order=order).fit_transform(X)["d month"].tolist() == [1.0, month]


def test_invalid_cells_are_named_in_fit_and_marked_afterwards():
    X = pd.DataFrame({"d": ["2024-03-01", "2024-04-02", "soon"]}, index=["p", "q", "r"])
    message = r"Row 'r' of column 'd' must be a date such as 2024-12-31. Got 'soon' instead"
    with pytest.raises(TableError, match=message):
        DateParts(["d"]).fit(X)
    dates = DateParts(["d"]).fit(X[:2])
    for frame in (X, pl.from_pandas(X)):
        column = dates.transform(frame)["d month"].to_list()
        assert column == ["3.0", "4.0", "'soon' (not a date)"]


def test_frames_of_polars():
    X = pl.DataFrame({"a": [1, 2], "d": [date(2024, 3, 1), None]})
    found = DateParts(["d"]).fit_transform(X)
    assert found.columns == ["a", "d year"]
    assert found["d year"].to_list() == [2024.0, None]
    assert DateParts(["d"]).fit(X).transform(X[:0]).shape == (0, 2)


def test_state_is_plain_and_checked():
    X = pd.DataFrame({"d": ["2024-03-01", "2025-03-02"], "e": ["1.2.2024", "1.3.2024"]})
    dates = DateParts(["d", "e"]).fit(X)
    restored = DateParts.from_list(dates.to_list())
    assert restored.transform(X).equals(dates.transform(X))
    assert restored.sources(["e month", "e weekday", "x", "d year"]) == ["e", "x", "d"]
    state = dates.to_list()
    for key, value in (("order", "ydm"), ("parts", ["century"]), ("parts", [])):
        with pytest.raises(ValueError, match="The parts of the dates 'd' are invalid"):
            DateParts.from_list([{**state[0], key: value}])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"columns": ["e"]}, "'X' has no column 'e'"),
        ({"columns": "d"}, "'columns' parameter of DateParts must be a sequence of names"),
        ({"columns": ["d", "d"]}, "must be distinct names"),
        ({"columns": ["d"], "order": "ydm"}, "'order' parameter of DateParts must be"),
    ],
)
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        DateParts(**params).fit(pd.DataFrame({"d": ["2024-03-01"]}))


def test_other_tables_are_refused():
    with pytest.raises(TableError, match="requires a data frame"):
        DateParts(["d"]).fit(np.zeros((2, 1)))
    X = pd.DataFrame({"d": ["2024-03-01"], "d year": [1]})
    with pytest.raises(TableError, match="must not have a column named 'd year'"):
        DateParts(["d"]).fit(X)


@pytest.mark.parametrize("cell", [Decimal("sNaN"), np.datetime64("20000-01-01"), object(), [1]])
def test_cells_that_are_no_dates_are_invalid(cell):
    assert parse_date(cell, "ymd") is INVALID


@pytest.mark.parametrize("container", ["polars", "pyarrow", "arrow in pandas", "pandas"])
def test_dates_beyond_the_year_9999_are_not_dates(container):
    days = pa.array([19_783, None, 4_000_000], pa.date32())
    table = pa.table({"sold": days})
    X = {
        "polars": lambda: pl.from_arrow(table),
        "pyarrow": lambda: table,
        "arrow in pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas": lambda: arrow_to_pandas(table),
    }[container]()
    dates = DateParts.from_list([{"name": "sold", "order": "ymd", "parts": ["year", "month"]}])
    found = nw.from_native(dates.transform(X), eager_only=True)["sold year"].to_list()
    assert found[0] == "2024.0" or found[0] == 2024
    assert found[1] is None or np.isnan(found[1])
    assert "not a date" in found[2]


@pytest.mark.parametrize("library", [pd, pl])
def test_names_and_containers_of_the_output(library):
    X = library.DataFrame({"a": [1.0, 2.0], "sold": ["2024-03-01", "2023-04-01"], "b": [0, 1]})
    dates = DateParts(["sold"]).fit(X)
    names = ["a", "sold year", "sold month", "sold weekday", "b"]
    assert dates.get_feature_names_out().tolist() == names
    assert dates.get_feature_names_out(["sold"]).tolist() == names[1:4]
    expected = dates.transform(X)
    for kind, wanted in (("pandas", pd), ("polars", pl), ("default", library)):
        found = clone(dates).set_output(transform=kind).fit(X).transform(X)
        assert isinstance(found, wanted.DataFrame)
        assert list(found.columns) == names
        assert found["sold year"].to_list() == expected["sold year"].to_list()
    pipeline = make_pipeline(DateParts(["sold"]), "passthrough").fit(X)
    assert pipeline.get_feature_names_out().tolist() == names
