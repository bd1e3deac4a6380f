"""Interventional sampling of hidden units and pairs of observed rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.auditing.background import (
    PROPOSAL_SCHEMES,
    BackgroundData,
    RowSampler,
    disagreements,
    group_rows,
    in_units,
    observed_partners,
)


def code_arrays():
    shape = st.tuples(st.integers(2, 12), st.integers(1, 4))
    return arrays(int, shape, elements=st.integers(0, 2))


def random_masks(codes, seed):
    return np.random.default_rng(seed).random(codes.shape) < 0.5


@given(code_arrays(), st.integers(0, 9))
def test_all_schemes_keep_the_revealed_values(codes, seed):
    rng = np.random.default_rng(seed)
    masks = random_masks(codes, seed)
    background = BackgroundData(codes)
    sampler = RowSampler(background, masks, rng, rng.integers(2, size=len(codes)))
    rows = rng.integers(len(codes), size=20)
    for scheme in PROPOSAL_SCHEMES:
        probes = background.build(scheme(sampler, rows, masks[rows]))
        np.testing.assert_array_equal(probes[masks[rows]], codes[rows][masks[rows]])


@given(st.integers(0, 99))
def test_groups_are_resampled_together(seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=30)
    X = np.column_stack([rng.normal(size=30), np.eye(3)[kind]])
    background = BackgroundData(X, groups={"kind": [1, 2, 3]})
    masks = np.zeros(X.shape, dtype=bool)
    sampler = RowSampler(background, masks, rng)
    rows = np.arange(30)
    for scheme in PROPOSAL_SCHEMES:
        probes = background.build(scheme(sampler, rows, masks))
        np.testing.assert_array_equal(probes[:, 1:].sum(axis=1), 1)


@given(code_arrays(), st.integers(0, 9))
def test_disagreements_match_brute_force(codes, seed):
    masks = random_masks(codes, seed)
    expected = {
        i
        for i in range(len(codes))
        for j in range(len(codes))
        if (codes[i] == codes[j])[masks[i]].all()
        and (masks[i] != masks[j]).any()
        and not masks[i].all()
    }
    pairs = disagreements(codes, masks)
    assert set(pairs[:, 0].tolist()) == expected
    for i, j in pairs:
        assert (codes[i] == codes[j])[masks[i]].all()
        assert (masks[i] != masks[j]).any()


@given(code_arrays(), st.integers(0, 9))
def test_observed_partners_match_brute_force(codes, seed):
    masks = random_masks(codes, seed)
    rows = np.arange(len(codes))
    expected = [
        i
        for i in rows
        if any((codes[i] == x)[masks[i]].all() and (codes[i] != x).any() for x in codes)
    ]
    positions, partners = observed_partners(codes, rows, masks, np.random.default_rng(seed))
    assert positions.tolist() == expected
    for i, j in zip(positions, partners, strict=True):
        assert (codes[i] == codes[j])[masks[i]].all()
        assert (codes[i] != codes[j]).any()


@given(code_arrays())
def test_rows_share_a_group_if_and_only_if_they_are_equal(codes):
    group = group_rows(codes)
    same = (codes[:, None] == codes[None]).all(axis=2)
    np.testing.assert_array_equal(group[:, None] == group[None], same)


def test_units_of_which_a_column_is_hidden():
    masks = np.array([[True, True, False], [True, True, True]])
    assert in_units(~masks, np.array([0, 0, 1]), 2).tolist() == [[False, True], [False, False]]
