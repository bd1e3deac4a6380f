"""Sampled rollouts: what they reveal and pay, and the states that they visit."""

import pytest
import torch

from helpers.models import explore, make_policy, random_values
from suwr.training.rollouts import SampledSteps, VisitedStates, _guided


@pytest.mark.parametrize("width", [1, 2])
def test_exploration_reveals_and_pays(width):
    policy = make_policy(0, {"g": [1, 2]}, units_per_step=width)
    steps = explore(policy, random_values(30), 0.5, units_per_step=width)
    seen = torch.zeros(30, 6, dtype=torch.bool)
    for s in steps:
        before = seen[s.row]
        assert torch.equal(s.before, before)
        assert not (before & ~s.mask).any()
        new_units = (s.cost / 0.5).round()
        assert (new_units >= 1).all()
        assert (new_units <= width).all()
        seen[s.row] = s.mask
        chosen = s.available.gather(1, s.units.clamp_min(0))
        assert (chosen | (s.units < 0)).all()
        assert ((s.exploration > 0) & (s.exploration <= 1) | (s.units < 0)).all()
    # At the start of training, few rollouts stop, whatever the policy.
    assert len(steps[0]) >= 20


def test_rows_that_have_stopped_do_not_continue():
    steps = explore(make_policy(0), random_values(60), 0.5)
    going = set(range(60))
    for s in steps:
        assert len(set(s.row.tolist())) == len(s)
        assert set(s.row.tolist()) <= going
        going = set(s.row.tolist())
    assert len(going) < 60


def test_rollouts_stay_within_their_budgets():
    budget = (torch.arange(20) % 4).double()
    steps = explore(make_policy(0), random_values(20), 0.5, budget)
    for number, s in enumerate(steps, start=1):
        assert (s.spent == number).all()
        assert (number <= budget[s.row]).all()
    # Some use up the largest budget, which not all units fit into.
    assert len(steps) == 3


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
    visited = SampledSteps.join(explore(make_policy(0), random_values(40), 0.5))
    states, place = VisitedStates.of(visited, 20, 2)
    fold = place // states.mask.shape[1]
    assert torch.equal(fold, visited.row // 20)
    assert torch.equal(states.position.flatten()[place], visited.row % 20)
    assert torch.equal(states.mask.flatten(0, 1)[place], visited.mask)
    assert states.valid.flatten()[place].all()
    assert states.valid.sum() == len(visited)
    first = torch.rand(2, 20, 6) < 0.5 if known else None
    found = states.sample(50, 10, first, torch.Generator().manual_seed(0))
    assert found.mask.shape == (2, 50, 6)
    for fold in (0, 1):
        for place in range(50):
            position, mask = found.position[fold, place], found.mask[fold, place]
            if place < 10:
                start = torch.zeros(6, dtype=torch.bool)
                assert torch.equal(mask, start if first is None else first[fold, position])
                assert found.spent[fold, place] == 0
                assert found.valid[fold, place]
            else:
                same = (states.position[fold] == position) & (
                    states.spent[fold] == found.spent[fold, place]
                )
                assert (states.mask[fold][same] == mask).all(dim=1).any()
