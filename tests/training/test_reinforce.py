"""REINFORCE as published: the schedule and the gradient."""

from itertools import permutations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from suwr import SUWRClassifier
from suwr.data.units import Units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, SharedNetwork
from suwr.nn.step import Decision, Sample, decide, uniform
from suwr.training.config import Settings
from suwr.training.data import Rows
from suwr.training.reinforce import Schedule, _sampled_loss

N_UNITS, MAX_STEPS = 3, 2
ARCHITECTURE = Architecture(N_UNITS, N_UNITS, N_UNITS, 2, hidden_size=6, n_layers=2, n_members=1)
SETTINGS = Settings(sparsity_weight=0.1, max_steps=MAX_STEPS, reward_scale=1.0)
LOSS = CrossEntropy(2)


def test_schedule_of_a_thousand_epochs_is_the_published_one():
    for epoch in (0, 49, 50, 75, 100, 200, 649, 999):
        found = Schedule.at(epoch / 1000, SETTINGS)
        decay = 1.0 if epoch < 50 else 0.995 ** (epoch - 50)
        assert found.exploration == pytest.approx(max(0.05, decay), rel=0.01)
        assert found.stop_exploration == pytest.approx(max(0.1, decay), rel=0.01)
        assert found.sparsity_factor == pytest.approx(min(1.0, max(0.0, (epoch - 50) / 50)))


def inputs_and_rows(repeats):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, N_UNITS, generator=generator).repeat(repeats, 1)
    targets = F.one_hot(torch.tensor([0, 1]).repeat(repeats), 2).float()
    rows = Rows(values, targets, torch.tensor([0.5, 1.5]).repeat(repeats))
    units = Units(("a", "b", "c"), np.eye(N_UNITS, dtype=bool), np.ones(N_UNITS), single=True)
    return MaskedInputs.build(units, np.arange(N_UNITS), "cpu"), rows


def make_network():
    torch.manual_seed(1)
    return SharedNetwork(ARCHITECTURE)


def exact_objective(network, inputs, rows, weight, schedule):
    """Sum over all sequences of units, by their probability."""
    total = 0.0
    for sequence in permutations(range(N_UNITS), MAX_STEPS):
        mask = torch.zeros(rows.values.shape, dtype=torch.bool)
        probability, left, objective = 1.0, 1.0, 0.0
        for step in range(MAX_STEPS + 1):
            decision = decide(network.decide, inputs, inputs.reveal(rows.values, mask), mask)
            stop = decision.stop_probability if step < MAX_STEPS else 1.0
            last = (1 - schedule.stop_exploration) * left * stop
            last = last + schedule.stop_exploration / (MAX_STEPS + 1)
            left = left * (1 - stop)
            price = schedule.sparsity_factor * weight * step
            objective = objective + last * (LOSS.per_row(decision.outputs, rows.targets) + price)
            if step < MAX_STEPS:
                chosen = decision.probability[..., sequence[step]]
                other = schedule.exploration / (N_UNITS - step)
                probability = probability * ((1 - schedule.exploration) * chosen + other)
                mask = mask.clone()
                mask[..., sequence[step]] = True
        total = total + probability * objective
    return (total * rows.weight).mean()


def test_gradient_is_unbiased():
    schedule = Schedule(exploration=0.4, stop_exploration=0.3, sparsity_factor=0.5)
    weight, network = 0.2, make_network()
    inputs, rows = inputs_and_rows(1)
    exact = exact_objective(network, inputs, rows, weight, schedule)
    gradient = torch.autograd.grad(exact, list(network.parameters()))
    inputs, rows = inputs_and_rows(100_000)
    surrogate, expected = _sampled_loss(
        network, inputs, LOSS, rows, SETTINGS, weight, schedule, torch.Generator().manual_seed(0)
    )
    sampled = torch.autograd.grad(surrogate, list(network.parameters()))
    assert float(expected) == pytest.approx(float(exact.detach()), abs=0.003)
    for one, other in zip(sampled, gradient, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0.012)
    assert max(float(g.abs().max()) for g in gradient) > 0.1


def test_values_that_were_not_revealed_have_no_influence(monkeypatch):
    """All rollouts reveal the first two units; the third is poisoned."""

    def first_units(decision, units_per_step, epsilon, generator):
        units = decision.available.int().argmax(dim=-1, keepdim=True)
        return Sample(units, uniform(decision.available).amax(-1, True))

    monkeypatch.setattr(Decision, "sample", first_units)
    schedule = Schedule(exploration=0.4, stop_exploration=0.3, sparsity_factor=1.0)
    inputs, rows = inputs_and_rows(8)
    network = make_network()
    found = []
    for poison in (None, float("nan"), 1e30):
        values = rows.values.clone()
        if poison is not None:
            values[..., 2] = poison
        surrogate, expected = _sampled_loss(
            network, inputs, LOSS, Rows(values, rows.targets, rows.weight), SETTINGS,
            0.3, schedule, torch.Generator(),
        )  # fmt: skip
        found.append([*torch.autograd.grad(surrogate, list(network.parameters())), expected])
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))
    # The first unit is read.
    values = rows.values.clone()
    values[..., 0] += 1.0
    _, changed = _sampled_loss(
        network, inputs, LOSS, Rows(values, rows.targets, rows.weight), SETTINGS,
        0.3, schedule, torch.Generator(),
    )  # fmt: skip
    assert not torch.equal(changed, found[0][-1])


@pytest.mark.slow
def test_products_of_two_features_are_found():
    rng = np.random.RandomState(0)
    X = rng.randn(1500, 4)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = SUWRClassifier(
        trainer="reinforce",
        sparsity_weight=0.001,
        max_steps=2,
        training={"hidden_size": 48, "batch_size": 200},
        max_epochs=60,
        random_state=0,
        device="cpu",
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.select(X)[:, :2].mean() > 0.95
