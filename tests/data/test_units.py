import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suwr.data.units import Patches, resolve_units

COLUMNS = ["age", "height", "width", "sex"]


def test_columns_are_units_by_default():
    units = resolve_units(None, None, COLUMNS)
    assert units.names == tuple(COLUMNS)
    np.testing.assert_array_equal(units.membership, np.eye(4, dtype=bool))
    assert units.costs.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "groups", [{"size": ["height", "width"]}, {"size": [1, 2]}, {"size": [-3, "width"]}]
)
def test_groups_by_name_and_number(groups):
    units = resolve_units(groups, {"size": 2.5}, COLUMNS)
    assert units.names == ("age", "size", "sex")
    assert units.columns_of(1).tolist() == [1, 2]
    assert units.costs.tolist() == [1, 2.5, 1]


def test_unnamed_groups_are_named_after_their_columns():
    assert resolve_units([["height", "width"]], None, COLUMNS).names[1] == "height + width"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": ["age", "sex"], "b": ["sex"]}, "'sex' in 'a' and 'b'"),
        ({"a": ["weight"]}, "'weight' in the group 'a'"),
        ({"a": [7]}, "7 in the group 'a'"),
        ({"a": []}, "empty group 'a'"),
        ({"a": ["age", "age"]}, "twice in the group 'a'"),
        ({"sex": ["age"]}, "'sex' for both"),
        ({"a": "age"}, "'age' for the group 'a'"),
        ("age", "list of lists"),
        (["age"], "list of lists"),
        (3, "list of lists"),
        (Patches((3, 3)), "need 9 columns"),
    ],
)
def test_invalid_groups(groups, message):
    with pytest.raises(ValueError, match="The 'groups' parameter of C must") as error:
        resolve_units(groups, None, COLUMNS, "C")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"weight": 1}, "'weight'"),
        ([1, 2], r"shape (2,)"),
        ([1, 1, 1, -1], "-1.0 for 'sex'"),
        ({"age": np.nan}, "nan for 'age'"),
        ({"age": np.inf}, "inf for 'age'"),
        (["a"] * 4, "must be one cost per unit"),
    ],
)
def test_invalid_costs(costs, message):
    with pytest.raises(ValueError, match="The 'costs' parameter of C must") as error:
        resolve_units(None, costs, COLUMNS, "C")
    assert message in str(error.value)


def test_patches_overlap_and_are_truncated_at_the_border():
    patches = Patches((4, 5), size=3)
    members = patches.membership().reshape(-1, 4, 5)
    assert members.shape[0] == 20
    assert members[0].sum() == 4
    assert members[1].sum() == 6
    assert members[6].sum() == 9
    assert members[6, :3, :3].all()
    assert patches.names[6] == "patch (1, 1)"


def test_patches_with_stride_equal_to_size_do_not_overlap():
    members = Patches((6, 6), size=3, stride=3).membership()
    assert members.shape == (4, 36)
    assert (members.sum(axis=0) == 1).all()


def test_a_patch_contains_all_channels():
    members = Patches((2, 2, 3), size=1).membership()
    assert members.shape == (4, 12)
    assert members[1].nonzero()[0].tolist() == [3, 4, 5]


@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    size=st.integers(1, 5),
    data=st.data(),
)
def test_every_pixel_belongs_to_a_patch(height, width, size, data):
    stride = data.draw(st.integers(1, size))
    patches = Patches((height, width), size=size, stride=stride)
    members = patches.membership()
    assert members.any(axis=0).all()
    assert members.any(axis=1).all()
    assert len(set(patches.names)) == len(members)


@pytest.mark.parametrize(
    ("kwargs", "parameter"),
    [
        ({"shape": (3,)}, "shape"),
        ({"shape": (0, 3)}, "shape"),
        ({"shape": (3, 3), "size": 0}, "size"),
        ({"shape": (3, 3), "size": (1, 2, 3)}, "size"),
        ({"shape": (3, 3), "stride": 4}, "stride"),
    ],
)
def test_invalid_patches(kwargs, parameter):
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of Patches must"):
        Patches(**kwargs)


def test_number_of_columns_does_not_overflow():
    assert Patches((2**62 + 1, 4)).n_columns == 2**64 + 4
