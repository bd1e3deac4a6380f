"""Ensembles of networks."""

import pickle

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


def test_ignored_inputs_have_no_influence_before_and_after_training():
    ensemble = EnsembleMLP(3, 5, 16, 2, 1)
    initial = ensemble.weights[0].detach().clone()
    ignored = torch.tensor([False, True, True, False, True])
    ensemble.ignore(ignored, slice(0, None, 2))
    # Two of five inputs are left, so that the initial weights are larger.
    torch.testing.assert_close(ensemble.weights[0][0, ~ignored], initial[0, ~ignored] * 2.5**0.5)
    torch.testing.assert_close(ensemble.weights[0][1], initial[1])
    optimizer = torch.optim.AdamW(ensemble.parameters(), lr=0.1)
    x = torch.randn(3, 20, 5)
    for _ in range(3):
        optimizer.zero_grad()
        (ensemble(x) - x.sum(dim=-1, keepdim=True)).square().mean().backward()
        optimizer.step()
    other = torch.where(ignored, torch.randn(3, 20, 5), x)
    same = (ensemble(x) == ensemble(other)).all(dim=1)[:, 0]
    assert same.tolist() == [True, False, True]
    assert pickle.loads(pickle.dumps(ensemble)).weights[0].equal(ensemble.weights[0])
