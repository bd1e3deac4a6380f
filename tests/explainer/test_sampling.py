"""Rows drawn by the explainer."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import suwr
from suwr.explainer.rows import TableRows, concatenate_rows, encoded
from suwr.training.teacher import N_NEIGHBOURS, nearest_rows


def draw_rows(X, n, rng):
    rows = TableRows(None)
    rows.fit(X, np.zeros(len(X)))
    return rows.draw(X, n, rng)


def test_neighbours_match_brute_force():
    X = np.random.default_rng(0).normal(size=(30, 2))
    # One interquartile range per column scales the distances.
    low, high = np.percentile(X, [25, 75], axis=0)
    scaled = (X - np.median(X, axis=0)) / ((high - low) / 1.349)
    scaled = scaled / np.hypot(1, scaled / 10)
    distance = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    expected = np.argsort(distance, axis=1)[:, 1 : N_NEIGHBOURS + 1]
    found = nearest_rows(encoded(X), np.random.RandomState(0))
    assert [set(f) for f in found] == [set(e) for e in expected]


def test_drawn_rows_mix_a_row_with_a_neighbour():
    # Two distant groups: no drawn row mixes them.
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.normal(0, 1, (50, 4)), rng.normal(1e3, 1, (50, 4))])
    drawn = draw_rows(X, 400, rng)
    assert drawn.shape == (400, 4)
    for column in range(4):
        assert np.isin(drawn[:, column], X[:, column]).all()
    far = drawn > 500
    assert (far.all(axis=1) | ~far.any(axis=1)).all()
    source = np.array([[np.flatnonzero(X[:, j] == row[j])[0] for j in range(4)] for row in drawn])
    n_sources = [len(set(s)) for s in source]
    assert max(n_sources) == 2
    assert np.mean(n_sources) > 1.5


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_types(frame):
    X = frame({"a": [1, 2, 3, 4], "b": ["u", "v", "u", "v"]})
    drawn = draw_rows(X, 6, np.random.RandomState(0))
    together = concatenate_rows(X, drawn)
    assert isinstance(together, frame)
    assert together.shape == (10, 2)
    assert list(together.dtypes) == list(X.dtypes)
    assert list(together["b"])[:4] == ["u", "v", "u", "v"]


def test_no_rows_are_drawn():
    X = np.arange(6.0).reshape(3, 2)
    assert draw_rows(X, 0, np.random.RandomState(0)).shape == (0, 2)


def test_groups_are_exchanged_as_a_whole():
    rng = np.random.RandomState(0)
    codes = np.eye(3)[rng.randint(3, size=60)]
    X = np.column_stack([rng.randn(60), codes, rng.randn(60)])
    rows = TableRows({"colour": [1, 2, 3]})
    rows.fit(X, np.zeros(60))
    drawn = rows.draw(X, 300, np.random.RandomState(0))
    assert (drawn[:, 1:4].sum(axis=1) == 1).all()
    # Units are exchanged: there are rows that are not background rows.
    assert len({tuple(row) for row in drawn} - {tuple(row) for row in X}) > 100
    # Without groups, the rows of a one-hot encoding would not keep their sum.
    assert not (draw_rows(X, 300, np.random.RandomState(0))[:, 1:4].sum(axis=1) == 1).all()


def test_patches_are_exchanged_as_a_whole():
    X = np.repeat(np.random.RandomState(0).randn(30, 4), 4, axis=1)
    patches = suwr.Patches((4, 4), size=(1, 4), stride=(1, 4))
    drawn = TableRows(patches).draw(X, 100, np.random.RandomState(0))
    assert (np.ptp(drawn.reshape(100, 4, 4), axis=2) == 0).all()
