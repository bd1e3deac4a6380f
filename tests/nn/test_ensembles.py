"""Ensembles of networks."""

import pytest
import torch

from suwr.nn.ensembles import EnsembleConv, EnsembleMLP


@pytest.mark.parametrize(
    "ensemble", [EnsembleMLP(2, 3, 4, 2, 1), EnsembleConv(2, (4, 4), 0, 4, 1)], ids=["mlp", "conv"]
)
def test_weights_decay_by_the_strength_of_their_member_and_biases_do_not(ensemble):
    before = {name: p.detach().clone() for name, p in ensemble.named_parameters()}
    ensemble.weight_decay = torch.tensor([0.0, 5.0])
    ensemble.decay_weights(0.1)
    for name, after in ensemble.named_parameters():
        expected = before[name]
        if name.startswith("images.1") and expected.dim() > 1:
            expected = 0.5 * expected
        elif "weights" in name:
            expected = expected * torch.tensor([1.0, 0.5]).view(-1, 1, 1)
        torch.testing.assert_close(after.detach(), expected)
