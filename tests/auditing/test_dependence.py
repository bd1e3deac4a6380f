"""Dependence that holds in all observed rows: it is found, and probes respect it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    BackgroundData,
    RowSampler,
    linear_relations,
)

N = 600
RNG = np.random.default_rng(0)
A, B, NOISE = RNG.normal(size=(3, N))
KIND = RNG.integers(4, size=N)
ONE_HOT = np.eye(4)[KIND]
CITIES = np.array(["Bonn", "Köln", "Lyon", "Nice", "Bern"])
COUNTRIES = np.array(["de", "de", "fr", "fr", "ch"])
CITY = RNG.integers(5, size=N)


def blocks_of(*columns):
    frame = pd.DataFrame(dict(enumerate(columns))).rename(columns=str)
    return BackgroundData(frame).blocks.tolist()


@pytest.mark.parametrize(
    "columns",
    [
        (A, A),
        (A, 3.0 - 2.0 * A),
        (A, np.exp(A)),
        (A, A > 0.3),
        (A.round(1), np.floor(A.round(1))),
        (CITIES[CITY], COUNTRIES[CITY]),
        (KIND, CITIES[KIND]),
    ],
)
def test_functions_of_one_column(columns):
    assert blocks_of(*columns, NOISE) == [0, 0, 1]


def test_linear_relations_of_several_columns():
    assert blocks_of(A, B, A + B, NOISE) == [0, 0, 0, 1]
    assert blocks_of(*ONE_HOT.T, NOISE) == [0, 0, 0, 0, 1]
    cents = np.round(100 * RNG.random((N, 3))) / 100
    assert blocks_of(*cents.T, cents.sum(axis=1)) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "columns",
    [
        (A, A + 0.01 * NOISE),
        (A, B, A + B + 0.01 * NOISE),
        (KIND, RNG.integers(4, size=N)),
        (np.arange(N), CITIES[CITY]),
        (A, np.ones(N), NOISE > 3),
        # A rare value that happens to occur with a single value of the other column.
        (NOISE > 2.6, KIND == 3),
    ],
)
def test_columns_that_can_vary_independently(columns):
    assert blocks_of(*columns) == list(range(len(columns)))


def test_copies_of_rows_are_no_evidence():
    X = np.repeat(np.column_stack([A, B, KIND]), 10, axis=0)
    assert BackgroundData(X).blocks.tolist() == [0, 1, 2]


def test_few_rows_are_no_evidence():
    assert BackgroundData(np.column_stack([A, A])[:15]).blocks.tolist() == [0, 1]


def test_full_support_is_taken_at_its_word():
    background = BackgroundData(np.column_stack([A, A]), full_support=True)
    assert background.dependence is None
    assert background.blocks.tolist() == [0, 1]


def test_columns_of_one_group_are_one_unit():
    X = np.column_stack([A, -A, B])
    assert BackgroundData(X, groups=[[0, 1], [2]]).blocks.tolist() == [0, 1]


def determined(X, *revealed):
    """Columns that follow from the revealed ones, in every row."""
    X = np.asarray(X)
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, list(revealed)] = True
    return BackgroundData(X).dependence.determined(np.arange(len(X)), masks)


def test_values_of_a_revealed_column_determine_others():
    found = determined(ONE_HOT[:, 1:], 0)
    # Level 1 excludes the others; another level leaves them open.
    np.testing.assert_array_equal(found[:, 1:], (KIND == 1)[:, None].repeat(2, axis=1))


def test_several_revealed_columns_determine_another():
    bits = RNG.integers(2, size=(N, 2))
    X = np.column_stack([bits, bits[:, 0] ^ bits[:, 1], A])
    assert not determined(X, 0)[:, 2].any()
    assert determined(X, 0, 1)[:, 2].all()
    assert not determined(X, 0, 1)[:, 3].any()
    sums = np.column_stack([A, B, A + B])
    assert not determined(sums, 0).any()
    assert determined(sums, 0, 1)[:, 2].all()


@pytest.mark.parametrize("n_revealed", [0, 1, 2, 3])
@pytest.mark.parametrize("scheme", PROPOSAL_SCHEMES)
def test_probes_are_possible_rows(scheme, n_revealed):
    total = KIND + CITY
    X = np.column_stack([ONE_HOT, A, np.exp(A), KIND, CITY, total, NOISE])
    background = BackgroundData(X)
    masks = RNG.random(X.shape).argsort(axis=1) < n_revealed
    sampler = RowSampler(background, masks, np.random.default_rng(1), KIND)
    probes = background.build(scheme(sampler, np.arange(N), masks))
    np.testing.assert_array_equal(probes[masks], X[masks])
    np.testing.assert_array_equal(probes[:, :4].argmax(axis=1), probes[:, 6])
    np.testing.assert_array_equal(probes[:, :4].sum(axis=1), 1)
    np.testing.assert_array_equal(probes[:, 5], np.exp(probes[:, 4]))
    np.testing.assert_array_equal(probes[:, 6] + probes[:, 7], probes[:, 8])


def test_hidden_columns_still_vary():
    X = np.column_stack([A, np.exp(A), B, NOISE])
    background = BackgroundData(X)
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 2] = True
    sampler = RowSampler(background, masks, np.random.default_rng(0))
    probes = background.build(sampler.joint(np.arange(N), masks))
    assert (probes[:, 0] != X[:, 0]).mean() > 0.9
    assert (probes[:, 3] != X[:, 3]).mean() > 0.9
    assert sampler.share_determined == 0.0


@given(st.integers(0, 10**6))
def test_independent_columns_have_no_linear_relation(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, 4)) * 10.0 ** rng.integers(-8, 9, size=4)
    assert len(linear_relations(values)) == 0
    values[:, 1] = values[:, 0] - 2.0 * values[:, 2]
    assert len(linear_relations(values)) <= 1


def test_values_that_are_not_finite_take_no_part():
    values = np.column_stack([A, A, B])
    values[3, 0] = np.nan
    assert len(linear_relations(values)) == 0
    assert len(linear_relations(np.column_stack([A * 1e300, A * 1e300, B]))) <= 1


def test_missing_values_and_nullable_numbers():
    frame = pd.DataFrame(
        {"a": A.round(1), "b": pd.array(KIND, dtype="Int64"), "c": COUNTRIES[CITY]}
    )
    frame["copy"] = frame["b"]
    frame.loc[::7, ["b", "copy"]] = pd.NA
    frame.loc[::5, "a"] = np.nan
    assert BackgroundData(frame).blocks.tolist() == [0, 1, 2, 1]
