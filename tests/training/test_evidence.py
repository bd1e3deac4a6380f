"""Evidence that features are informative, before a policy is trained."""

import numpy as np
import pytest

import suwr.training.actor as actor
from suwr import SUWRClassifier, SUWRRegressor


@pytest.fixture
def found(monkeypatch):
    """The results of all tests during a fit."""
    results, test = [], actor.informative

    def recorded(*args):
        results.append(test(*args))
        return results[-1]

    monkeypatch.setattr(actor, "informative", recorded)
    return results


@pytest.mark.parametrize("kind", [SUWRClassifier, SUWRRegressor])
def test_noise_is_not_informative(found, kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.integers(0, 2, 100)
    model = kind(max_epochs=100, random_state=0).fit(X, y)
    assert not found[0].any()
    assert model.select(X).sum() == 0
    # The policy, which stops in the empty state, draws no unit either.
    assert model.select(X, policy="sampled", random_state=0).sum() == 0
    nothing = np.zeros(X.shape, dtype=bool)
    np.testing.assert_allclose(model.mask_probability(X, nothing, policy="sampled"), 1, atol=1e-6)


@pytest.mark.parametrize("signal", ["one feature", "a product"])
def test_effects_are_evidence(found, signal):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 4))
    value = X[:, 0] if signal == "one feature" else X[:, 0] * X[:, 1]
    SUWRClassifier(max_epochs=30, hidden_size=32, random_state=0).fit(X, value > 0)
    assert bool(found[0].all())


def test_a_brief_training_is_no_evidence_of_noise(found):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.integers(0, 2, 100)
    SUWRClassifier(max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    assert bool(found[0].all())
