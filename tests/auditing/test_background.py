"""Background rows: codes, units and the containers of probes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.auditing.background import BackgroundData, encode, unit_layout
from suwr.exceptions import TableError


@given(arrays(float, st.integers(1, 30), elements=st.sampled_from([0.0, 1.5, -2.0, np.nan])))
def test_codes_are_equal_if_and_only_if_values_are(values):
    codes = encode(values)
    same = (values[:, None] == values) | (np.isnan(values)[:, None] & np.isnan(values))
    np.testing.assert_array_equal(codes[:, None] == codes, same)


def test_codes_of_mixed_objects():
    values = np.array(["b", None, np.nan, pd.NA, "a", 1, "1"], dtype=object)
    codes = encode(values)
    assert codes[1] == codes[2] == codes[3]
    assert len(np.unique(codes)) == 5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_probes_have_the_container_and_types_of_the_data(kind):
    columns = {"a": [1.5, None, 3.0], "b": ["x", "y", None], "c": [True, False, True]}
    frame = pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)
    if kind == "pandas":
        frame["d"] = pd.Categorical(["u", "v", "u"])
    background = BackgroundData(frame)
    sources = background.unchanged(np.array([2, 0]))
    sources[0, 0] = 0
    built = background.build(sources)
    assert type(built) is type(frame)
    assert list(built.columns) == list(frame.columns)
    assert built["a"].to_list() == [1.5, 1.5] if kind == "polars" else [*built["a"]] == [1.5, 1.5]
    if kind == "pandas":
        assert (built.dtypes == frame.dtypes).all()
    else:
        assert built.schema == frame.schema


def test_unit_layout():
    unit, names, membership = unit_layout(["age", "de", "fr"], [["de", "fr"]])
    assert unit.tolist() == [0, 1, 1]
    assert names == ["age", "de + fr"]
    assert membership.tolist() == [[True, False, False], [False, True, True]]
    with pytest.raises(ValueError, match="must not put a column into two groups"):
        unit_layout(["a", "b", "c"], {"left": ["a", "b"], "right": ["b", "c"]})
    with pytest.raises(ValueError, match="must name columns of X"):
        unit_layout(["a"], {"g": ["z"]})
    with pytest.raises(ValueError, match="list of lists"):
        unit_layout(["a", "b"], ["ab"])


def test_unit_codes_encode_joint_values():
    background = BackgroundData(np.array([[0, 1], [1, 0], [0, 1]]), groups=[[0, 1]])
    codes = background.unit_codes[:, 0]
    assert codes[0] == codes[2] != codes[1]


@pytest.mark.parametrize("X", [np.zeros((1, 2)), np.zeros((3, 0)), np.zeros((2, 2, 2)), [1, 2]])
def test_invalid_data_raise(X):
    with pytest.raises(TableError):
        BackgroundData(X)
