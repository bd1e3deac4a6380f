"""Tests of stochastic selectors."""

import numpy as np

from suwr.audit.background import BackgroundData
from suwr.audit.pooled import mid_ranks
from suwr.audit.queries import SelectorQueries
from suwr.audit.stochastic import Pair, _select_mask
from suwr.selector import as_selector


def test_mid_ranks_of_distinct_values():
    codes = np.random.default_rng(0).permutation(100)[:, None]
    np.testing.assert_allclose(mid_ranks(codes), (codes + 0.5) / 100)


def test_ties_between_masks_do_not_depend_on_the_hash_seed():
    # Each of the 16 masks is drawn once, for one of the rows, so that all differences are equal.
    def select(X):
        copy = np.arange(len(X)) // 2 % 8
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 1:4] = copy[:, None] >> np.arange(3) & 1
        masks[:, 4] = X[:, 0] > 0
        return masks

    background = BackgroundData(np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]))
    queries = SelectorQueries(as_selector(select), background, np.random.default_rng(0))
    pair = Pair(*background.unchanged(np.array([0, 1])))
    selected = _select_mask(queries, pair, n_draws=8)
    assert selected.mask.tolist() == [False] * 5
    assert selected.sign == 1
