"""The actor: targets and losses against values computed by hand."""

import numpy as np
import pytest
import torch

from helpers.models import explore, make_policy, random_values
from suwr.data.units import Units
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, PolicyOutputs, SeparateNetwork
from suwr.nn.step import Starts
from suwr.training import actor
from suwr.training.actor import (
    ActorPhase,
    _cross_fitted_losses,
    _gains,
    _policy_loss,
)
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows
from suwr.training.loop import set_rate
from suwr.training.rollouts import SampledSteps, VisitedStates, sample_rollouts
from suwr.training.validation import Task


def one_step(row, stop, cost):
    n = len(row)
    return SampledSteps(
        row=torch.tensor(row),
        before=torch.zeros(n, 1, dtype=torch.bool),
        available=torch.ones(n, 1, dtype=torch.bool),
        stop=torch.tensor(stop),
        units=torch.zeros(n, 1, dtype=torch.long),
        exploration=torch.ones(n, 1),
        mask=torch.zeros(n, 1, dtype=torch.bool),
        cost=torch.full((n,), cost),
        spent=torch.zeros(n),
    )


# Row 0 takes two steps, row 1 takes one; losses 1.0, 0.6, 0.5 and 1.0, 0.2.
# Row 0, second step: continuing costs 0.1 + 0.5 = 0.6, gain 0; value of the state 0.6.
# Row 0, first step: continuing costs 0.1 + 0.6 = 0.7, gain 0.3.
# Row 1, first step: continuing costs 0.1 + 0.2 = 0.3, gain 0.7.
FIRST = torch.tensor([1.0, 1.0])
LATER = (torch.tensor([0.6, 0.2]), torch.tensor([0.5]))
GAINS = torch.tensor([0.3, 0.7, 0.0])


def test_gains_by_hand():
    steps = [one_step([0, 1], [0.25, 0.5], 0.1), one_step([0], [0.5], 0.1)]
    gains = _gains(steps, FIRST, LATER, 2.0)
    np.testing.assert_allclose(gains.numpy(), 2 * GAINS.numpy(), atol=1e-6)


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_policy_loss_by_hand(factor):
    """Advantages are not differentiated.

    The network outputs the gain times a factor, which is not part of the loss.
    """
    gain = torch.tensor([0.1, 0.2, 0.0], requires_grad=True)
    logits = torch.zeros(3, 2, requires_grad=True)

    class Network:
        def decide(self, seen, condition):
            # Rows 0, 1, 0 under their masks; hidden values are 0.
            assert seen.tolist() == [[0, 0, 0, 0], [3, 0, 1, 0], [0, 2, 0, 1]]
            return None, PolicyOutputs(factor * gain, logits)

    steps = SampledSteps(
        row=torch.tensor([0, 1, 0]),
        before=torch.tensor([[False, False], [True, False], [False, True]]),
        available=torch.ones(3, 2, dtype=torch.bool),
        stop=torch.zeros(3),
        units=torch.tensor([[0], [1], [0]]),
        exploration=torch.full((3, 1), 0.5),
        mask=torch.zeros(3, 2, dtype=torch.bool),
        cost=torch.zeros(3),
        spent=torch.zeros(3),
    )
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    inputs = MaskedInputs.build(
        Units(("a", "b"), np.eye(2, dtype=bool), np.ones(2)), np.arange(2), "cpu"
    )
    value = _policy_loss(
        Network(), inputs, values, torch.tensor([1.0, 2.0]), steps, GAINS,
        torch.full((2,), factor), None, epsilon=0.5, bonus=0.0,
    )  # fmt: skip
    advantage = GAINS - gain.detach()
    w = torch.tensor([1.0, 2.0, 1.0])
    terms = 0.5 * advantage.square() - advantage * np.log(0.5)
    assert value.item() == pytest.approx((w * terms).sum().item() / 3)
    value.backward()
    np.testing.assert_allclose(gain.grad.numpy(), (-w * advantage / 3).numpy(), atol=1e-6)
    # d log((1 - ε) p + ε / 2) / d logit is (1 - ε) p (1 - p) / 0.5 = 0.25 for p = 0.5.
    slope = -w * advantage / 3 * 0.25
    np.testing.assert_allclose(logits.grad[[0, 1, 2], [0, 1, 0]].numpy(), slope.numpy(), 1e-5)


