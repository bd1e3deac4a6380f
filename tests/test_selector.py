"""The Selector protocol and the adaptation of objects to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suwr.selector import (
    Selector,
    all_masks,
    as_masks,
    as_selector,
    sample_from_probabilities,
    seed_argument,
)

X = np.random.default_rng(0).normal(size=(50, 3))


class Greedy:
    def select(self, X, policy="greedy", random_state=None):
        if policy == "greedy":
            return X > 0
        return np.random.default_rng(random_state).random(X.shape) < 0.5

    def mask_probability(self, X, masks, policy="sampled"):
        return np.full(len(X), 0.125 if policy == "sampled" else 1.0)


class OnlyProbability:
    """Reveals only x0, with probability 0.3."""

    def mask_probability(self, X, masks):
        p = np.where(masks[..., 0], 0.3, 0.7) * ~masks[..., 1:].any(axis=-1)
        return np.broadcast_to(p, (len(X), masks.shape[1])) if masks.ndim == 3 else p


def test_protocol_requires_select():
    assert isinstance(Greedy(), Selector)
    assert not isinstance(OnlyProbability(), Selector)
    assert isinstance(as_selector(lambda X: X > 0), Selector)


def test_callable():
    np.testing.assert_array_equal(as_selector(lambda X: X > 0).select(X), X > 0)


@pytest.mark.parametrize(
    "function",
    [
        lambda X, rng: rng.random(X.shape) < 0.5,
        lambda X, random_state: np.random.default_rng(random_state).random(X.shape) < 0.5,
        lambda X, random_state=None: np.random.default_rng(random_state).random(X.shape) < 0.5,
    ],
)
def test_seeds_are_passed_to_selectors_that_accept_them(function):
    selector = as_selector(function)
    first = selector.sample(X, np.random.default_rng(1))
    np.testing.assert_array_equal(first, selector.sample(X, np.random.default_rng(1)))
    assert (first != selector.sample(X, np.random.default_rng(2))).any()


def test_a_fixed_default_seed_is_not_replaced():
    assert seed_argument(lambda X, random_state=0: X) is None


def test_policy_is_passed_on():
    greedy = as_selector(Greedy())
    sampled = as_selector(Greedy(), policy="sampled")
    np.testing.assert_array_equal(greedy.select(X), X > 0)
    assert (sampled.select(X) != (X > 0)).any()
    assert sampled.mask_probability(X, X > 0)[0] == 0.125
    assert as_selector(greedy, policy="sampled").policy == "sampled"
    assert as_selector(sampled).policy == "sampled"


def test_mask_probabilities_are_sampled():
    masks = as_selector(OnlyProbability()).sample(np.zeros((20_000, 3)), np.random.default_rng(0))
    assert not masks[:, 1:].any()
    assert abs(masks[:, 0].mean() - 0.3) < 0.02


def test_mask_probabilities_are_enumerated_for_few_columns_only():
    with pytest.raises(ValueError, match="at most 12 columns"):
        as_selector(OnlyProbability()).select(np.zeros((2, 13)))


def test_masks_over_units_become_masks_over_columns():
    groups = np.array([[True, False, False], [False, True, True]])
    selector = as_selector(lambda X: [[True, False]] * len(X), membership=groups)
    assert selector.select(X)[0].tolist() == [True, False, False]


def test_names_for_reports():
    def by_sign(X):
        return X > 0

    assert as_selector(by_sign).name == "by_sign"
    assert as_selector(Greedy()).name == "Greedy"


def test_declaration_of_leak_freeness():
    selector = Greedy()
    assert not as_selector(selector).claims_leak_free
    selector.leak_free_by_construction = True
    assert as_selector(selector).claims_leak_free


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (np.ones((2, 3), bool), "shape"),
        (np.full((50, 3), 0.5), "0 or 1"),
        (np.full((50, 3), "yes"), "0 or 1"),
        (np.ones(50, bool), "shape"),
    ],
)
def test_invalid_masks(masks, message):
    with pytest.raises(ValueError, match=message):
        as_selector(lambda X: masks).select(X)


def test_invalid_selectors():
    with pytest.raises(TypeError, match="must be an object with a select"):
        as_selector(3)


@given(arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 5))))
def test_masks_may_be_booleans_numbers_or_lists(masks):
    n, d = masks.shape
    for form in (masks, masks.astype(int), masks.astype(float), masks.tolist()):
        np.testing.assert_array_equal(as_masks(form, n, d), masks)


@given(st.integers(0, 6))
def test_all_masks_are_distinct(n_columns):
    masks = all_masks(n_columns)
    assert len({tuple(m) for m in masks.tolist()}) == 2**n_columns
    assert not masks[0].any()


def test_masks_of_probability_zero_are_never_sampled():
    probabilities = np.tile([0.0, 0.5, 0.0, 0.5], (5000, 1))
    drawn = sample_from_probabilities(probabilities, all_masks(2), np.random.default_rng(0))
    assert set(map(tuple, drawn.tolist())) == {(False, True), (True, True)}
