"""Exact verdicts agree with suwr.exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.auditing import audit
from suwr.auditing.background import BackgroundData
from suwr.auditing.proofs import product_rows
from suwr.exact import FiniteProblem, cube, five_blocks, leakage, leaky_pair, solve, toy_problem


class Lookup:
    """A selector that looks up the mask of each row."""

    def __init__(self, X, masks):
        self.masks = {tuple(x): m for x, m in zip(np.asarray(X).tolist(), masks, strict=True)}

    def select(self, X):
        return np.array([self.masks[tuple(x)] for x in np.asarray(X).tolist()])


def test_leak_of_table_1_of_the_paper():
    problem, masks = leaky_pair()
    report = audit(Lookup(problem.X, masks), problem)
    assert report.leaks
    assert report.exact
    assert report.exact_bits == pytest.approx({"features": 1.25, "label": 1.25})
    assert report.witness.support == "empirical"
    assert "exactly 1.250 bits" in report.summary()


def test_five_blocks_are_leak_free():
    problem, masks = five_blocks()
    report = audit(Lookup(problem.X, masks), problem)
    assert report.verdict == "no leak found"
    assert report.exact
    assert "conclusive" in report.summary()


def test_optimal_policies_are_leak_free():
    problem = toy_problem(6)
    assert not audit(solve(problem, 0.3), problem).leaks


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 0.9]))
def test_agrees_with_the_definitions(seed, share):
    rng = np.random.default_rng(seed)
    X = cube(3)
    problem = FiniteProblem(X, rng.integers(2, size=8))
    masks = np.repeat(rng.random((1, 3)) < 0.5, 8, axis=0)
    other = rng.random(8) < share
    masks[other] = rng.random((other.sum(), 3)) < 0.7
    report = audit(Lookup(X, masks), problem, random_state=seed)
    truth = leakage(problem, masks)
    assert report.leaks == truth.condition.leaks
    if report.leaks:
        w = report.witness
        assert (w.x == w.x_other)[w.mask].all()
        assert (w.mask != w.mask_other).any()


class Coin:
    """Reveals x0 with a probability that may depend on the hidden x1."""

    def __init__(self, leak):
        self.leak = leak

    def select(self, X, random_state=None):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < 0.5 + self.leak * X[:, 1]
        return masks

    def mask_probability(self, X, masks):
        p = 0.5 + self.leak * np.asarray(X)[:, 1]
        p = p[:, None] if masks.ndim == 3 else p
        return np.where(masks[..., 0], p, 1 - p) * ~masks[..., 1:].any(axis=-1)


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_stated_probabilities(leak):
    X = np.random.default_rng(0).integers(2, size=(300, 3))
    report = audit(Coin(leak), X, random_state=0, gaps=False)
    assert report.exact
    assert report.leaks == (leak > 0)
    if leak:
        assert abs(report.witness.probability - report.witness.probability_other) == pytest.approx(
            0.01
        )


def test_product_rows_are_all_combinations_or_none():
    background = BackgroundData(np.array([[0, 0, 5], [1, 1, 6]]), groups=[[0, 1]])
    assert len(product_rows(background)) == 4
    assert product_rows(background, max_rows=3) is None


def test_exact_verdicts_respect_the_budget_and_count_queries():
    X = np.repeat(cube(4), 4, axis=0)

    def select(X):
        return np.stack([X[:, 0] < 2, X[:, 0] > 0, X[:, 0] > 2, X[:, 0] > 2], axis=1)

    assert audit(select, X, random_state=0, gaps=False, n_probes=16).exact
    assert not audit(select, X, random_state=0, gaps=False, n_probes=15).exact

    class Stated:
        n_queries = 0

        def select(self, X, random_state=None):
            self.n_queries += len(X)
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < 0.5
            return masks

        def mask_probability(self, X, masks):
            self.n_queries += len(X)
            return np.broadcast_to(0.5 * ~masks[..., 1:].any(axis=-1), (len(X), *masks.shape[1:-1]))

    stated = Stated()
    report = audit(stated, X, random_state=0, gaps=False)
    assert report.exact
    assert report.n_queries == stated.n_queries
