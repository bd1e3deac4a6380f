from numbers import Integral, Real

import pytest

from suwr._utils.validation import (
    Interval,
    Options,
    check_choice,
    check_integer,
    check_parameters,
    check_real,
)


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        (Interval(Integral, 1), [1, 5], [0, 1.0, True, "1", None]),
        (Interval(Real, 0, 1, closed="neither"), [0.5], [0, 1, float("nan")]),
        (Interval(Real, 0, 1, closed="both"), [0, 1], [-0.1, 1.1]),
        (Interval(Real, 0, 1, closed="right"), [1], [0]),
        (Interval(Real, 0), [0, 1e300], [float("inf"), float("nan")]),
    ],
)
def test_intervals(interval, inside, outside):
    assert all(value in interval for value in inside)
    assert not any(value in interval for value in outside)


def test_messages_follow_scikit_learn():
    allowed = [None, Interval(Real, 0, 1, closed="right"), Options("a", "b"), dict]
    check_parameters("C", {"p": allowed, "q": None}, {"p": {}, "q": object()})
    with pytest.raises(ValueError, match="The 'p' parameter of C must be") as error:
        check_parameters("C", {"p": allowed}, {"p": "c"})
    assert str(error.value) == (
        "The 'p' parameter of C must be None or a float in the range (0, 1] or one of 'a', 'b' or "
        "an instance of 'dict'. Got 'c' instead."
    )


def test_functions_return_the_validated_value():
    assert check_choice("a", "p", "f", ["a", "b"]) == "a"
    assert check_integer(3, "p", "f", 1) == 3
    assert check_real(1, "p", "f", Interval(Real, 0)) == 1.0
    with pytest.raises(ValueError, match="must be one of 'a', 'b'"):
        check_choice("c", "p", "f", ["a", "b"])
    with pytest.raises(ValueError, match=r"must be an int in the range \[1, inf\)"):
        check_integer(0, "p", "f", 1)
    with pytest.raises(ValueError, match=r"must be a float in the range \[0, inf\)"):
        check_real(-1, "p", "f", Interval(Real, 0))
