"""Tests of stochastic selectors."""

import numpy as np

from suwr.audit.pooled import mid_ranks


def test_mid_ranks_of_distinct_values():
    codes = np.random.default_rng(0).permutation(100)[:, None]
    np.testing.assert_allclose(mid_ranks(codes), (codes + 0.5) / 100)
