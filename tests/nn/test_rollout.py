from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.models import NETWORKS, UNITS, make_policy, random_values
from suwr._utils.draws import RowDraws
from suwr.data.units import Patches
from suwr.nn import inputs
from suwr.nn.networks import Architecture
from suwr.nn.rollout import MAX_BLOCK_WORK, Policy, block_size

POISONS = [float("nan"), 1e30, -1e30, 0.0, "other rows"]


def drawn(seed, n):
    return None if seed is None else RowDraws.of(seed, n, "rollout")


def assert_same(one, two, rows=slice(None)):
    np.testing.assert_array_equal(one.mask[rows], two.mask[rows])
    np.testing.assert_array_equal(one.order[rows], two.order[rows])
    np.testing.assert_array_equal(one.stop_probability[rows], two.stop_probability[rows])
    np.testing.assert_array_equal(one.prediction[rows], two.prediction[rows])


@given(
    seed=st.integers(0, 10**6),
    groups=st.sampled_from(sorted(UNITS)),
    poison=st.sampled_from(POISONS),
    width=st.integers(1, 2),
    sample=st.sampled_from([None, 1, 2]),
    network=st.sampled_from(sorted(NETWORKS)),
)
@settings(max_examples=80)
def test_hidden_values_are_never_read(seed, groups, poison, width, sample, network):
    policy = make_policy(seed, UNITS[groups], units_per_step=width, network=network)
    values = torch.randn(30, 6, generator=torch.Generator().manual_seed(seed))
    before = policy.rollout(values, draws=drawn(sample, 30), record=True)
    other = values[torch.randperm(30)] if poison == "other rows" else torch.tensor(poison)
    changed = torch.where(torch.from_numpy(before.mask), values, other)
    after = policy.rollout(changed, draws=drawn(sample, 30), record=True)
    assert_same(before, after)


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("sample", [None, 1])
def test_hidden_pixels_of_an_image_are_never_read(poison, sample, monkeypatch):
    # Large enough for availability to be computed from the pixels of each patch.
    policy = make_policy(1, Patches((9, 9), 3), 8, network="uncertainty", n_columns=81)
    assert policy.inputs.members is not None
    values = torch.randn(30, 81, generator=torch.Generator().manual_seed(0))
    before = policy.rollout(values, draws=drawn(sample, 30), record=True)
    assert before.mask.any()
    other = values.flip(0) if poison == "other rows" else torch.tensor(poison)
    changed = torch.where(torch.from_numpy(before.mask), values, other)
    after = policy.rollout(changed, draws=drawn(sample, 30), record=True)
    assert_same(before, after)
    monkeypatch.setattr(inputs, "SMALL_UNIT_FRACTION", 0.0)
    policy.inputs = replace(policy.inputs)
    assert policy.inputs.members is None
    assert_same(before, policy.rollout(values, draws=drawn(sample, 30), record=True))


@pytest.mark.parametrize(("network", "block"), [("uncertainty", 1024), ("conditioned images", 64)])
def test_block_size_depends_on_the_network(monkeypatch, network, block):
    made = make_policy(0, network=network)
    policy = Policy(made.network, made.inputs, made.loss, 3, condition=made.condition)
    sizes, decide = [], policy.network.decide

    def counted(seen, condition):
        sizes.append(len(seen))
        return decide(seen, condition)

    monkeypatch.setattr(policy.network, "decide", counted)
    policy.rollout(random_values(1))
    assert set(sizes) == {block}


def test_blocks_of_large_networks_are_small_on_a_cpu():
    """A single row is padded to a block, which must not take long."""
    large = Architecture(1000, 1000, 1000, 1, 256, 2)
    rows = block_size(large, torch.device("cpu"))
    assert 1 < rows < 100 < block_size(large, torch.device("cuda"))
    assert rows * large.n_weights <= MAX_BLOCK_WORK
    huge = Architecture(10**6, 10**6, 10**6, 1, 256, 2)
    assert block_size(huge, torch.device("cpu")) == 1


