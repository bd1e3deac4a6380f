"""The actor: targets and losses against values computed by hand."""

import numpy as np
import pytest
import torch
from random_policies import make_policy, random_values

from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.training.actor import (
    _cross_fitted_losses,
    _explore,
    _guided,
    _policy_loss,
    _Step,
    _VisitedStates,
)
from suwr.training.config import Settings


def one_step(row, stop, cost, active=None):
    n = len(row)
    return _Step(
        row=torch.tensor([row]),
        active=torch.tensor([active or [True] * n]),
        mask=torch.zeros(1, n, 1, dtype=torch.bool),
        cost=torch.full((1, n), cost),
        stop=torch.tensor([stop]),
        gain=torch.zeros(1, n, requires_grad=True),
        log_prob=torch.zeros(1, n, requires_grad=True),
        entropy=torch.zeros(1, n),
    )


# Row 0 takes two steps, row 1 takes one; losses 1.0, 0.6, 0.5 and 1.0, 0.2.
# Row 0, second step: continuing costs 0.1 + 0.5 = 0.6, gain 0; value of the state 0.6.
# Row 0, first step: continuing costs 0.1 + 0.6 = 0.7, gain 0.3.
# Row 1, first step: continuing costs 0.1 + 0.2 = 0.3, gain 0.7.
LOSSES = torch.tensor([[[1.0, 1.0]], [[0.6, 0.2]], [[0.5, 9.0]]])
TARGETS = torch.tensor([0.3, 0.7, 0.0])


@pytest.mark.parametrize("removed", [True, False])
def test_gain_targets_by_hand(removed):
    """Removing stopped rows from the batch does not change the loss."""
    first = one_step([0, 1], [0.25, 0.5], 0.1)
    if removed:
        steps = [first, one_step([0], [0.5], 0.1)]
    else:
        steps = [first, one_step([0, 1], [0.5, 0.9], 0.1, active=[True, False])]
    ones = torch.ones(1, 2)
    value = _policy_loss(steps, LOSSES, ones, ones, bonus=0.0)
    assert value.item() == pytest.approx(0.5 * TARGETS.square().mean().item())
    value.backward()
    # Gradient of log_prob: minus the advantage. Gradient of the gain: estimate minus target.
    expected = -TARGETS / 3
    for name in ("log_prob", "gain"):
        got = torch.cat([getattr(s, name).grad[0] for s in steps])[:3]
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-6)
    if not removed:
        assert steps[1].gain.grad[0, 1] == 0


def explore(policy, values, sparsity_weight, **changes):
    settings = Settings(sparsity_weight=sparsity_weight, max_steps=policy.max_steps, **changes)
    weight = torch.full(values.shape[:2], sparsity_weight)
    generator = torch.Generator().manual_seed(0)
    n_units = policy.inputs.n_units
    interaction = torch.rand(len(values), n_units, n_units, generator=generator)
    return _explore(
        policy.network, policy.inputs, values, weight, None, settings, 0.0, generator, interaction
    )


@pytest.mark.parametrize("width", [1, 2])
def test_exploration_reveals_and_pays(width):
    policy = make_policy(0, {"g": [1, 2]}, units_per_step=width)
    steps = explore(policy, random_values(30).unsqueeze(0), 0.5, units_per_step=width)
    seen = torch.zeros(30, 6, dtype=torch.bool)
    for s in steps:
        row, mask = s.row[0], s.mask[0]
        assert (seen[row] & ~mask).sum() == 0
        new_units = (s.cost / 0.5).round()
        assert (new_units >= 1).all()
        assert (new_units <= width).all()
        seen[row] = mask
        assert torch.isfinite(s.log_prob).all()
    # At the start of training, few rollouts stop, whatever the policy.
    assert steps[0].row.shape[1] >= 20


def test_several_models_explore_together():
    """Stopped rows stay in the batch: nothing more is revealed or paid for them."""
    policy = make_policy(0)
    policy.network = SeparateNetwork(policy.network.architecture, n_models=3)
    policy.network.stop_temperature = torch.full((3, 1), 0.5)
    values = random_values(60).reshape(3, 20, 6)
    before = torch.zeros(3, 20, 6, dtype=torch.bool)
    for s in explore(policy, values, 0.5):
        assert s.row.shape == s.active.shape == (3, 20)
        assert torch.equal(s.mask.sum(-1) - before.sum(-1), s.active.long())
        np.testing.assert_allclose(s.cost.numpy(), 0.5 * s.active.numpy())
        before = s.mask
    assert not s.active.all()


@pytest.mark.parametrize("n_members", [2, 4])
def test_rows_are_evaluated_by_the_predictors_of_the_other_fold(n_members):
    policy, loss = make_policy(1), CrossEntropy(2)
    policy.network = SeparateNetwork(Architecture(6, 6, 6, 2, 8, 2, n_members)).eval()
    values = random_values(8).reshape(2, 4, 6)
    targets = loss.targets(torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0]]).flatten()).reshape(2, 4, 2)
    flat = values.flatten(0, 1)
    steps = explore(policy, flat.unsqueeze(0), 0.0)
    states = _VisitedStates.of(steps, 4)
    losses = _cross_fitted_losses(
        policy.network, policy.inputs, loss, values, targets, states, len(steps)
    )
    policy.network.eval()
    for number, s in enumerate(steps, start=1):
        for place, row in enumerate(s.row[0].tolist()):
            outputs = policy.network.predict(
                policy.inputs.reveal(flat[row : row + 1], s.mask[0, place : place + 1])
            )
            other = outputs.unflatten(0, (2, -1))[1 - row // 4]
            prediction = loss.predict(other).mean(dim=0)
            expected = loss.of_prediction(prediction, targets.flatten(0, 1)[row : row + 1])
            assert losses[number, 0, row].item() == pytest.approx(expected.item(), abs=1e-5)


def test_guided_exploration_prefers_interacting_units():
    interaction = torch.tensor([[0.0, 0.0, 3.0, 1.0]])
    available = torch.tensor([[False, True, True, True]])
    found = _guided(interaction, available)
    assert found.sum().item() == pytest.approx(1.0)
    uniform = torch.tensor([0.0, 1 / 3, 1 / 3, 1 / 3])
    expected = 0.5 * uniform + 0.5 * torch.tensor([0.0, 0.0, 0.75, 0.25])
    assert torch.allclose(found[0], expected)
    # Without an interacting unit the exploration is uniform.
    assert torch.allclose(_guided(torch.zeros(1, 4), available)[0], uniform)


def test_targets_come_from_the_own_fold_and_losses_from_the_other():
    network = SeparateNetwork(Architecture(3, 3, 3, 2, 8, 1, 4)).eval()
    loss, seen = CrossEntropy(2), torch.randn(2, 5, 6)
    own, other = network.in_fold(seen, loss), network.cross_fitted(seen, loss)
    for fold in (0, 1):
        outputs = loss.predict(network.predict(seen[fold])).unflatten(0, (2, 2)).mean(dim=1)
        assert torch.allclose(own[fold], outputs[fold], atol=1e-6)
        assert torch.allclose(other[fold], outputs[1 - fold], atol=1e-6)
