import dataclasses
import inspect
from functools import partial

import pytest
import torch

from helpers.models import UNITS, make_policy, random_values
from suwr.nn import step
from suwr.nn.step import Decision, Sample, best_units, decide, reveal_units


def make_decision(logits, available):
    logits, available = torch.tensor(logits), torch.tensor(available)
    zeros = torch.zeros(logits.shape[:-1])
    return Decision(zeros, logits, available, zeros)


def test_the_step_takes_no_raw_rows():
    for function in (decide, reveal_units, Decision.best, Decision.sample):
        assert not {"values", "rows", "x", "X"} & set(inspect.signature(function).parameters)
    assert "Rows" not in vars(step)


def test_decide_reads_masked_inputs_and_the_mask():
    policy, values = make_policy(0), random_values(20)
    mask = torch.rand(20, 6, generator=torch.Generator().manual_seed(0)) < 0.7
    mask[0] = True
    seen = policy.inputs.reveal(values, mask)
    decision = decide(policy.network.decide, policy.inputs, seen, mask)
    stop_logit, outputs = policy.network.decide(seen)
    assert torch.equal(decision.available, ~mask)
    assert decision.stop_probability[0] == 1
    open_rows = ~mask.all(dim=1)
    torch.testing.assert_close(
        decision.stop_probability[open_rows], torch.sigmoid(stop_logit)[open_rows]
    )
    assert torch.equal(torch.isneginf(decision.logits), mask)
    assert torch.equal(decision.raw_logits, outputs.logits)


def test_best_units_are_padded_with_minus_one():
    scores = torch.tensor([[1.0, -torch.inf, 3.0]])
    assert best_units(scores, 2).tolist() == [[2, 0]]
    assert best_units(scores, 4).tolist() == [[2, 0, -1, -1]]


def test_best_with_gumbel_noise_samples_from_the_softmax():
    n = 20_000
    decision = make_decision([[0.0, 1.0, 5.0]], [[True, True, False]]).expand(n)
    uniform = torch.rand(n, 3, generator=torch.Generator().manual_seed(0))
    units = decision.best(1, -torch.log(-torch.log(uniform)))[:, 0]
    frequency = torch.bincount(units, minlength=3) / n
    expected = torch.tensor([0.0, 1.0, -torch.inf]).softmax(dim=0)
    torch.testing.assert_close(frequency, expected, atol=0.02, rtol=0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_sample_draws_from_the_mixture(epsilon):
    n = 20_000
    decision = make_decision([[0.0, 1.0, 5.0]], [[True, True, False]]).expand(n)
    sample = decision.sample(1, epsilon, torch.Generator().manual_seed(0))
    policy = torch.tensor([0.0, 1.0]).softmax(dim=0)
    mixture = (1 - epsilon) * policy + epsilon / 2
    units = sample.units[:, 0]
    frequency = torch.bincount(units, minlength=3)[:2] / n
    torch.testing.assert_close(frequency, mixture, atol=0.02, rtol=0.0)
    torch.testing.assert_close(decision.log_prob(sample), policy.log()[units])
    torch.testing.assert_close(decision.log_prob(sample, epsilon), mixture.log()[units])


def test_log_prob_of_units_without_replacement():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    decision = make_decision(logits.tolist(), [[True] * 3])
    sample = Sample(torch.tensor([[2, 0]]), torch.tensor([[0.5, 0.25]]))
    p = logits[0].softmax(dim=0)
    drawn = [p[2], p[0] / (p[0] + p[1])]
    expected = sum(torch.log(0.8 * a + 0.2 * b) for a, b in zip(drawn, [0.5, 0.25], strict=True))
    torch.testing.assert_close(decision.log_prob(sample, 0.2)[0], expected)


def test_sample_is_without_replacement_and_only_for_active_rows():
    decision = make_decision([[0.0, 1.0, 5.0]], [[True, True, False]]).expand(50)
    active = torch.arange(50) < 40
    sample = decision.sample(3, 0.2, torch.Generator().manual_seed(0), active)
    assert sorted(set(map(tuple, sample.units[:40].tolist()))) == [(0, 1, -1), (1, 0, -1)]
    assert (sample.units[40:] == -1).all()
    assert (decision.log_prob(sample)[40:] == 0).all()


@pytest.mark.parametrize("groups", UNITS)
def test_reveal_units_adds_units_and_their_costs(groups):
    inputs = make_policy(0, UNITS[groups]).inputs
    mask = torch.zeros(3, 6, dtype=torch.bool)
    units = torch.tensor([[0, 1], [1, -1], [2, 0]])
    active = torch.tensor([True, True, False])
    weight = torch.tensor([1.0, 2.0, 3.0])
    after, cost = reveal_units(inputs, mask, units, active, weight)
    assert torch.equal(after[0], inputs.membership[0] | inputs.membership[1])
    assert torch.equal(after[1], inputs.membership[1])
    assert not after[2].any()
    assert cost.tolist() == [2.0, 2.0, 0.0]


def test_margin_is_the_distance_from_the_nearest_other_decision():
    logits = [[3.0, 1.0, 0.5, 9.0]] * 4
    available = [[True, True, True, False]] * 3 + [[False] * 4]
    decision = make_decision(logits, available)
    stop = torch.tensor([0.25, 0.75, 0.4999, 1.0])
    decision = dataclasses.replace(decision, stop_probability=stop)
    close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-6)
    # The second row stops, so that no unit is chosen; the last one has no decision.
    close(decision.margin(1), torch.tensor([0.25, 0.25, 0.0001, torch.inf]))
    close(decision.margin(1, 0.7), torch.tensor([0.45, 0.05, 0.2001, torch.inf]))
    far = dataclasses.replace(decision, stop_probability=torch.zeros(4))
    close(far.margin(1, 5.0), torch.tensor([2.0, 2.0, 2.0, torch.inf]))
    close(far.margin(2, 5.0), torch.tensor([0.5, 0.5, 0.5, torch.inf]))
    # More units than are available: no other unit could be chosen instead.
    close(far.margin(4, 5.0), torch.tensor([0.5, 0.5, 0.5, torch.inf]))
    single = make_decision([[1.0]], [[True]])
    single = dataclasses.replace(single, stop_probability=torch.tensor([0.125]))
    close(single.margin(1), torch.tensor([0.375]))


def test_alternatives_are_units_that_nearly_tied():
    logits = torch.tensor([[0.0, -0.05, -0.09, -0.2, 3.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    available = torch.tensor([[True, True, True, True, False], [True] * 5])
    decision = Decision(torch.zeros(2), logits, available, torch.zeros(2))
    found = decision.alternatives(decision.best(1))
    assert found.units.tolist() == [[1, 2, -1], [-1, -1, -1]]
    torch.testing.assert_close(found.odds[0, :2], torch.tensor([-0.05, -0.09]).exp())
    # Of several units, the least probable one might have been another.
    assert decision.alternatives(torch.tensor([[0, 1], [0, -1]])).units.tolist() == [
        [2, -1, -1], [-1, -1, -1],
    ]  # fmt: skip
    # A narrow table has fewer units than there may be alternatives.
    narrow = Decision(torch.zeros(1), torch.zeros(1, 2), torch.ones(1, 2).bool(), torch.zeros(1))
    assert narrow.alternatives(narrow.best(1)).units.tolist() == [[1, -1, -1]]
