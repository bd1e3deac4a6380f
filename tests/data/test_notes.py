"""Columns that are probably not meant as they are read."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from suwr import SUWRClassifier
from suwr.data.notes import column_notes, identifier_columns
from suwr.exceptions import ColumnWarning


def test_columns_that_look_like_identifiers(rng):
    n = 40
    frame = pd.DataFrame(
        {
            "Unnamed: 0": np.arange(n),
            "shuffled": rng.permutation(n) + 1000,
            "patient_id": np.arange(n) * 7,
            "name": [f"person {i}" for i in range(n)],
            "income": np.arange(n) * 100 + 3,  # distinct integers, but no name of an identifier
            "age": rng.randint(20, 60, n),
            "weight": rng.randn(n),
            "colour": rng.choice(["red", "blue"], n),
            "day": [f"2024-01-{1 + i % 28:02d}" for i in range(n)],
        }
    )
    found = identifier_columns(frame)
    assert found == ["Unnamed: 0", "shuffled", "patient_id", "name"]
    assert identifier_columns(frame[:10]) == []
    notes = column_notes(frame, found)
    assert len(notes) == 5
    assert "'patient_id' looks like an identifier" in notes[2]
    assert "'day' contains dates such as '2024-01-01'" in notes[4]
    assert "--dates 'day'" in notes[4]


def test_times_and_texts_that_rarely_repeat():
    n = 40
    frame = pd.DataFrame(
        {
            "start": [f"{9 + i % 7}:{i:02d}" for i in range(n)],
            "address": [f"{i} High Street" if i % 4 else "Town Hall" for i in range(n)],
            "street": [f"{i // 2} High Street" for i in range(n)],
        }
    )
    times, address = column_notes(frame, [])
    assert "'start' contains times such as '9:00'" in times
    assert "'address' is text, and 30 of its 40 values occur once" in address
    assert "suwr.TextUnits" in address


def test_numbers_that_are_read_as_text():
    bad = ["1", "2.5", "abc", "<0,3", "abc"] + ["7"] * 60
    frame = pd.DataFrame({"a": bad, "b": ["1,5"] * 65, "c": ["1", "x", "y", "1", "x"] * 13})
    first, second = column_notes(frame, [])
    assert "3 of its 65 values are not numbers: row 2 is 'abc', row 3 is '<0,3'. If" in first
    assert "--missing-values 'abc,<*'" in first
    assert "such as '1,5'" in second


@pytest.mark.parametrize("library", [pd, pl])
def test_fit_gives_one_warning(library, rng):
    frame = library.DataFrame(
        {"case": [f"no. {i}" for i in range(40)], "visit": ["2024-01-05", "2024-02-06"] * 20}
    )
    model = SUWRClassifier(
        trainer="reinforce", max_epochs=1, training={"hidden_size": 8}, random_state=0
    )
    with pytest.warns(ColumnWarning, match="'case' looks like .*'visit' contains dates") as caught:
        model.fit(frame, np.arange(40) % 2)
    assert [w.category for w in caught].count(ColumnWarning) == 1
