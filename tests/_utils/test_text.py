import pytest

from suwr._utils.text import MAX_VALUES, format_revealed, format_value, percent


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "0 %"),
        (1e-9, "under 1 %"),
        (0.005, "1 %"),
        (0.125, "13 %"),
        (0.5, "50 %"),
        (0.9949, "99 %"),
        (0.995, "over 99 %"),
        (1.0, "100 %"),
    ],
)
def test_probabilities_are_rounded_half_up_and_never_to_certainty(p, text):
    assert percent(p) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "missing"), (1.23456789, "1.23457"), (3, "3"), ("red", "red")]
)
def test_values(value, text):
    assert format_value(value) == text


def test_long_units_are_shortened():
    columns = {f"x{i}": i for i in range(MAX_VALUES + 1)}
    text = format_revealed({"patch": columns})
    assert text.startswith("patch: x0 is 0, ")
    assert text.endswith(f"x{MAX_VALUES - 1} is {MAX_VALUES - 1}, … ({MAX_VALUES + 1} columns)")


def test_a_unit_of_one_column_is_named_once():
    assert format_revealed({"age": {"age": 71}, "g": {"a": 1, "b": None}}) == (
        "age is 71; g: a is 1, b is missing"
    )
