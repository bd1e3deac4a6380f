"""Inputs of the policy besides the masked row."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from suwr.nn.inputs import encode_position, uncertainty_features


@given(st.floats(-1, 1), st.integers(2, 8))
def test_positions_are_interpolated_between_knots(position, n_knots):
    found = encode_position(torch.tensor(position), n_knots)
    assert found.min() >= 0
    assert (found > 1e-6).sum() <= 2
    assert found.sum().item() == pytest.approx(1.0, abs=1e-5)
    knots = torch.linspace(-1, 1, n_knots)
    assert (found * knots).sum().item() == pytest.approx(position, abs=1e-5)


def test_a_single_knot_is_the_position_itself():
    position = torch.tensor([[-1.0, 0.25]])
    assert torch.equal(encode_position(position, 1), position.unsqueeze(-1))


def test_uncertainty_features_by_hand():
    mask = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    probability = torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.4, 0.2]])
    certain, uncertain = uncertainty_features(probability, mask)
    torch.testing.assert_close(certain, torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0]))
    entropy = -(0.8 * np.log(0.4) + 0.2 * np.log(0.2)) / np.log(3)
    left = np.log(0.6) / np.log(1e-4)
    torch.testing.assert_close(uncertain, torch.tensor([entropy, 0.4, 0.4, left, 0.5]).float())


def test_uncertainty_features_of_confident_predictions_are_accurate():
    logits = 3 * torch.randn(
        500, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    probability, mask = (4 * logits).softmax(dim=-1), torch.zeros(500, 1)
    # For some of them, 1 - p in float32 would keep three significant digits.
    assert (probability.amax(dim=-1) > 0.9995).sum() > 50
    torch.testing.assert_close(
        uncertainty_features(probability.float(), mask).double(),
        uncertainty_features(probability, mask),
        rtol=0.0,
        atol=3e-7,
    )