@pytest.mark.parametrize("n_rows", [6, 400])
def test_small_batches_are_rolled_out_together(n_rows):
    """Every batch is one update of policy and predictors, also if rollouts are shared."""
    policy, loss = make_policy(0), CrossEntropy(2)
    network = SeparateNetwork(policy.network.architecture)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(n_rows, 6, generator=generator)
    targets = loss.targets((values[:, 0] > 0).long())
    rows = Rows(values, targets, torch.ones(n_rows))
    settings = Settings(sparsity_weight=0.01, max_steps=3, max_epochs=2, batch_size=20)
    folds = Folds(rows, generator)
    phase = ActorPhase(network, Task(policy.inputs, loss, rows, rows, settings), folds)
    calls = []
    for name in ("update_policy", "update_predictors"):
        update = getattr(phase, name)
        setattr(phase, name, lambda x, name=name, update=update: (calls.append(name), update(x)))
    before = [p.clone() for p in network.policy.parameters()]
    phase.train_epoch()
    n_batches = folds.n_batches(20)
    assert phase.batches_at_once >= n_batches
    assert calls == ["update_policy", "update_predictors"] * n_batches
    assert any(
        not torch.equal(a, b) for a, b in zip(before, network.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("n_members", "n_folds", "at_once"),
    [(2, 2, 512), (4, 2, 512), (4, 4, 512), (4, 4, 2), (8, 4, 512)],
)
def test_rows_are_evaluated_by_the_predictors_that_hold_out_their_fold(
    monkeypatch, n_members, n_folds, at_once
):
    monkeypatch.setattr(actor, "STATES_AT_ONCE", at_once)
    policy, loss = make_policy(1), CrossEntropy(2)
    architecture = Architecture(6, 6, 6, 2, 8, 2, n_members)
    policy.network = SeparateNetwork(architecture, n_folds=n_folds).eval()
    size = 8 // n_folds
    values = random_values(8).reshape(n_folds, size, 6)
    targets = loss.targets(torch.tensor([0, 1, 0, 1, 1, 1, 0, 0])).reshape(n_folds, size, 2)
    flat = values.flatten(0, 1)
    steps = explore(policy, flat, 0.0)
    visited = SampledSteps.join(steps)
    states, place = VisitedStates.of(visited, size, n_folds)
    first, later = _cross_fitted_losses(
        policy.network, policy.inputs, loss, values, targets, states, None
    )
    policy.network.eval()

    def expected(row, mask):
        outputs = policy.network.predict(policy.inputs.reveal(flat[row : row + 1], mask))
        held_out = outputs.unflatten(0, (n_folds, -1))[row // size - 1]
        prediction = loss.predict(held_out).mean(dim=0)
        found = loss.of_prediction(prediction, targets.flatten(0, 1)[row : row + 1])
        return pytest.approx(found.item(), abs=1e-5)

    for row in range(8):
        assert first[row].item() == expected(row, torch.zeros(1, 6, dtype=torch.bool))
    found = later.flatten()[place]
    assert len(found) == len(visited) > 8
    for number, row in enumerate(visited.row.tolist()):
        assert found[number].item() == expected(row, visited.mask[number : number + 1])


@pytest.mark.parametrize(("n_members", "n_folds"), [(4, 2), (4, 4), (8, 4)])
def test_targets_come_from_predictors_trained_on_the_row_and_losses_from_the_others(
    n_members, n_folds
):
    network = SeparateNetwork(Architecture(3, 3, 3, 2, 8, 1, n_members), n_folds=n_folds).eval()
    loss, seen = CrossEntropy(2), torch.randn(n_folds, 5, 6)
    own, held_out = network.in_fold(seen, loss), network.cross_fitted(seen, loss)
    for fold in range(n_folds):
        groups = loss.predict(network.predict(seen[fold])).unflatten(0, (n_folds, -1)).mean(dim=1)
        others = [group for group in range(n_folds) if (group + 1) % n_folds != fold]
        assert torch.allclose(own[fold], groups[others].mean(dim=0), atol=1e-6)
        assert torch.allclose(held_out[fold], groups[fold - 1], atol=1e-6)


def actor_phase(n_rows, max_epochs=2, **changes):
    """An actor on rows whose label is the sign of the first of six columns."""
    policy, loss = make_policy(0), CrossEntropy(2)
    network = SeparateNetwork(policy.network.architecture)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(n_rows, 6, generator=generator)
    rows = Rows(values, loss.targets((values[:, 0] > 0).long()), torch.ones(n_rows))
    settings = Settings(
        sparsity_weight=0.01, max_steps=3, max_epochs=max_epochs, batch_size=n_rows, **changes
    )
    task = Task(policy.inputs, loss, rows, rows, settings)
    return ActorPhase(network, task, Folds(rows, generator))


@pytest.mark.parametrize(("best", "last"), [(30, 75), (70, 85)])
def test_training_ends_when_the_objective_has_settled(best, last):
    """After 60 epochs of exploration at the earliest, and 15 of patience."""
    phase = actor_phase(40, max_epochs=100)
    phase.best.value, phase.best.epoch = 1.0, best
    phase.tensors["informative"] = torch.tensor(True)
    phase.epoch = last
    assert not phase.done
    phase.epoch = last + 1
    assert phase.done


def lookahead_loss(phase, mask, progress):
    """The look-ahead of all rows in the state ``mask``."""
    rows = phase.folds.rows[phase.folds.indices]
    shape = rows.weight.shape
    position = torch.arange(shape[1]).expand(shape)
    ones = torch.ones(shape, dtype=torch.bool)
    states = VisitedStates(position, mask.expand(*shape, -1), torch.zeros(shape), ones)
    weight, condition = phase.weights.draw(2 * shape[1], phase.folds.generator)
    return phase._lookahead_loss(
        rows, rows.targets, states, shape[1], Starts(), weight, condition, progress
    )


@pytest.mark.parametrize(
    ("epochs", "progress", "share"),
    [(100, 0.0, 0.01), (100, 0.25, 0.1), (100, 0.5, 1.0), (100, 0.9, 1.0), (50, 0.0, 0.1)],
)
def test_the_sparsity_weight_grows_to_its_value(monkeypatch, epochs, progress, share):
    found = []

    def record(*arguments):
        found.append(arguments[3])
        return sample_rollouts(*arguments)

    monkeypatch.setattr(actor, "sample_rollouts", record)
    phase = actor_phase(40)
    phase.epochs = epochs
    phase.targets = phase.folds.rows.targets
    phase.train_batches(phase.folds.indices.unsqueeze(0), progress)
    np.testing.assert_allclose(found[0], 0.01 * share, rtol=1e-5)


def test_lookahead_of_complete_rows_is_their_objective(monkeypatch):
    """If everything is revealed, a further unit costs λ and changes no prediction."""
    monkeypatch.setattr(actor, "FIRST_STATES", 0.0)
    phase = actor_phase(2)
    rows = phase.folds.rows[phase.folds.indices]
    everything = torch.ones(6, dtype=torch.bool)
    seen = phase.inputs.reveal(rows.values, everything.expand(2, 1, 6))
    phase.network.eval()
    prediction = phase.network.cross_fitted(seen, phase.loss)
    losses = phase.loss.of_prediction(prediction, rows.targets)
    phase.network.train()
    # Each of the two folds has one row. A quarter of the phase is half of the look-ahead.
    each = {lookahead_loss(phase, everything, 0.25).item() for _ in range(20)}
    possible = 0.5 * phase.settings.reward_scale * (losses.flatten() + 0.01)
    assert {round(x, 4) for x in each} == {round(possible.mean().item(), 4)}
    assert phase.network.predictor.training
    assert lookahead_loss(phase, everything, 0.5).item() == 0.0


def test_lookahead_chooses_the_informative_unit():
    phase = actor_phase(200)
    nothing = torch.zeros(6, dtype=torch.bool)
    rows = phase.folds.rows[phase.folds.indices]
    set_rate(phase.predictor_optimizer, 0.01)
    set_rate(phase.policy_optimizer, 0.01)
    for _ in range(60):
        phase._train_predictors(rows, slice(0, 100), None)
    before = [p.clone() for p in phase.network.predictor.parameters()]
    for _ in range(40):
        phase.update_policy(lookahead_loss(phase, nothing, 0.0))
    for old, new in zip(before, phase.network.predictor.parameters(), strict=True):
        assert torch.equal(old, new)
        assert new.requires_grad
    phase.network.eval()
    seen = phase.inputs.reveal(rows.values[0], nothing.expand(100, 6))
    _, found = phase.network.decide(seen)
    assert (found.logits.argmax(dim=-1) == 0).all()


def test_no_lookahead_through_a_predictor_without_gradients(monkeypatch):
    phase = actor_phase(20)
    monkeypatch.setattr(EnsembleMLP, "differentiable", False)
    value = lookahead_loss(phase, torch.zeros(6, dtype=torch.bool), 0.0)
    assert value.item() == 0.0
    assert not value.requires_grad
