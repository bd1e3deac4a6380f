"""The validation objective, and the best epoch by it."""

import pytest
import torch

from helpers.models import make_policy, random_values
from suwr.nn.losses import CrossEntropy
from suwr.training.config import Settings, SparsityWeights
from suwr.training.data import Rows
from suwr.training.validation import BestState, Task, validation_objective

LOSS = CrossEntropy(2)


def make_rows(n=20):
    weight = torch.linspace(0.5, 1.5, n)
    return Rows(random_values(n), LOSS.targets(torch.arange(n) % 2), weight)


@pytest.mark.parametrize("sparsity_weight", [0.1, (0.01, 0.3)], ids=["single", "range"])
def test_objective_of_a_task_is_that_of_its_validation_rows(sparsity_weight):
    kind = "separate" if sparsity_weight == 0.1 else "conditioned"
    policy, rows = make_policy(0, network=kind, max_steps=4), make_rows()
    settings = Settings(sparsity_weight=sparsity_weight, max_steps=4)
    validate = Task(policy.inputs, LOSS, rows, rows, settings).validate(policy.network)
    weight, condition = SparsityWeights.of(settings, torch.device("cpu")).spread(20)
    trace = policy.rollout(rows.values, condition=condition)
    mask = torch.as_tensor(trace.mask)
    losses = LOSS.of_prediction(policy.predict(rows.values, mask), rows.targets)
    cost = mask.sum(dim=1)
    found = validate()
    assert found.mean_cost == pytest.approx(float((rows.weight * cost).mean()), rel=1e-5)
    expected = float((rows.weight * (losses + weight * cost)).mean())
    assert found.value == pytest.approx(expected, rel=1e-5)


def test_the_best_epoch_is_kept():
    network = make_policy(0).network
    best = BestState(network)
    expected = {}
    for epoch, value in enumerate([2.0, 1.0, 3.0, 1.0, float("nan")]):
        for parameter in network.parameters():
            parameter.data.add_(1.0)
        assert best.update(value, epoch) is (epoch < 2)
        if epoch == 1:
            expected = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    other = BestState(network)
    other.restore(best.tensors())
    for state in (best, other):
        assert (state.value, state.epoch) == (1.0, 1)
        state.load()
        for name, tensor in network.state_dict().items():
            assert torch.equal(tensor, expected[name])


def test_objective_is_loss_plus_weighted_cost():
    policy, rows = make_policy(2), make_rows()
    loss_only, both = (validation_objective(policy, LOSS, rows, weight) for weight in (0.0, 2.0))
    mask = torch.as_tensor(policy.rollout(rows.values).mask)
    cost = float((rows.weight * mask.sum(dim=1)).mean())
    assert both.mean_cost == pytest.approx(cost)
    assert both.value - loss_only.value == pytest.approx(2 * cost, rel=1e-5)
