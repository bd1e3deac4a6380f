import pytest

from suwr._utils.text import format_value, percent, printable


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "0 %"),
        (1e-9, "0 %"),
        (0.005, "1 %"),
        (0.125, "13 %"),
        (0.5, "50 %"),
        (0.9949, "99 %"),
        (0.995, "over 99 %"),
        (1.0, "100 %"),
    ],
)
def test_probabilities_are_rounded_half_up_and_to_certainty_only_at_six_decimals(p, text):
    assert percent(p) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "missing"), (1.23456789, "1.23457"), (3, "3"), ("red", "red")]
)
def test_values(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\r\t\0", r"a\x0ab\x0d\x09\x00"),
        ("\u202eabc\u2066\u200f", r"\u202eabc\u2066\u200f"),
        ("\udcff", r"\udcff"),
        ("\u2028\ufeff\u200b", r"\u2028\ufeff\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("naïve [bold] 北 \U0001f468\u200d\U0001f469 \\x1b", None),
        (12, "12"),
    ],
)
def test_unprintable_characters_are_escaped(value, text):
    assert printable(value) == (value if text is None else text)


def test_line_breaks_of_a_whole_text_are_kept():
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567.0, "1,234,567"),
        (12345, "12,345"),
        (-1e6, "-1,000,000"),
        (1234.5, "1234.5"),
        (2.0**53, "9.0072e+15"),
        (2**53, str(2**53)),
    ],
)
def test_large_numbers(value, text):
    assert format_value(value) == text
