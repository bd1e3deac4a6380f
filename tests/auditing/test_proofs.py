"""The search against deterministic selectors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.auditing.background import BackgroundData, RowSampler
from suwr.auditing.proofs import row_weights


@given(
    arrays(int, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.integers(0, 2)),
    st.integers(0, 9),
)
def test_row_weights_are_a_distribution(codes, seed):
    rng = np.random.default_rng(seed)
    masks = rng.random(codes.shape) < 0.5
    weights = row_weights(RowSampler(BackgroundData(codes), masks, rng))
    assert abs(weights.sum() - 1) < 1e-9
    assert (weights >= 0).all()


def test_row_weights_favour_hidden_units_and_rare_masks():
    rng = np.random.default_rng(0)
    background = BackgroundData(rng.normal(size=(200, 4)))
    masks = np.ones((200, 4), dtype=bool)
    masks[7] = False
    weights = row_weights(RowSampler(background, masks, rng))
    assert weights.argmax() == 7
