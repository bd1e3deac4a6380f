"""The parts of the search: tables, redraws, pairs of real rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.audit._factorial import ranks
from suwr.audit._models import as_classes
from suwr.audit._pairs import disagreements, group_rows, n_agreeing_rows
from suwr.audit._redraw import PROPOSALS, Deck, hidden_units
from suwr.audit._search import row_weights
from suwr.audit._table import Table, encode, unit_layout
from suwr.exceptions import TableError


def small_tables():
    shape = st.tuples(st.integers(2, 12), st.integers(1, 4))
    return arrays(int, shape, elements=st.integers(0, 2))


def masks_like(codes, seed):
    return np.random.default_rng(seed).random(codes.shape) < 0.5


@given(small_tables(), st.integers(0, 9))
def test_redraws_keep_what_is_revealed(codes, seed):
    rng = np.random.default_rng(seed)
    masks = masks_like(codes, seed)
    table = Table(codes)
    deck = Deck(table.unit_codes, table.unit_of, masks, rng.integers(2, size=len(codes)))
    rows = rng.integers(len(codes), size=20)
    for redraw in PROPOSALS:
        probes = table.build(redraw(deck, rows, masks[rows], rng))
        np.testing.assert_array_equal(probes[masks[rows]], codes[rows][masks[rows]])


@given(st.integers(0, 99))
def test_groups_are_redrawn_together(seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=30)
    X = np.column_stack([rng.normal(size=30), np.eye(3)[kind]])
    table = Table(X, groups={"kind": [1, 2, 3]})
    masks = np.zeros(X.shape, dtype=bool)
    deck = Deck(table.unit_codes, table.unit_of, masks)
    rows = np.arange(30)
    for redraw in PROPOSALS:
        probes = table.build(redraw(deck, rows, masks, rng))
        np.testing.assert_array_equal(probes[:, 1:].sum(axis=1), 1)


@given(small_tables(), st.integers(0, 9))
def test_disagreements_are_found_as_by_brute_force(codes, seed):
    masks = masks_like(codes, seed)
    guilty = {
        i
        for i in range(len(codes))
        for j in range(len(codes))
        if (codes[i] == codes[j])[masks[i]].all()
        and (masks[i] != masks[j]).any()
        and not masks[i].all()
    }
    pairs = disagreements(codes, masks)
    assert set(pairs[:, 0].tolist()) == guilty
    for i, j in pairs:
        assert (codes[i] == codes[j])[masks[i]].all()
        assert (masks[i] != masks[j]).any()


@given(small_tables(), st.integers(0, 9))
def test_agreeing_rows_are_counted_as_by_brute_force(codes, seed):
    masks = masks_like(codes, seed)
    expected = sum(
        any(
            (codes[i] == codes[j])[masks[i]].all() and (codes[i] != codes[j]).any()
            for j in range(len(codes))
        )
        for i in range(len(codes))
    )
    assert n_agreeing_rows(codes, masks) == expected


@given(small_tables())
def test_equal_rows_share_a_group(codes):
    group = group_rows(codes)
    same = (codes[:, None] == codes[None]).all(axis=2)
    np.testing.assert_array_equal(group[:, None] == group[None], same)


@given(arrays(float, st.integers(1, 30), elements=st.sampled_from([0.0, 1.5, -2.0, np.nan])))
def test_codes_are_equal_just_when_values_are(values):
    codes = encode(values)
    same = (values[:, None] == values) | (np.isnan(values)[:, None] & np.isnan(values))
    np.testing.assert_array_equal(codes[:, None] == codes, same)


def test_codes_of_objects():
    values = np.array(["b", None, np.nan, pd.NA, "a", 1, "1"], dtype=object)
    codes = encode(values)
    assert codes[1] == codes[2] == codes[3]
    assert len(np.unique(codes)) == 5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_stay_frames(kind):
    columns = {"a": [1.5, None, 3.0], "b": ["x", "y", None], "c": [True, False, True]}
    frame = pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)
    if kind == "pandas":
        frame["d"] = pd.Categorical(["u", "v", "u"])
    table = Table(frame)
    sources = table.itself(np.array([2, 0]))
    sources[0, 0] = 0
    built = table.build(sources)
    assert type(built) is type(frame)
    assert list(built.columns) == list(frame.columns)
    assert built["a"].to_list() == [1.5, 1.5] if kind == "polars" else [*built["a"]] == [1.5, 1.5]
    if kind == "pandas":
        assert (built.dtypes == frame.dtypes).all()
    else:
        assert built.schema == frame.schema


def test_units():
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


def test_group_codes_stand_for_joint_values():
    table = Table(np.array([[0, 1], [1, 0], [0, 1]]), groups=[[0, 1]])
    codes = table.unit_codes[:, 0]
    assert codes[0] == codes[2] != codes[1]


@pytest.mark.parametrize("X", [np.zeros((1, 2)), np.zeros((3, 0)), np.zeros((2, 2, 2)), [1, 2]])
def test_bad_tables(X):
    with pytest.raises(TableError):
        Table(X)


def test_hidden_units_of_groups():
    masks = np.array([[True, True, False], [True, True, True]])
    assert hidden_units(masks, np.array([0, 0, 1]), 2).tolist() == [[False, True], [False, False]]


@given(small_tables(), st.integers(0, 9))
def test_weights_are_a_distribution(codes, seed):
    table = Table(codes)
    masks = masks_like(codes, seed)
    weights = row_weights(Deck(table.unit_codes, table.unit_of, masks))
    assert abs(weights.sum() - 1) < 1e-9
    assert (weights >= 0).all()


def test_weights_favour_hidden_and_rare():
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(200, 4)))
    masks = np.ones((200, 4), dtype=bool)
    masks[7] = False
    weights = row_weights(Deck(table.unit_codes, table.unit_of, masks))
    assert weights.argmax() == 7


@settings(max_examples=50)
@given(arrays(int, st.integers(2, 200), elements=st.integers(0, 50)))
def test_classes_are_few_and_keep_equal_values_together(values):
    classes = as_classes(values)
    assert classes.max() < 8
    for value in np.unique(values):
        assert len(np.unique(classes[values == value])) == 1


def test_ranks_ignore_the_scale():
    codes = np.random.default_rng(0).permutation(100)[:, None]
    np.testing.assert_allclose(ranks(codes), (codes + 0.5) / 100)
