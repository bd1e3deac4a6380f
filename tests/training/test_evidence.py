"""Evidence that features are informative, before a policy is trained."""

import numpy as np
import pytest
import torch

import suwr.training.actor as actor
from suwr import SUWRClassifier, SUWRRegressor
from suwr.training.data import Folds
from suwr.training.loop import run_phases
from suwr.training.predictor import Pretraining
from suwr.training.screening import interactions


@pytest.fixture
def found(monkeypatch):
    """The results of all tests during a fit."""
    results, test = [], actor.informative

    def recorded(*args):
        results.append(test(*args))
        return results[-1]

    monkeypatch.setattr(actor, "informative", recorded)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SUWRClassifier, SUWRRegressor])
def test_noise_is_not_informative(found, kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.integers(0, 2, 100)
    model = kind(max_epochs=100, teacher=None, random_state=0).fit(X, y)
    assert not found[0]
    assert model.select(X).sum() == 0
    # The policy, which stops in the empty state, draws no unit either.
    assert model.select(X, policy="sampled", random_state=0).sum() == 0
    nothing = np.zeros(X.shape, dtype=bool)
    np.testing.assert_allclose(model.mask_probability(X, nothing, policy="sampled"), 1, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["one feature", "a product"])
def test_effects_are_evidence(found, signal):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 4))
    value = X[:, 0] if signal == "one feature" else X[:, 0] * X[:, 1]
    SUWRClassifier(max_epochs=30, training={"hidden_size": 32}, teacher=None, random_state=0).fit(
        X, value > 0
    )
    assert found[0]


@pytest.mark.slow
def test_a_strong_effect_is_evidence_although_predictors_memorise_few_rows(found):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 20))
    y = rng.random(120) < 1 / (1 + np.exp(-2 * X[:, 0]))
    SUWRClassifier(max_epochs=100, teacher=None, random_state=0).fit(X, y)
    assert found[0]


@pytest.mark.slow
def test_outliers_do_not_hide_an_effect(found):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    SUWRRegressor(teacher=None, random_state=0).fit(X, np.exp(3 * X[:, 0]))
    assert found[0]


def test_a_brief_training_is_no_evidence_of_noise(found):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 6)), rng.integers(0, 2, 100)
    SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, teacher=None, random_state=0).fit(
        X, y
    )
    assert found[0]


def test_interactions_find_the_product_of_two_columns():
    rng = np.random.RandomState(0)
    X = rng.randn(1_500, 5)
    y = (X[:, 1] * X[:, 3] > 0).astype(int)
    clf = SUWRClassifier(
        max_epochs=20, training={"hidden_size": 32, "n_layers": 2}, teacher=None, random_state=0
    )
    data = clf._prepare(X, y, None)
    generator = torch.Generator().manual_seed(0)
    plan = clf._plan(data, generator, X)
    torch.manual_seed(0)
    network = plan.trainer.build(plan.architecture, plan.task.settings)
    folds = Folds(data.rows, generator, plan.task.settings.n_folds)
    pretraining = Pretraining(network, plan.task, folds)
    run_phases([lambda: pretraining], generator, lambda epoch: None)
    found = interactions(network, data.inputs, data.loss, folds, 0.5)
    assert divmod(int(found.argmax()), 5) in [(1, 3), (3, 1)]
    assert torch.equal(found, found.T)
