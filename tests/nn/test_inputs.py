import numpy as np
import pytest
import torch

from helpers.models import UNITS
from suwr.data.units import Patches, resolve_units
from suwr.nn.inputs import MaskedInputs


def build(groups=None, column_of=None, n_columns=6):
    units = resolve_units(groups, None, [f"x{i}" for i in range(n_columns)])
    return MaskedInputs.build(
        units, np.arange(n_columns) if column_of is None else column_of, "cpu"
    )


def test_reveal_replaces_hidden_values_and_appends_the_mask():
    inputs = build(n_columns=2)
    values = torch.tensor([[float("nan"), 0.0]])
    shown = inputs.reveal(values, torch.tensor([[False, True]]))
    assert shown.tolist() == [[0, 0, 0, 1]]


def test_column_of_several_values_has_one_mask_entry():
    inputs = build(column_of=np.array([0, 1, 1, 1]), n_columns=2)
    values = torch.tensor([[5.0, 1.0, 2.0, 3.0]])
    assert inputs.reveal(values, torch.tensor([[False, True]])).tolist() == [[0, 1, 2, 3, 0, 1]]
    assert inputs.reveal(values, torch.tensor([[True, False]])).tolist() == [[5, 0, 0, 0, 1, 0]]


def test_available_units():
    inputs = build(UNITS["patches"])
    nothing = torch.zeros(1, 6, dtype=torch.bool)
    assert inputs.available(nothing).all()
    assert not inputs.available(~nothing).any()
    first = inputs.add(nothing, torch.tensor([0]))
    assert not inputs.available(first)[0, 0]


@pytest.mark.parametrize("size", [2, 3])
def test_patches_with_a_hidden_pixel_are_available(size):
    # Large enough for availability to be computed from the pixels of each patch.
    inputs = build(Patches((9, 9), size), n_columns=81)
    assert inputs.members is not None
    masks = torch.rand(2, 50, 81, generator=torch.Generator().manual_seed(0)) < 0.8
    expected = (~masks).unsqueeze(2) & inputs.membership
    assert torch.equal(inputs.available(masks), expected.any(dim=-1))


def test_sizes_of_random_masks_are_uniform():
    inputs = build()
    sizes = inputs.random_masks((7000,), torch.Generator().manual_seed(0)).sum(dim=1)
    counts = np.bincount(sizes.numpy(), minlength=7)
    assert (np.abs(counts - 1000) < 150).all()


def test_random_masks_reveal_whole_groups():
    inputs = build(UNITS["groups"])
    masks = inputs.random_masks((500,), torch.Generator().manual_seed(0))
    assert (masks[:, 1] == masks[:, 2]).all()
    assert (masks[:, 4] == masks[:, 5]).all()
    assert masks[:, 0].any()
