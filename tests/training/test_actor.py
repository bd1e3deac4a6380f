"""The parts of policy training, against numbers worked out by hand."""

import numpy as np
import pytest
import torch
from random_policies import make_policy, random_values

from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.training.actor import _explore, _judge, _policy_loss, _States, _Step
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows, by_fold
from suwr.training.validation import objective


def one_step(row, stop, price, live=None):
    n = len(row)
    return _Step(
        row=torch.tensor([row]),
        live=torch.tensor([live or [True] * n]),
        mask=torch.zeros(1, n, 1, dtype=torch.bool),
        price=torch.full((1, n), price),
        stop=torch.tensor([stop]),
        gain=torch.zeros(1, n, requires_grad=True),
        log_prob=torch.zeros(1, n, requires_grad=True),
        entropy=torch.zeros(1, n),
    )


# Row 0 takes two steps, row 1 takes one; losses 1.0, 0.6, 0.5 and 1.0, 0.2.
# Row 0, second step: going on costs 0.1 + 0.5 = 0.6, gain 0; cost from there 0.6.
# Row 0, first step: going on costs 0.1 + 0.6 = 0.7, gain 0.3.
# Row 1, first step: going on costs 0.1 + 0.2 = 0.3, gain 0.7.
LOST = torch.tensor([[[1.0, 1.0]], [[0.6, 0.2]], [[0.5, 9.0]]])
TARGETS = torch.tensor([0.3, 0.7, 0.0])


@pytest.mark.parametrize("leaving", [True, False])
def test_gain_targets_by_hand(leaving):
    """The same numbers whether rows leave when they stop or are carried along."""
    first = one_step([0, 1], [0.25, 0.5], 0.1)
    if leaving:
        steps = [first, one_step([0], [0.5], 0.1)]
    else:
        steps = [first, one_step([0, 1], [0.5, 0.9], 0.1, live=[True, False])]
    ones = torch.ones(1, 2)
    value = _policy_loss(steps, LOST, ones, ones, bonus=0.0)
    assert value.item() == pytest.approx(0.5 * TARGETS.square().mean().item())
    value.backward()
    # Policy gradient: minus the advantage; regression: prediction minus target.
    expected = -TARGETS / 3
    for name in ("log_prob", "gain"):
        got = torch.cat([getattr(s, name).grad[0] for s in steps])[:3]
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-6)
    if not leaving:
        assert steps[1].gain.grad[0, 1] == 0


def explore(policy, values, sparsity_weight, **changes):
    settings = Settings(sparsity_weight=sparsity_weight, max_steps=policy.max_steps, **changes)
    weight = torch.full(values.shape[:2], sparsity_weight)
    generator = torch.Generator().manual_seed(0)
    return _explore(policy.network, policy.inputs, values, weight, None, settings, 0.0, generator)


@pytest.mark.parametrize("width", [1, 2])
def test_exploration_only_adds_and_pays(width):
    policy = make_policy(0, {"g": [1, 2]}, units_per_step=width)
    steps = explore(policy, random_values(30).unsqueeze(0), 0.5, units_per_step=width)
    seen = torch.zeros(30, 6, dtype=torch.bool)
    for s in steps:
        row, mask = s.row[0], s.mask[0]
        assert (seen[row] & ~mask).sum() == 0
        new_units = (s.price / 0.5).round()
        assert (new_units >= 1).all()
        assert (new_units <= width).all()
        seen[row] = mask
        assert torch.isfinite(s.log_prob).all()
    # At first almost nobody stops, whatever the network says.
    assert steps[0].row.shape[1] >= 20


def test_several_models_explore_each_with_its_own_network():
    """Rows that have stopped are carried along: nothing more is revealed or paid for them."""
    policy = make_policy(0)
    policy.network = SeparateNetwork(policy.network.architecture, n_models=3)
    policy.network.stop_temperature = torch.full((3, 1), 0.5)
    values = random_values(60).reshape(3, 20, 6)
    before = torch.zeros(3, 20, 6, dtype=torch.bool)
    for s in explore(policy, values, 0.5):
        assert s.row.shape == s.live.shape == (3, 20)
        assert torch.equal(s.mask.sum(-1) - before.sum(-1), s.live.long())
        np.testing.assert_allclose(s.price.numpy(), 0.5 * s.live.numpy())
        before = s.mask
    assert not s.live.all()


@pytest.mark.parametrize("n_members", [2, 4])
def test_rows_are_judged_by_the_other_half(n_members):
    policy, loss = make_policy(1), CrossEntropy(2)
    policy.network = SeparateNetwork(Architecture(6, 6, 6, 2, 8, 2, n_members)).eval()
    values = random_values(8).reshape(2, 4, 6)
    targets = loss.targets(torch.tensor([[0, 1, 0, 1], [1, 1, 0, 0]]).flatten()).reshape(2, 4, 2)
    flat = values.flatten(0, 1)
    steps = explore(policy, flat.unsqueeze(0), 0.0)
    states = _States.of(steps, 4)
    lost = _judge(policy.network, policy.inputs, loss, values, targets, states, len(steps))
    policy.network.eval()
    for level, s in enumerate(steps, start=1):
        for place, row in enumerate(s.row[0].tolist()):
            outputs = policy.network.predict(
                policy.inputs.reveal(flat[row : row + 1], s.mask[0, place : place + 1])
            )
            other = outputs.unflatten(0, (2, -1))[1 - row // 4]
            said = loss.predict(other).mean(dim=0)
            expected = loss.of_prediction(said, targets.flatten(0, 1)[row : row + 1])
            assert lost[level, 0, row].item() == pytest.approx(expected.item(), abs=1e-5)


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
