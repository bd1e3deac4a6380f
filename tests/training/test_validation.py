"""The validation objective, and several models in one network."""

import pytest
import torch

from helpers.models import make_policy, random_values
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.training.config import Settings, SparsityWeights
from suwr.training.data import Rows
from suwr.training.rollouts import rollout_together
from suwr.training.validation import BestState, ValidationObjective, validation_objective

M = 3
LOW = torch.tensor([0.01, 0.1, 0.3])
SETTINGS = Settings(sparsity_weight=LOW, max_steps=4)
RANGE = Settings(sparsity_weight=(LOW, 10 * LOW), max_steps=4)


def make_network(n_members=2, informed=False, settings=SETTINGS):
    torch.manual_seed(0)
    architecture = Architecture(
        6, 6, 6, 2, 8, 2, n_members, conditioned=settings is RANGE, informed=informed
    )
    network = SeparateNetwork(architecture, n_models=M).eval()
    SparsityWeights.of(settings, M, torch.device("cpu")).set_temperature(network, settings, 1.0)
    return network


def inputs() -> MaskedInputs:
    return make_policy(0).inputs


@pytest.mark.parametrize("informed", [False, True])
def test_split_gives_each_model_its_own_weights(informed):
    network, seen = make_network(4, informed), torch.rand(M, 5, 12)
    gain, logits, _ = network.policy_outputs(
        seen, prediction=network.consensus(seen, CrossEntropy(2))
    )
    outputs = network.predictor(seen.repeat_interleave(4, dim=0)).unflatten(0, (M, 4))
    for number, part in enumerate(network.split()):
        own = part.policy_outputs(seen[number])
        torch.testing.assert_close(own[0], gain[number])
        torch.testing.assert_close(own[1], logits[number])
        torch.testing.assert_close(part.predict(seen[number]), outputs[number])
        assert part.stop_temperature == network.stop_temperature[number, 0]


@pytest.mark.parametrize("settings", [SETTINGS, RANGE], ids=["single", "range"])
@pytest.mark.parametrize("informed", [False, True])
def test_rollout_and_validation_agree_with_single_models(informed, settings):
    network, loss = make_network(informed=informed, settings=settings), CrossEntropy(2)
    values = random_values(60)
    rows = Rows(values, loss.targets(torch.arange(60) % 2), torch.ones(60))
    weights = SparsityWeights.of(settings, M, torch.device("cpu"))
    weight, condition = weights.spread(20)
    mask, cost = rollout_together(
        network, inputs(), loss, values.reshape(M, 20, 6), 4, condition=condition
    )
    together = ValidationObjective(network, inputs(), loss, rows, settings, weights)()
    for number, part in enumerate(network.split()):
        own = Rows(*(t.reshape(M, 20, *t.shape[1:])[number] for t in rows.tensors()))
        policy = Policy(part, inputs(), loss, 4)
        at = None if condition is None else condition[number]
        trace = policy.rollout(own.values, condition=at)
        assert torch.equal(mask[number], torch.from_numpy(trace.mask))
        assert torch.equal(cost[number], mask[number].sum(1).float())
        expected = validation_objective(policy, loss, own, weight[number], at)
        for found, value in zip(together, expected, strict=True):
            torch.testing.assert_close(found[number], value[0], rtol=1e-5, atol=1e-6)


def test_the_best_epoch_is_kept_for_each_model():
    network = make_network()
    best = BestState(network, M)
    best.update(torch.tensor([1.0, 2.0, 3.0]), 1)
    first = [part.state_dict() for part in network.split()]
    for parameter in network.parameters():
        parameter.data.add_(1.0)
    second = [part.state_dict() for part in network.split()]
    best.update(torch.tensor([0.5, 2.5, 1.0]), 2)
    best.load()
    for part, expected in zip(network.split(), (second[0], first[1], second[2]), strict=True):
        for name, tensor in part.state_dict().items():
            assert torch.equal(tensor, expected[name])
    assert best.value.tolist() == [0.5, 2.0, 1.0]


def test_objective_is_loss_plus_weighted_cost():
    policy = make_policy(2)
    loss = CrossEntropy(2)
    values = random_values(20)
    rows = Rows(values, loss.targets(torch.arange(20) % 2), torch.ones(20))
    loss_only, both = (validation_objective(policy, loss, rows, weight) for weight in (0.0, 2.0))
    cost = policy.rollout(values).mask.sum() / 20
    assert float(both.mean_cost) == pytest.approx(cost)
    assert float(both.value - loss_only.value) == pytest.approx(2 * cost, rel=1e-5)
