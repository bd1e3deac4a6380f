"""Cells are parsed by the type of their column alone, as listed in ``parsing_cases.json``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES

from helpers.tables import OBJECTS, TEXTS
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.frame import raw_columns
from suwr.data.parse import (
    INVALID,
    MISSING_TEXTS,
    InvalidCell,
    describe_cell,
    is_missing,
    parse_cell,
    parse_column,
)
from suwr.exceptions import TableError

CASES = json.loads((Path(__file__).parent / "parsing_cases.json").read_text())
TYPES = {
    "number": ColumnCode(),
    "boolean": ColumnCode(categories=(False, True)),
    "text": ColumnCode(categories=("1", "2", "x")),
    "numeric category": ColumnCode(categories=(1, 2, 3)),
}


def expected(case):
    return INVALID if case.get("invalid") else case["result"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['type']} {c['text'][:12]!r}")
def test_case(case):
    value = parse_cell(case["text"], case["type"], case.get("categories", ()))
    assert value == expected(case)
    assert isinstance(value, bool) is isinstance(expected(case), bool)


@pytest.mark.parametrize("type", ["number", "boolean", "text"])
def test_cases_as_a_column(type):
    cases = [c for c in CASES if c["type"] == type and "categories" not in c]
    column, invalid = parse_column(np.array([c["text"] for c in cases], dtype=object), type, "a")
    for value, cell, case in zip(
        column, [None] * len(cases) if invalid is None else invalid, cases, strict=True
    ):
        assert (cell is not None) is case.get("invalid", False)
        wanted = case.get("result")
        assert is_missing(value) if wanted is None else value == wanted


def test_missing_texts_are_those_of_the_reader_of_fit():
    assert MISSING_TEXTS == STR_NA_VALUES


def test_types_of_columns():
    assert {code.type: code for code in TYPES.values()} == TYPES
    assert ColumnCode(categories=()).type == "text"


@pytest.mark.parametrize(
    ("cell", "type", "value"),
    [
        (True, "number", 1.0),
        (np.int8(3), "number", 3.0),
        (np.float32(0.5), "number", 0.5),
        (2**70, "number", 2.0**70),
        (10**400, "number", INVALID),
        (np.inf, "number", INVALID),
        (np.timedelta64(5, "ns"), "number", INVALID),
        (np.datetime64("2020-01-01", "ns"), "number", INVALID),
        (np.datetime64("NaT"), "number", None),
        (pd.NA, "number", None),
        (1.0, "boolean", True),
        (np.bool_(False), "boolean", False),
        (2, "boolean", INVALID),
        (1, "text", "1"),
        (1.0, "text", "1"),
        (1.5, "text", "1.5"),
        (b"x", "text", "x"),
        (True, "text", "True"),
        (np.inf, "text", INVALID),
        (pd.Timestamp(0), "text", INVALID),
        (2**53 + 1, "numeric category", 2**53 + 1),
        ("2", "numeric category", 2),
        ("two", "numeric category", INVALID),
    ],
)
def test_objects(cell, type, value):
    assert parse_cell(cell, type, ("1", "x")) == value


def test_text_that_was_read_as_a_number_or_boolean_matches_its_category():
    assert parse_cell(1, "text", ("01", "x")) == "01"
    assert parse_cell(1.0, "text", ("1.0", "x")) == "1.0"
    assert parse_cell(True, "text", ("TRUE", "x")) == "TRUE"
    assert parse_cell(10**5000, "text") is INVALID
    # Which one was meant cannot be known.
    assert parse_cell(1, "text", ("01", "001")) == "1"


@pytest.mark.parametrize("type", TYPES)
@given(
    cells=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=6),
    first=st.sampled_from([*OBJECTS, "1", "1.0", "2", 1, 1.0, 2, True]),
)
def test_no_cell_depends_on_its_neighbours(type, cells, first):
    code = TYPES[type]
    whole = np.empty(1 + len(cells), dtype=object)
    whole[:] = [first, *cells]
    column, invalid = parse_column(whole, type, "a", code.categories or ())
    alone, alone_invalid = parse_column(whole[:1], type, "a", code.categories or ())
    assert column.dtype == alone.dtype
    assert is_missing(column[0]) if is_missing(alone[0]) else column[0] == alone[0]
    assert (invalid is None or invalid[0] is None) is (alone_invalid is None)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_libraries_agree_about_text(type, text):
    encoder = TableEncoder(["a"], [TYPES[type]])
    kinds = [pd.DataFrame({"a": [text]}), pl.DataFrame({"a": [text]}), np.array([[text]]),
             pl.DataFrame({"a": [text]}).to_arrow(), np.array([[text]], dtype=object)]  # fmt: skip
    found = [encoder.encode(encoder.parse(raw_columns(kind))) for kind in kinds]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_large_integers_survive_missing_neighbours():
    encoder = TableEncoder(["a"], [ColumnCode(categories=(str(2**53 + 1), "x"))])
    for frame in (
        pd.DataFrame({"a": pd.array([2**53 + 1, None], dtype="Int64")}),
        pl.DataFrame({"a": [2**53 + 1, None]}),
    ):
        assert encoder.parse(raw_columns(frame)).value(0, 0) == str(2**53 + 1)


def test_only_revealed_cells_are_errors():
    encoder = TableEncoder(["a", "b"], [TYPES["number"], TYPES["boolean"]])
    cells = np.array([[1, True], ["one", "maybe"], [3, "perhaps"]], dtype=object)
    table = encoder.parse(raw_columns(cells))
    assert np.isnan(encoder.encode(table)).any(axis=1).tolist() == [False, True, True]
    mask = np.array([[True, True], [False, False], [True, False]])
    table.check_revealed(mask)
    mask[2, 1] = True
    with pytest.raises(TableError, match=r"Row 2 of column 'b' must be true or false.*'perhaps'"):
        table.check_revealed(mask)
    mask[1, 0] = True
    with pytest.raises(TableError, match=r"Row 1 of column 'a' must be a finite number.*'one'"):
        table.take(np.array([2, 1])).check_revealed(mask[[2, 1]] & [True, False])
    with pytest.raises(TableError) as caught:
        table.check_revealed(mask, quote=False)
    assert "one" not in str(caught.value)


def test_every_cell_has_a_short_description():
    for cell in OBJECTS:
        assert len(describe_cell(cell)) < 90
        assert len(str(InvalidCell(0, "a", "number", cell).error(quote=True))) < 200
