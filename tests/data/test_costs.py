import numpy as np
import pytest

from suwr import Patches
from suwr.data.costs import resolve_setups
from suwr.data.units import resolve_units

NAMES = ("age", "s1", "s2", "s3")


def test_a_set_up_is_paid_once_in_any_order():
    setups = resolve_setups({"draw": (5, ["s1", "s2"]), "scan": (2.5, ["s3"])}, NAMES, "C")
    orders = np.array([[1, 2, 3], [2, 1, -1], [3, -1, -1], [0, -1, -1], [-1, -1, -1]])
    np.testing.assert_array_equal(setups.cost_of(orders), [7.5, 5, 2.5, 0, 0])
    units = resolve_units(None, {"s1": 2}, NAMES, setup_costs={"draw": (5, ["s1", "s2"])})
    np.testing.assert_array_equal(units.cost_of(orders[:, :, None]), [9, 8, 1, 1, 0])
    assert units.total_cost() == 10
    assert units.total_cost(np.array([True, False, False, True])) == 2


def test_groups_need_a_set_up_as_a_whole():
    units = resolve_units({"g": ["s1", "s2"]}, None, NAMES, setup_costs={"a": (3, ["g", "s3"])})
    assert units.names == ("age", "g", "s3")
    assert units.setups.of_unit.tolist() == [-1, 0, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("draw", 5)], "must be None, or a mapping"),
        ({"draw": 5}, "must be None, or a mapping of names to"),
        ({"draw": (5, "s1")}, "must be None, or a mapping"),
        ({"draw": (5, [])}, "must be None, or a mapping"),
        ({"draw": (-1, ["s1"])}, "must be None, or a mapping"),
        ({"draw": (np.nan, ["s1"])}, "must be None, or a mapping"),
        ({"draw": (1, ["s9"])}, "mapping to units. Got 's9'"),
        ({"a": (1, ["s1"]), "b": (1, ["s1"])}, "'s1' in 'a' and 'b'"),
    ],
)
def test_invalid_set_up_costs(given, message):
    with pytest.raises(ValueError, match=message):
        resolve_setups(given, NAMES, "C")


def test_no_set_up_costs():
    assert resolve_setups(None, NAMES, "C") is None
    assert resolve_setups({}, NAMES, "C") is None
    with pytest.raises(ValueError, match="must be None with Patches"):
        resolve_units(Patches((2, 2)), None, NAMES, setup_costs={"a": (1, ["s1"])})
