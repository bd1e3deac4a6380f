"""Draws of the sampled policy: those of a row do not depend on the other rows of the call."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.models import fit_random_policy
from helpers.tables import mixed_table

N = 40
SEEDS = st.lists(st.integers(0, 2**64 - 1), min_size=N, max_size=N, unique=True)


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed_table()
    return fit_random_policy(X, y), X.iloc[:N]


def select(model, X, random_state):
    return model.select(X, policy="sampled", random_state=random_state)


@given(seed=st.integers(0, 2**64 - 1), n=st.integers(1, N))
@settings(max_examples=20)
def test_rows_that_follow_change_nothing(fitted, seed, n):
    model, X = fitted
    np.testing.assert_array_equal(select(model, X.iloc[:n], seed), select(model, X, seed)[:n])


@given(seeds=SEEDS, data=st.data())
@settings(max_examples=20)
def test_a_row_of_its_own_seed_has_the_same_mask_in_every_batch(fitted, seeds, data):
    model, X = fitted
    seeds = np.array(seeds, dtype=np.uint64)
    whole = select(model, X, seeds)
    order = data.draw(st.lists(st.integers(0, N - 1), min_size=1, max_size=2 * N))
    np.testing.assert_array_equal(select(model, X.iloc[order], seeds[order]), whole[order])
    row = order[0]
    for alone in (int(seeds[row]), seeds[[row]]):
        np.testing.assert_array_equal(select(model, X.iloc[[row]], alone)[0], whole[row])


@given(seed=st.integers(0, 2**32 - 1), row=st.integers(0, N - 1))
@settings(max_examples=20)
def test_values_of_other_rows_change_nothing(fitted, seed, row):
    model, X = fitted
    other = X.iloc[np.random.RandomState(seed).permutation(N)].reset_index(drop=True)
    other.iloc[row] = X.iloc[row]
    np.testing.assert_array_equal(select(model, other, seed)[row], select(model, X, seed)[row])


@pytest.mark.parametrize("random_state", [5, np.arange(N), list(range(N)), pd.Series(range(N))])
def test_narratives_have_the_selected_columns(fitted, random_state):
    model, X = fitted
    explanation = model.explain(X, policy="sampled", random_state=random_state)
    shown = [[list(X).index(name) for step in e.steps for name in step.revealed]
             for e in explanation]  # fmt: skip
    masks = np.zeros(X.shape, dtype=bool)
    for row, columns in enumerate(shown):
        masks[row, columns] = True
    np.testing.assert_array_equal(masks, select(model, X, random_state))
    assert len(np.unique(masks, axis=0)) > 3


@pytest.mark.slow
def test_tables_that_are_evaluated_in_parts(fitted):
    """Rows are evaluated in chunks of 65,536, which must not be visible in the masks."""
    model, X = fitted
    n, border = 66_000, 65_536
    many = X.iloc[np.random.RandomState(0).randint(N, size=n)].reset_index(drop=True)
    seeds = np.random.RandomState(1).randint(2**63, size=n)
    whole, of_seeds = select(model, many, 7), select(model, many, seeds)
    np.testing.assert_array_equal(select(model, many.iloc[:border], 7), whole[:border])
    part = slice(border - 300, border + 300)
    np.testing.assert_array_equal(select(model, many.iloc[part], seeds[part]), of_seeds[part])
    # The rows at the border have the values of others.
    changed = many.copy()
    changed.iloc[: border - 300] = many.iloc[-(border - 300) :].to_numpy(dtype=object)
    np.testing.assert_array_equal(select(model, changed, 7)[border - 300 :], whole[border - 300 :])
    # The second chunk does not repeat the draws of the first.
    same = select(model, X.iloc[np.zeros(n, dtype=int)], 7)
    assert (same[border:] != same[: n - border]).any(axis=1).mean() > 0.2


def test_equal_rows_of_a_call_have_different_draws(fitted):
    model, X = fitted
    rows = X.iloc[np.zeros(2000, dtype=int)]
    masks = select(model, rows, 0)
    assert len(np.unique(masks, axis=0)) > 3
    same = (masks[:-1] == masks[1:]).all(axis=1).mean()
    _, counts = np.unique(masks, axis=0, return_counts=True)
    assert same == pytest.approx(((counts / 2000) ** 2).sum(), abs=0.06)
    assert len(np.unique(select(model, rows, np.zeros(2000, dtype=int)), axis=0)) == 1


def test_the_greedy_policy_draws_nothing(fitted):
    model, X = fitted
    np.testing.assert_array_equal(model.select(X, random_state=[1, 2]), model.select(X))


@pytest.mark.parametrize("method", ["select", "explain"])
@pytest.mark.parametrize("random_state", [-1, 2**64, 0.5, "0", [1, 2], np.full(N, -1)])
def test_invalid_seeds(fitted, method, random_state):
    model, X = fitted
    with pytest.raises(ValueError, match=f"'random_state' parameter of {method} must be None, an"):
        getattr(model, method)(X, policy="sampled", random_state=random_state)
