import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from suwr import Costs, Patches
from suwr.data.costs import check_unit_costs, read_row_costs, resolve_setups
from suwr.data.units import resolve_units

NAMES = ("age", "s1", "s2", "s3")


def test_a_set_up_is_paid_once_in_any_order():
    setups = resolve_setups({"draw": (5, ["s1", "s2"]), "scan": (2.5, ["s3"])}, NAMES)
    orders = np.array([[1, 2, 3], [2, 1, -1], [3, -1, -1], [0, -1, -1], [-1, -1, -1]])
    np.testing.assert_array_equal(setups.cost_of(orders), [7.5, 5, 2.5, 0, 0])
    units = resolve_units(None, Costs({"s1": 2}, {"draw": (5, ["s1", "s2"])}), NAMES)
    np.testing.assert_array_equal(units.cost_of(orders[:, :, None]), [9, 8, 1, 1, 0])
    assert units.total_cost() == 10
    assert units.total_cost(np.array([True, False, False, True])) == 2


def test_groups_need_a_set_up_as_a_whole():
    costs = Costs(setup={"a": (3, ["g", "s3"])})
    units = resolve_units({"g": ["s1", "s2"]}, costs, NAMES)
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
        resolve_units(None, Costs(setup=given), NAMES)


def test_no_set_up_costs():
    assert resolve_setups(None, NAMES) is None
    assert resolve_setups({}, NAMES) is None
    with pytest.raises(ValueError, match="must be None with Patches"):
        resolve_units(Patches((2, 2)), Costs(setup={"a": (1, ["s1"])}), NAMES)


def test_visits_are_charged_once_per_step():
    orders = np.array([[[0, 1], [2, -1]], [[1, -1], [-1, -1]], [[-1, -1], [-1, -1]]])
    units = resolve_units(None, Costs({"s1": 2}, visit=3.0, of=2), NAMES)
    np.testing.assert_array_equal(units.cost_of(orders), [10, 5, 0])
    np.testing.assert_array_equal(units.cost_of(orders[:, :0]), [0, 0, 0])
    # Four units in two visits; without a cost, there are no visits.
    assert units.total_cost() == 5 + 2 * 3
    assert resolve_units(None, Costs({"s1": 2}, of=2), NAMES).total_cost() == 5


def test_costs_of_rows():
    units = resolve_units(None, Costs(setup={"draw": (5, ["s1", "s2"])}), NAMES)
    costs = read_row_costs(np.arange(8.0).reshape(2, 4), NAMES, 2, "select")
    orders = np.array([[1, 3, -1], [2, 1, 0]])
    np.testing.assert_array_equal(units.cost_of(orders, costs), [1 + 3 + 5, 6 + 5 + 4 + 5])
    frame = pd.DataFrame(costs, columns=NAMES)[[*NAMES[::-1]]]
    np.testing.assert_array_equal(read_row_costs(frame, NAMES, 2, "select"), costs)
    np.testing.assert_array_equal(read_row_costs([1, 2, 3, 4], NAMES, 2, "f"), [[1, 2, 3, 4]] * 2)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.ones((3, 4)), r"'costs' parameter of fit must be .*shape \(2, 4\).*\(3, 4\)"),
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        ([[1, 1, 1, 1], [1, -2, 1, 1]], "-2.0 for 's1' in row 1"),
        ([[1, 1, 1, np.nan], [1, 1, 1, 1]], "nan for 's3' in row 0"),
        ([["a", 1, 1, 1]] * 2, "one cost per row and unit"),
        (pd.DataFrame(np.ones((2, 4)), columns=["age", "s1", "s2", "s4"]), "'s3' in only one"),
    ],
)
def test_invalid_costs_of_rows(costs, message):
    with pytest.raises(ValueError, match=message):
        read_row_costs(costs, NAMES, 2, "fit")


def test_functions_of_the_mask():
    groups = {"g": ["s1", "s2"]}

    def function(mask):
        """Costs 4, 2, 1, … with each acquired column."""
        return np.repeat(4.0 / 2 ** mask.sum(axis=1, keepdims=True), 3, axis=1)

    units = resolve_units(groups, function, NAMES)
    assert units.names == ("age", "g", "s3")
    np.testing.assert_array_equal(units.costs, [4, 4, 4])
    orders = np.array([[1, 0, 2], [0, 1, -1], [-1, -1, -1]])
    np.testing.assert_array_equal(units.cost_of(orders), [4 + 1 + 0.5, 4 + 2, 0])
    # A known column is not acquired.
    known = np.array([[False, True, False, False]] * 3)
    np.testing.assert_array_equal(units.cost_of(orders, known=known), [4 + 2 + 1, 4 + 2, 0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda mask: np.ones((len(mask), 3)), r"shape \(1, 4\).* Got 'shape \(1, 3\)'"),
        (lambda mask: -np.ones((len(mask), 4)), "at least 0. Got -1.0"),
        (lambda mask: np.full((len(mask), 4), np.nan), "Got nan"),
        (lambda mask: "free", "Got 'str'"),
        (lambda mask: np.full((len(mask), 4), float(mask.sum())), "function of each mask"),
    ],
)
def test_invalid_functions(function, message):
    with pytest.raises(ValueError, match=message):
        resolve_units(None, function, NAMES)


def test_functions_are_alone():
    def function(mask):
        return np.ones((len(mask), 4))

    with pytest.raises(ValueError, match=r"'setup' .* must be None if 'units' is a function"):
        Costs(function, setup={"a": (1, ["s1"])})
    # Baselines and explainers take costs of units alone.
    for costs in (function, Costs([1, 2, 3, 4])):
        with pytest.raises(ValueError, match="'costs' parameter of L2XClassifier must be None, a"):
            check_unit_costs(costs, "L2XClassifier")


@pytest.mark.parametrize("units", [None, {"s1": 2.0}, [1, 2, 3, 4], np.arange(4.0)])
def test_costs_are_values(units):
    costs = Costs(units, setup={"a": (1, ("s1", "s2"))}, visit=2.0, of=3)
    assert costs == pickle.loads(pickle.dumps(costs)) == copy.deepcopy(costs) == eval(repr(costs))
    assert costs != replace(costs, visit=3.0)
    assert Costs.read(costs) is costs
    assert Costs.read(units) == Costs(units)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *(({"visit": value}, "visit") for value in (-1, np.nan, np.inf, "3", None)),
        *(({"of": value}, "of") for value in (0, 1.5, None, True)),
    ],
)
def test_invalid_visits(given, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of Costs must be"):
        Costs(**given)
