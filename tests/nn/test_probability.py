from itertools import product

import numpy as np
import pytest
import torch

from helpers.models import UNITS, make_policy
from suwr._utils.draws import RowDraws
from suwr.exceptions import ProblemTooLargeError
from suwr.nn import rollout as probability
from suwr.nn.rollout import mask_probability

ALL = np.array(list(product([False, True], repeat=6)))


@pytest.mark.parametrize("groups", UNITS)
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("max_steps", [2, None])
def test_sums_to_one_and_agrees_with_sampling(groups, width, max_steps):
    policy = make_policy(4, UNITS[groups], max_steps=max_steps, units_per_step=width)
    row = torch.randn(1, 6, generator=torch.Generator().manual_seed(1))
    exact = mask_probability(policy, row, ALL[None])[0]
    assert exact.sum() == pytest.approx(1, abs=1e-6)
    assert (exact > 0).sum() > 3
    n = 20_000
    sampled = policy.rollout(row.expand(n, -1), draws=RowDraws.of(0, n, "rollout")).mask
    weights = 1 << np.arange(5, -1, -1)
    frequency = np.bincount(sampled @ weights, minlength=64) / n
    # Five standard errors of a binomial proportion, for each of 64 masks.
    assert (np.abs(frequency - exact) <= 5 * np.sqrt(exact * (1 - exact) / n) + 1e-4).all()


@pytest.mark.parametrize("groups", UNITS)
def test_main_corollary_holds_exactly(groups):
    """ζ(h | x) = ζ(h | x') wherever x ⊙ h = x' ⊙ h, on all of {0, 1}⁶."""
    policy = make_policy(5, UNITS[groups])
    rows = torch.from_numpy(ALL.astype(np.float32))
    table = mask_probability(policy, rows, np.broadcast_to(ALL, (64, 64, 6)))
    n_compared = 0
    for column, mask in enumerate(ALL):
        shown = [tuple(np.where(mask, x, -1)) for x in ALL]
        for key in set(shown):
            same = [i for i, s in enumerate(shown) if s == key]
            n_compared += len(same) - 1
            assert len(set(table[same, column])) == 1
    assert n_compared > 1000


def test_single_masks_and_all_masks_agree():
    policy = make_policy(6)
    rows = torch.randn(5, 6)
    table = mask_probability(policy, rows, np.broadcast_to(ALL, (5, 64, 6)))
    pairs = mask_probability(policy, rows, ALL[10:15, None, :])
    np.testing.assert_array_equal(pairs[:, 0], table[np.arange(5), np.arange(10, 15)])


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr(probability, "MAX_STATES", 32)
    policy = make_policy(0)
    with pytest.raises(ProblemTooLargeError, match=r"6 units and has 64 subsets"):
        mask_probability(policy, torch.zeros(1, 6), np.ones((1, 1, 6), dtype=bool))
    assert mask_probability(policy, torch.zeros(1, 6), np.zeros((1, 1, 6), dtype=bool)).shape == (
        1,
        1,
    )
