"""Rollouts that never stop, and policies with a shifted stopping rule."""

import numpy as np
import pytest
import torch

from helpers.models import UNITS, make_policy, random_values
from suwr.nn.rollout import confident_stopping, never_stopping, roll_out_paths, shift_stopping


@pytest.fixture(params=["separate", "shared", "conditioned uncertainty", "images"])
def policy_and_values(request):
    policy = make_policy(3, UNITS["columns"], 4, network=request.param)
    return policy, random_values(60, 3)


def stop_at(signal, threshold):
    return np.argmax(signal <= np.float32(threshold), axis=1)


def thresholds(signal):
    """Values that divide the states in different proportions."""
    reached = signal[np.isfinite(signal)].astype(float)
    return np.linspace(reached.min() - 0.1, reached.max() - 0.001, 7)


def clear_rows(signal, threshold):
    """Rows in which rounding cannot change a decision."""
    return ~(np.abs(signal - np.float32(threshold)) < 1e-5).any(axis=1)


def test_confidence_is_compared_with_the_odds(policy_and_values):
    policy, values = policy_and_values
    paths, lengths = roll_out_paths(policy, values), set()
    for threshold in thresholds(paths.log_odds):
        trace = confident_stopping(policy, float(np.exp(threshold))).rollout(values, record=True)
        steps, clear = stop_at(paths.log_odds, threshold), clear_rows(paths.log_odds, threshold)
        assert clear.any()
        np.testing.assert_array_equal(trace.n_steps[clear], steps[clear])
        lengths |= set(steps[clear].tolist())
        # By hand: the stop probability is one half where the odds are those of the threshold.
        first = float(trace.prediction[0, 0].max())
        odds = np.exp(threshold) * first / (1 - first)
        assert trace.stop_probability[0, 0] == pytest.approx(odds / (1 + odds), rel=1e-4)
    assert len(lengths) > 1


def test_paths_contain_the_rollout_of_every_threshold(policy_and_values):
    policy, values = policy_and_values
    paths, lengths = roll_out_paths(policy, values), set()
    for threshold in thresholds(paths.gain):
        trace = shift_stopping(policy, float(threshold)).rollout(values, record=True)
        clear = clear_rows(paths.gain, threshold)
        row, steps = np.flatnonzero(clear), stop_at(paths.gain, threshold)[clear]
        np.testing.assert_array_equal(trace.n_steps[clear], steps)
        np.testing.assert_array_equal(paths.prediction[row, steps], trace.prediction[row, steps])
        order = trace.order[clear].reshape(len(steps), -1)
        costs = np.where(order >= 0, policy.inputs.costs.numpy()[np.maximum(order, 0)], 0)
        np.testing.assert_allclose(paths.cost[row, steps], costs.sum(axis=1))
        lengths |= set(steps.tolist())
    assert len(lengths) > 1


def test_zero_threshold_is_the_original_policy(policy_and_values):
    policy, values = policy_and_values
    shifted = shift_stopping(policy, 0.0).rollout(values)
    np.testing.assert_array_equal(shifted.order, policy.rollout(values).order)
    assert shift_stopping(policy, 0.1).network is not policy.network


def test_never_stopping_uses_all_steps(policy_and_values):
    policy, values = policy_and_values
    trace = never_stopping(policy).rollout(values)
    assert (trace.n_steps == policy.max_steps).all()
    paths = roll_out_paths(policy, values)
    np.testing.assert_array_equal(paths.complete, policy.complete(trace.mask))


def test_paths_do_not_read_hidden_values(policy_and_values):
    policy, values = policy_and_values
    trace = never_stopping(policy).rollout(values)
    hidden = torch.as_tensor(~trace.mask)[:, policy.inputs.column_of]
    poisoned = torch.where(hidden, torch.nan, values)
    for one, two in zip(
        vars(roll_out_paths(policy, values)).values(),
        vars(roll_out_paths(policy, poisoned)).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)
