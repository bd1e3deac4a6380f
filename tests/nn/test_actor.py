"""The parts of policy training, against numbers worked out by hand."""

import numpy as np
import pytest
import torch
from random_policies import make_policy, random_values

from suwr.nn.actor import _explore, _judge, _policy_loss, _Step, objective
from suwr.nn.losses import CrossEntropy
from suwr.nn.rows import Folds, Rows, by_fold
from suwr.nn.settings import Settings


def one_step(row, stop, gain, price):
    n = len(row)
    return _Step(
        row=torch.tensor(row),
        mask=torch.zeros(n, 1, dtype=torch.bool),
        price=torch.full((n,), price),
        stop=torch.tensor(stop),
        gain=torch.tensor(gain, requires_grad=True),
        log_prob=torch.zeros(n, requires_grad=True),
        entropy=torch.zeros(n),
    )


def test_gain_targets_by_hand():
    """Row 0 takes two steps, row 1 takes one; losses 1.0, 0.6, 0.5 and 1.0, 0.2."""
    steps = [
        one_step([0, 1], [0.25, 0.5], [0.0, 0.0], 0.1),
        one_step([0], [0.5], [0.0], 0.1),
    ]
    lost = torch.tensor([[1.0, 1.0], [0.6, 0.2], [0.5, 0.0]])
    settings = Settings(sparsity_weight=0.1, max_steps=2, reward_scale=1.0, entropy_weight=0.0)
    # Row 0, second step: going on costs 0.1 + 0.5 = 0.6, gain 0; cost from there 0.6.
    # Row 0, first step: going on costs 0.1 + 0.6 = 0.7, gain 0.3.
    # Row 1, first step: going on costs 0.1 + 0.2 = 0.3, gain 0.7.
    targets = torch.tensor([0.3, 0.7, 0.0])
    value = _policy_loss(steps, lost, torch.ones(2), settings, remaining=1.0)
    assert value.item() == pytest.approx(0.5 * targets.square().mean().item())
    value.backward()
    # Policy gradient: minus the advantage; regression: prediction minus target.
    expected = -targets / 3
    got = torch.cat([s.log_prob.grad for s in steps])
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-6)
    got = torch.cat([s.gain.grad for s in steps])
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("width", [1, 2])
def test_exploration_only_adds_and_pays(width):
    policy = make_policy(0, {"g": [1, 2]}, units_per_step=width)
    settings = Settings(sparsity_weight=0.5, max_steps=policy.max_steps, units_per_step=width)
    values = random_values(30)
    steps = _explore(
        policy.network, policy.inputs, values, settings, 0.0, torch.Generator().manual_seed(0)
    )
    seen = torch.zeros(30, 6, dtype=torch.bool)
    for s in steps:
        assert (seen[s.row] & ~s.mask).sum() == 0
        new_units = (s.price / 0.5).round()
        assert (new_units >= 1).all()
        assert (new_units <= width).all()
        seen[s.row] = s.mask
        assert torch.isfinite(s.log_prob).all()
    # At first almost nobody stops, whatever the network says.
    assert len(steps[0].row) >= 20


def test_rows_are_judged_by_the_other_half():
    policy = make_policy(1)
    loss = CrossEntropy(2)
    values = random_values(8).reshape(2, 4, 6)
    targets = loss.targets(torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0]]).flatten()).reshape(2, 4, 2)
    settings = Settings(sparsity_weight=0.0, max_steps=6)
    flat = values.flatten(0, 1)
    steps = _explore(
        policy.network, policy.inputs, flat, settings, 0.0, torch.Generator().manual_seed(0)
    )
    lost = _judge(policy.network, policy.inputs, loss, values, targets, steps)
    for level, s in enumerate(steps, start=1):
        for place, row in enumerate(s.row.tolist()):
            outputs = policy.network.predict(
                policy.inputs.reveal(flat[row : row + 1], s.mask[place : place + 1])
            )
            other = 1 - row // 4
            expected = loss.per_row(outputs[other], targets.flatten(0, 1)[row : row + 1])
            assert lost[level, row].item() == pytest.approx(expected.item(), abs=1e-5)


def test_objective_is_loss_plus_price():
    policy = make_policy(2)
    loss = CrossEntropy(2)
    values = random_values(20)
    rows = Rows(values, loss.targets(torch.arange(20) % 2), torch.ones(20))
    free, priced = (objective(policy, loss, rows, weight) for weight in (0.0, 2.0))
    assert priced - free == pytest.approx(2 * policy.rollout(values).mask.sum() / 20, rel=1e-5)


def test_by_fold_sorts_and_pads():
    index, valid = by_fold(torch.tensor([0, 5, 1, 2]), half=3)
    assert index[0].tolist() == [0, 2, 3]
    assert index[1, 0] == 1
    assert valid.tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize("n", [1, 2, 3, 25, 500])
def test_folds_are_disjoint_and_batches_cover_them(n):
    rows = Rows(torch.zeros(n, 1), torch.zeros(n, 1), torch.ones(n))
    folds = Folds(rows, torch.Generator().manual_seed(0))
    batches = list(folds.batches(40))
    assert len(batches) == folds.n_batches(40) >= 8
    seen = [torch.cat([b[k] for b in batches]).unique() for k in (0, 1)]
    if n > 1:
        assert not set(seen[0].tolist()) & set(seen[1].tolist())
        assert len(seen[0]) == len(seen[1]) == n // 2 or n == 500
