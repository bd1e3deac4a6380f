"""GDFS and DIME."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

from helpers.models import fit
from helpers.tables import one_column, switch
from suwr import baselines
from suwr.baselines.greedy import mean_step_loss, prefix_masks
from suwr.data.units import Patches, Units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.rollout import Trace
from suwr.training.data import Rows


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GDFS", "DIME"])
def test_the_control_column_is_revealed_first(method):
    X, y = switch(600)
    # With the published exploration rate, DIME needs more epochs.
    params = {
        "GDFS": {"max_steps": 2, "max_epochs": 30},
        "DIME": {"sparsity_weight": 0.1, "max_epochs": 40},
    }[method]
    model = fit(f"{method}Classifier", X, y, **params)
    order = model.policy_.rollout(model._encode(model._read(X))).order[:, :, 0]
    assert (order[:, 0] == 0).all()
    np.testing.assert_array_equal(order[:, 1], np.where(X[:, 0] > 0, 1, 2))
    assert model.select(X).sum(axis=1).mean() < 3
    assert model.score(X, y) > 0.95


@pytest.mark.slow
def test_dime_stops_by_confidence_budget_and_cost():
    X, y = switch()
    confident = fit("DIMEClassifier", X, y, stopping="confidence", confidence=0.9, max_epochs=30)
    done = confident.predict_proba(X).max(axis=1) >= 0.9
    full = confident.select(X).sum(axis=1) == 4
    assert (done | full).all()
    assert done.mean() > 0.5
    assert not full.all()

    costs = {"x0": 1.0, "x1": 2.0}
    bounded = fit(
        "DIMEClassifier", X, y, stopping="budget", max_cost=2.0, costs=costs, max_epochs=5
    )
    assert bounded.cost(X).max() <= 2.0
    assert bounded.cost(X).min() > 0

    empty = fit("DIMEClassifier", X, y, sparsity_weight=10.0, max_epochs=3)
    assert not empty.select(X).any()


def test_dime_regressor_does_not_stop_by_confidence():
    X, _, value = one_column(60)
    with pytest.raises(ValueError, match="'stopping' parameter of DIMERegressor must be"):
        fit("DIMERegressor", X, value, stopping="confidence")


@pytest.mark.parametrize("kind", ["Classifier", pytest.param("Regressor", marks=pytest.mark.slow)])
def test_one_model_predicts_at_every_budget(kind):
    X, label, value = one_column(300)
    y = label if kind == "Classifier" else value
    model = fit(f"GDFS{kind}", X, y, max_steps=3)
    steps = model.predict_steps(X)
    final = model.predict_proba(X) if kind == "Classifier" else model.predict(X)
    assert steps.shape[:2] == (300, 4)
    np.testing.assert_allclose(steps[:, -1], final, atol=1e-6)
    assert np.ptp(steps[:, 0], axis=0).max() == 0
    # The informative column is revealed first, so that one step is as good as three.
    correct = steps[:, 1].argmax(axis=1) == y if kind == "Classifier" else abs(steps[:, 1] - y) < 1
    assert correct.mean() > 0.9


@pytest.mark.slow
def test_a_row_that_stopped_keeps_its_prediction():
    X, y = switch()
    model = fit("DIMEClassifier", X, y, stopping="confidence", confidence=0.9, max_epochs=10)
    steps = model.predict_steps(X)
    assert steps.shape[:2] == (len(X), model.max_steps_ + 1)
    assert not np.isnan(steps).any()
    np.testing.assert_allclose(steps[:, -1], model.predict_proba(X), atol=1e-6)


def test_validation_averages_the_losses_of_the_steps_that_a_row_took():
    """The units of the second row cover all columns after one step."""
    first = [[0.5, 0.5], [0.8, 0.2], [0.9, 0.1]]
    second = [[0.5, 0.5], [0.6, 0.4], [np.nan, np.nan]]
    order = np.array([[[1], [0]], [[2], [-1]]])
    prediction = np.array([first, second], dtype=np.float32)
    trace = Trace(np.ones((2, 3), dtype=bool), order, np.array([3.0, 5.0]), prediction=prediction)
    rows = Rows(torch.zeros(2, 3), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.ones(2))
    policy = SimpleNamespace(rollout=lambda values, record: trace)
    data = SimpleNamespace(validation=rows, loss=CrossEntropy(2))
    objective = mean_step_loss(policy, data)
    expected = [-(np.log(0.8) + np.log(0.9)) / 2, -np.log(0.4)]
    assert float(objective.value) == pytest.approx(np.mean(expected))
    assert float(objective.mean_cost) == (3 + 5) / 2


@given(data=st.data())
def test_prefix_masks_are_unions_of_the_first_units(data):
    n_units, n_columns = 4, 5
    membership = data.draw(arrays(bool, (n_units, n_columns)))
    units = Units(tuple("abcd"), membership, np.ones(n_units))
    inputs = MaskedInputs.build(units, np.arange(n_columns), "cpu")
    order = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 3]), min_size=1, max_size=6))
    length = data.draw(st.integers(0, len(order)))
    expected = np.zeros(n_columns, dtype=bool)
    for unit in order[:length]:
        if unit >= 0:
            expected |= membership[unit]
    mask = prefix_masks(inputs, torch.tensor([order]), torch.tensor([length]))
    np.testing.assert_array_equal(mask[0].numpy(), expected)


def test_an_update_uses_a_bounded_number_of_steps_of_each_row():
    """The size of an update must not grow with the number of steps."""
    X, y, _ = one_column(64)
    sizes = set()

    class Counting(baselines.GDFSClassifier):
        def _step_loss(self, phase, rows, step, progress):
            sizes.add(step.unit.shape[1])
            assert step.before.shape == (*step.unit.shape, 5)
            revealed = step.after & ~step.before
            assert (revealed.sum(dim=-1) == 1).all()
            assert revealed.gather(-1, step.unit.unsqueeze(-1)).all()
            return super()._step_loss(phase, rows, step, progress)

    for steps in (1, 5):
        Counting(max_epochs=1, max_steps=steps, hidden_size=32, random_state=0).fit(X, y)
    assert max(sizes) == 4 * min(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GDFS", "DIME"])
def test_predictors_may_equal_those_of_suwr(method, rng):
    X, y = switch(600)
    # Columns of two values have no bins.
    X = X * rng.uniform(0.5, 1.5, X.shape)
    model = fit(f"{method}Classifier", X, y, n_predictors="auto", max_epochs=30)
    network, pieces = model.policy_.network, torch.as_tensor(model.encoder_.pieces)
    assert network.architecture.n_members == 4
    read = network.predictor.weights[0][:, : len(pieces)][:, pieces] != 0
    assert read.flatten(1).float().mean(dim=1).tolist() == [0, 1, 0, 1]
    order = model.policy_.rollout(model._encode(model._read(X))).order[:, :, 0]
    assert (order[:, 0] == 0).all()
    assert model.score(X, y) > 0.95


def test_the_number_of_predictors_is_even():
    model = baselines.GDFSClassifier(n_predictors=3)
    with pytest.raises(ValueError, match="an even number"):
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1])


@pytest.mark.parametrize("method", ["GDFS", pytest.param("DIME", marks=pytest.mark.slow)])
def test_convolutional_networks(method):
    X, y = load_digits(return_X_y=True)
    estimator = getattr(baselines, f"{method}Classifier")
    params = {"network": "conv", "hidden_size": 16, "max_steps": 2, "max_epochs": 1}
    model = estimator(groups=Patches((8, 8), 3), random_state=0, **params).fit(X[:150], y[:150])
    assert type(model.policy_.network.predictor).__name__ == "EnsembleConv"
    assert type(model.policy_.network.policy).__name__ == "EnsembleConv"
    rows = X[150:250]
    mask, found = model.select(rows), model.predict_proba(rows)
    assert 0 < mask.sum(axis=1).max() <= 18
    assert len(np.unique(found, axis=0)) > 1
    # Hidden pixels change neither the selection nor the prediction.
    poisoned = np.where(mask, rows, 16.0 - rows)
    np.testing.assert_array_equal(model.select(poisoned), mask)
    np.testing.assert_array_equal(model.predict_proba(poisoned), found)
    with pytest.raises(ValueError, match="'network' parameter must be 'mlp' unless"):
        estimator(**params).fit(X, y)
