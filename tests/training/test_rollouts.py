"""Sampled rollouts: what they reveal and pay, and the states that they visit."""

import numpy as np
import pytest
import torch

from helpers.models import explore, make_policy, random_values
from suwr.nn.networks import SeparateNetwork
from suwr.training.rollouts import VisitedStates, _guided


@pytest.mark.parametrize("width", [1, 2])
def test_exploration_reveals_and_pays(width):
    policy = make_policy(0, {"g": [1, 2]}, units_per_step=width)
    steps = explore(policy, random_values(30).unsqueeze(0), 0.5, units_per_step=width)
    seen = torch.zeros(30, 6, dtype=torch.bool)
    for s in steps:
        row, mask = s.row[0], s.mask[0]
        before = seen.clone()
        assert (before[row] & ~mask).sum() == 0
        new_units = (s.cost / 0.5).round()
        assert (new_units >= 1).all()
        assert (new_units <= width).all()
        seen[row] = mask
        assert torch.equal(s.before[0], before[row])
        chosen = s.available[0].gather(1, s.units[0].clamp_min(0))
        assert (chosen | (s.units[0] < 0)).all()
        assert ((s.exploration > 0) & (s.exploration <= 1) | (s.units < 0)).all()
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


@pytest.mark.parametrize("n_models", [1, 3])
def test_rollouts_stay_within_their_budgets(n_models):
    policy = make_policy(0)
    if n_models > 1:
        policy.network = SeparateNetwork(policy.network.architecture, n_models=n_models)
        policy.network.stop_temperature = torch.full((n_models, 1), 0.5)
    values = random_values(20 * n_models).reshape(n_models, 20, 6)
    budget = (torch.arange(20).expand(n_models, 20) % 4).double()
    steps = explore(policy, values, 0.5, budget)
    for number, s in enumerate(steps):
        own = budget.gather(1, s.row)
        assert (s.spent <= own)[s.active].all()
        assert (s.spent == number + 1)[s.active].all()
        assert not s.active[own <= number].any()
    # Some use up the largest budget, which not all units fit into.
    assert sum(bool(s.active.any()) for s in steps) == 3


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


@pytest.mark.parametrize("known", [True, False])
def test_states_are_sampled_within_folds_and_some_have_not_begun(known):
    policy = make_policy(0)
    steps = explore(policy, random_values(40).unsqueeze(0), 0.5)
    states = VisitedStates.of(steps, 20, 2)
    first = torch.rand(2, 20, 6) < 0.5 if known else None
    generator = torch.Generator().manual_seed(0)
    found = states.sample(50, 10, first, generator)
    assert found.mask.shape == (2, 50, 6)
    for fold in (0, 1):
        for place in range(50):
            position, mask = found.position[fold, place], found.mask[fold, place]
            if place < 10:
                start = torch.zeros(6, dtype=torch.bool)
                assert torch.equal(mask, start if first is None else first[fold, position])
                assert found.step[fold, place] == 0
                assert found.active[fold, place]
            else:
                same = (states.position[fold] == position) & (
                    states.step[fold] == found.step[fold, place]
                )
                assert (states.mask[fold][same] == mask).all(dim=1).any()
