"""Costs that depend on what was acquired, for batches of any shape and for some of the units."""

import numpy as np
import pytest
import torch

from suwr.data.costs import Costs
from suwr.data.units import resolve_units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.step import reveal_units

NAMES = ["a", "b", "c", "d"]
GROUPS = {"g": ["b", "c"]}


def discounted(mask):
    """Costs 1, 2, 3 of a, g, d, divided by one more than the number of acquired columns."""
    return np.array([1.0, 2.0, 3.0]) / (1 + mask.sum(axis=1, keepdims=True))


def setups_as_function(mask):
    """A set-up of 5 for g and d."""
    unpaid = ~mask[:, 1:].any(axis=1, keepdims=True)
    return 1.0 + 5.0 * unpaid * [0, 1, 1]


def make_inputs(costs, visit=0.0, setup=None):
    units = resolve_units(GROUPS, Costs(costs, setup, visit, of=2), NAMES)
    return MaskedInputs.build(units, np.arange(4), "cpu")


def test_functions_take_batches_of_any_shape():
    inputs = make_inputs(discounted)
    mask = torch.from_numpy(np.random.RandomState(0).rand(2, 5, 4) < 0.5)
    expected = discounted(mask.reshape(10, 4).numpy()).reshape(2, 5, 3)
    np.testing.assert_allclose(inputs.unit_costs(mask), expected, rtol=1e-6)
    known = torch.zeros_like(mask)
    known[..., 0] = True
    acquired = (mask & ~known).reshape(10, 4).numpy()
    np.testing.assert_allclose(
        inputs.unit_costs(mask, known), discounted(acquired).reshape(2, 5, 3), rtol=1e-6
    )
    assert inputs.unit_costs(mask[0, :0]).shape == (0, 3)


def test_some_of_the_units():
    kept, columns = torch.tensor([True, False, True]), torch.tensor([0, 3])
    inputs = make_inputs(discounted, 2.0).subset(kept, columns, columns)
    mask = torch.tensor([[False, False], [True, False], [True, True]])
    expected = [[1, 3], [1 / 2, 3 / 2], [1 / 3, 1]]
    np.testing.assert_allclose(inputs.unit_costs(mask), expected, rtol=1e-6)
    assert inputs.visit_cost == 2


def test_a_function_equals_the_same_set_up():
    one = make_inputs(setups_as_function)
    two = make_inputs(None, setup={"s": (5.0, ["g", "d"])})
    mask = torch.from_numpy(np.random.RandomState(1).rand(20, 4) < 0.4)
    np.testing.assert_array_equal(one.unit_costs(mask), two.unit_costs(mask))


@pytest.mark.parametrize("weight", [None, 0.5])
def test_a_step_pays_its_units_and_one_visit(weight):
    inputs = make_inputs([1.0, 2.0, 3.0], 4.0)
    mask = torch.zeros(4, 4, dtype=torch.bool)
    units = torch.tensor([[0, 1], [2, -1], [-1, -1], [0, 2]])
    active = torch.tensor([True, True, True, False])
    factor = None if weight is None else torch.full((4,), weight)
    _, cost = reveal_units(inputs, mask, units, active, factor)
    np.testing.assert_array_equal(cost, np.array([7.0, 7.0, 0.0, 0.0]) * (weight or 1.0))
    own = torch.tensor([[10.0, 20.0, 30.0]]).repeat(4, 1)
    _, cost = reveal_units(inputs, mask, units, active, factor, costs=own)
    np.testing.assert_array_equal(cost, np.array([34.0, 34.0, 0.0, 0.0]) * (weight or 1.0))
    _, cost = reveal_units(inputs, mask, units, active, factor, visit=False)
    np.testing.assert_array_equal(cost, np.array([3.0, 3.0, 0.0, 0.0]) * (weight or 1.0))
