"""Leak-free policies that are SUWR policies, and certificates for those that are not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.exact import (
    FiniteProblem,
    LeakCertificate,
    PolicyTable,
    RayCertificate,
    cube,
    five_blocks,
    leakage,
    leaky_pair,
    one_hot_rows,
    represent,
    solve,
)
from suwr.exact.policy import Decision, SUWRPolicy, all_masks

SLOW = settings(max_examples=30)


@pytest.mark.parametrize("units", [1, 2, None])
def test_the_counterexample(units):
    problem, masks = five_blocks()
    assert not leakage(problem, masks).leaks
    answer = represent(problem, masks, units_per_step=units)
    assert answer.policy is None
    assert answer.verify()
    certificate = answer.certificate
    assert isinstance(certificate, RayCertificate)
    assert (certificate.reward, certificate.bound) == (5, 4)
    assert certificate.verify()
    assert "policy earns 5, a SUWR policy at most 4" in certificate.text()


def test_an_invalid_certificate_is_rejected():
    certificate = represent(*five_blocks()).certificate
    root = (None, None, None)
    for change in ({root: Fraction(3)}, {root: Fraction(5)}, {(0, None, None): Fraction(5)}):
        forged = replace(certificate, weights={**certificate.weights, **change})
        assert not forged.verify()
    missing = {s: w for s, w in certificate.weights.items() if s != (0, 0, 1)}
    assert not replace(certificate, weights=missing).verify()


@pytest.mark.parametrize("units", [1, None])
def test_paper_example_without_full_support(units):
    answer = represent(*one_hot_rows(), units_per_step=units)
    assert answer.policy is None
    assert answer.certificate.verify()


@pytest.mark.parametrize("units", [1, None])
def test_a_mixture_with_the_counterexample_is_not_a_suwr_policy(units):
    # Counting the occupied states proves nothing here; the linear program must find a dual ray.
    problem, masks = five_blocks()
    blocks = PolicyTable.deterministic(problem, masks)
    columns = all_masks(3)
    table = np.zeros((8, 8))
    for k, mask in enumerate(columns):
        hit = np.flatnonzero((blocks.masks == mask).all(axis=1))
        if len(hit):
            table[:, k] = 0.9 * blocks.probabilities[:, hit[0]]
    table[:, 7] += 0.1
    answer = represent(problem, (columns, table), units_per_step=units)
    assert answer.policy is None
    assert answer.certificate.verify()


def test_a_leaky_policy_is_not_a_suwr_policy():
    answer = represent(*leaky_pair())
    assert answer.policy is None
    assert isinstance(answer.certificate, LeakCertificate)
    assert answer.verify()
    wrong = replace(answer.certificate.witness, x=answer.certificate.witness.x_other)
    assert not replace(answer.certificate, witness=wrong).verify()


@st.composite
def suwr_policies(draw):
    """A random SUWR policy on three features."""
    problem = FiniteProblem(cube(3), range(8))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    decisions = {}
    for state in range(problem.states.n_states):
        mask = int(problem.states.masks_of(np.array([state]))[0])
        hidden = [j for j in range(3) if not mask >> j & 1]
        if hidden:
            stop = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
            weights = rng.dirichlet(np.ones(len(hidden)))
            decisions[state] = Decision(
                stop, {(j,): float(w) for j, w in zip(hidden, weights, strict=True)}
            )
    return SUWRPolicy(problem, decisions)


@SLOW
@given(suwr_policies(), st.sampled_from([1, None]))
def test_every_suwr_policy_is_represented(policy, units):
    problem = policy.problem
    assert not leakage(problem, policy, tolerance=1e-8).leaks
    answer = represent(problem, policy, units_per_step=units)
    assert answer.policy is not None
    assert answer.certificate is None
    assert answer.verify()
    masks = all_masks(3)[None]
    np.testing.assert_allclose(
        answer.policy.mask_probability(problem.X, masks),
        policy.mask_probability(problem.X, masks),
        atol=1e-6,
    )


@SLOW
@given(st.integers(0, 10_000))
def test_results_agree_with_the_objectives(seed):
    """A policy that is better than the best SUWR policy is not a SUWR policy."""
    rng = np.random.default_rng(seed)
    problem = FiniteProblem(cube(3), rng.integers(0, 5, 8), loss="zero_one")
    lp, dp = solve(problem, 0.03, "lp"), solve(problem, 0.03)
    answer = represent(problem, lp)
    assert answer.verify()
    if lp.objective < dp.objective - 1e-6:
        assert answer.policy is None
    assert represent(problem, dp).policy is not None


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_every_leak_free_policy_of_two_bits_is_a_suwr_policy(seed):
    """The conjecture holds for two binary features, as the paper states."""
    rng = np.random.default_rng(seed)
    problem = FiniteProblem(cube(2), range(4))
    # A random leak-free policy: a mixture of two vertices of the polytope in random directions.
    chosen = []
    for _ in range(2):
        twin = FiniteProblem(cube(2), rng.integers(0, 3, 4), loss="zero_one")
        solution = solve(twin, float(rng.uniform(0, 0.4)), "lp")
        chosen.append(solution.mask_probability(problem.X, all_masks(2)[None]))
    share = rng.uniform()
    table = share * chosen[0] + (1 - share) * chosen[1]
    answer = represent(problem, (all_masks(2), table))
    assert answer.policy is not None
    assert answer.verify()


@pytest.mark.parametrize("noise", [1e-12, 3e-9])
def test_rounding_errors_are_not_a_certificate(noise):
    problem = FiniteProblem(cube(3), range(8))
    tree = PolicyTable.deterministic(problem, solve(problem, 0.3).select(problem.X))
    answer = represent(problem, (tree.masks, tree.probabilities * (1 + noise)))
    assert answer.policy is not None
    assert answer.verify()


def test_decisions_of_the_policy():
    problem = FiniteProblem(cube(2), [0, 0, 0, 4])
    answer = represent(problem, solve(problem, 0.1))
    first = answer.policy.decision([0, 0], [False, False])
    assert first.stop == 0
    assert first.select == {(0,): 1.0}
    assert answer.policy.decision([0, 0], [True, False]).stop == 1
    assert answer.policy.decision([1, 0], [True, False]).stop == 0


def test_wrong_parameters():
    with pytest.raises(ValueError, match="'units_per_step' parameter of represent"):
        represent(*five_blocks(), units_per_step=0)