@given(
    seed=st.integers(0, 10**6),
    groups=st.sampled_from(sorted(UNITS)),
    network=st.sampled_from(sorted(NETWORKS)),
    width=st.integers(1, 2),
    sample=st.sampled_from([None, "one seed", "seed of each row"]),
)
@settings(max_examples=60)
def test_decisions_do_not_depend_on_the_batch(seed, groups, network, width, sample):
    policy = make_policy(seed, UNITS[groups], network=network, units_per_step=width)
    values = torch.randn(150, 6, generator=torch.Generator().manual_seed(seed))
    seeds = seed if sample == "one seed" else np.random.RandomState(seed).randint(2**32, size=150)
    draws = None if sample is None else RowDraws.of(seeds, 150, "rollout")
    whole = policy.rollout(values, draws=draws, record=True)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(seed))
    for size in (1, 7, 150):
        for start in range(0, 150, max(size, 50)):
            rows = order[start : start + size].numpy()
            here = None if draws is None else draws[rows]
            part = policy.rollout(values[rows], draws=here, record=True)
            steps = part.order.shape[1]
            np.testing.assert_array_equal(part.mask, whole.mask[rows])
            np.testing.assert_array_equal(part.order, whole.order[rows, :steps])
            states = part.prediction.shape[1]
            np.testing.assert_array_equal(part.prediction, whole.prediction[rows, :states])


def plain_loop(policy, row):
    """Algorithm 1 for a single row."""
    mask = torch.zeros(1, row.shape[1], dtype=torch.bool)
    order = []
    for _ in range(policy.max_steps):
        decision = policy.decide(row, mask)
        if decision.stop_probability.item() >= 0.5:
            break
        unit = int(decision.logits.argmax())
        order.append(unit)
        mask = mask | policy.inputs.membership[unit]
    return mask[0].numpy(), order


@pytest.mark.parametrize("groups", UNITS)
@pytest.mark.parametrize("max_steps", [1, 3, None])
def test_rollout_agrees_with_the_plain_loop(groups, max_steps):
    values = random_values()
    policy = make_policy(3, UNITS[groups], max_steps=max_steps)
    trace = policy.rollout(values)
    lengths = set()
    for i in range(len(values)):
        mask, order = plain_loop(policy, values[i : i + 1])
        np.testing.assert_array_equal(trace.mask[i], mask)
        assert trace.order[i, :, 0][: len(order)].tolist() == order
        assert trace.n_steps[i] == len(order)
        lengths.add(len(order))
    assert max(lengths) <= policy.max_steps


def test_random_networks_take_different_numbers_of_steps():
    lengths = {
        int(n)
        for seed in range(5)
        for n in make_policy(seed).rollout(torch.randn(50, 6), draws=drawn(seed, 50)).n_steps
    }
    assert len(lengths) > 3


def test_recorded_stop_probabilities_and_predictions():
    values = random_values()
    policy = make_policy(1)
    trace = policy.rollout(values, record=True, draws=drawn(0, len(values)))
    for i in range(len(values)):
        n = trace.n_steps[i]
        assert np.isfinite(trace.stop_probability[i, : n + 1]).all()
        assert np.isnan(trace.stop_probability[i, n + 1 :]).all()
        final = policy.predict(values[i : i + 1], torch.from_numpy(trace.mask[i : i + 1]))
        np.testing.assert_array_equal(trace.prediction[i, n], final[0].numpy())
    np.testing.assert_allclose(np.nansum(trace.prediction, axis=2)[:, 0], 1, atol=1e-6)


def test_full_mask_stops():
    values = random_values()
    policy = make_policy(0)
    decision = policy.decide(values, torch.ones(40, 6, dtype=torch.bool))
    assert (decision.stop_probability == 1).all()
    assert torch.isneginf(decision.logits).all()
    assert torch.isfinite(decision.finite_logits).all()


def test_several_units_per_step():
    values = random_values()
    policy = make_policy(2, units_per_step=4)
    policy.network.stop_temperature.fill_(1e9)
    policy.network.policy.biases[-1].data[..., 0] = 1e9
    trace = policy.rollout(values)
    assert trace.order.shape == (40, 2, 4)
    assert (trace.order[:, 1] >= 0).sum(axis=1).tolist() == [2] * 40
    assert trace.mask.all()


def test_rollout_of_no_rows():
    trace = make_policy(0).rollout(torch.zeros(0, 6))
    assert trace.mask.shape == (0, 6)
